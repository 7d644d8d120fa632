"""The named tensors of one block, in the order in which they arise, and what each costs.

    pre        norm1  attn.*            resid_mid         norm2  mlp.*            resid_out
    post              attn.*            resid_mid  norm1         mlp.*            resid_out  norm2
    sandwich   norm1  attn.*  norm1_out resid_mid         norm2  mlp.*  norm2_out resid_out
    parallel   norm1  attn.*                             [norm2] mlp.*            resid_out

A decoder's block in an encoder–decoder has cross-attention between the two: resid_self, cross.*, resid_cross.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tfinspect.closed_form.formula import value
from tfinspect.closed_form.structure import Matrix, Mixing, Part
from tfinspect.dims import heads_axis, kv_heads
from tfinspect.results.trace import STEPS
from tfinspect.spec import GATES, ModelSpec

__all__ = ["Costs", "Expected", "block", "costs", "norm_letters"]

#: The tensor that a matrix or a norm makes, where it has another name.
_MADE_BY: Final[Mapping[str, str]] = {
    "attn.q_norm": "attn.q",
    "attn.k_norm": "attn.k",
    "cross.q_norm": "cross.q",
    "cross.k_norm": "cross.k",
    "mlp.up": "mlp.hidden",
    "mlp.down": "mlp.out",
    "head": "logits",
    "pooler": "pooled",
}

_ORDINALS: Final = ("first", "second", "third")


@dataclasses.dataclass(frozen=True, slots=True)
class Expected:
    """A tensor that the forward pass has to produce."""

    name: str
    """Path of its tap: "blocks.3.attn.scores"."""
    step: int
    """The textbook's step that it belongs to, 1 to 8."""
    equation: str
    """What makes it, in the textbook's letters."""
    dims: str
    """Its shape in symbols."""
    params: int = 0
    """Parameters that take part in making it and in no earlier row."""
    multiplications: int = 0
    """Scalar multiplications of the matrix product that makes it; 0 where none does."""
    heading: str = ""
    """What its step does, in words."""


@dataclasses.dataclass(frozen=True)
class Costs:
    """Parameters and multiplications by the name of the tensor that they make."""

    params: Mapping[str, int]
    multiplications: Mapping[str, int]

    def of(self, row: Expected) -> Expected:
        """The row with what it costs."""
        params, work = self.params.get(row.name, 0), self.multiplications.get(row.name, 0)
        return dataclasses.replace(row, params=params, multiplications=work)


def costs(spec: ModelSpec, parts: Sequence[Part], bound: Mapping[str, int], mixing: Sequence[Mixing] = ()) -> Costs:
    """What the tensors that these parts make cost, over a batch of B sequences."""
    params, work = Counter[str](), Counter[str]()
    for part in parts:
        made = _made_by(part)
        if not isinstance(part, Matrix):
            params[made] += value(part.numbers, bound)
            continue
        is_table = part.path == "head" and spec.tied_head
        params[made] += value(part.biases if is_table else f"{part.weights} + {part.biases}", bound)
        work[made] += value(f"B·{part.multiplications}", bound)
    for mixed in mixing:
        for made in ("scores", "heads"):
            work[f"{mixed.path}.{made}"] = value(f"B·{mixed.queries}·{mixed.keys}·{mixed.width}", bound)
    return Costs(params, work)


def block(spec: ModelSpec, at: str, layer: int) -> tuple[Expected, ...]:
    """Every named tensor of one block; `at` is "encoder" or "decoder" in a model of two stacks."""
    rows = _three_parts(spec, layer) if at == "decoder" else _BLOCKS[spec.placement](spec, at, layer)
    if at != "encoder":
        return tuple(rows)
    return tuple(dataclasses.replace(row, dims=_of_source(row.dims)) for row in rows)


def norm_letters(spec: ModelSpec) -> str:
    """How an equation writes the model's norm."""
    return "LN" if spec.norm == "layernorm" else "RMS"


