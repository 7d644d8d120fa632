"""A table as a pandas data frame.

Its rows are those that stand for themselves: totals, subtotals and folds are sums of other rows, and would be counted
twice. Integers stay exact: int64, Int64 where a cell is empty, Python's own beyond 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tfinspect.errors import MissingExtra
from tfinspect.results.table import Shades, Table

if TYPE_CHECKING:
    from pandas import DataFrame, Series

__all__ = ["frame"]

#: Integers that 64 bits hold, and those that a float64 holds exactly.
_INT64: Final = range(-(2**63), 2**63)
_EXACT: Final = range(-(2**53), 2**53 + 1)

#: Words in the place of a number that stand for one; any other, such as "n/a", says that there is none.
_WORDS: Final = {"−∞": -math.inf}


def frame(table: Table) -> DataFrame:
    """The rows of a table as a data frame, its columns by key.

    Raises:  MissingExtra without pandas.
    """
    try:
        import pandas
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise MissingExtra(
            "a data frame needs pandas, which is not installed", 'pip install "tfinspect[pandas]" brings it'
        ) from None

    headings, heading = [], None
    rows = []
    for row in table.rows:
        if row.role == "group":
            heading = _plain(row.cells.get(table.columns[0].key))
        elif row.role == "row":
            rows.append(row)
            headings.append(heading)
    columns: dict[str, Series] = {}
    if any(heading is not None for heading in headings):
        columns["heading"] = pandas.Series(headings, dtype=object)
    if len({row.indent for row in rows}) > 1:
        columns["level"] = pandas.Series([row.indent for row in rows], dtype="int64")
    for column in table.columns:
        cells = [_plain(row.cells.get(column.key)) for row in rows]
        if column.numeric:
            cells = [_WORDS.get(cell) if isinstance(cell, str) else cell for cell in cells]
        columns[column.key] = pandas.Series(cells, dtype=_dtype(cells) if column.numeric else object)
    made = pandas.DataFrame(columns)
    made.attrs = {"title": str(table.title), "titles": {column.key: str(column.title) for column in table.columns}}
    return made


def _plain(cell: Any) -> Any:
    """A cell as a value of Python's own types."""
    if isinstance(cell, Shades):
        return cell.parts
    return str(cell) if isinstance(cell, str) else cell


def _dtype(cells: Sequence[Any]) -> Any:
    """The narrowest type that holds these numbers exactly."""
    known = [cell for cell in cells if cell is not None]
    if all(type(cell) is int for cell in known):
        if not all(cell in _INT64 for cell in known):
            return object
        return "int64" if len(known) == len(cells) else "Int64"
    exact = all(isinstance(cell, float) or (type(cell) is int and cell in _EXACT) for cell in known)
    return "float64" if exact else object
