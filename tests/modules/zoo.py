"""Modules that people write, small enough to be counted by hand, each with an input that it takes.

Sizes that stand for different things are different numbers, so that a count that mixes two of them up is wrong.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["ZOO", "Exhibit", "seeded"]


@dataclasses.dataclass(frozen=True)
class Exhibit:
    """A module and what it is called with."""

    make: Callable[[], nn.Module]
    """A fresh module, with the parameters of seed 0."""
    args: Callable[[], tuple[Any, ...]]
    """Fresh positional inputs."""
    kwargs: Callable[[], Mapping[str, Any]] = dict
    """Fresh keyword inputs."""


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    """A module whose parameters are those of seed 0; torch's generator stays where it was."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def floats(*sizes: int) -> Tensor:
    """The same values for the same sizes, drawn from a generator of its own."""
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(0))


def ids(*sizes: int, below: int) -> Tensor:
    return torch.randint(below, sizes, generator=torch.Generator().manual_seed(0))


# Convolutions


class ConvNet(nn.Module):
    """Stride, padding, groups, batch norm, pooling, and a classifier on the pooled channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, kernel_size=5, stride=2, padding=2, bias=False)  # 12×12 to 6×6
        self.norm = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(2)  # 6×6 to 3×3
        self.grouped = nn.Conv2d(8, 16, kernel_size=3, padding=1, groups=4)
        self.depthwise = nn.Conv2d(16, 16, kernel_size=3, padding=1, groups=16, bias=False)
        self.head = nn.Linear(16, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool(F.relu(self.norm(self.stem(images))))
        x = self.depthwise(F.relu(self.grouped(x)))
        return self.head(x.mean(dim=(2, 3)))


class ResidualBlock(nn.Module):
    """Two convolutions and a 1×1 shortcut that both halve the image."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(d_in, d_out, 3, stride=2, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(d_out)
        self.conv2 = nn.Conv2d(d_out, d_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(d_out)
        self.shortcut = nn.Sequential(nn.Conv2d(d_in, d_out, 1, stride=2, bias=False), nn.BatchNorm2d(d_out))
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out = self.norm2(self.conv2(self.act(self.norm1(self.conv1(x)))))
        out += self.shortcut(x)
        return self.act(out)


class UNet(nn.Module):
    """Down, up by a transposed convolution, and the skipped channels beside the raised ones."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(1, 4, 3, padding=1)
        self.down = nn.Conv2d(4, 6, 2, stride=2)  # 10×10 to 5×5
        self.up = nn.ConvTranspose2d(6, 4, 2, stride=2)  # 5×5 to 10×10
        self.leave = nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        skipped = F.relu(self.enter(image))
        raised = self.up(F.relu(self.down(skipped)))
        return self.leave(torch.cat([skipped, raised], dim=1))


# Recurrent


class Tagger(nn.Module):
    """Embedding, two bidirectional LSTM layers, and a tag for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 6)
        self.lstm = nn.LSTM(6, 7, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(14, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.lstm(self.embed(tokens))
        return self.tags(states)


class Stepper(nn.Module):
    """One cell, called once for each position by the user's own loop."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(len(x), 4)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return h


# Attention


class OwnAttention(nn.Module):
    """Attention that a user wrote out, in one of three spellings of the same two products, or fused."""

    def __init__(self, spelling: str) -> None:
        super().__init__()
        self.spelling = spelling
        self.qkv = nn.Linear(12, 36, bias=False)
        self.out = nn.Linear(12, 12, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        B, T, d = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, 2, 6).permute(2, 0, 3, 1, 4)  # [B, h, T, d_head]
        return self.out(self.mixed(q, k, v).transpose(1, 2).reshape(B, T, d))

    def mixed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        B, h, T, d_head = q.shape
        if self.spelling == "fused":
            return F.scaled_dot_product_attention(q, k, v)
        if self.spelling == "einsum":
            weights = torch.einsum("bhtd,bhsd->bhts", q, k).div(d_head**0.5).softmax(-1)
            return torch.einsum("bhts,bhsd->bhtd", weights, v)
        if self.spelling == "bmm":
            flat = [t.reshape(B * h, T, d_head) for t in (q, k, v)]
            weights = torch.bmm(flat[0], flat[1].mT).div(d_head**0.5).softmax(-1)
            return torch.bmm(weights, flat[2]).view(B, h, T, d_head)
        return (q @ k.mT / d_head**0.5).softmax(-1) @ v


class GroupedQuery(nn.Module):
    """Six query heads over two key and value heads, causal, by the fused call or written out."""

    def __init__(self, *, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.q = nn.Linear(18, 6 * 5, bias=False)
        self.kv = nn.Linear(18, 2 * 2 * 5, bias=False)
        self.out = nn.Linear(6 * 5, 18, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        q = self.q(x).view(B, T, 6, 5).transpose(1, 2)  # [B, h, T, d_head]
        k, v = self.kv(x).view(B, T, 2, 2, 5).permute(2, 0, 3, 1, 4)  # [B, h_kv, T, d_head]
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            k, v = k.repeat_interleave(3, dim=1), v.repeat_interleave(3, dim=1)
            later = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
            mixed = (q @ k.mT / 5**0.5).masked_fill(later, float("-inf")).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


class CrossAttention(nn.Module):
    """nn.MultiheadAttention from a target to a longer source, with its weights or without."""

    def __init__(self, *, need_weights: bool) -> None:
        super().__init__()
        self.need_weights = need_weights
        self.mha = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, target: Tensor, source: Tensor) -> Tensor:
        return self.mha(target, source, source, need_weights=self.need_weights)[0]


class SelfAttention(nn.Module):
    """nn.MultiheadAttention on one sequence: what torch runs in one native call in eval without gradients."""

    def __init__(self, *, need_weights: bool) -> None:
        super().__init__()
        self.need_weights = need_weights
        self.mha = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.mha(x, x, x, need_weights=self.need_weights)[0]


class TinyViT(nn.Module):
    """Patches by a convolution, a class token, an encoder, and a head on the class token."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 16, kernel_size=4, stride=4)  # 12×12 to 3×3
        self.cls = nn.Parameter(torch.zeros(1, 1, 16))
        self.pos = nn.Parameter(torch.zeros(1, 10, 16))
        layer = nn.TransformerEncoderLayer(16, 4, 40, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 7)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patch(images).flatten(2).mT  # [B, T, d]
        x = torch.cat([self.cls.expand(len(patches), -1, -1), patches], dim=1) + self.pos
        return self.head(self.encoder(x)[:, 0])


# Sharing and choosing


class TiedAutoencoder(nn.Module):
    """The decoder's matrix is the encoder's, transposed: one parameter, two products."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(20, 6)
        self.decoder_bias = nn.Parameter(torch.zeros(20))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(self.encode(x)), self.encode.weight.T, self.decoder_bias)


class TiedHead(nn.Module):
    """Token embedding and output head are one parameter under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(30, 8)
        self.mlp = nn.Linear(8, 8)
        self.head = nn.Linear(8, 30, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.mlp(self.wte(tokens)))


class Albert(nn.Module):
    """One block, run three times."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(16, 4, 24, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = self.block(x)
        return x


class Experts(nn.Module):
    """Each row goes to the two experts that its first numbers choose; experts that nobody chose do not run."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(6, 4, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 6)) for _ in range(4))
        with torch.no_grad():
            self.router.weight.copy_(torch.eye(4, 6))

    def forward(self, x: Tensor) -> Tensor:
        gates = self.router(x)
        chosen = gates.topk(2, dim=-1).indices
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = (chosen == i).any(dim=-1).nonzero().squeeze(-1)
            if len(rows):
                out = out.index_add(0, rows, expert(x[rows]) * gates[rows, i, None])
        return out


def routed_rows() -> Tensor:
    """Five rows: four choose experts 0 and 1, one chooses 0 and 3, none chooses 2."""
    rows = torch.zeros(5, 6)
    rows[:, 0] = 2.0
    rows[:4, 1] = 1.0
    rows[4, 3] = 1.0
    return rows


# Plain


class Bags(nn.Module):
    """Bags of words, and a category beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(40, 5)
        self.category = nn.Embedding(3, 2)
        self.score = nn.Linear(7, 1)

    def forward(self, words: Tensor, offsets: Tensor, category: Tensor) -> Tensor:
        return self.score(torch.cat([self.words(words, offsets), self.category(category)], dim=1))


class Products(nn.Module):
    """Every spelling of a product, with no module to carry it."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(floats(4, 8))
        self.v = nn.Parameter(floats(8))

    def forward(self, stack: Tensor) -> Tensor:
        dot = self.v @ self.v  # 8
        mv = self.w @ self.v  # 4·8
        mm = self.w @ self.w.T  # 4·8·4
        broadcast = stack @ self.w.T[None]  # [2, 3, 8] by [1, 8, 4]: 2·3·8·4
        return broadcast + mm[:3] + mv + dot


class Translator(nn.Module):
    """nn.Transformer between two embeddings and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(11, 12)
        self.target = nn.Embedding(13, 12)
        self.core = nn.Transformer(12, 2, 2, 1, 20, dropout=0.0, batch_first=True)
        self.head = nn.Linear(12, 13)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        T = target.shape[1]
        later = torch.ones(T, T, dtype=torch.bool, device=target.device).triu(1)
        return self.head(self.core(self.source(source), self.target(target), tgt_mask=later, tgt_is_causal=True))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 40, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)


def one(*sizes: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (floats(*sizes),)


ZOO: Mapping[str, Exhibit] = {
    "convolutions": Exhibit(lambda: seeded(ConvNet), one(2, 3, 12, 12)),
    "residual block": Exhibit(lambda: seeded(lambda: ResidualBlock(4, 6)), one(2, 4, 10, 10)),
    "U-Net": Exhibit(lambda: seeded(UNet), one(2, 1, 10, 10)),
    "transposed convolution": Exhibit(
        lambda: seeded(lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2)), one(2, 4, 5, 5)
    ),
    "LSTM": Exhibit(lambda: seeded(lambda: nn.LSTM(5, 5)), one(3, 1, 5)),
    "LSTM tagger": Exhibit(lambda: seeded(Tagger), lambda: (ids(2, 9, below=50),)),
    "GRU": Exhibit(lambda: seeded(lambda: nn.GRU(5, 7)), one(3, 2, 5)),
    "cell in a loop": Exhibit(lambda: seeded(Stepper), one(2, 5, 3)),
    "attention by matmul": Exhibit(lambda: seeded(lambda: OwnAttention("matmul")), one(2, 7, 12)),
    "attention by einsum": Exhibit(lambda: seeded(lambda: OwnAttention("einsum")), one(2, 7, 12)),
    "attention by bmm": Exhibit(lambda: seeded(lambda: OwnAttention("bmm")), one(2, 7, 12)),
    "attention, fused": Exhibit(lambda: seeded(lambda: OwnAttention("fused")), one(2, 7, 12)),
    "grouped queries": Exhibit(lambda: seeded(lambda: GroupedQuery(fused=False)), one(2, 7, 18)),
    "grouped queries, fused": Exhibit(lambda: seeded(lambda: GroupedQuery(fused=True)), one(2, 7, 18)),
    "cross attention": Exhibit(
        lambda: seeded(lambda: CrossAttention(need_weights=False)), lambda: (floats(2, 5, 16), floats(2, 9, 16))
    ),
    "cross attention, weights": Exhibit(
        lambda: seeded(lambda: CrossAttention(need_weights=True)), lambda: (floats(2, 5, 16), floats(2, 9, 16))
    ),
    "self attention": Exhibit(lambda: seeded(lambda: SelfAttention(need_weights=False)), one(2, 5, 16)),
    "self attention, weights": Exhibit(lambda: seeded(lambda: SelfAttention(need_weights=True)), one(2, 5, 16)),
    "encoder": Exhibit(lambda: seeded(encoder), one(2, 5, 16)),
    "translator": Exhibit(lambda: seeded(Translator), lambda: (ids(2, 6, below=11), ids(2, 4, below=13))),
    "ViT": Exhibit(lambda: seeded(TinyViT), one(2, 3, 12, 12)),
    "tied autoencoder": Exhibit(lambda: seeded(TiedAutoencoder), one(3, 20)),
    "tied head": Exhibit(lambda: seeded(TiedHead), lambda: (ids(2, 5, below=30),)),
    "shared block": Exhibit(lambda: seeded(Albert), one(2, 5, 16)),
    "experts": Exhibit(lambda: seeded(Experts), lambda: (routed_rows(),)),
    "bags": Exhibit(
        lambda: seeded(Bags),
        lambda: (ids(9, below=40), torch.tensor([0, 4, 6]), ids(3, below=3)),
    ),
    "bare products": Exhibit(lambda: seeded(Products), one(2, 3, 8)),
}