def _two_parts(spec: ModelSpec, at: str, layer: int) -> Iterator[Expected]:
    """Pre-LN, with a second norm behind each part where it is sandwiched, and Post-LN."""
    ln, first = norm_letters(spec), _gathers(spec, at, layer)
    second, third = f"{_ORDINALS[0]} residual addition", _works(spec, layer, 2)
    stream = "B T d_model"
    if spec.placement == "post":
        yield from _attention(spec, at, layer, "X", first)
        yield Expected("resid_mid", 5, "X + attn.out", stream, heading=second)
        yield Expected("norm1", 5, f"U = {ln}1(X + attn.out)", stream, heading=second)
        yield from _mlp(spec, layer, "U", third)
        yield Expected("resid_out", 6, "U + mlp.out", stream, heading=third)
        yield Expected("norm2", 6, f"Y = {ln}2(U + mlp.out)", stream, heading=third)
        return
    sandwich = spec.placement == "sandwich"
    attended, changed = (f"{ln}1'", f"{ln}2'") if sandwich else ("attn.out", "mlp.out")
    yield Expected("norm1", 4, f"{ln}1(X)", stream, heading=first)
    yield from _attention(spec, at, layer, f"{ln}1", first)
    if sandwich:
        yield Expected("norm1_out", 4, f"{ln}1'(attn.out)", stream, heading=first)
    yield Expected("resid_mid", 5, f"U = X + {attended}", stream, heading=second)
    yield Expected("norm2", 6, f"{ln}2(U)", stream, heading=third)
    yield from _mlp(spec, layer, f"{ln}2", third)
    if sandwich:
        yield Expected("norm2_out", 6, f"{ln}2'(mlp.out)", stream, heading=third)
    yield Expected("resid_out", 6, f"Y = U + {changed}", stream, heading=third)


def _side_by_side(spec: ModelSpec, at: str, layer: int) -> Iterator[Expected]:
    """Attention and MLP read the same stream, and one addition takes in both."""
    ln, first = norm_letters(spec), _gathers(spec, at, layer)
    second = f"{_what(spec, layer)}, beside attention, and the one residual addition"
    one_norm = spec.placement == "parallel_one_norm"
    yield Expected("norm1", 4, f"{ln}1(X)", "B T d_model", heading=first)
    yield from _attention(spec, at, layer, f"{ln}1", first)
    if not one_norm:
        yield Expected("norm2", 6, f"{ln}2(X)", "B T d_model", heading=second)
    yield from _mlp(spec, layer, f"{ln}{1 if one_norm else 2}", second)
    yield Expected("resid_out", 6, "Y = X + attn.out + mlp.out", "B T d_model", heading=second)


_BLOCKS: Final = {
    "pre": _two_parts,
    "post": _two_parts,
    "sandwich": _two_parts,
    "parallel": _side_by_side,
    "parallel_one_norm": _side_by_side,
}


def _three_parts(spec: ModelSpec, layer: int) -> Iterator[Expected]:
    """A decoder's block: self-attention, cross-attention, MLP, a norm before or after each."""
    ln, post = norm_letters(spec), spec.placement == "post"
    gathers, asks = _gathers(spec, "decoder", layer), "cross-attention: each position gathers from the encoder's output"
    works, stream = _works(spec, layer, 3), "B T d_model"
    added = [f"{ordinal} residual addition" for ordinal in _ORDINALS]
    if not post:
        yield Expected("norm1", 4, f"{ln}1(X)", stream, heading=gathers)
    yield from _attention(spec, "decoder", layer, "X" if post else f"{ln}1", gathers)
    yield Expected("resid_self", 5, "X + attn.out" if post else "U = X + attn.out", stream, heading=added[0])
    if post:
        yield Expected("norm1", 5, f"U = {ln}1(X + attn.out)", stream, heading=added[0])
    else:
        yield Expected("norm2", 4, f"{ln}2(U)", stream, heading=asks)
    yield from _cross(spec, "U" if post else f"{ln}2", asks)
    yield Expected("resid_cross", 5, "U + cross.out" if post else "Z = U + cross.out", stream, heading=added[1])
    if post:
        yield Expected("norm2", 5, f"Z = {ln}2(U + cross.out)", stream, heading=added[1])
    else:
        yield Expected("norm3", 6, f"{ln}3(Z)", stream, heading=works)
    yield from _mlp(spec, layer, "Z" if post else f"{ln}3", works)
    yield Expected("resid_out", 6, "Z + mlp.out" if post else "Y = Z + mlp.out", stream, heading=works)
    if post:
        yield Expected("norm3", 6, f"Y = {ln}3(Z + mlp.out)", stream, heading=works)


def _attention(spec: ModelSpec, at: str, layer: int, read: str, heading: str) -> Iterator[Expected]:
    turned = ""
    if spec.positions == "rope":
        turned = "rotated " if spec.rope_dim == spec.d_head else "partly rotated "
    q, k = (turned + _normed(spec, letter.lower(), f"{read}·W_{letter}") for letter in "QK")
    return _head_rows(spec, "attn", q, k, f"{read}·W_V", _masked(spec, at, layer), heading)


