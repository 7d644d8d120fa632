"""The matrix products of one pass through a model, in letters: whose work it is, and how often it is done.

A pass says which positions go through and which pairs of positions attention takes in:

                     rows   pairs of self-attention        head
    whole text       n      n², or what a mask lets through  n, or the last
    decode step      1      n, the keys in the cache         1
    step of a loop   T      T·S                              1

An encoder reads m positions of a source and sees all m² pairs; cross-attention has rows·m. A token goes through k of E
experts, and grouped keys are made once and used by every query head of their group, so that the two products of
attention cost what they cost without groups.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from tfinspect.closed_form.formula import gathered
from tfinspect.closed_form.structure import Matrix, Mixing, Stack, after, stacks
from tfinspect.results.work import Part
from tfinspect.spec import ModelSpec

__all__ = ["DECODE", "LOOP", "Pass", "Product", "pairs", "products", "times", "windows"]


@dataclasses.dataclass(frozen=True, slots=True)
class Pass:
    """Which positions go through a model, in letters."""

    rows: str = "n"
    """Positions of the text."""
    pairs: str = "n²"
    """Pairs (query, key) of self-attention under a causal mask."""
    windowed: str = "n²"
    """The same in a block with a window, in brackets where it is a sum."""
    head: str = "n"
    """Positions that get logits; "1" for the last."""
    pooled: str = "1"
    """Positions that go through the pooler."""
    source: str = "m"
    """Positions of the source; empty where a cache holds what cross-attention needs of them, so that none are read."""


#: One new token that attends to n keys, itself included.
DECODE: Final = Pass("1", "n", "n", "1", source="")
#: T new positions that attend to S keys, with logits at the last: what a loop that generates does again and again.
LOOP: Final = Pass("T", "T·S", "T·S", "1", source="")


@dataclasses.dataclass(frozen=True, slots=True)
class Product:
    """One kind of matrix product."""

    component: str
    """Key of the work: "projections", "scores" ..."""
    title: str
    formula: str
    """Multiplications of one copy over one sequence, in letters."""
    part: Part
    copies: int = 1
    stack: str = ""
    """Title of the blocks that do it, one copy each; empty outside all."""
    letter: str = ""
    """How many blocks there are of that kind, in letters."""


_TITLES: Final = {
    "projections": "Q, K, V, O",
    "scores": "scores QKᵀ",
    "mix": "weights·V",
    "cross_projections": "cross Q, O",
    "cross_scores": "cross scores QKᵀ",
    "cross_mix": "cross weights·V",
    "mlp": "MLP",
    "router": "router",
    "shared": "shared expert",
}


def products(spec: ModelSpec, run: Pass) -> Iterator[Product]:
    """Every matrix product of a pass over one sequence, in reading order; those outside the blocks last."""
    for stack in stacks(spec):
        if run.source or not stack.path.startswith("encoder"):
            yield from _of_stack(spec, stack, run)
    for matrix in after(spec):
        rows = run.pooled if matrix.path == "pooler" else run.head
        title = {"head": "output head", "mlm.dense": "MLM head's d×d layer"}.get(matrix.path, matrix.path)
        square = ("d²",) if matrix.inner == matrix.out else (matrix.inner, matrix.out)
        yield Product(matrix.work, title, times(rows, *square), "head")


def times(*factors: str) -> str:
    """A product in letters, factors of 1 left out."""
    return "·".join(factor for factor in factors if factor != "1") or "1"


def windows(spec: ModelSpec, stack: Stack, run: Pass) -> tuple[tuple[int, int], ...]:
    """(window, blocks) for each kind of mask in a stack where a pass tells them apart; (0, all) where it does not."""
    if not stack.mixing[0].causal or run.pairs == run.windowed:
        return ((0, stack.copies),)
    n_windowed = spec.n_windowed(stack.layers)
    kinds = ((spec.window, n_windowed), (0, stack.copies - n_windowed))
    return tuple((window, copies) for window, copies in kinds if copies)


def _of_stack(spec: ModelSpec, stack: Stack, run: Pass) -> Iterator[Product]:
    matrices = [part for part in stack.parts if isinstance(part, Matrix)]
    self_attention, *across = stack.mixing
    yield _linear(spec, stack, run, "projections", matrices)
    masks = windows(spec, stack, run)
    for component in ("scores", "mix"):
        for window, copies in masks:
            kind = "" if len(masks) == 1 else f", window {window:,}" if window else ", all keys"
            formula = times(pairs(self_attention, run, window), self_attention.width)
            yield Product(component, _TITLES[component] + kind, formula, "quadratic", copies, stack.title, stack.letter)
    for mixing in across:
        yield _linear(spec, stack, run, "cross_projections", [m for m in matrices if m.rows == "n"])
        if run.source:
            from_source = [m for m in matrices if m.rows == "m"]
            made = _linear(spec, stack, run, "cross_projections", from_source)
            yield dataclasses.replace(made, title="cross K, V", part="source")
        for component in ("cross_scores", "cross_mix"):
            formula = times(run.rows, mixing.keys, mixing.width)
            yield Product(component, _TITLES[component], formula, "source", stack.copies, stack.title, stack.letter)
    for component in ("mlp", "router", "experts", "shared"):
        if any(matrix.work == component for matrix in matrices):
            yield _linear(spec, stack, run, component, matrices)


def _linear(spec: ModelSpec, stack: Stack, run: Pass, component: str, matrices: list[Matrix]) -> Product:
    """The products with the matrices of one component, put together."""
    title = _TITLES.get(component) or f"{spec.n_experts_per_token} of {spec.n_experts} experts"
    formulas = [times(_rows(m, run), m.inner, m.out) for m in matrices if m.work == component]
    formula = gathered(" + ".join(formulas)) if len(formulas) > 1 else formulas[0]
    return Product(component, title, formula, "linear", stack.copies, stack.title, stack.letter)


def _rows(matrix: Matrix, run: Pass) -> str:
    """Rows that go through a matrix: those of a whole text, read as those of this pass."""
    through = {"n": run.rows, "m": run.source}
    return times(*(through.get(factor, factor) for factor in matrix.rows.split("·")))


def pairs(mixing: Mixing, run: Pass, window: int) -> str:
    """Pairs (query, key) of a self-attention, in letters."""
    if mixing.causal:
        return run.windowed if window else run.pairs
    return f"{mixing.queries}²"  # nothing is masked, and every position asks
