"""Language models of many makes, right ones and ones with one fault each.

`Small` is a minimal causal Transformer, written from the textbook. A broken model is `Small` with one part replaced:
what it overrides is its fault.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfinspect.model.build import build
from tfinspect.model.cache import Cache
from tfinspect.model.transformer import Transformer
from tfinspect.spec import ModelSpec

V, N_CTX, D, HEADS = 29, 16, 12, 3


def masked(scores: Tensor, ahead: int = 0) -> Tensor:
    """Scores [B, h, T, T] of which a row keeps those up to so many positions ahead of it."""
    n = scores.shape[-1]
    return scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1 + ahead), -math.inf)


class Attention(nn.Module):
    """Attention of several heads, whose weights come from a function of the scores."""

    def __init__(self, weights: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.weights = weights

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            t.unflatten(2, (HEADS, D // HEADS)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1)
        )  # [B, h, T, d_head]
        weights = self.weights(q @ k.mT / math.sqrt(D // HEADS))
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, weights: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.attn = Attention(weights)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Small(nn.Module):
    """Token ids [B, T] to logits [B, T, V]."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(V, D), nn.Embedding(N_CTX, D)
        self.blocks = nn.ModuleList(Block(self.weights) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, V, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.mixed(self.embedded(tokens))))

    def embedded(self, tokens: Tensor) -> Tensor:
        return self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))

    def mixed(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x

    def weights(self, scores: Tensor) -> Tensor:
        return masked(scores).softmax(dim=-1)


# Broken: attention


class OneAhead(Small):
    """The mask's diagonal is one off: each row sees the next token."""

    def weights(self, scores: Tensor) -> Tensor:
        return masked(scores, ahead=1).softmax(dim=-1)


class Unmasked(Small):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1)


class SoftmaxOverQueries(Small):
    """Columns sum to one: a row's weights depend on the queries after it."""

    def weights(self, scores: Tensor) -> Tensor:
        return masked(scores).softmax(dim=-2)


class SoftmaxOverBatch(Small):
    """The weights of a position sum to one over the batch; masked ones are no numbers there and are set to 0."""

    def weights(self, scores: Tensor) -> Tensor:
        return masked(scores).softmax(dim=0).nan_to_num()


class MaskAfterSoftmax(Small):
    """Future weights are cut off after the softmax, whose sum they were in."""

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1).tril()


class DropoutLeftOn(Small):
    """F.dropout without training=self.training."""

    def weights(self, scores: Tensor) -> Tensor:
        return F.dropout(super().weights(scores), 0.2)


class UnmaskedInTraining(Small):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1) if self.training else super().weights(scores)


class OwnPositionHidden(Small):
    """The mask hides the diagonal too: the first row has no key at all."""

    def weights(self, scores: Tensor) -> Tensor:
        return masked(scores, ahead=-1).softmax(dim=-1)


class WeakMask(Small):
    """The mask takes 30 off the scores of the future: e^−30 of it remains."""

    def weights(self, scores: Tensor) -> Tensor:
        n = scores.shape[-1]
        return (scores - 30 * torch.ones(n, n).triu(1)).softmax(dim=-1)


class IdleUnmasked(Unmasked):
    """No mask, and an attention that starts as zero: at these weights nothing is mixed."""

    def __init__(self) -> None:
        super().__init__()
        for block in self.blocks:
            nn.init.zeros_(block.attn.out.weight)


# Broken: norms, positions, gradients, ties, values, state


class BatchNormed(Small):
    """Batch norm over the batch and its positions, which only training mode shows."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(D)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.mixed(self.embedded(tokens))
        return self.head(self.norm(x.transpose(1, 2)).transpose(1, 2))


class NormOverSequence(Small):
    """The last norm is taken over positions, not over features."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.Identity()

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.mixed(self.embedded(tokens))
        return self.head((x - x.mean(dim=1, keepdim=True)) / (x.std(dim=1, keepdim=True, correction=0) + 1e-5))


class PositionsFromBatch(Small):
    """arange(shape[0]) where arange(shape[1]) was meant."""

    def embedded(self, tokens: Tensor) -> Tensor:
        return self.tokens(tokens) + self.positions(torch.arange(tokens.shape[0]))[:, None]


