"""Which conventions give a number that somebody else has: each as the steps that lead there from this model's own.

A reading is a figure of the model with what it counts: its parameters, the multiplications or the FLOPs of a forward
pass, and up to three conventions, each of which leaves something out, counts it twice, or counts in another unit. A
reading fits if it gives the number, to the digit where all digits are given. That a reading fits is arithmetic; that
somebody counted so is a guess, and the better the fewer conventions it needs.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal

from tfinspect.results.agreement import Agreement
from tfinspect.results.growth import exact
from tfinspect.results.report import Answer
from tfinspect.results.subject import Subject
from tfinspect.results.table import Cell, Column, Row, Table

__all__ = ["Convention", "Multiple", "Near", "Number", "Reading", "Reconciliation", "Step", "Unit"]

Unit = Literal["parameters", "bytes", "multiplications", "FLOPs"]

#: A number that is so many times another, or so small a part of it, is no share of it worth printing.
FAR: Final = 1_000

#: Most conventions that are combined; and where a number is rounded, by how much of it that leaves open.
FARTHEST: Final = 3
_FARTHEST: Final = ((Fraction(1, 500), 1), (Fraction(1, 10**6), 2))

#: Readings that the table shows.
SHOWN: Final = 12


@dataclasses.dataclass(frozen=True, slots=True)
class Convention:
    """A way to count that is not this project's own."""

    key: str
    """Its name for programs: "tied-head-twice"."""
    words: str
    """What is counted, in a clause."""
    source: str = ""
    """Who counts so, where somebody is known to."""


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One convention of a reading, and the figure once it is followed."""

    convention: Convention
    formula: str
    """What it adds or multiplies by, in letters: "+ V·d"; empty where that is no short formula."""
    figure: int | Fraction


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """One figure of the model, and how it is counted."""

    unit: Unit
    start: str
    """What is counted before any convention: "parameters, each counted once"."""
    own: int
    """That figure."""
    steps: tuple[Step, ...]

    @property
    def figure(self) -> int | Fraction:
        """The figure after all steps."""
        return self.steps[-1].figure if self.steps else self.own

    @property
    def keys(self) -> tuple[str, ...]:
        """The conventions by name."""
        return tuple(step.convention.key for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """The reading, for JSON."""
        return {
            "unit": self.unit,
            "figure": exact(self.figure),
            "start": self.start,
            "own": self.own,
            "conventions": [
                {
                    "key": step.convention.key,
                    "words": step.convention.words,
                    "source": step.convention.source or None,
                    "formula": step.formula or None,
                    "figure": exact(step.figure),
                }
                for step in self.steps
            ],
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Multiple:
    """A difference that is a whole number of times a known quantity."""

    times: int
    formula: str
    """The quantity in letters: "n_ctx²"."""
    quantity: int
    per_block: bool
    """Whether it is so many times as there are blocks."""

    @property
    def words(self) -> str:
        """ "12 x 1,048,576 (n_ctx², once in each block)"."""
        each = ", once in each block" if self.per_block else ""
        return f"{self.times:,} × {self.quantity:,} ({self.formula}{each})"


@dataclasses.dataclass(frozen=True, slots=True)
class Near:
    """A reading that does not give the number."""

    reading: Reading
    difference: int | Fraction
    """The number minus the reading; from its nearer end where a rounded number is an interval."""
    multiple: Multiple | None = None
    """What the difference is, where it is a known quantity."""


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """The number as it was typed, and what it can stand for."""

    text: str
    low: Fraction
    high: Fraction
    units: tuple[Unit, ...]
    """What it can count."""
    ratio: bool = False
    """Whether it is a multiple of this model's own figure."""

    @property
    def is_exact(self) -> bool:
        """Whether all digits are given."""
        return self.low == self.high

    @property
    def shown(self) -> str:
        """All digits in groups where they are given, and else as it was typed."""
        return f"{self.low.numerator:,}" if self.is_exact else self.text

    @property
    def farthest(self) -> int:
        """Most conventions that are combined: the fewer digits, the fewer, as enough of them round to anything."""
        spread = (self.high - self.low) / self.high
        return next((most for least, most in _FARTHEST if spread > least), FARTHEST)

    def bounds(self, own: int) -> tuple[Fraction, Fraction]:
        """The least and the greatest figure that it stands for, beside a figure of this model's own."""
        return (self.low * own, self.high * own) if self.ratio else (self.low, self.high)


