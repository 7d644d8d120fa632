"""Tables and paragraphs for a terminal, aligned at any width.

A page that is too narrow for a table is met in this order: titles of columns wrap and shapes close up, bars and shades
shrink, cells of long text wrap; then whole columns leave, those of the lowest `keep` first and from the right; then all
text wraps and shades are cut. Numbers never wrap and are never cut.

rich knows how wide a character is, and writes the styles where the page has any. It is given text and a style, never
markup: ``[b]`` and ``:smile:`` stay.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TextIO

from rich.cells import cell_len, chop_cells

from tfinspect.render import numbers
from tfinspect.render.page import escaped, page_width, spelled, styled
from tfinspect.results.table import Cell, Column, Given, Row, Shades, Table

__all__ = ["Page"]

GAP: Final = 2
"""Cells between two columns."""
PROSE: Final = 100
"""Sentences are no wider than this on any page: longer lines are hard to read."""
LONG_TEXT: Final = 32
"""Text wider than this wraps before a column leaves."""
SHORT_TEXT: Final = 8
"""No text column is made narrower than this."""
BAR: Final = (12, 24)
"""Narrowest and natural width of a bar."""
PARTS: Final = "█░▓▒"
"""What the parts of a bar are drawn with, in turn: to be told apart without colour."""
SHADES: Final = ((0.5, "█"), (0.2, "▓"), (0.05, "▒"), (0.0, "░"))
"""From which part of one on a place is drawn so dark."""
NO_SHADE: Final = "-"
TICKS: Final = 5
"""Places from one number above shades to the next."""
NAMED: Final = 8
"""Columns that are left out are named up to so many."""

_STYLES: Final = {"group": "bold", "fold": "dim", "subtotal": "bold", "total": "bold"}


class Line(NamedTuple):
    """One line of a page, with one style."""

    text: str
    style: str = ""


class Page:
    """A stream that tables and paragraphs are drawn on."""

    def __init__(self, stream: TextIO, width: int | None = None) -> None:
        self.stream = stream
        self.width = page_width() if width is None else width
        self.encoding = getattr(stream, "encoding", None)
        self.styled = styled(stream)

    def write(self, lines: Iterable[Line]) -> None:
        """Write lines, and see them on their way at once."""
        if self.styled:
            self._write_styled(lines)
        else:
            self.stream.writelines(f"{line.text}\n" for line in lines)
        self.stream.flush()

    def paragraph(self, text: str, hanging: int = 0, style: str = "") -> list[Line]:
        """Sentences, wrapped; each line after the first begins with so many spaces."""
        width = min(self.width, PROSE)
        first, *rest = wrapped(self.carried(text), width, width - hanging)
        return [Line(first, style), *(Line(" " * hanging + line, style) for line in rest)]

    def carried(self, text: str) -> str:
        """Text as this page can carry it: a user's own is escaped, tfinspect's own words are spelled."""
        return escaped(text, self.encoding) if isinstance(text, Given) else spelled(escaped(text, None), self.encoding)

    def table(self, table: Table) -> list[Line]:
        """A table with its title above and its notes below."""
        return list(_Layout(self, table).lines())

    def _write_styled(self, lines: Iterable[Line]) -> None:
        from rich.console import Console
        from rich.text import Text

        console = Console(
            file=self.stream, width=self.width, force_terminal=True, force_jupyter=False, no_color=False,
            color_system="standard", markup=False, emoji=False, highlight=False,
        )  # fmt: skip
        for line in lines:
            console.print(Text(*line), soft_wrap=True)


def wrapped(text: str, width: int, rest: int | None = None) -> list[str]:
    """Lines of at most width cells (the later ones: rest), broken at spaces, inside a word only where it is longer.

    At least one line; joined with the spaces they were broken at, they are the text again.
    """
    lines, line, limit = [], "", width
    for word in re.findall(r"\s*\S+|\s+$", text):
        if cell_len(line + word) <= limit:
            line += word
            continue
        if line:
            lines.append(line)
            word, limit = word.lstrip(), width if rest is None else rest
        *full, line = chop_cells(word, max(2, limit)) or [""]
        lines += full
        if full:
            limit = width if rest is None else rest
    return [*lines, line] if line or not lines else lines


@dataclasses.dataclass
class _Drawn:
    """A column and its cells as text."""

    column: Column
    title: str
    cells: list[str]
    width: int = 0
    places: int = 0
    """Most places of a cell of shades."""

    @property
    def numeric(self) -> bool:
        return self.column.numeric

    @property
    def longest_word(self) -> int:
        return max((cell_len(word) for word in self.title.split()), default=0)

    @property
    def widest_cell(self) -> int:
        return max(map(cell_len, self.cells), default=0)


class _Layout:
    """One table on one page: which columns show, how wide, and then the lines."""

    def __init__(self, page: Page, table: Table) -> None:
        self.page, self.table = page, table
        self.drawn = [self._drawn(position, column) for position, column in enumerate(table.drawn)]
        self.hidden: list[Column] = []
        self._fit()

    def lines(self) -> Iterator[Line]:
        if self.table.title:
            yield from self.page.paragraph(self.table.title, style="bold")
        if any(drawn.title for drawn in self.drawn):
            yield from self._joined([wrapped(d.title, d.width) for d in self.drawn], "", bottom=True)
        if any(drawn.places for drawn in self.drawn):
            yield from self._joined([[_ticks(d)] for d in self.drawn], "")
        yield self._rule(self.drawn)
        for at, row in enumerate(self.table.rows):
            yield from self._row(at, row)
        yield from self._legend()
        notes = list(self.table.notes)
        if self.hidden:
            names = [column.title or column.key for column in self.table.columns if column in self.hidden]
            which = ", ".join(names) if len(names) <= NAMED else f"{names[0]} to {names[-1]}"
            columns = "column" if len(self.hidden) == 1 else "columns"
            notes.append(f"({columns} left out: {which}; a wider terminal or --json shows more)")
        for drawn in self.drawn:
            if drawn.width < drawn.places:
                notes.append(f"({drawn.width} of {drawn.places} places drawn; a wider terminal or --json shows more)")
        if notes:
            yield Line("")
        for note in notes:
            yield from self.page.paragraph(note)

    # Width: each step is taken only while the table is wider than the page.

    def _fit(self) -> None:
        while True:
            for drawn in self.drawn:
                drawn.width = max(cell_len(drawn.title), drawn.widest_cell)
            if self._excess() > 0:
                for drawn in self.drawn:
                    if drawn.column.kind == "shape":
                        drawn.cells = [cell.replace(", ", ",") for cell in drawn.cells]
                    drawn.width = max(drawn.longest_word, drawn.widest_cell)
            self._shrink([d for d in self.drawn if d.column.kind == "bar"], BAR[0])
            for drawn in self.drawn:
                self._shrink([drawn] if drawn.places else [], drawn.places)
            self._shrink([d for d in self.drawn if d.column.kind == "text"], LONG_TEXT)
            if self._excess() <= 0 or (leaving := self._next_to_leave()) is None:
                break
            self.drawn.remove(leaving)
            self.hidden.append(leaving.column)
        self._shrink([d for d in self.drawn if not d.numeric], SHORT_TEXT)

    def _excess(self) -> int:
        return sum(d.width for d in self.drawn) + GAP * (len(self.drawn) - 1) - self.page.width

    def _shrink(self, columns: Sequence[_Drawn], least: int) -> None:
        """Take the excess from the widest of these columns, none below the least or below a word of its title."""
        while (excess := self._excess()) > 0:
            able = [d for d in columns if d.width > max(least, d.longest_word)]
            if not able:
                return
            widest = max(able, key=lambda d: d.width)
            second = max((d.width for d in able if d is not widest), default=0)
            floor = max(least, widest.longest_word, min(second, widest.width - 1))
            widest.width = max(widest.width - excess, floor)

    def _next_to_leave(self) -> _Drawn | None:
        able = [d for d in self.drawn[1:] if d.column.keep < 9]
        return min(reversed(able), key=lambda d: d.column.keep, default=None)

    # Text: cells, rows, rules.

    def _drawn(self, position: int, column: Column) -> _Drawn:
        cells = []
        places = 0
        for row in self.table.rows:
            cell = row.cells.get(column.key)
            places = max(places, len(cell.parts) if isinstance(cell, Shades) else 0)
            text = self._text(cell, column, row)
            if position == 0:
                text = "  " * row.indent + text
            cells.append("" if position == 0 and self._spans(row) else text)
        return _Drawn(column, spelled(column.title, self.page.encoding), cells, places=places)

    def _text(self, cell: Cell, column: Column, row: Row) -> str:
        if cell is None:
            return ""
        if isinstance(cell, tuple):  # this and shades are drawn anew once the width of the column is known
            return "█" * BAR[1]
        if isinstance(cell, Shades):
            return "█" * 2 * len(cell.parts)
        if isinstance(cell, str):
            return self.page.carried(Given(cell) if column.kind == "text" and row.role == "row" else cell)
        return numbers.figure(cell, column.kind)

    def _spans(self, row: Row) -> bool:
        """A heading or a fold with nothing beside it runs over the whole table."""
        first = self.table.columns[0].key
        beside = (cell for key, cell in row.cells.items() if key != first)
        return row.role in ("group", "fold") and all(cell in (None, "") for cell in beside)

    def _row(self, at: int, row: Row) -> Iterator[Line]:
        style = _STYLES.get(row.role, "")
        if row.role == "group" and at > 0:
            yield Line("")
        if row.role == "total":
            yield self._rule(self.drawn)
        if row.role == "subtotal":
            yield self._rule([d for d in self.drawn if d.numeric and d.cells[at]])
        if self._spans(row):
            indent = "  " * row.indent
            text = self._text(row.cells.get(self.table.columns[0].key), self.table.columns[0], row)
            width = self.page.width - len(indent)
            yield from (Line(indent + line, style) for line in wrapped(text, width))
            return
        cells = [
            self._bar(row.cells[d.column.key], d.width) if d.column.kind == "bar" and d.cells[at]
            else [self._shaded(cell, d)] if isinstance(cell := row.cells.get(d.column.key), Shades)
            else wrapped_indented(d.cells[at], d.width)
            for d in self.drawn
        ]  # fmt: skip
        yield from self._joined(cells, style)

    def _bar(self, cell: Cell, width: int) -> list[str]:
        """A bar of that many cells, its parts as long as their weights; ends are rounded, so that they always meet."""
        parts = cell if isinstance(cell, tuple) else ()
        so_far: float = 0  # an integer while the weights are, whatever their size
        total, bar = sum(weight for _, weight in parts), ""
        for at, (_, weight) in enumerate(parts if total else ()):
            so_far += weight
            bar += PARTS[at % len(PARTS)] * (round(width * (so_far / total)) - len(bar))
        return [spelled(bar, self.page.encoding)]

    def _shaded(self, cell: Shades, drawn: _Drawn) -> str:
        """One or two characters for each place, as many as fit."""
        marks = (NO_SHADE if part is None else next(mark for least, mark in SHADES if part >= least or not least)
                 for part in cell.parts[: drawn.width])  # fmt: skip
        return spelled("".join(mark * _per_place(drawn) for mark in marks), self.page.encoding)

    def _legend(self) -> Iterator[Line]:
        """What the parts of the bars and the shades are, once below the table."""
        for drawn in self.drawn:
            if drawn.places:
                (*darker, (_, lightest)) = SHADES
                words = [f"{lightest} less", *(f"{mark} from {least:.0%}" for least, mark in reversed(darker))]
                yield from self.page.paragraph("   ".join(words))
            if drawn.column.kind == "bar":
                labels = dict.fromkeys(
                    (at, label)
                    for row in self.table.rows
                    if isinstance(cell := row.cells.get(drawn.column.key), tuple)
                    for at, (label, _) in enumerate(cell)
                )
                yield from self.page.paragraph("   ".join(f"{PARTS[at % len(PARTS)]} {label}" for at, label in labels))

    def _joined(self, cells: Sequence[list[str]], style: str, bottom: bool = False) -> Iterator[Line]:
        """Lines of one row: cells side by side, numbers to the right."""
        height = max(map(len, cells))
        for level in range(height):
            line = ""
            for drawn, lines in zip(self.drawn, cells, strict=True):
                at = level - (height - len(lines)) if bottom else level
                text = lines[at] if 0 <= at < len(lines) else ""
                padding = " " * (drawn.width - cell_len(text))
                line += (padding + text if drawn.numeric else text + padding) + " " * GAP
            yield Line(line.rstrip(" "), style)

    def _rule(self, under: Sequence[_Drawn]) -> Line:
        """A line along these columns; one line over the whole table where they are all of it."""
        dash = spelled("─", self.page.encoding)
        widths = [d.width for d in self.drawn]
        if len(under) == len(self.drawn):
            return Line(dash * min(sum(widths) + GAP * (len(widths) - 1), self.page.width), "dim")
        marks = (dash * d.width if d in under else " " * d.width for d in self.drawn)
        return Line((" " * GAP).join(marks).rstrip(), "dim")


def _per_place(drawn: _Drawn) -> int:
    return 2 if drawn.width >= 2 * drawn.places else 1


def _ticks(drawn: _Drawn) -> str:
    """The numbers of every few places of shades, from 0."""
    wide = _per_place(drawn)
    shown = range(0, min(drawn.places, drawn.width), TICKS)
    return "".join(f"{place:<{TICKS * wide}}" for place in shown).rstrip()


def wrapped_indented(text: str, width: int) -> list[str]:
    """Wrapped text whose later lines keep the indent of the first."""
    body = text.lstrip(" ")
    indent = text[: len(text) - len(body)] if cell_len(text) > width else ""
    if not indent:
        return wrapped(text, width)
    return [indent + line for line in wrapped(body, max(2, width - len(indent)))]