def _cross(spec: ModelSpec, read: str, heading: str) -> Iterator[Expected]:
    q, k = _normed(spec, "q", f"{read}·W_Q"), _normed(spec, "k", "H_enc·W_K")
    for row in _head_rows(spec, "cross", q, k, "H_enc·W_V", "", heading):
        yield dataclasses.replace(row, dims=row.dims.replace(" S", " M"))


def _head_rows(spec: ModelSpec, at: str, q: str, k: str, v: str, mask: str, heading: str) -> Iterator[Expected]:
    """The tensors of one attention; their equations are given where they differ."""
    keys, scaled = f"B {kv_heads(spec)} S d_head", "Q·Kᵀ/√d_head" if spec.scale_scores else "Q·Kᵀ"
    for name, equation, dims in (
        ("q", q, "B h T d_head"),
        ("k", k, keys),
        ("v", v, keys),
        ("scores", scaled + mask, "B h T S"),
        ("weights", "softmax(scores)", "B h T S"),
        ("heads", "weights·V", "B h T d_head"),
        ("concat", "heads side by side", f"B T {heads_axis(spec)}"),
        ("out", "concat·W_O", "B T d_model"),
    ):
        yield Expected(f"{at}.{name}", 4, equation, dims, heading=heading)


def _mlp(spec: ModelSpec, layer: int, read: str, heading: str) -> Iterator[Expected]:
    if spec.has_experts(layer):
        rows = list(_experts(spec, read))
    elif spec.gated:
        rows = [
            ("gate", f"{read}·W_gate", "B T d_ff"),
            ("hidden", f"{read}·W_up", "B T d_ff"),
            ("activated", f"{GATES[spec.activation]}(gate) ⊙ hidden", "B T d_ff"),
            ("out", "activated·W_down", "B T d_model"),
        ]
    else:
        rows = [
            ("hidden", f"{read}·W_1", "B T d_ff"),
            ("activated", spec.activation, "B T d_ff"),
            ("out", "activated·W_2", "B T d_model"),
        ]
    for name, equation, dims in rows:
        yield Expected(f"mlp.{name}", 6, equation, dims, heading=heading)


def _experts(spec: ModelSpec, read: str) -> Iterator[tuple[str, str, str]]:
    k, shared = spec.n_experts_per_token, bool(spec.n_shared_experts)
    yield "router", f"{read}·W_router", "B T E"
    yield "gates", f"softmax of the {k} largest", "B T k"
    yield "experts", f"MLP_j({read}), the {k} chosen", "B T k d_model"
    if shared:
        yield "shared", f"MLP_shared({read})", "B T d_model"
    yield "out", "Σ gate·expert" + " + shared" * shared, "B T d_model"


def _gathers(spec: ModelSpec, at: str, layer: int) -> str:
    """What step 4 does in words."""
    if at == "encoder" or not spec.causal:
        return "attention: each position gathers from all positions"
    window = spec.window_of(layer)
    return f"attention: each position gathers from the last {window:,}" if window else STEPS[4]


def _works(spec: ModelSpec, layer: int, additions: int) -> str:
    return f"{_what(spec, layer)}, position by position, and {_ORDINALS[additions - 1]} residual addition"


def _what(spec: ModelSpec, layer: int) -> str:
    return f"{spec.n_experts_per_token} of {spec.n_experts} experts" if spec.has_experts(layer) else "MLP"


def _masked(spec: ModelSpec, at: str, layer: int) -> str:
    """What is added to the scores."""
    bias = " + bias" if spec.positions == "relative" else ""
    if at == "encoder" or not spec.causal:
        return bias
    window = spec.window_of(layer)
    mask = f" + mask of {window:,} keys" if window else " + mask"
    return mask + (" − slope·distance" if spec.positions == "alibi" else bias)


def _normed(spec: ModelSpec, head: str, product: str) -> str:
    return f"{norm_letters(spec)}_{head}({product})" if spec.qk_norm else product


def _of_source(dims: str) -> str:
    """The same axes over the positions of a source."""
    return " ".join("M" if axis in ("T", "S") else axis for axis in dims.split())


def _made_by(part: Part) -> str:
    """The tensor that stands on the row of a part: "mlp.experts.{}.up" makes "mlp.experts"."""
    path = part.path.removesuffix(".weight")
    if path.startswith(("mlp.experts.", "mlp.shared.")):
        return ".".join(path.split(".")[:2])
    return _MADE_BY.get(path, path)
