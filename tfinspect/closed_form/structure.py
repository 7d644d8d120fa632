"""What a model is made of, as the closed forms see it: tables, stacks of blocks, and the matrices and norms in them.

Every count is a sum over these parts. A part says its size in letters, so that a formula can be read, and its axes in
symbols, so that a tensor can be listed; what is in letters is defined in `formula.letters`.

    stack         blocks that are alike: all of GPT-2's; the dense ones and those with experts; encoder and decoder
    matrix        a linear map, with the rows that go through it in one forward pass
    gain          the γ of a norm, and its β where it has one
    table         rows that are looked up, which costs no multiplication

Parts come in the order of the modules, by their names in the torch core.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal

from tfinspect.dims import heads_axis, kv_axis, positions_axis
from tfinspect.spec import ModelSpec

__all__ = [
    "Gain",
    "Matrix",
    "Mixing",
    "Part",
    "Stack",
    "Table",
    "after",
    "before",
    "before_all",
    "closing_norms",
    "norm_in_words",
    "stacks",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Matrix:
    """A linear map [out, in], or as many alike as `copies` says."""

    path: str
    """Its name below the stack's block, "attn.q"; "{}" stands for the number of a copy."""
    component: str
    """Key of `results.params.COMPONENTS`."""
    work: str
    """Component of the multiplications: "projections", "mlp" ..."""
    out: str
    """Width of what it makes, in letters."""
    inner: str
    """Width of what it reads, in letters."""
    dims: str
    """Axes of the weight in symbols: "d_ff d_model"."""
    bias: bool
    rows: str = "n"
    """Rows of one sequence that go through it (through all copies together), in letters."""
    copies: int = 1

    @property
    def weights(self) -> str:
        """Numbers in the weights of all copies, in letters."""
        return f"E·{self.inner}·{self.out}" if "{}" in self.path else f"{self.inner}·{self.out}"

    @property
    def biases(self) -> str:
        """Numbers in the bias vectors of all copies, in letters; "0" where there are none."""
        if not self.bias:
            return "0"
        return f"E·{self.out}" if "{}" in self.path else self.out

    @property
    def multiplications(self) -> str:
        """Multiplications of one sequence, in letters."""
        return f"{self.rows}·{self.inner}·{self.out}"


@dataclasses.dataclass(frozen=True, slots=True)
class Gain:
    """The vectors of a norm."""

    path: str
    width: str
    """In letters."""
    dims: str
    """Axis in symbols."""
    bias: bool
    component: str = "norms"

    @property
    def numbers(self) -> str:
        """Gains, and biases where there are any, in letters."""
        return f"2·{self.width}" if self.bias else self.width


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Rows that are looked up."""

    path: str
    component: str
    title: str
    numbers: str
    """In letters."""
    dims: str
    alias: str = ""
    """Further names of the same tensor: the tied head, "decoder.embed.tokens.weight = head.weight"."""


Part = Matrix | Gain | Table


@dataclasses.dataclass(frozen=True, slots=True)
class Mixing:
    """One attention of a block: its two products of activations."""

    path: Literal["attn", "cross"]
    queries: str
    """Positions that ask, in letters: "n"; "m" in an encoder."""
    keys: str
    """Positions that answer, in letters."""
    width: str
    """All heads side by side, in letters."""
    causal: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Stack:
    """Blocks that are alike."""

    path: str
    """Where they stand: "blocks", "encoder.blocks", "decoder.blocks"."""
    title: str
    """What a reader calls one: "block", "encoder block"."""
    letter: str
    """How many there are, in letters."""
    layers: range
    """Their numbers, from 0."""
    rows: str
    """Positions that go through: "n", or "m" in an encoder."""
    mixing: tuple[Mixing, ...]
    parts: tuple[Matrix | Gain, ...]
    """Matrices and norms of one block in the order of its modules: each norm beside its sublayer."""

    @property
    def copies(self) -> int:
        """How many blocks there are."""
        return len(self.layers)


def stacks(spec: ModelSpec) -> tuple[Stack, ...]:
    """Every kind of block of a model, in reading order."""
    if spec.architecture == "encoder_decoder":
        encoder = _stack(spec, "encoder.blocks", "encoder block", "L_enc", range(spec.n_encoder_layers), rows="m")
        decoder = _stack(spec, "decoder.blocks", "decoder block", "L", range(spec.n_layers), cross=True)
        return encoder, decoder
    if not spec.n_experts:
        return (_stack(spec, "blocks", "block", "L", range(spec.n_layers)),)
    dense, layers = range(spec.n_dense_layers), range(spec.n_dense_layers, spec.n_layers)
    letter = "(L − L_dense)" if dense else "L"
    with_experts = _stack(spec, "blocks", "block with experts", letter, layers, experts=True)
    if not dense:
        return (with_experts,)
    return _stack(spec, "blocks", "dense block", "L_dense", dense), with_experts


def before(spec: ModelSpec, stack: str = "") -> tuple[Part, ...]:
    """What stands before the blocks, once: tables and the embedding's norm. `stack` is "encoder" or "decoder".

    The decoder of an encoder–decoder reads the encoder's token table, which is listed there.
    """
    at = f"{stack}." if stack else ""
    parts: list[Part] = []
    if stack != "decoder":
        others = ["decoder.embed.tokens.weight"] if stack else []
        if spec.tied_head and spec.head != "none":
            others.append("head.weight")
        alias = " = ".join(others)
        parts.append(Table(f"{at}embed.tokens.weight", "tokens", "token table E", "V·d", "V d_model", alias))
    if spec.positions == "learned":
        rows = f"(n_ctx + {spec.position_offset})" if spec.position_offset else "n_ctx"
        title, dims = "position table P", f"{positions_axis(spec)} d_model"
        parts.append(Table(f"{at}embed.positions.weight", "positions", title, f"{rows}·d", dims))
    if spec.n_token_types:
        title = "token-type table"
        parts.append(Table(f"{at}embed.types.weight", "types", title, "n_types·d", "n_types d_model"))
    if spec.embed_norm:
        parts.append(_norm(spec, f"{at}embed.norm"))
    if spec.positions == "relative":
        title = "relative bias"
        parts.append(Table(f"{at}relative.weight", "relative", title, "n_buckets·h", "n_buckets h"))
    return tuple(parts)


def before_all(spec: ModelSpec) -> tuple[Part, ...]:
    """What stands before the blocks, of both stacks where there are two."""
    if spec.architecture == "encoder_decoder":
        return (*before(spec, "encoder"), *before(spec, "decoder"))
    return before(spec)


def norm_in_words(spec: ModelSpec) -> str:
    """What a reader calls the model's norm."""
    return "layer norm" if spec.norm == "layernorm" else "RMS norm"