class PositionsFromEnd(Small):
    """The last token is at position 0."""

    def embedded(self, tokens: Tensor) -> Tensor:
        return self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]).flip(0))


class DividedByLength(Small):
    """A mean where a sum is meant: the same token weighs less in a longer sequence."""

    def mixed(self, x: Tensor) -> Tensor:
        return self.norm(super().mixed(x)) / x.shape[1]


class LimitedExperts(Small):
    """A mixture of experts, each of which takes the first four tokens of the batch that choose it."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.experts = nn.Linear(D, 3), nn.ModuleList(nn.Linear(D, D) for _ in range(3))

    def mixed(self, x: Tensor) -> Tensor:
        rows = super().mixed(x).flatten(0, 1)
        share = self.router(rows).softmax(dim=-1)
        choice, added = share.argmax(dim=-1), torch.zeros_like(rows)
        for i, expert in enumerate(self.experts):
            taken = (choice == i).nonzero()[:4, 0]
            added = added.index_add(0, taken, expert(rows[taken]) * share[taken, i : i + 1])
        return (rows + added).view_as(x)


class DetachedBlock(Small):
    """The second block's input is detached: nothing before it learns."""

    def mixed(self, x: Tensor) -> Tensor:
        first, second = self.blocks
        return second(first(x).detach())


class UncalledBlock(Small):
    def mixed(self, x: Tensor) -> Tensor:
        return self.blocks[0](x)


class ZeroedBlock(Small):
    """The second block is called, and multiplied by 0."""

    def mixed(self, x: Tensor) -> Tensor:
        x = self.blocks[0](x)
        return x + 0 * self.blocks[1](x)


class CopiedHead(Small):
    """The head begins as a copy of the token table and is a table of its own."""

    def __init__(self) -> None:
        super().__init__()
        nn.init.normal_(self.tokens.weight, std=0.1)
        self.head.weight = nn.Parameter(self.tokens.weight.detach().clone())


class SameStorageHead(Small):
    """head.weight.data = tokens.weight.data: one memory, two parameters, two steps of the optimiser."""

    def __init__(self) -> None:
        super().__init__()
        nn.init.normal_(self.tokens.weight, std=0.1)
        self.head.weight.data = self.tokens.weight.data


class DeclaredHead(Small):
    """Declares, as transformers do, that the head is tied, and never ties it."""

    _tied_weights_keys = ["head.weight"]  # noqa: RUF012


class LoudHead(Small):
    """A tied head and a table of standard deviation 1: logits of standard deviation √d."""

    def __init__(self) -> None:
        super().__init__()
        self.head.weight = self.tokens.weight


class NoNumberAtFive(Small):
    """The logits of position 5 are divided by 0."""

    def forward(self, tokens: Tensor) -> Tensor:
        logits = super().forward(tokens)
        return logits / (torch.arange(tokens.shape[1]) != 5).to(logits)[:, None]


class RemembersTokens(Small):
    """Adds the last call's embedding, kept on the module."""

    last: Tensor | None = None

    def embedded(self, tokens: Tensor) -> Tensor:
        x = super().embedded(tokens)
        last, self.last = self.last, x.detach().mean(dim=(0, 1))
        return x if last is None else x + last


class CountsInPlace(Small):
    """A buffer that each pass raises, in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def embedded(self, tokens: Tensor) -> Tensor:
        assert isinstance(self.calls, Tensor)
        self.calls += 1
        return super().embedded(tokens) * (1 + 0.1 * self.calls)


class OwnGenerator(Small):
    """Draws from a generator of its own, which no seed reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(1)

    def embedded(self, tokens: Tensor) -> Tensor:
        x = super().embedded(tokens)
        return x * (torch.rand(x.shape, generator=self.generator) > 0.1)


class DecaysWeights(Small):
    """Each pass makes a parameter smaller."""

    def embedded(self, tokens: Tensor) -> Tensor:
        self.tokens.weight.data.mul_(0.9)
        return super().embedded(tokens)


class Hidden:
    """A counter that no module knows of."""

    calls = 0


