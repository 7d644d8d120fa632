"""How work grows with n: the two parts of a block, where they are equal, what doubling costs, and a range of n."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any, Final

from tfinspect.results.table import Cell, Column, Row, Table

__all__ = ["Growth", "SweepPoint", "exact", "if_any", "sweep_table", "whole"]

#: Most letters of a formula in a column; a longer one stands below the table.
_LONG: Final = 25


@dataclasses.dataclass(frozen=True)
class Growth:
    """How the work of a block and of the model grows with n."""

    block: str
    """Which block is meant: "block", "block with experts", "decoder block" ..."""
    linear: int
    """Multiplications of one such block that grow with n."""
    quadratic: int
    """Multiplications of its self-attention, QKᵀ and weights·V, which grow with n²."""
    source: int
    """Multiplications of its cross-attention that hang on the length of a source; 0 for none."""
    window: int
    """Keys that a position sees in such a block, where attention counts by its window; 0 for all before it."""
    block_formula: str
    linear_formula: str
    quadratic_formula: str
    source_formula: str
    ratio_formula: str
    ratio: Fraction
    """Quadratic over linear part of a block."""
    crossover_formula: str
    """Empty where the parts are never equal."""
    crossover: int | Fraction | None
    """n at which the two parts are equal, an integer where it is one; None where they never are."""
    at_crossover: int | Fraction | None
    """Multiplications of either part of a block at the crossover."""
    doubling_formula: str
    """Empty where T(2n)/T(n) has no short form."""
    block_doubling: Fraction | None
    """T(2n)/T(n) of a block; None at n = 0."""
    model_doubling: Fraction | None
    """T(2n)/T(n) of the model with its head; None at n = 0."""

    @property
    def total(self) -> int:
        """Multiplications of one block."""
        return self.linear + self.quadratic + self.source

    def to_dict(self) -> dict[str, Any]:
        """The block, for JSON: integers exact, fractions as the nearest number."""
        return {
            "block": self.block,
            "multiplications": self.total,
            "formula": self.block_formula,
            "linear_formula": self.linear_formula,
            "linear_multiplications": self.linear,
            "quadratic_formula": self.quadratic_formula,
            "quadratic_multiplications": self.quadratic,
            "source_formula": self.source_formula if self.source else None,
            "source_multiplications": self.source,
            "quadratic_over_linear": exact(self.ratio),
            "crossover_formula": self.crossover_formula or None,
            "crossover_seq_len": if_any(self.crossover),
            "multiplications_at_crossover": if_any(self.at_crossover),
            "doubling_ratio": if_any(self.block_doubling),
        }

    def table(self, seq_len: int, n_ctx: int) -> Table:
        """Both parts at n, their ratio, the crossover, and the cost of doubling n."""
        lines: list[tuple[str, str, Mapping[str, Cell]]] = [
            ("linear part", self.linear_formula, {"count": self.linear}),
            ("quadratic part", self.quadratic_formula, {"count": self.quadratic}),
            ("with the source", self.source_formula, {"count": self.source}),
            ("quadratic / linear", self.ratio_formula, {"real": exact(self.ratio)}),
            ("quadratic part of a block", "", {"real": self.quadratic / self.total if self.total else None}),
            ("crossover n*, parts equal", self.crossover_formula, {"count": self._place()}),
            ("T(2n)/T(n), block", self.doubling_formula, {"real": if_any(self.block_doubling)}),
            ("T(2n)/T(n), model", "", {"real": if_any(self.model_doubling)}),
        ]
        if self.source_formula == "0":
            del lines[2]
        if isinstance(self.crossover, int):
            either = f"either part at n* = {self.crossover:,}"
            lines.insert(-2, (either, "", {"count": exact(self.at_crossover or 0)}))
        rows = [
            Row({"what": what, "formula": formula if len(formula) <= _LONG else "", **cells})
            for what, formula, cells in lines
        ]
        long = [f"{what}: {formula}." for what, formula, _ in lines if len(formula) > _LONG]
        columns = (
            Column("what", f"one {self.block}", keep=9),
            Column("formula", "formula", "formula", keep=4),
            Column("count", "count", "count", keep=9),
            Column("real", "ratio", "real", keep=9),
        )
        return Table("Growth with n", columns, tuple(rows), (*self._notes(seq_len, n_ctx), *long))

    def _place(self) -> Cell:
        """Where the crossover is: a number, the two that it lies between, or nowhere."""
        if self.crossover is None or isinstance(self.crossover, int):
            return "none" if self.crossover is None else self.crossover
        return f"{floor(self.crossover):,} to {ceil(self.crossover):,}"

    def _notes(self, seq_len: int, n_ctx: int) -> tuple[str, ...]:
        lead = self.linear - self.quadratic
        notes = []
        if self.crossover is None:
            notes.append(
                f"Under a window of {self.window:,} keys attention grows with n as the matrices do, and never catches "
                "up with them: there is no n*."
            )
        elif lead == 0:
            notes.append(f"n = {seq_len:,}: both parts are equal.")
        else:
            side, part = ("below", "linear") if lead > 0 else ("above", "quadratic")
            notes.append(f"n = {seq_len:,} is {side} n*: the {part} part leads by {abs(lead):,} in each block.")
        if self.crossover is not None and self.crossover > n_ctx:
            notes.append(f"{self.stated()} is beyond the model's n_ctx = {n_ctx:,}.")
        if self.source_formula != "0":
            notes.append(
                "The quadratic part is self-attention; what hangs on the length m of the source is in neither part, "
                "and doubling n leaves m as it is."
            )
        return tuple(notes)

    def stated(self) -> str:
        """The crossover in words: "n* = 4,608", "n*, between 3,071 and 3,072,"; "no n*" where there is none."""
        if self.crossover is None:
            return "no n*"
        if isinstance(self.crossover, int):
            return f"n* = {self.crossover:,}"
        return f"n*, between {floor(self.crossover):,} and {ceil(self.crossover):,},"


@dataclasses.dataclass(frozen=True)
class SweepPoint:
    """The work at one n."""

    seq_len: int
    linear: int
    """Multiplications of one block that grow with n."""
    quadratic: int
    """Multiplications of one block that grow with n²."""
    multiplications: int
    """Multiplications of the whole model, head included."""

    def to_dict(self, n_ctx: int) -> dict[str, Any]:
        """The point, for JSON."""
        return {
            "seq_len": self.seq_len,
            "block_linear_multiplications": self.linear,
            "block_quadratic_multiplications": self.quadratic,
            "multiplications": self.multiplications,
            "flops": 2 * self.multiplications,
            "beyond_n_ctx": self.seq_len > n_ctx,
        }


def sweep_table(points: Sequence[SweepPoint], growth: Growth, n_ctx: int) -> Table:
    """Linear against quadratic part over n, with bars."""

    def row(point: SweepPoint) -> Row:
        mark = "n*" if point.seq_len == growth.crossover else ""
        beyond = "+" if point.seq_len > n_ctx else ""
        return Row(
            {
                "n": point.seq_len,
                "linear": point.linear,
                "quadratic": point.quadratic,
                "ratio": point.quadratic / point.linear,
                "bar": (("linear", point.linear), ("quadratic", point.quadratic)),
                "mark": mark + beyond,
            }
        )

    columns = (
        Column("n", "n", "count", keep=9),
        Column("linear", "linear", "count", keep=6),
        Column("quadratic", "quadratic", "count", keep=6),
        Column("ratio", "ratio", "real", keep=7),
        Column("bar", "linear | quadratic", "bar", keep=4),
        Column("mark", "", keep=9),
    )
    marked = "+ marks n beyond the model's n_ctx."
    if isinstance(growth.crossover, int):
        marked = f"The crossover n* = {growth.crossover:,} is marked n*; {marked}"
    elif growth.crossover is not None:
        marked = f"The crossover {growth.stated()} is no whole number; {marked}"
    notes = (f"Multiplications of one {growth.block}; ratio = quadratic / linear.", marked)
    return Table("Linear against quadratic over n", columns, tuple(map(row, points)), notes)


def whole(number: Fraction) -> int | Fraction:
    """The same number, as an integer where it is one."""
    return number.numerator if number.denominator == 1 else number


def exact(number: int | Fraction) -> int | float:
    """An integer where the number is one, else the nearest float."""
    return number.numerator if number.denominator == 1 else float(number)


def if_any(number: int | Fraction | None) -> int | float | None:
    """The same, or None for None."""
    return None if number is None else exact(number)
