"""Pieces of work: matrix products, what is elementwise, and shares of what a token costs.

Unit: scalar multiplications of matrix products (one multiply-add = 1 multiplication = 2 FLOPs). Embedding look-ups
count 0. Elementwise work is no matrix product: it is listed apart, in evaluated output elements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final, Literal

__all__ = ["COMPONENTS", "Causal", "Elementwise", "FlopTerm", "Head", "Part", "PerToken", "by_component"]

#: Components of the work in reading order: key, and what a reader calls it.
COMPONENTS: Final[Mapping[str, str]] = {
    "projections": "Q, K, V, O",
    "scores": "scores QKᵀ",
    "mix": "weights·V",
    "cross_projections": "cross Q, K, V, O",
    "cross_scores": "cross scores QKᵀ",
    "cross_mix": "cross weights·V",
    "mlp": "MLP",
    "router": "router",
    "experts": "experts",
    "shared": "shared expert",
    "head": "output head",
    "pooler": "pooler",
}

Causal = Literal["full", "half"]
"""Pairs that attention counts: all n², which is what runs, or the n(n + 1)/2 that the mask lets through."""

Head = Literal["all", "last"]
"""Positions that get logits: all n, or the last one, as in generation."""

Part = Literal["linear", "quadratic", "source", "head"]
"""How a block's work grows with n, that it hangs on the length of a source, or that it belongs to the head."""


@dataclasses.dataclass(frozen=True)
class FlopTerm:
    """One kind of matrix product."""

    component: str
    """Key of `COMPONENTS`."""
    title: str
    """What a reader calls it."""
    formula: str
    """Multiplications of one copy, in letters."""
    each: int
    """Multiplications of one copy."""
    copies: int
    """How many copies run: one per block of its kind, or 1."""
    part: Part
    stack: str = ""
    """Which kind of block it belongs to, "block" or "encoder block"; empty outside all."""
    letter: str = ""
    """How many blocks of this kind there are, in letters."""

    @property
    def multiplications(self) -> int:
        """Multiplications of all copies."""
        return self.each * self.copies

    def to_dict(self, share: float | None) -> dict[str, Any]:
        """The term, for JSON, with its share of the whole."""
        return {
            "component": self.component,
            "title": self.title,
            "block": self.stack or None,
            "formula": self.formula,
            "part": self.part,
            "copies": self.copies,
            "multiplications_each": self.each,
            "multiplications": self.multiplications,
            "share": share,
        }


@dataclasses.dataclass(frozen=True)
class Elementwise:
    """Work that is no matrix product, in evaluated output elements."""

    component: str
    """"norm", "softmax", "gates" (softmax of a router), "activation", "products" (with a gate) or "residual"."""
    title: str
    formula: str
    evaluations: int
    """Output elements in the whole model."""


@dataclasses.dataclass(frozen=True)
class PerToken:
    """One share of the FLOPs that each token costs."""

    title: str
    formula: str
    flops: int | Fraction
    source: bool = False
    """Whether it is what a token of an encoder's source costs."""


def by_component(terms: Iterable[FlopTerm]) -> dict[str, int]:
    """Multiplications by component, in the order of the terms."""
    found: dict[str, int] = {}
    for term in terms:
        found[term.component] = found.get(term.component, 0) + term.multiplications
    return found
