"""What one training step holds besides the parameters: gradients, optimizer state, and what backward needs.

A gradient has the size of its parameter. SGD remembers nothing, SGD with momentum one number per parameter, AdamW two
and a step counter per tensor. For backward, autograd keeps the inputs of products, norms and activations, the
attention weights and the log-probabilities. Attention runs equation by equation here, as the textbook writes it.

Units:  bytes; a float32 number has 4, a token id 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tfinspect.closed_form.formula import letters, value
from tfinspect.closed_form.params import ledger, n_tensors
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
    Agrees:  measured.train_step.train_step, exactly, in tensors and in bytes.
    """
    bound = letters(spec, batch=batch, seq_len=seq_len)
    return tuple(
        KeptTerm(title, formula, value(formula, bound), spec.n_layers if per_block else 1, tensors, width)
        for per_block, title, formula, tensors, width in _kept(spec)
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


def _kept(spec: ModelSpec) -> Iterator[tuple[bool, str, str, int, int]]:
    """(per block, what it is, elements of one copy, tensors of one copy, bytes of one element)."""
    yield False, "token ids, for the look-up", "B·n", 1, INT64
    if spec.dropout:
        yield False, "dropout mask of the embedding", "B·n·d", 1, FLOAT32
    norms = "X, LN1, U, LN2" if spec.placement == "pre" else "X, U and both sums"
    yield True, f"{norms}, Q, K, V, concat", "8·B·n·d", 8, FLOAT32
    yield True, "attention weights", "B·h·n²", 1, FLOAT32
    if spec.activation == "relu":
        yield True, "activated", "B·n·d_ff", 1, FLOAT32  # where it is positive, so was hidden
    else:
        yield True, "hidden and activated", "2·B·n·d_ff", 2, FLOAT32
    yield True, "mean and 1/σ of two layer norms", "4·B·n", 4, FLOAT32
    if spec.positions == "rope":
        yield True, "cos and sin that turn Q and K", "2·n·d/h", 4, FLOAT32
    if spec.dropout:
        yield True, "dropout masks of both sublayers", "2·B·n·d", 2, FLOAT32
        yield True, "mask of the weights, and its product", "2·B·h·n²", 2, FLOAT32
    yield False, "output of the last block", "B·n·d", 1, FLOAT32
    if spec.final_norm:
        yield False, "final LN: output, mean, 1/σ", "B·n·(d + 2)", 3, FLOAT32
    yield False, "log-probabilities", "B·(n − 1)·V", 1, FLOAT32
    yield False, "targets", "B·(n − 1)", 1, INT64
    yield False, "number of predictions", "1", 1, FLOAT32