@dataclasses.dataclass(frozen=True)
class Reconciliation(Answer):
    """Which conventions give a number, or that none is known to."""

    schema: ClassVar[str] = "tfinspect.reconciliation/1"
    main_table: ClassVar[int] = 1

    subject: Subject
    given: Number
    seq_len: int
    batch: int
    tokens: int | None
    """Training tokens D; None where none were given."""
    own: tuple[Reading, ...]
    """Parameters, multiplications and FLOPs as this project counts them."""
    readings: tuple[Reading, ...]
    """Those that give the number: fewest conventions first."""
    n_fitting: int
    """How many there are; `readings` has the first."""
    nearest: tuple[Near, ...] = ()
    """Where none fits: readings with at most one convention, the nearest first."""
    agreements: tuple[Agreement, ...] = ()

    @property
    def explained(self) -> bool:
        """Whether some reading gives the number."""
        return bool(self.readings)

    @property
    def confirmed(self) -> bool:
        """Whether the number is this project's own, with no convention in between."""
        return any(not reading.steps for reading in self.readings)

    @property
    def verdict(self) -> Literal["own", "explained", "unexplained"]:
        """own, explained (by a convention), or unexplained."""
        return "own" if self.confirmed else "explained" if self.explained else "unexplained"

    @property
    def conventions(self) -> str:
        """The spec, and what the number is compared with."""
        sequences = f", {self.batch:,} sequences" if self.batch != 1 else ""
        beyond = f", D = {self.tokens:,} training tokens" if self.tokens is not None else ""
        source = ", source and target alike" if self.subject.spec.architecture == "encoder_decoder" else ""
        return (
            f"{self.subject.opening()}. Work of one forward pass at n = {self.seq_len:,}{source}{sequences}{beyond}; "
            "1 multiplication = 2 FLOPs."
        )

    def tables(self) -> tuple[Table, ...]:
        """This model's own figures beside the number, then what gives the number, or what comes near."""
        return (self._own_table(), self._fitting_table() if self.explained else self._nearest_table())

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values."""
        return {
            "conventions": self.conventions,
            "model": self.subject.to_dict(),
            "number": {
                "text": self.given.text,
                "low": exact(self.given.low),
                "high": exact(self.given.high),
                "exact": self.given.is_exact,
                "ratio": self.given.ratio,
                "units": list(self.given.units),
            },
            "n": self.seq_len,
            "batch": self.batch,
            "tokens": self.tokens,
            "verdict": self.verdict,
            "own": [reading.to_dict() for reading in self.own],
            "n_fitting": self.n_fitting,
            "readings": [reading.to_dict() for reading in self.readings],
            "nearest": [
                {
                    **near.reading.to_dict(),
                    "difference": exact(near.difference),
                    "multiple": None
                    if near.multiple is None
                    else {
                        "times": near.multiple.times,
                        "formula": near.multiple.formula,
                        "quantity": near.multiple.quantity,
                        "per_block": near.multiple.per_block,
                    },
                }
                for near in self.nearest
            ],
        }

    def _own_table(self) -> Table:
        columns = (
            Column("quantity", "this model's own", keep=9),
            Column("figure", "figure", "count", keep=8),
            *(() if self.given.ratio else (Column("ratio", "the number is", "share", keep=5),)),
        )

        def row(reading: Reading) -> Row:
            low, high = self.given.bounds(reading.own)
            ratio = (low + high) / 2 / reading.own if reading.own else 0
            near = float(ratio) if Fraction(1, FAR) <= ratio <= FAR else None
            return Row({"quantity": reading.start, "figure": reading.own, "ratio": near})

        checked = "This model's own figures are closed forms; tfinspect params and tfinspect flops measure them too."
        remark = (self.subject.remark,) if self.subject.remark else ()
        notes = [*remark, checked, *self.subject.notes()]
        if not self.given.is_exact:
            low, high = (_digits(end) for end in (self.given.low, self.given.high))
            stands = f"{low} to {high} times the figure" if self.given.ratio else f"anything from {low} to {high}"
            notes.insert(0, f"{self.given.text} is rounded: it stands for {stands}.")
        return Table(
            f"{self.given.shown} beside {self.subject.title}", columns, tuple(map(row, self.own)), tuple(notes)
        )

    def _fitting_table(self) -> Table:
        in_letters = any(step.formula for reading in self.readings for step in reading.steps)
        columns = (
            Column("counted", "counted", keep=9),
            *((Column("formula", "in letters", "formula", keep=4),) if in_letters else ()),
            Column("figure", "figure", "count", keep=8),
        )
        rows: list[Row] = []
        for reading in self.readings[:SHOWN]:
            n_steps = len(reading.steps)
            away = "its own figure" if not n_steps else f"{_number(n_steps)} convention{'s' * (n_steps > 1)} away"
            rows.append(Row({"counted": f"{reading.unit}: {away}"}, "group"))
            rows.append(Row({"counted": reading.start, "figure": reading.own}, indent=1))
            rows += [
                Row(
                    {"counted": _sentence(step.convention), "formula": step.formula, "figure": _cell(step.figure)},
                    indent=1,
                )
                for step in reading.steps
            ]
        notes = [
            "A reading that fits is arithmetic; that somebody counted so is a guess, best with fewest conventions."
        ]
        left = self.n_fitting - min(len(self.readings), SHOWN)
        if left:
            notes.append(f"{left:,} more fit, with as many conventions or more.")
        if not self.given.is_exact:
            notes.append("A rounded number fits much; more conventions than it takes are not looked for.")
        return Table(f"What gives {self.given.shown}", columns, tuple(rows), tuple(notes))

    def _nearest_table(self) -> Table:
        columns = (
            Column("counted", "counted", keep=9),
            Column("figure", "figure", "count", keep=7),
            Column("difference", "difference", "count", keep=8),
        )
        rows: list[Row] = []
        for near in self.nearest:
            steps = [_sentence(step.convention) for step in near.reading.steps]
            words = f"{near.reading.unit}: {', '.join(steps) or 'its own figure'}"
            figure, difference = _cell(near.reading.figure), _cell(near.difference)
            rows.append(Row({"counted": words, "figure": figure, "difference": difference}))
            if near.multiple is not None:
                rows.append(Row({"counted": f"the difference is exactly {near.multiple.words}"}, indent=1))
        notes = (
            f"No convention that is known here gives the number{_nor(self.given.farthest)}. These come nearest; the "
            "difference is what the number has more.",
        )
        return Table(f"{self.given.shown} is unexplained", columns, tuple(rows), notes)


def _sentence(convention: Convention) -> str:
    return f"{convention.words} ({convention.source})" if convention.source else convention.words


def _nor(farthest: int) -> str:
    """What was looked for besides single conventions, and why no more."""
    if farthest == FARTHEST:
        return ", nor do two or three of them"
    with_two = ", nor do two" if farthest > 1 else ""
    return f"{with_two}; with so few digits, more of them together would fit by chance"


def _number(n: int) -> str:
    return ("no", "one", "two", "three", "four")[n] if n < 5 else str(n)


def _cell(figure: int | Fraction) -> Cell:
    """A figure as a cell: an integer where it is one, and else with two decimals."""
    fraction = Fraction(figure)
    return fraction.numerator if fraction.denominator == 1 else f"{float(fraction):,.2f}"


def _digits(figure: Fraction) -> str:
    """All digits of a decimal fraction, or the nearest float where they do not end."""
    if figure.denominator == 1:
        return f"{figure.numerator:,}"
    return f"{float(figure):,}"
