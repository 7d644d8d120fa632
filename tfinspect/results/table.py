"""Tables as plain values: titles, columns with a kind, rows. Any renderer draws them; none is known here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal, TypeAlias

__all__ = ["Cell", "Column", "Given", "Kind", "Role", "Row", "Shades", "Table"]

Kind = Literal["text", "shape", "formula", "count", "bytes", "binary", "share", "real", "bar", "shades"]
"""How a renderer writes a cell.

text, shape, formula: str as it is.  count, bytes: int with separators.  binary: int as KiB, MiB and so on.
share: a fraction of one, as a percentage.  real: float, four significant digits.
bar: a tuple of (label, weight) pairs, drawn as a bar of that many parts.
shades: `Shades`, one shaded place for each.
"""

Role = Literal["row", "group", "fold", "subtotal", "total"]
"""group: a heading over rows, its text in the first cell.  fold: stands for rows that are not shown."""

Cell: TypeAlias = "str | int | float | tuple[tuple[str, float], ...] | Shades | None"


class Given(str):
    """A title or a heading with a user's own text in it: never respelled where an encoding is poor, only escaped."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True)
class Shades:
    """Parts of one, side by side; None for a place that has none."""

    parts: tuple[float | None, ...]


@dataclasses.dataclass(frozen=True)
class Column:
    """One column."""

    key: str
    """Key of the cell in `Row.cells`."""
    title: str
    """What a reader sees above it, unit included."""
    kind: Kind = "text"
    keep: int = 0
    """Columns of the lowest keep leave first where the page is too narrow; 9 never leaves."""
    data_only: bool = False
    """Whether it is for data frames alone, such as a path whose last part the page shows: never drawn, never first."""

    @property
    def numeric(self) -> bool:
        """Whether its cells are numbers, which stand to the right."""
        return self.kind in ("count", "bytes", "binary", "share", "real")


@dataclasses.dataclass(frozen=True)
class Row:
    """One row: cells by column key; a key that is absent is an empty cell."""

    cells: Mapping[str, Cell]
    role: Role = "row"
    indent: int = 0
    """Depth of the first cell, two spaces each."""


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows under columns, with a title above and notes below."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def drawn(self) -> tuple[Column, ...]:
        """The columns that a page shows."""
        return tuple(column for column in self.columns if not column.data_only)
