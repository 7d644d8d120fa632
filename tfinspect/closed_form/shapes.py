"""The named tensors of one forward pass, as the spec implies them: order, shape, parameters, multiplications.

Each tensor stands on one row, with the parameters that make it and the multiplications that it costs, so that the rows
add up to the whole model. A look-up multiplies nothing. Sums, norms, softmax and activations are elementwise work and
no part of these multiplications.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tfinspect.spec import ModelSpec

__all__ = ["Expected", "expected"]


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


def expected(spec: ModelSpec, batch: int, seq_len: int, *, last: bool = False) -> tuple[Expected, ...]:
    """Every named tensor of a forward pass over [B, T] ids, in the order in which they arise.

    Units:   multiplications; causal attention in full, the head at all positions.
    Source:  chapter B, 15.2 to 15.6; chapter A, 5.1 and 6.1.
    Agrees:  measured.shapes.trace, tensor by tensor.
    """
    rows = list(_embedding(spec))
    for i in range(spec.n_layers):
        rows += [dataclasses.replace(row, name=f"blocks.{i}.{row.name}") for row in _block(spec, batch, seq_len)]
    if spec.final_norm:
        rows.append(Expected("final_norm", 7, "H = LN(X)", "B T d_model", _norm(spec)))
    head = 0 if spec.tied_head else spec.vocab_size * spec.d_model
    logits = "H·Eᵀ" if spec.tied_head else "H·W_headᵀ"
    work = batch * seq_len * spec.d_model * spec.vocab_size
    rows.append(Expected("logits", 8, logits, "B T V", head, work))
    if last:
        rows.append(Expected("next.logits", 8, "logits at each text's last position", "B V"))
        rows.append(Expected("next.ids", 8, "argmax", "B"))
    return tuple(rows)


def _embedding(spec: ModelSpec) -> Iterator[Expected]:
    yield Expected("tokens", 1, "byte-pair ids", "B T")
    yield Expected("embed.tokens", 2, "rows of E", "B T d_model", spec.vocab_size * spec.d_model)
    if spec.positions == "learned":
        yield Expected("embed.positions", 3, "first T rows of P", "T d_model", spec.n_ctx * spec.d_model)
    if spec.positions == "sinusoidal":
        yield Expected("embed.positions", 3, "sin and cos", "T d_model")
    if spec.positions in ("learned", "sinusoidal"):
        yield Expected("embed.sum", 3, "X = tokens + positions", "B T d_model")


def _block(spec: ModelSpec, batch: int, seq_len: int) -> Iterator[Expected]:
    """One block; under Post-LN the norms come after the sums that they normalise."""
    n, d, f = batch * seq_len, spec.d_model, spec.d_ff
    pre = spec.placement == "pre"
    turned = "rotated " if spec.positions == "rope" else ""
    read = "LN1" if pre else "X"
    mask = "mask − slope·distance" if spec.positions == "alibi" else "mask"

    if pre:
        yield Expected("norm1", 4, "LN1(X)", "B T d_model", _norm(spec))
    yield Expected("attn.q", 4, f"{turned}{read}·W_Q", "B h T d_head", _linear(spec, d, d), n * d * d)
    yield Expected("attn.k", 4, f"{turned}{read}·W_K", "B h S d_head", _linear(spec, d, d), n * d * d)
    yield Expected("attn.v", 4, f"{read}·W_V", "B h S d_head", _linear(spec, d, d), n * d * d)
    yield Expected("attn.scores", 4, f"Q·Kᵀ/√d_head + {mask}", "B h T S", 0, n * seq_len * d)
    yield Expected("attn.weights", 4, "softmax(scores)", "B h T S")
    yield Expected("attn.heads", 4, "weights·V", "B h T d_head", 0, n * seq_len * d)
    yield Expected("attn.concat", 4, "heads side by side", "B T d_model")
    yield Expected("attn.out", 4, "concat·W_O", "B T d_model", _linear(spec, d, d), n * d * d)
    yield Expected("resid_mid", 5, "U = X + attn.out" if pre else "X + attn.out", "B T d_model")
    if not pre:
        yield Expected("norm1", 5, "U = LN1(X + attn.out)", "B T d_model", _norm(spec))
    if pre:
        yield Expected("norm2", 6, "LN2(U)", "B T d_model", _norm(spec))
    yield Expected("mlp.hidden", 6, "LN2·W_1" if pre else "U·W_1", "B T d_ff", _linear(spec, d, f), n * d * f)
    yield Expected("mlp.activated", 6, spec.activation, "B T d_ff")
    yield Expected("mlp.out", 6, "activated·W_2", "B T d_model", _linear(spec, f, d), n * f * d)
    yield Expected("resid_out", 6, "Y = U + mlp.out" if pre else "U + mlp.out", "B T d_model")
    if not pre:
        yield Expected("norm2", 6, "Y = LN2(U + mlp.out)", "B T d_model", _norm(spec))


def _linear(spec: ModelSpec, d_in: int, d_out: int) -> int:
    return d_in * d_out + (d_out if spec.bias else 0)


def _norm(spec: ModelSpec) -> int:
    return spec.d_model * (2 if spec.bias else 1)
