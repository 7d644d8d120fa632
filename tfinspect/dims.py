"""The symbols of shapes: one letter, one meaning, in taps, tables, errors and tests.

    B        sequences in the batch              h          heads
    T        positions that ask (queries)        h_kv       heads of keys and values
    S        positions that answer (keys)        d_head     width of one head
    M        positions of the source             d_model    width of the residual stream
    V        rows of the token table             d_ff       width of the MLP's hidden layer
    n_ctx    longest sequence                    d_expert   width of an expert's hidden layer
    n_pos    rows of the position table          n_buckets  rows of the relative bias
    n_types  rows of the token-type table        E, k       experts, and experts per token

A shape is written as its symbols, separated by spaces: ``"B h T S"``. A number stands for itself, and a product is
spelled with a middle dot: ``"B T 3·d_model"``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tfinspect.errors import InputError
from tfinspect.spec import ModelSpec

__all__ = [
    "MEANINGS",
    "bind",
    "brackets",
    "heads_axis",
    "kv_axis",
    "kv_heads",
    "mismatch",
    "positions_axis",
    "sizes",
    "symbols",
]

MEANINGS: Final[Mapping[str, str]] = {
    "B": "sequences in the batch",
    "T": "positions that ask (queries)",
    "S": "positions that answer (keys)",
    "M": "positions of the source that an encoder reads",
    "V": "rows of the token table (vocabulary)",
    "n_ctx": "longest sequence (context)",
    "n_pos": "rows of the position table, where they are more than n_ctx",
    "n_types": "rows of the token-type table",
    "n_buckets": "rows of the relative bias",
    "d_model": "width of the residual stream",
    "h": "attention heads",
    "h_kv": "heads of keys and values",
    "d_head": "width of one head",
    "d_ff": "width of the MLP's hidden layer",
    "d_expert": "width of an expert's hidden layer",
    "E": "experts",
    "k": "experts per token",
}


def bind(spec: ModelSpec, batch: int, seq_len: int, n_past: int = 0, n_source: int = 0) -> dict[str, int]:
    """What each symbol is worth for one run: batch sequences of seq_len new positions after n_past old ones.

    n_source positions are read by an encoder before a decoder runs.
    """
    return {
        "B": batch,
        "T": seq_len,
        "S": n_past + seq_len,
        "M": n_source,
        "V": spec.vocab_size,
        "n_ctx": spec.n_ctx,
        "n_pos": spec.n_ctx + spec.position_offset,
        "n_types": spec.n_token_types,
        "n_buckets": spec.n_buckets,
        "d_model": spec.d_model,
        "h": spec.n_heads,
        "h_kv": spec.n_kv_heads,
        "d_head": spec.d_head,
        "d_ff": spec.d_ff,
        "d_expert": spec.d_expert,
        "E": spec.n_experts,
        "k": spec.n_experts_per_token,
    }


def heads_axis(spec: ModelSpec) -> str:
    """The axis of all heads side by side: "h·d_head", or "d_model" where the two are equal."""
    return "d_model" if spec.d_attn == spec.d_model else "h·d_head"


def kv_axis(spec: ModelSpec) -> str:
    """The axis of all key heads side by side: "h_kv·d_head", or that of the queries where there are as many."""
    return heads_axis(spec) if spec.n_kv_heads == spec.n_heads else "h_kv·d_head"


def kv_heads(spec: ModelSpec) -> str:
    """The axis that counts key heads: "h_kv", or "h" where each query head has its own."""
    return "h" if spec.n_kv_heads == spec.n_heads else "h_kv"


def positions_axis(spec: ModelSpec) -> str:
    """The axis of the position table's rows: "n_ctx", or "n_pos" where it has more."""
    return "n_pos" if spec.position_offset else "n_ctx"


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