class CountsElsewhere(Small):
    def embedded(self, tokens: Tensor) -> Tensor:
        Hidden.calls += 1
        return super().embedded(tokens) * (1 + 0.1 * Hidden.calls)


# Models with a cache


class Cached(Small):
    """`Small` that takes past_key_values, as transformers do: the tokens so far, which it passes again."""

    stale = False

    def forward(self, tokens: Tensor, past_key_values: Any = None, use_cache: bool = False) -> Any:
        n_past = 0 if past_key_values is None else past_key_values.shape[1]
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]) + (0 if self.stale else n_past))
        whole = x if past_key_values is None else torch.cat((past_key_values, x), dim=1)
        logits = self.head(self.norm(self.mixed(whole)))[:, n_past:]
        return {"logits": logits, "past_key_values": whole if use_cache else None}


class StaleCache(Cached):
    """The positions of new tokens begin at 0 again."""

    stale = True


class OneAtATimeCache(Cached):
    """Takes several tokens only where there is no past."""

    def forward(self, tokens: Tensor, past_key_values: Any = None, use_cache: bool = False) -> Any:
        if past_key_values is not None and tokens.shape[1] > 1:
            raise NotImplementedError("one token after a past")
        return super().forward(tokens, past_key_values, use_cache)


class CoreWithCache(nn.Module):
    """The project's own core, with its own cache behind the step that tfinspect asks for."""

    def __init__(self, core: Transformer) -> None:
        super().__init__()
        self.core = core

    def forward(self, tokens: Tensor) -> Tensor:
        return self.core(tokens)

    def tfinspect_cache_step(self, tokens: Tensor, past: Cache | None) -> tuple[Tensor, Cache]:
        past = past or Cache(self.core.spec.n_layers)
        return self.core(tokens, cache=past), past


class CacheOnModule(CoreWithCache):
    """The cache lives on the module and is read by plain passes too, once there is one."""

    kept: Cache | None = None

    def forward(self, tokens: Tensor) -> Tensor:
        return self.core(tokens, cache=self.kept)

    def tfinspect_cache_step(self, tokens: Tensor, past: Cache | None) -> tuple[Tensor, Cache]:
        self.kept = past or Cache(self.core.spec.n_layers)
        return self.core(tokens, cache=self.kept), self.kept


# Right models of other makes


class RecurrentModel(nn.Module):
    """An LSTM, whose state is its cache."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.lstm, self.head = nn.Embedding(V, D), nn.LSTM(D, D, 2, batch_first=True), nn.Linear(D, V)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.tfinspect_cache_step(tokens, None)[0]

    def tfinspect_cache_step(self, tokens: Tensor, past: Any) -> tuple[Tensor, Any]:
        states, past = self.lstm(self.tokens(tokens), past)
        return self.head(states), past


class TorchEncoder(nn.Module):
    """torch.nn.TransformerEncoder under its own causal mask, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(V, D), nn.Linear(D, V)
        layer = nn.TransformerEncoderLayer(D, HEADS, 4 * D, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.encoder(self.tokens(tokens), mask=mask, is_causal=True))


class TorchAttention(nn.Module):
    """torch.nn.MultiheadAttention under a mask, with dropout and a weight norm."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(V, D)
        self.attention = nn.MultiheadAttention(D, HEADS, dropout=0.1, batch_first=True)
        self.head = nn.utils.parametrizations.weight_norm(nn.Linear(D, V))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0])


class CausalMeans(nn.Module):
    """A bag of the tokens so far: positions are ignored."""

    def __init__(self, vocab_size: int = V) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocab_size, D), nn.Linear(D, vocab_size)

    def forward(self, tokens: Tensor) -> Tensor:
        count = torch.arange(1, tokens.shape[1] + 1)[:, None]
        return self.head(self.tokens(tokens).cumsum(dim=1) / count)


class Bigram(nn.Module):
    """The next token from this one alone."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(V, V)

    def forward(self, tokens: Tensor) -> Tensor:
        return 0.1 * self.table(tokens)


