"""The symbols of shapes: one letter, one meaning, in taps, tables, errors and tests.

    B        sequences in the batch              h        heads
    T        positions that ask (queries)        d_head   width of one head
    S        positions that answer (keys)        d_model  width of the residual stream
    V        rows of the token table             d_ff     width of the MLP's hidden layer
    n_ctx    rows of the position table

A shape is written as its symbols, separated by spaces: ``"B h T S"``. A number stands for itself, and a product is
spelled with a middle dot: ``"B T 3·d_model"``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tfinspect.errors import InputError
from tfinspect.spec import ModelSpec

__all__ = ["MEANINGS", "bind", "brackets", "mismatch", "sizes", "symbols"]

MEANINGS: Final[Mapping[str, str]] = {
    "B": "sequences in the batch",
    "T": "positions that ask (queries)",
    "S": "positions that answer (keys)",
    "V": "rows of the token table (vocabulary)",
    "n_ctx": "rows of the position table (context)",
    "d_model": "width of the residual stream",
    "h": "attention heads",
    "d_head": "width of one head",
    "d_ff": "width of the MLP's hidden layer",
}


def bind(spec: ModelSpec, batch: int, seq_len: int, n_past: int = 0) -> dict[str, int]:
    """What each symbol is worth for one run: batch sequences of seq_len new positions after n_past old ones."""
    return {
        "B": batch,
        "T": seq_len,
        "S": n_past + seq_len,
        "V": spec.vocab_size,
        "n_ctx": spec.n_ctx,
        "d_model": spec.d_model,
        "h": spec.n_heads,
        "d_head": spec.d_head,
        "d_ff": spec.d_ff,
    }


def symbols(dims: str) -> tuple[str, ...]:
    """The axes of a shape: ``"B h T S"`` gives ``("B", "h", "T", "S")``."""
    return tuple(dims.split())


def sizes(dims: str, bound: Mapping[str, int]) -> tuple[int, ...]:
    """The concrete shape of symbolic dims.

    Raises:  InputError for a symbol that is not bound.
    """
    return tuple(math.prod(_factor(f, dims, bound) for f in axis.split("·")) for axis in symbols(dims))


def brackets(axes: Iterable[object] | str) -> str:
    """``[B, h, T, S]`` from symbols (a dims string or a sequence), ``[1, 12, 16, 16]`` from sizes."""
    return f"[{', '.join(map(str, symbols(axes) if isinstance(axes, str) else axes))}]"


def mismatch(name: str, dims: str, shape: Sequence[int], bound: Mapping[str, int]) -> str | None:
    """A sentence that says how a tensor's shape differs from its dims, or None where it does not."""
    wanted = sizes(dims, bound)
    if tuple(shape) == wanted:
        return None
    return f"{name} has shape {brackets(shape)}, but {brackets(dims)} is {brackets(wanted)} here"


def _factor(factor: str, dims: str, bound: Mapping[str, int]) -> int:
    if factor.isdecimal():
        return int(factor)
    if factor not in bound:
        raise InputError(f"unknown symbol {factor!r} in {brackets(dims)}", f"known: {', '.join(bound)}")
    return bound[factor]