def after(spec: ModelSpec) -> tuple[Matrix, ...]:
    """The matrices of the head and the pooler; norms there are in `closing_norms`. Rows that read them: n, or 1."""
    parts: list[Matrix] = []
    if spec.head == "mlm":
        parts.append(Matrix("mlm.dense", "head", "head", "d", "d", "d_model d_model", bias=True))
    if spec.head != "none":
        parts.append(Matrix("head", "head", "head", "V", "d", "V d_model", bias=spec.head_bias))
    if spec.pooler:
        parts.append(Matrix("pooler", "pooler", "pooler", "d", "d", "d_model d_model", bias=True, rows="1"))
    return tuple(parts)


def closing_norms(spec: ModelSpec) -> tuple[Gain, ...]:
    """Norms that stand outside the blocks and behind them, in order."""
    both = spec.architecture == "encoder_decoder"
    paths = [f"{at}final_norm" for at in (("encoder.", "decoder.") if both else ("",)) if spec.final_norm]
    if spec.head == "mlm":
        paths.append("mlm.norm")
    return tuple(_norm(spec, path) for path in paths)


def _stack(
    spec: ModelSpec,
    path: str,
    title: str,
    letter: str,
    layers: range,
    *,
    rows: str = "n",
    cross: bool = False,
    experts: bool = False,
) -> Stack:
    causal = spec.causal and path != "encoder.blocks"
    width = _width(heads_axis(spec))
    mixing = [Mixing("attn", rows, rows, width, causal)]
    if cross:
        mixing.append(Mixing("cross", rows, "m", width, False))
    parts = tuple(_block(spec, rows, cross, experts))
    return Stack(path, title, letter, layers, rows, tuple(mixing), parts)


def _block(spec: ModelSpec, rows: str, cross: bool, experts: bool) -> Iterator[Matrix | Gain]:
    attention = tuple(_attention(spec, "attn", rows, rows))
    across = tuple(_attention(spec, "cross", rows, "m")) if cross else ()
    mlp = tuple(_experts(spec, rows) if experts else _mlp(spec, "mlp", "mlp", "d_ff", rows))
    sublayers = [part for part in (attention, across, mlp) if part]
    for number, sublayer in enumerate(sublayers, start=1):
        if spec.placement != "parallel_one_norm" or number == 1:
            yield _norm(spec, f"norm{number}")
        yield from sublayer
        if spec.placement == "sandwich":
            yield _norm(spec, f"norm{number}_out")


def _attention(spec: ModelSpec, path: str, queries: str, keys: str) -> Iterator[Matrix | Gain]:
    heads, kv = heads_axis(spec), kv_axis(spec)
    component, work = ("attention", "projections") if path == "attn" else ("cross", "cross_projections")
    for name, axis, rows in (("q", heads, queries), ("k", kv, keys), ("v", kv, keys)):
        dims = f"{axis} d_model"
        yield Matrix(f"{path}.{name}", component, work, _width(axis), "d", dims, spec.qkv_bias, rows)
    if spec.qk_norm:
        for name in ("q_norm", "k_norm"):
            yield Gain(f"{path}.{name}", "d_head", "d_head", spec.norm_bias, component)
    yield Matrix(f"{path}.out", component, work, "d", _width(heads), f"d_model {heads}", spec.out_bias, queries)


def _mlp(spec: ModelSpec, path: str, component: str, axis: str, rows: str) -> Iterator[Matrix]:
    for name in ("gate", "up", "down") if spec.gated else ("up", "down"):
        out, inner = ("d", axis) if name == "down" else (axis, "d")
        dims = f"d_model {axis}" if name == "down" else f"{axis} d_model"
        yield Matrix(f"{path}.{name}", component, component, out, inner, dims, spec.mlp_bias, rows)


def _experts(spec: ModelSpec, rows: str) -> Iterator[Matrix]:
    yield Matrix("mlp.router", "router", "router", "E", "d", "E d_model", False, rows)
    for matrix in _mlp(spec, "mlp.experts.{}", "experts", "d_expert", f"{rows}·k"):
        yield dataclasses.replace(matrix, copies=spec.n_experts)
    if spec.n_shared_experts:
        axis = "d_expert" if spec.n_shared_experts == 1 else f"{spec.n_shared_experts}·d_expert"
        yield from _mlp(spec, "mlp.shared", "shared", axis, rows)


def _norm(spec: ModelSpec, path: str) -> Gain:
    return Gain(path, "d", "d_model", spec.norm_bias)


def _width(axis: str) -> str:
    return "d" if axis == "d_model" else axis