class ConvolvedByFourier(nn.Module):
    """A causal convolution by FFT: what it must not see it sees to rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(V, D), nn.Linear(D, V)
        self.kernel = nn.Parameter(torch.randn(N_CTX, D) / math.sqrt(N_CTX))

    def forward(self, tokens: Tensor) -> Tensor:
        n = tokens.shape[1]
        x, k = (torch.fft.rfft(t, 2 * n, dim=-2) for t in (self.tokens(tokens), self.kernel[:n]))
        return self.head(torch.fft.irfft(x * k, 2 * n, dim=-2)[:, :n])


@dataclasses.dataclass
class Answered:
    logits: Tensor
    loss: Tensor | None = None


class AnswersObject(Small):
    def forward(self, tokens: Tensor) -> Any:
        return Answered(super().forward(tokens))


class AnswersDict(Small):
    def forward(self, tokens: Tensor) -> Any:
        return {"loss": None, "logits": super().forward(tokens)}


class AnswersTuple(Small):
    def forward(self, tokens: Tensor) -> Any:
        return super().forward(tokens), None


class LastOnlyWithoutTargets(Small):
    """As nanoGPT: all positions have logits only where targets are given."""

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Any:
        logits = super().forward(tokens)
        if targets is None:
            return logits[:, [-1]], None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class ZeroInitialised(Small):
    """The matrices that write to the residual stream start at zero, and so does the head."""

    def __init__(self) -> None:
        super().__init__()
        nn.init.zeros_(self.head.weight)
        for block in self.blocks:
            nn.init.zeros_(block.attn.out.weight)
            nn.init.zeros_(block.mlp[2].weight)


class DropsOut(Small):
    """Dropout as it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.3)

    def embedded(self, tokens: Tensor) -> Tensor:
        return self.dropout(super().embedded(tokens))


class Tied(Small):
    def __init__(self) -> None:
        super().__init__()
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.head.weight = self.tokens.weight


class FirstPosition(nn.Module):
    """A model of one position."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions, self.head = nn.Embedding(V, D), nn.Embedding(1, D), nn.Linear(D, V)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1])))


def core(**changes: Any) -> Transformer:
    """The project's own core, small."""
    spec = ModelSpec(vocab_size=V, n_ctx=N_CTX, d_model=D, n_layers=2, n_heads=HEADS, d_ff=4 * D)
    return build(spec.replace(**changes), seed=1)


def core_with_cache() -> CoreWithCache:
    return CoreWithCache(core())


def cache_on_module() -> CacheOnModule:
    return CacheOnModule(core())


#: Each broken model, and the checks that fail by themselves.
BROKEN: Mapping[Callable[[], nn.Module], set[str]] = {
    OneAhead: {"causality"},
    Unmasked: {"causality"},
    SoftmaxOverQueries: {"causality"},
    MaskAfterSoftmax: {"causality"},
    IdleUnmasked: {"causality"},
    UnmaskedInTraining: {"causality"},
    NormOverSequence: {"causality"},
    SoftmaxOverBatch: {"batch"},
    BatchNormed: {"batch"},
    PositionsFromBatch: {"batch"},
    LimitedExperts: {"causality", "batch"},
    PositionsFromEnd: {"prefix"},
    DividedByLength: {"prefix"},
    DropoutLeftOn: {"determinism"},
    OwnGenerator: {"determinism"},
    RemembersTokens: {"determinism"},
    CountsInPlace: {"determinism"},
    DecaysWeights: {"determinism"},
    CountsElsewhere: {"determinism"},
    OwnPositionHidden: {"finite"},
    NoNumberAtFive: {"finite"},
    DetachedBlock: {"gradients"},
    UncalledBlock: {"gradients"},
    ZeroedBlock: {"gradients"},
    CopiedHead: {"ties"},
    SameStorageHead: {"ties"},
    DeclaredHead: {"ties"},
    LoudHead: {"loss"},
    StaleCache: {"cache"},
    cache_on_module: {"cache"},
}

RIGHT: tuple[Callable[[], nn.Module], ...] = (
    Small, Tied, DropsOut, ZeroInitialised, AnswersObject, AnswersDict, AnswersTuple, LastOnlyWithoutTargets,
    RecurrentModel, TorchEncoder, TorchAttention, CausalMeans, Bigram, ConvolvedByFourier, Cached,
    OneAtATimeCache, core_with_cache,
)  # fmt: skip
