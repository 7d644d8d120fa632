"""Parts that are wrong in one way each, for checks to catch."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from tfinspect.model.tap import Tap
from tfinspect.model.transformer import Attention, Embedding, PreNormBlock, Transformer
from tfinspect.results.checks import Findings
from tfinspect.spec import ModelSpec
from tfinspect.verify.draws import Draws
from tfinspect.verify.kept import transformer

__all__ = [
    "BackwardPositions",
    "LatePositions",
    "MaskAfterSoftmax",
    "NoResidual",
    "PeekingAttention",
    "UnscaledAttention",
    "WrongAxis",
    "failing",
    "with_attention",
    "with_blocks",
    "with_embedding",
]

Build = Callable[[ModelSpec, Draws], Transformer]


def failing(found: Findings) -> list[str]:
    """Names of the figures that are not what the claim says."""
    assert (found.outcome == "fail") is any(not figure.holds for figure in found.figures)
    return [figure.name for figure in found.figures if not figure.holds]


class _EagerAttention(Attention):
    """One path for both forms of attention."""

    def fused(self, q: Tensor, k: Tensor, v: Tensor, tap: Tap, bias: Tensor | None = None) -> Tensor:
        return self.eager(q, k, v, tap)

    def eager(self, q: Tensor, k: Tensor, v: Tensor, tap: Tap, bias: Tensor | None = None) -> Tensor:
        weights = self.weights(tap("scores", self.scores(q, k), "B h T S"))
        return tap("weights", weights, "B h T S") @ v

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return (q @ k.mT / math.sqrt(self.d_head)).masked_fill(_later(q, k, 1), -math.inf)

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1)


class PeekingAttention(_EagerAttention):
    """The mask is off by one: each position sees the one after it."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return (q @ k.mT / math.sqrt(self.d_head)).masked_fill(_later(q, k, 2), -math.inf)


class MaskAfterSoftmax(_EagerAttention):
    """Weights on the future are taken away after the softmax has shared them out."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / math.sqrt(self.d_head)

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1).tril()


class WrongAxis(_EagerAttention):
    """Softmax over the positions that ask."""

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-2)


class UnscaledAttention(_EagerAttention):
    """Scores are not divided by √d_head."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return (q @ k.mT).masked_fill(_later(q, k, 1), -math.inf)


class LatePositions(Embedding):
    """Positions count from 1."""

    def forward(self, tokens: Tensor, tap: Tap, n_past: int) -> Tensor:
        return super().forward(tokens, tap, n_past + 1)


class BackwardPositions(Embedding):
    """Positions count from the end."""

    def forward(self, tokens: Tensor, tap: Tap, n_past: int) -> Tensor:
        rows = tap("positions", self.positions.weight[: tokens.shape[1]].flip(0), "T d_model")
        return tap("sum", tap("tokens", self.tokens(tokens), "B T d_model") + rows, "B T d_model")


class NoResidual(PreNormBlock):
    """What attention and MLP give takes the stream's place."""

    def forward(self, x: Tensor, tap: Tap, *past: object) -> Tensor:
        normed = tap("norm1", self.norm1(x), "B T d_model")
        u = tap("resid_mid", self.attn(normed, tap.within("attn")), "B T d_model")
        normed = tap("norm2", self.norm2(u), "B T d_model")
        return tap("resid_out", self.mlp(normed, tap.within("mlp")), "B T d_model")


def with_attention(kind: type[Attention]) -> Build:
    """The model with another kind of attention."""

    def build(spec: ModelSpec, draws: Draws) -> Transformer:
        model = transformer(spec, draws)
        for part in model.modules():
            if isinstance(part, Attention):
                part.__class__ = kind
        return model

    return build


def with_blocks(kind: type[PreNormBlock]) -> Build:
    """The model with another kind of block."""

    def build(spec: ModelSpec, draws: Draws) -> Transformer:
        model = transformer(spec, draws)
        for block in model.blocks:
            block.__class__ = kind
        return model

    return build


def with_embedding(kind: type[Embedding]) -> Build:
    """The model with another way to embed."""

    def build(spec: ModelSpec, draws: Draws) -> Transformer:
        model = transformer(spec, draws)
        model.embed.__class__ = kind
        return model

    return build


def _later(q: Tensor, k: Tensor, by: int) -> Tensor:
    """True for keys that stand `by` positions or more after the query, [T, S]."""
    return torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(by)
