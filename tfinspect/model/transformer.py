"""A decoder-only Transformer, in the order in which a textbook teaches it.

    1  text becomes token ids                          tokens            [B, T]
    2  each id picks a row of the token table E        embed.tokens      [B, T, d_model]
    3  positions are added                             embed.sum         [B, T, d_model]
    4  attention: each position gathers from the ones before it          (in each of L blocks)
           Q, K, V                                     attn.q, .k, .v    [B, h, T, d_head]
           scores = Q·Kᵀ/√d_head + causal mask         attn.scores       [B, h, T, S]
           weights = softmax(scores), row by row       attn.weights      [B, h, T, S]
           heads = weights·V, concatenated, times W_O  attn.out          [B, T, d_model]
    5  the first residual addition                     resid_mid         [B, T, d_model]
    6  the MLP, position by position, and the second   mlp.hidden        [B, T, d_ff]
                                                       resid_out         [B, T, d_model]
    7  after L blocks, a last layer norm               final_norm        [B, T, d_model]
    8  logits = H·Eᵀ                                   logits            [B, T, V]

Parts come before the wholes that use them. What varies between models is chosen once, where a part is made; a forward
pass has no branch about the architecture. Every named tensor passes a tap (see `tap.py`), which says its shape.
Parameters are left unfilled here; `build.py` fills them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfinspect.model.cache import NO_PAST, Cache, Past
from tfinspect.model.positions import alibi_slopes, causal_mask, rotate, sinusoidal_table
from tfinspect.model.tap import SILENT, Tap
from tfinspect.spec import ModelSpec

__all__ = ["MLP", "Attention", "Block", "Embedding", "LayerNorm", "Linear", "Transformer"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,  # t·Φ(t)
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
}


class Linear(nn.Module):
    """x·Wᵀ + b over the last axis, with W [d_out, d_in]; given a weight, it uses that one (a tied head)."""

    def __init__(self, d_in: int, d_out: int, *, bias: bool, weight: nn.Parameter | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_out, d_in)) if weight is None else weight
        self.bias = nn.Parameter(torch.empty(d_out)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class LayerNorm(nn.Module):
    """γ·(x − mean)/√(variance + ε) + β over the last axis, with the biased variance."""

    def __init__(self, d_model: int, *, eps: float, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_model))
        self.bias = nn.Parameter(torch.empty(d_model)) if bias else None
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class Table(nn.Module):
    """A table of n_rows vectors of width d_model, looked up by row number."""

    def __init__(self, n_rows: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_rows, d_model))

    def forward(self, rows: Tensor) -> Tensor:
        return F.embedding(rows, self.weight)


class Embedding(nn.Module):
    """Step 2 alone, for models whose positions enter later (RoPE, ALiBi) or not at all."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.tokens = Table(spec.vocab_size, spec.d_model)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, tokens: Tensor, tap: Tap, n_past: int) -> Tensor:
        return self.dropout(tap("tokens", self.tokens(tokens), "B T d_model"))


class LearnedEmbedding(Embedding):
    """Steps 2 and 3 with GPT-2's learned position table P, of which T rows are added."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.positions = Table(spec.n_ctx, spec.d_model)

    def forward(self, tokens: Tensor, tap: Tap, n_past: int) -> Tensor:
        x = tap("tokens", self.tokens(tokens), "B T d_model")
        rows = self.positions.weight[n_past : n_past + tokens.shape[1]]
        return self.dropout(tap("sum", x + tap("positions", rows, "T d_model"), "B T d_model"))


class SinusoidalEmbedding(Embedding):
    """Steps 2 and 3 with Vaswani's fixed table, which has no parameters."""

    def forward(self, tokens: Tensor, tap: Tap, n_past: int) -> Tensor:
        x = tap("tokens", self.tokens(tokens), "B T d_model")
        rows = sinusoidal_table(x.shape[1], x.shape[2], x, first=n_past)
        return self.dropout(tap("sum", x + tap("positions", rows, "T d_model"), "B T d_model"))


EMBEDDINGS: dict[str, type[Embedding]] = {"learned": LearnedEmbedding, "sinusoidal": SinusoidalEmbedding}


class Attention(nn.Module):
    """Step 4: multi-head self-attention, from [B, T, d_model] to [B, T, d_model]; causal unless told otherwise."""

    def __init__(self, spec: ModelSpec, *, causal: bool = True) -> None:
        super().__init__()
        self.n_heads, self.d_head = spec.n_heads, spec.d_head
        self.q = Linear(spec.d_model, spec.d_model, bias=spec.bias)
        self.k = Linear(spec.d_model, spec.d_model, bias=spec.bias)
        self.v = Linear(spec.d_model, spec.d_model, bias=spec.bias)
        self.out = Linear(spec.d_model, spec.d_model, bias=spec.bias)
        self.causal, self.dropout = causal, spec.dropout
        self.slopes = alibi_slopes(spec.n_heads) if spec.positions == "alibi" else None
        self.turn = rotate if spec.positions == "rope" else _unturned

    def forward(self, x: Tensor, tap: Tap, past: Past = NO_PAST) -> Tensor:
        q = tap("q", self.turn(self.split(self.q(x)), past.n_past), "B h T d_head")
        k = tap("k", past.keys(self.turn(self.split(self.k(x)), past.n_past)), "B h S d_head")
        v = tap("v", past.values(self.split(self.v(x))), "B h S d_head")
        return self.mix(q, k, v, tap)

    def split(self, x: Tensor) -> Tensor:
        """[B, T, h·d_head] to [B, h, T, d_head]."""
        return x.unflatten(2, (self.n_heads, self.d_head)).transpose(1, 2)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, tap: Tap) -> Tensor:
        """Values gathered by weights, heads side by side, and W_O."""
        attend = self.eager if tap.sees_scores else self.fused
        heads = tap("heads", attend(q, k, v, tap), "B h T d_head")
        concat = tap("concat", heads.transpose(1, 2).flatten(2), "B T d_model")
        return tap("out", self.out(concat), "B T d_model")

    def eager(self, q: Tensor, k: Tensor, v: Tensor, tap: Tap) -> Tensor:
        """Each equation of the textbook as a tensor of its own, for whoever wants to see scores and weights."""
        scores = q @ k.mT / math.sqrt(self.d_head)
        if self.causal:
            scores = scores + causal_mask(q.shape[2], k.shape[2], q, self.slopes)
        weights = tap("weights", tap("scores", scores, "B h T S").softmax(dim=-1), "B h T S")
        return F.dropout(weights, self.dropout, self.training) @ v

    def fused(self, q: Tensor, k: Tensor, v: Tensor, tap: Tap) -> Tensor:
        """The same in one kernel, which never holds [B, h, T, S]."""
        square = q.shape[2] == k.shape[2] and self.slopes is None  # the kernel's own mask covers no other case
        mask = causal_mask(q.shape[2], k.shape[2], q, self.slopes) if self.causal and not square else None
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=self.causal and square)


