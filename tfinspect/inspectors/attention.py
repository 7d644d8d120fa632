"""One attention head on some texts: what the torch model makes, held against the definition and against NumPy."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tfinspect import tokenizer
from tfinspect.errors import InputError
from tfinspect.inspectors import batch
from tfinspect.presets import Preset
from tfinspect.results.agreement import Agreement
from tfinspect.results.attention import AttendedText, Attention, Matrix
from tfinspect.results.subject import Described, Subject
from tfinspect.results.texts import Text
from tfinspect.results.tokens import Token
from tfinspect.results.weights import EPSILON, Weights, require_dtype
from tfinspect.spec import ModelSpec

if TYPE_CHECKING:
    from tfinspect.measured.attention import Ran

__all__ = ["attention"]

#: Largest difference from NumPy's float64 that is rounding, where no score is beyond 1; else as a part of the largest.
#: Half precision loses up to 16 steps of its own on the way to a score.
TOLERANCE: Final = {
    "float32": 1e-5, "float64": 1e-10, "bfloat16": 16 * EPSILON["bfloat16"], "float16": 16 * EPSILON["float16"]
}  # fmt: skip
#: Largest distance of a row's sum from 1 that is rounding: sums of up to a few thousand weights. Each weight of half
#: precision is off by half a step of its size, so that their sum is by half a step of 1.
OF_A_SUM: Final = {
    "float32": 1e-6, "float64": 1e-12, "bfloat16": EPSILON["bfloat16"], "float16": EPSILON["float16"]
}  # fmt: skip


def attention(
    model: ModelSpec | Preset | Described,
    texts: Sequence[str | bytes] | str | bytes = (),
    *,
    ids: Sequence[Sequence[int]] = (),
    layer: int = 0,
    head: int = 0,
    seed: int = 0,
    dtype: str | None = None,
    allow_special: bool = False,
) -> Attention:
    """Scores, mask, weights and entropies of one self-attention head, on each text by itself.

    The pass is real, on the CPU: a model that comes with weights (`resolve` of a checkpoint) runs with them, in their
    own format or in dtype, any other with seeded GPT-2 initialisation. Texts may differ in length. An encoder masks
    nothing.

    Raises:  InputError for an encoder–decoder, a layer or head that the model does not have, no tokens, an id outside
             the vocabulary, more tokens than n_ctx, too little memory, or scores that are no numbers (layer norm
             without an epsilon).
    Agrees:  reference.forward, on scores and weights: to 1e-5 in float32, to 1e-10 in float64, of the largest score.

    >>> seen = tfinspect.attention(tfinspect.preset("tiny-568"), ids=[[3, 1, 4]], layer=1)
    >>> seen.texts[0].mask[1]
    (0.0, 0.0, -inf)
    """
    subject = Subject.of(model)
    spec = subject.spec
    if spec.architecture == "encoder_decoder":
        raise InputError(
            "attention looks at a model of one stack, and this one is an encoder-decoder",
            "choose an encoder or a decoder; tfinspect trace runs this one",
        )
    _one_of("layer", layer, spec.n_layers)
    _one_of("head", head, spec.n_heads)
    require_dtype(dtype)
    weights = Weights.of(model)
    rows = batch.rows(spec, texts, ids, allow_special, weights=weights)
    batch.seq_len(spec, rows, pad=True, nothing="nothing to attend to (0 tokens)")

    from tfinspect.measured import attention as measured

    ran = measured.run(spec, [row.ids for row in rows], layer=layer, head=head, seed=seed, given=weights, dtype=dtype)
    named = batch.knows_gpt2s_ids(spec, weights)
    attended = tuple(
        AttendedText(row, _tokens(row) if named else (), found.products, found.mask, found.scores, found.weights)
        for row, found in zip(rows, ran.heads, strict=True)
    )
    if any(math.isnan(score) for text in attended for row in text.scores for score in row):
        why = "give an --eps above 0" if weights is None else f"see tfinspect verify --weights {weights.path} finite"
        raise InputError(f"the scores of layer {layer}, head {head} are no numbers", why)
    report = Attention(subject, layer, head, attended, seed, ran.filled)
    return dataclasses.replace(report, agreements=tuple(_agreements(report, ran)))


def _one_of(what: str, given: object, n: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int):
        raise InputError(f"{what} (--{what}) must be an integer, not {given!r}")
    if not 0 <= given < n:
        raise InputError(f"--{what} {given}: there is no {what} {given}", f"{what}s go from 0 to {n - 1}")


def _tokens(row: Text) -> tuple[Token, ...]:
    """What ids of GPT-2's vocabulary hold, where its table has them all."""
    if max(row.ids) >= tokenizer.VOCAB_SIZE:
        return ()
    return tuple(tokenizer.Tokens(tokenizer.decode(row.ids), row.ids))


