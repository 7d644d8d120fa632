"""What one training step holds besides the parameters: gradients, optimizer state, and what backward needs.

A gradient has the size of its parameter. SGD remembers nothing, SGD with momentum one number per parameter, AdamW two
and a step counter per tensor. For backward, autograd keeps the inputs of products, norms and activations, the
attention weights and the log-probabilities. Attention runs equation by equation here, as the textbook writes it.

Units:  bytes; a float32 number has 4, a token id 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

from tfinspect.closed_form.formula import letters, value
from tfinspect.closed_form.params import ledger, n_tensors
from tfinspect.closed_form.structure import norm_in_words
from tfinspect.results.train_step import KeptTerm, Optimizer
from tfinspect.spec import ModelSpec

__all__ = ["gradient_bytes", "kept", "n_predictions", "reached_positions", "room_bytes", "state_bytes"]

FLOAT32: Final = 4
INT64: Final = 8


def gradient_bytes(spec: ModelSpec) -> int:
    """Bytes of all gradients: one float32 number per parameter.

    Agrees:  measured.train_step.train_step, for every spec.
    """
    return FLOAT32 * sum(term.params for term in ledger(spec))


def state_bytes(spec: ModelSpec, optimizer: Optimizer) -> int:
    """Bytes that the optimizer remembers after its first step.

    Source:  Loshchilov and Hutter 2019, algorithm 2: two moments. The step counters are torch's, float32.
    Agrees:  measured.train_step.train_step, for every spec.
    """
    if optimizer.name == "adamw":
        return 2 * gradient_bytes(spec) + FLOAT32 * n_tensors(spec)
    return gradient_bytes(spec) if optimizer.momentum else 0


def n_predictions(lengths: Sequence[int]) -> int:
    """Tokens that the loss asks for: all but the first of each row, padding left out; B·(T − 1) for full rows."""
    return sum(length - 1 for length in lengths)


def reached_positions(lengths: Sequence[int]) -> int:
    """Rows of the position table that get a gradient: all but the last, from which nothing is predicted."""
    return max(lengths) - 1


def kept(spec: ModelSpec, batch: int, seq_len: int) -> tuple[KeptTerm, ...]:
    """Everything that autograd keeps for backward after forward and loss, each tensor once, parameters left out.

    Shapes:  [B, T] ids in training mode; attention equation by equation, so that its weights are a tensor.
    Agrees:  measured.train_step.train_step, in bytes for every decoder, in tensors where no router decides on them.
    """
    bound = letters(spec, batch=batch, seq_len=seq_len)
    n_dense = spec.n_dense_layers if spec.n_experts else spec.n_layers
    copies = {"once": 1, "block": spec.n_layers, "dense": n_dense, "experts": spec.n_layers - n_dense}
    return tuple(
        KeptTerm(title, formula, value(formula, bound), copies[where], tensors, width)
        for where, title, formula, tensors, width in _kept(spec)
        if copies[where]
    )


def room_bytes(spec: ModelSpec, optimizer: Optimizer, batch: int, seq_len: int) -> int:
    """About what the whole walk through the stages needs at its fullest.

    Parameters, gradients, and a copy to compare with; then the optimizer's state, or what backward keeps and makes on
    its way: a few times the logits and the scores of one block. Either works with a few tensors as large as E.
    """
    logits = batch * seq_len * spec.vocab_size
    scores = batch * spec.n_heads * seq_len * seq_len
    backward = sum(term.n_bytes for term in kept(spec, batch, seq_len)) + FLOAT32 * (6 * logits + 4 * scores)
    at_work = 3 * FLOAT32 * spec.vocab_size * spec.d_model
    return 3 * gradient_bytes(spec) + at_work + max(state_bytes(spec, optimizer), backward)


#: Where copies are, what they are, elements of one copy, tensors of one copy, bytes of one element.
_Kept: TypeAlias = "tuple[Literal['once', 'block', 'dense', 'experts'], str, str, int | None, int]"


def _kept(spec: ModelSpec) -> Iterator[_Kept]:
    yield "once", "token ids, for the look-up", "B·n", 1, INT64
    if spec.embed_norm:
        yield "once", f"embedding sum, and its norm's {_statistics(spec)}", _of_norms(spec, 1, inputs=1), 3, FLOAT32
    if spec.dropout:
        yield "once", "dropout mask of the embedding", "B·n·d", 1, FLOAT32
    if spec.positions == "relative":
        yield "once", "buckets of the relative bias", "n²", 1, INT64
    yield from _kept_by_attention(spec)
    if not spec.n_experts or spec.n_dense_layers:
        title, tensors = _hidden(spec)
        yield ("dense", title, _many(tensors, "B·n·d_ff"), tensors, FLOAT32)
    if spec.n_experts:
        yield from _kept_by_experts(spec)
    n_norms = {"sandwich": 4, "parallel_one_norm": 1}.get(spec.placement, 2)
    title = (
        f"{_statistics(spec)} of {('one', 'two', '', 'four')[n_norms - 1]} {norm_in_words(spec)}{'s' * (n_norms > 1)}"
    )
    yield "block", title, _of_norms(spec, n_norms), 2 * n_norms, FLOAT32
    if spec.positions == "rope":
        plain = spec.rope_dim == spec.d_head and spec.d_attn == spec.d_model
        yield "block", "cos and sin that turn Q and K", f"2·n·{'d/h' if plain else spec.rope_dim}", 4, FLOAT32
    if spec.dropout:
        yield "block", "dropout masks of both sublayers", "2·B·n·d", 2, FLOAT32
        yield "block", "mask of the weights, and its product", "2·B·h·n²", 2, FLOAT32
    yield "once", "output of the last block", "B·n·d", 1, FLOAT32
    if spec.final_norm:
        ln = "LN" if spec.norm == "layernorm" else "RMS norm"
        yield "once", f"final {ln}: output, {_statistics(spec, ', ')}", _of_norms(spec, 1, inputs=1), 3, FLOAT32
    yield "once", "log-probabilities", "B·(n − 1)·V", 1, FLOAT32
    yield "once", "targets", "B·(n − 1)", 1, INT64
    yield "once", "number of predictions", "1", 1, FLOAT32


def _kept_by_attention(spec: ModelSpec) -> Iterator[_Kept]:
    """The inputs of each product, of which the stream's are the norms' inputs and outputs."""
    ln = "LN" if spec.norm == "layernorm" else "RMS"
    stream, n_stream = {
        "pre": (f"X, {ln}1, U, {ln}2", 4),
        "post": ("X, U and both sums", 4),
        "sandwich": (f"X, {ln}1, attn.out, U, {ln}2, mlp.out", 6),
        "parallel": (f"X, {ln}1, {ln}2", 3),
        "parallel_one_norm": (f"X, {ln}1", 2),
    }[spec.placement]
    heads = "Q, K, V, concat" if spec.n_kv_heads == spec.n_heads else "Q, K and V for each of its heads, concat"
    if spec.d_attn == spec.d_model:
        yield "block", f"{stream}, {heads}", f"{n_stream + 4}·B·n·d", n_stream + 4, FLOAT32
    else:
        yield "block", stream, f"{n_stream}·B·n·d", n_stream, FLOAT32
        yield "block", heads, "4·B·n·h·d_head", 4, FLOAT32
    if spec.qk_norm:
        each = "2·d_head + 1" if spec.norm == "rmsnorm" else "d_head + 2"
        title = f"Q and K before their norms, {_statistics(spec)}"
        yield "block", title, f"B·n·(h + h_kv)·({each})", 6, FLOAT32
    yield "block", "attention weights", "B·h·n²", 1, FLOAT32


def _kept_by_experts(spec: ModelSpec) -> Iterator[_Kept]:
    """Rows sorted by expert, what each expert keeps of its own, and how they come back."""
    title, tensors = _hidden(spec)
    yield "experts", "gates", "B·n·k", 1, FLOAT32
    yield "experts", "ids of the chosen experts, their order and back", "3·B·n·k", 3, INT64
    yield "experts", "rows of the experts, and their outputs", "2·B·n·k·d", 2, FLOAT32
    yield "experts", f"{title}, of the chosen experts", _many(tensors, "B·n·k·d_expert"), None, FLOAT32
    if spec.n_shared_experts:
        formula = _many(spec.n_shared_experts * tensors, "B·n·d_expert")
        yield "experts", f"{title}, of the shared expert", formula, tensors, FLOAT32


def _hidden(spec: ModelSpec) -> tuple[str, int]:
    """What an MLP keeps as wide as its hidden layer, and how many tensors that is."""
    if spec.gated:
        return "gate, its activation, hidden, activated", 4
    if spec.activation == "relu":
        return "activated", 1  # where it is positive, so was hidden
    return "hidden and activated", 2


def _many(number: int, formula: str) -> str:
    return formula if number == 1 else f"{number}·{formula}"


def _statistics(spec: ModelSpec, between: str = " and ") -> str:
    """What a norm keeps besides its input: an RMS norm, which torch computes in parts, its output before the gain."""
    return between.join(("mean", "1/σ") if spec.norm == "layernorm" else ("x/RMS", "1/RMS"))


def _of_norms(spec: ModelSpec, number: int, inputs: int = 0) -> str:
    """Elements of the statistics of so many norms, and of an input or output of one of them."""
    if spec.norm == "layernorm":
        return "B·n·(d + 2)" if inputs else f"{2 * number}·B·n"
    return "B·n·(2d + 1)" if inputs else _many(number, "B·n·(d + 1)")