def _unturned(x: Tensor, first: int) -> Tensor:
    return x


class MLP(nn.Module):
    """Step 6: the same two-layer network at every position."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.up = Linear(spec.d_model, spec.d_ff, bias=spec.bias)
        self.activation = ACTIVATIONS[spec.activation]
        self.down = Linear(spec.d_ff, spec.d_model, bias=spec.bias)

    def forward(self, x: Tensor, tap: Tap) -> Tensor:
        hidden = tap("hidden", self.up(x), "B T d_ff")
        activated = tap("activated", self.activation(hidden), "B T d_ff")
        return tap("out", self.down(activated), "B T d_model")


class Block(nn.Module):
    """The parts of a block: two sublayers, two norms, one residual stream."""

    def __init__(self, spec: ModelSpec, *, causal: bool = True) -> None:
        super().__init__()
        self.norm1 = LayerNorm(spec.d_model, eps=spec.norm_eps, bias=spec.bias)
        self.attn = Attention(spec, causal=causal)
        self.norm2 = LayerNorm(spec.d_model, eps=spec.norm_eps, bias=spec.bias)
        self.mlp = MLP(spec)
        self.dropout = nn.Dropout(spec.dropout)


class PreNormBlock(Block):
    """U = X + MHA(LN1(X)), Y = U + MLP(LN2(U)): GPT-2."""

    def forward(self, x: Tensor, tap: Tap, past: Past = NO_PAST) -> Tensor:
        normed = tap("norm1", self.norm1(x), "B T d_model")
        u = tap("resid_mid", x + self.dropout(self.attn(normed, tap.within("attn"), past)), "B T d_model")
        normed = tap("norm2", self.norm2(u), "B T d_model")
        return tap("resid_out", u + self.dropout(self.mlp(normed, tap.within("mlp"))), "B T d_model")


class PostNormBlock(Block):
    """U = LN1(X + MHA(X)), Y = LN2(U + MLP(U)): Vaswani et al., GPT-1."""

    def forward(self, x: Tensor, tap: Tap, past: Past = NO_PAST) -> Tensor:
        summed = tap("resid_mid", x + self.dropout(self.attn(x, tap.within("attn"), past)), "B T d_model")
        u = tap("norm1", self.norm1(summed), "B T d_model")
        summed = tap("resid_out", u + self.dropout(self.mlp(u, tap.within("mlp"))), "B T d_model")
        return tap("norm2", self.norm2(summed), "B T d_model")


BLOCKS: dict[str, type[Block]] = {"pre": PreNormBlock, "post": PostNormBlock}


class Transformer(nn.Module):
    """The whole: token ids [B, T] to logits [B, T, V]."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        self.embed = EMBEDDINGS.get(spec.positions, Embedding)(spec)
        self.blocks = nn.ModuleList(BLOCKS[spec.placement](spec) for _ in range(spec.n_layers))
        norm = partial(LayerNorm, spec.d_model, eps=spec.norm_eps, bias=spec.bias)
        self.final_norm = norm() if spec.final_norm else None
        tied = self.embed.tokens.weight if spec.tied_head else None
        self.head = Linear(spec.d_model, spec.vocab_size, bias=False, weight=tied)

    def forward(
        self, tokens: Tensor, tap: Tap = SILENT, cache: Cache | None = None, *, last_only: bool = False
    ) -> Tensor:
        """Logits [B, T, V], or [B, 1, V] of the last position where that is all that is asked for.

        With a cache, the tokens follow on the positions in it, and join them.

        Shapes:  tokens [B, T], int64, 1 ≤ T and past positions + T ≤ n_ctx.
        """
        tokens = tap("tokens", tokens, "B T")
        pasts = cache.layers if cache is not None else (NO_PAST,) * len(self.blocks)
        x = self.embed(tokens, tap.within("embed"), pasts[0].n_past)
        for i, (block, past) in enumerate(zip(self.blocks, pasts, strict=True)):
            x = block(x, tap.within(f"blocks.{i}"), past)
        if self.final_norm is not None:
            x = tap("final_norm", self.final_norm(x), "B T d_model")
        if last_only:
            x = x[:, -1:]
        return tap("logits", self.head(x), "B 1 V" if last_only else "B T V")
