"""What one attention head looks at: scores, mask and weights of each text, and the entropy of each row.

A row is a position that asks (query), a column a position that answers (key). Both count from 0.

Units:  entropy in bits; a row that sees n positions has at most log2(n).
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from typing import Any, ClassVar, Final, TypeAlias

from tfinspect.results.agreement import Agreement
from tfinspect.results.report import Answer
from tfinspect.results.subject import Subject
from tfinspect.results.table import Cell, Column, Row, Shades, Table
from tfinspect.results.texts import Text
from tfinspect.results.tokens import CharPart, Token
from tfinspect.results.weights import Filled

__all__ = ["AttendedText", "Attention", "Matrix"]

Matrix: TypeAlias = tuple[tuple[float, ...], ...]

#: Positions that a table shows. JSON always has all.
SHOWN: Final = 32
#: Characters of a token beside its position.
LABEL: Final = 16


@dataclasses.dataclass(frozen=True)
class AttendedText:
    """One head on one text of T tokens; each matrix is [T, T]."""

    text: Text
    tokens: tuple[Token, ...]
    """The tokens with what they hold; empty where the ids are not GPT-2's."""
    products: Matrix
    """Q·Kᵀ/√d_head, before the mask."""
    mask: Matrix
    """What is added: 0 (−slope·distance under ALiBi, or the relative bias) where a position may look, elsewhere −∞."""
    scores: Matrix
    """The products with the mask; −∞ where it is."""
    weights: Matrix
    """Softmax of the scores, row by row; exactly 0 where the mask is −∞."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What each token holds, in a few characters, or its id where that is all that is known."""
        return tuple(token.brief() for token in self.tokens) or tuple(f"id {i}" for i in self.text.ids)

    @property
    def entropies(self) -> tuple[float, ...]:
        """−Σ w·log2(w) of each row, in bits: 0 where one position takes all."""
        return tuple(math.fsum(-w * math.log2(w) for w in row if w > 0) for row in self.weights)

    @property
    def n_seen(self) -> tuple[int, ...]:
        """How many positions each row may look at: i + 1 in row i of a causal decoder."""
        return tuple(sum(map(math.isfinite, row)) for row in self.mask)

    @property
    def largest_entropies(self) -> tuple[float, ...]:
        """log2 of the positions that a row may look at, in bits: what equal weights would have."""
        return tuple(map(math.log2, self.n_seen))

    @property
    def seen_weights(self) -> tuple[tuple[float | None, ...], ...]:
        """The weights; None where the mask is −∞."""
        return tuple(
            tuple(weight if math.isfinite(masked) else None for weight, masked in zip(*rows, strict=True))
            for rows in zip(self.weights, self.mask, strict=True)
        )


