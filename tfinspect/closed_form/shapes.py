"""The named tensors of one forward pass, as the spec implies them: order, shape, parameters, multiplications.

Each tensor stands on one row, with the parameters that make it and the multiplications that it costs, so that the rows
add up to the whole model; what several tensors share stands on the first of them. A look-up multiplies nothing. Sums,
norms, softmax and activations are elementwise work and no part of these multiplications.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tfinspect.closed_form.block_shapes import Costs, Expected, block, costs, norm_letters
from tfinspect.closed_form.formula import letters
from tfinspect.closed_form.structure import after, before, closing_norms, stacks
from tfinspect.results.trace import STEPS
from tfinspect.spec import GATES, ModelSpec

__all__ = ["Expected", "expected"]


def expected(
    spec: ModelSpec, batch: int, seq_len: int, *, source_len: int | None = None, last: bool = False
) -> tuple[Expected, ...]:
    """Every named tensor of a forward pass over [B, T] ids, in the order in which they arise.

    An encoder–decoder reads [B, M] source ids first, by default as many as T.

    Units:   multiplications; attention in full, the head at all positions, a token through k of E experts.
    Source:  chapter B, 15.2 to 15.6; chapter A, 5.1, 6.1 and 8.2.
    Agrees:  measured.shapes.trace, tensor by tensor.
    """
    bound = letters(spec, batch=batch, seq_len=seq_len, source_len=seq_len if source_len is None else source_len)
    outside = costs(spec, (*after(spec), *closing_norms(spec)), bound)
    rows: list[Expected] = []
    if spec.architecture == "encoder_decoder":
        rows.append(_tokens("source.tokens", "B M"))
        rows += _stack(spec, "encoder", outside, bound)
        rows.append(_tokens("tokens", "B T"))
        rows += _stack(spec, "decoder", outside, bound)
    else:
        rows.append(_tokens("tokens", "B T"))
        rows += _stack(spec, "", outside, bound)
    rows += (outside.of(row) for row in _end(spec))
    if last:
        rows.append(Expected("next.logits", 8, "logits at each text's last position", "B V", heading=STEPS[8]))
        rows.append(Expected("next.ids", 8, "argmax", "B", heading=STEPS[8]))
    return tuple(rows)


def _tokens(name: str, dims: str) -> Expected:
    return Expected(name, 1, "byte-pair ids", dims, heading=STEPS[1])


def _stack(spec: ModelSpec, at: str, outside: Costs, bound: dict[str, int]) -> Iterator[Expected]:
    """Embedding, blocks and last norm of the whole model, or of one of its two stacks."""
    prefix = f"{at}." if at else ""
    tables = costs(spec, before(spec, at), bound)
    for row in _embedding(spec, positions="M" if at == "encoder" else "T"):
        yield tables.of(dataclasses.replace(row, name=prefix + row.name))
    shared = tables.params.get(f"{prefix}relative", 0)
    for kind in stacks(spec):
        if kind.path != f"{prefix}blocks":
            continue
        of_block = costs(spec, kind.parts, bound, kind.mixing)
        alike: dict[int, Sequence[Expected]] = {}
        for layer in kind.layers:
            window = spec.window_of(layer)
            if window not in alike:
                alike[window] = tuple(of_block.of(row) for row in block(spec, at, layer))
            for row in alike[window]:
                first = layer == 0 and row.name == "attn.scores"
                yield Expected(
                    f"{kind.path}.{layer}.{row.name}",
                    row.step,
                    row.equation,
                    row.dims,
                    row.params + shared if first else row.params,
                    row.multiplications,
                    row.heading,
                )
    if spec.final_norm:
        hidden, dims = ("H_enc", "B M d_model") if at == "encoder" else ("H", "B T d_model")
        equation = f"{hidden} = {norm_letters(spec)}(X)"
        yield outside.of(Expected(f"{prefix}final_norm", 7, equation, dims, heading=STEPS[7]))


def _embedding(spec: ModelSpec, positions: str) -> Iterator[Expected]:
    """Steps 2 and 3 over T positions of a text, or over M of a source."""
    dims = f"B {positions} d_model"
    vectors = "tokens"
    yield Expected("embed.tokens", 2, "rows of E", dims, heading=STEPS[2])
    if spec.embed_scale:
        vectors = "scaled"
        yield Expected("embed.scaled", 2, "tokens·√d", dims, heading=STEPS[2])
    in_place = spec.positions in ("learned", "sinusoidal")
    added = ["positions"] * in_place + ["types"] * bool(spec.n_token_types)
    heading = "the vectors are normalised"
    if added:
        heading = STEPS[3] if in_place else "token types are added"
    if in_place:
        first, offset = "sin and cos", spec.position_offset
        if spec.positions == "learned":
            first = f"rows of P from row {offset} on" if offset else f"first {positions} rows of P"
        yield Expected("embed.positions", 3, first, f"{positions} d_model", heading=heading)
    if spec.n_token_types:
        yield Expected("embed.types", 3, "row 0 of the type table", dims, heading=heading)
    if added:
        yield Expected("embed.sum", 3, f"X = {' + '.join((vectors, *added))}", dims, heading=heading)
        vectors = "sum"
    if spec.embed_norm:
        yield Expected("embed.norm", 3, f"X = {norm_letters(spec)}({vectors})", dims, heading=heading)


def _end(spec: ModelSpec) -> Iterator[Expected]:
    """Step 8: the head, and what stands before and beside it."""
    read, heading = "H", STEPS[8]
    if spec.head == "mlm":
        read = norm_letters(spec)
        yield Expected("mlm.dense", 8, "H·W + b", "B T d_model", heading=heading)
        yield Expected("mlm.activated", 8, GATES.get(spec.activation, spec.activation), "B T d_model", heading=heading)
        yield Expected("mlm.norm", 8, f"{read}(activated)", "B T d_model", heading=heading)
    if spec.head != "none":
        bias = " + b" if spec.head_bias else ""
        table = "Eᵀ" if spec.tied_head else "W_headᵀ"
        yield Expected("logits", 8, f"{read}·{table}{bias}", "B T V", heading=heading)
    if spec.pooler:
        equation = "tanh(H at position 0·W + b)"
        yield Expected("pooled", 8, equation, "B d_model", heading="the first position is pooled")