def _agreements(report: Attention, ran: Ran) -> Iterator[Agreement]:
    texts, spec = report.texts, report.subject.spec
    how = f"torch model on the CPU, {report.dtype}"
    window = spec.window_of(report.layer)
    yield Agreement(
        _masked_in_words(spec, window),
        sum(_n_masked(len(text.scores), window) for text in texts) if spec.causal else 0,
        sum(score == -math.inf for text in texts for row in text.scores for score in row),
        how,
    )
    if spec.causal:
        yield Agreement(
            "weights on a later position that are not exactly 0",
            0,
            sum(weight != 0 for text in texts for weight in _after_own(text.weights)),
            how,
        )
    if window:
        yield Agreement(
            "weights beyond the window that are not exactly 0",
            0,
            sum(weight != 0 for text in texts for weight in _beyond(text.weights, window)),
            how,
        )
    sums = (math.fsum(row) for text in texts for row in text.weights)
    yield Agreement(
        "largest |sum of a row of weights − 1|", 0, max(abs(s - 1) for s in sums), how, OF_A_SUM[report.dtype]
    )
    tolerance = TOLERANCE[report.dtype] * max(1.0, _largest(texts))
    added = [_distance(_sum(text.products, text.mask), text.scores) for text in texts]
    yield Agreement(f"largest |{report.product} + mask − score|", 0, max(added), how, tolerance)
    by_numpy = [_by_numpy(report, ran, text) for text in texts]
    how = f"{how}, against NumPy in float64"
    for name, number in (("score", 0), ("weight", 1)):
        apart = (
            _distance((text.scores, text.weights)[number], other[number])
            for text, other in zip(texts, by_numpy, strict=True)
        )
        yield Agreement(f"largest |{name} − NumPy's {name}|", 0, max(apart), how, tolerance)


def _by_numpy(report: Attention, ran: Ran, text: AttendedText) -> tuple[Matrix, Matrix]:
    """Scores and weights by the second implementation, from the same parameters."""
    import numpy as np

    from tfinspect import reference

    at = f"blocks.{report.layer}.attn"
    tensors = reference.named_tensors(report.subject.spec, ran.weights, np.array([text.text.ids]))
    scores, weights = itertools.islice((t for name, t in tensors if name in (f"{at}.scores", f"{at}.weights")), 2)
    return scores[0, report.head].tolist(), weights[0, report.head].tolist()


def _masked_in_words(spec: ModelSpec, window: int) -> str:
    if not spec.causal:
        return "masked scores, none in an encoder"
    return f"masked scores, all but the last {window:,} of each row" if window else "masked scores, T(T − 1)/2"


def _n_masked(n: int, window: int) -> int:
    """Pairs of n positions that the mask closes: those in the future, and those w or more back."""
    beyond = max(0, n - window) if window else 0
    return n * (n - 1) // 2 + beyond * (beyond + 1) // 2


def _beyond(matrix: Matrix, window: int) -> list[float]:
    """The cells that are so many columns, or more, before the diagonal."""
    return [cell for i, row in enumerate(matrix) for cell in row[: max(0, i - window + 1)]]


def _largest(texts: Sequence[AttendedText]) -> float:
    """The largest size of a product or score that is finite."""
    cells = (cell for text in texts for matrix in (text.products, text.scores) for row in matrix for cell in row)
    return max(abs(cell) for cell in cells if math.isfinite(cell))


def _after_own(matrix: Matrix) -> list[float]:
    """The cells above the diagonal."""
    return [cell for i, row in enumerate(matrix) for cell in row[i + 1 :]]


def _sum(one: Matrix, other: Matrix) -> Matrix:
    return tuple(tuple(map(sum, zip(*rows, strict=True))) for rows in zip(one, other, strict=True))


def _distance(one: Matrix, other: Matrix) -> float:
    """The largest difference of two cells; ∞ where one of them is masked and the other is not."""
    pairs = ((a, b) for rows in zip(one, other, strict=True) for a, b in zip(*rows, strict=True))
    return max(0.0 if a == b else abs(a - b) for a, b in pairs)