@dataclasses.dataclass(frozen=True)
class Attention(Answer):
    """One attention head on some texts, each text by itself."""

    schema: ClassVar[str] = "tfinspect.attention/1"
    main_table: ClassVar[int] = 2  # the weights

    subject: Subject
    layer: int
    """Which block, from 0."""
    head: int
    """Which of its heads, from 0."""
    texts: tuple[AttendedText, ...]
    seed: int
    """Seed of the weights, where they are random."""
    filled: Filled = dataclasses.field(default_factory=Filled)
    """Where the numbers of the parameters come from, and their format."""
    positions_shown: int = SHOWN
    """Positions that a table shows; JSON always has all."""
    agreements: tuple[Agreement, ...] = ()

    @property
    def dtype(self) -> str:
        """Number format of the torch model."""
        return self.filled.dtype

    @property
    def key_head(self) -> int:
        """Which head of keys and values it reads, from 0."""
        spec = self.subject.spec
        return self.head * spec.n_kv_heads // spec.n_heads

    @property
    def product(self) -> str:
        """What stands before the mask, in letters."""
        return "Q·Kᵀ/√d_head" if self.subject.spec.scale_scores else "Q·Kᵀ"

    @property
    def conventions(self) -> str:
        """The spec, the head, and what rows and columns are."""
        spec = self.subject.spec
        reads = f", which reads key head {self.key_head}" if spec.n_kv_heads != spec.n_heads else ""
        return (
            f"{self.subject.opening()}. Layer {self.layer}, head {self.head}{reads}; "
            f"{self.filled.words(self.seed)}. A row is a position that asks, a column one that answers; both count "
            f"from 0. weights = softmax({self.product} + mask), row by row."
        )

    def unfolded(self) -> Attention:
        """The same with every position in its tables."""
        return dataclasses.replace(self, positions_shown=sys.maxsize)

    def tables(self) -> tuple[Table, ...]:
        """For each text: scores before the mask, the mask, the weights, and the weights as shades with entropies."""
        return tuple(table for number in range(len(self.texts)) for table in self._tables(number))

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values: every cell of every matrix."""
        return {
            "conventions": self.conventions,
            "model": self.subject.to_dict(),
            "layer": self.layer,
            "head": self.head,
            "key_head": self.key_head,
            "seed": self.seed if self.filled.random else None,
            "dtype": self.dtype,
            "weights": self.filled.to_dict(),
            "texts": [
                {
                    "text": attended.text.text,
                    "ids": list(attended.text.ids),
                    "tokens": list(attended.labels),
                    "products": attended.products,
                    "mask": attended.mask,
                    "scores": attended.scores,
                    "weights": attended.weights,
                    "entropy_bits": list(attended.entropies),
                    "largest_entropy_bits": list(attended.largest_entropies),
                }
                for attended in self.texts
            ],
        }

    def _tables(self, number: int) -> tuple[Table, ...]:
        attended, most = self.texts[number], self.positions_shown
        of = f" of text {number + 1}" if len(self.texts) > 1 else ""
        return (
            _numbers(f"Scores{of} before the mask: {self.product}", attended, attended.products, most),
            _numbers(f"Mask{of}, added to them", attended, attended.mask, most, infinite="−∞"),
            _numbers(
                f"Weights{of}: softmax of each row",
                attended,
                attended.seen_weights,
                most,
                notes=(f"- is {self._hidden()}: masked, its weight is exactly 0.",) if self._hidden() else (),
            ),
            _shades(f"Weights{of} as shades, and the entropy of each row", attended, most, self._shade_note()),
        )

    def _hidden(self) -> str:
        """What a row does not see; nothing in an encoder."""
        spec = self.subject.spec
        if not spec.causal:
            return ""
        window = spec.window_of(self.layer)
        return f"a later position, or one beyond the last {window:,}" if window else "a later position"

    def _shade_note(self) -> str:
        """What the shades and the largest entropies say."""
        spec = self.subject.spec
        dash = f"- is {self._hidden()}. " if self._hidden() else ""
        if not spec.causal:
            spread = "Each row spreads over all n positions and has at most log2(n) bits."
        elif spec.window_of(self.layer):
            spread = "A row that sees n positions has at most log2(n) bits."
        else:
            spread = "Row i spreads over i + 1 positions and has at most log2(i + 1) bits."
        random = " The model's parameters are random, so the pattern means nothing; mask and sums hold for any."
        return f"{dash}{spread}{random if self.filled.random else ''}"


def _numbers(
    title: str,
    attended: AttendedText,
    matrix: Sequence[Sequence[float | None]],
    most: int,
    infinite: str = "",
    notes: tuple[str, ...] = (),
) -> Table:
    """A matrix in figures; a cell without one is a position that its row does not see."""
    n = min(len(matrix), most)
    columns = (Column("row", "", keep=9), *(Column(f"key{j}", str(j), "real", keep=5) for j in range(n)))
    rows = []
    for label, values in zip(_labels(attended, most), matrix, strict=False):
        cells: dict[str, Cell] = {
            f"key{j}": "-" if value is None else infinite if infinite and math.isinf(value) else value
            for j, value in enumerate(values[:n])
        }
        rows.append(Row({"row": label, **cells}))
    return Table(title, columns, tuple(rows), (*notes, *_left_out(attended, most)))


def _shades(title: str, attended: AttendedText, most: int, note: str) -> Table:
    n = min(len(attended.weights), most)
    columns = (
        Column("row", "", keep=9),
        Column("weights", "", "shades", keep=9),
        Column("entropy", "entropy, bits", "real", keep=9),
        Column("largest", "at most", "real", keep=8),
    )
    shades = [Shades(row[:n]) for row in attended.seen_weights[:n]]
    figures = zip(_labels(attended, most), shades, attended.entropies, attended.largest_entropies, strict=False)
    rows = tuple(Row(dict(zip(("row", "weights", "entropy", "largest"), cells, strict=True))) for cells in figures)
    notes = [note]
    if any(isinstance(part, CharPart) for token in attended.tokens for part in token.parts):
        notes.append("Beside a character, 1-2/3 says that the token holds bytes 1 to 2 of its 3.")
    return Table(title, columns, rows, (*notes, *_left_out(attended, most)))


def _labels(attended: AttendedText, most: int) -> list[str]:
    """Position and token of each row that is shown."""
    shown = attended.labels[:most]
    digits = len(str(len(shown) - 1))
    return [f"{i:>{digits}} {label if len(label) <= LABEL else label[:LABEL] + '...'}" for i, label in enumerate(shown)]


def _left_out(attended: AttendedText, most: int) -> tuple[str, ...]:
    n = len(attended.weights)
    return (f"Positions {most} to {n - 1:,} are not shown; --json has all.",) if n > most else ()
