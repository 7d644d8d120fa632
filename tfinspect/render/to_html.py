"""A report as HTML for a notebook: tables, notes, and whether second paths agree.

It has no scripts, no style sheet and nothing from elsewhere, and takes its colours from the page around it, light or
dark. Every text is escaped, and marked as no mathematics: a user's ``<b>`` and ``$x$`` are shown as they were typed.
A huge report is shown in part, and says what is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from tfinspect.render import numbers
from tfinspect.render.output import said
from tfinspect.render.page import escaped
from tfinspect.results.report import Report
from tfinspect.results.table import Cell, Column, Row, Shades, Table

__all__ = ["html"]

#: The most that is shown: rows of a report and of a table, of which so many are its last, columns, places of shades,
#: agreements, tables, and characters of one text.
REPORT_ROWS: Final = 1_000
ROWS, LAST_ROWS = 200, 20
COLUMNS: Final = 64
PLACES: Final = 64
AGREEMENTS: Final = 100
TABLES: Final = 100
CHARACTERS: Final = 1_000

#: How dark the parts of a bar are, in turn.
_PARTS: Final = (0.9, 0.25, 0.6, 0.4)

_TABLE: Final = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.8em 0 .2em"
_CAPTION: Final = "caption-side:top;text-align:left;font-weight:bold;color:inherit"
_ROLES: Final = {
    "row": "",
    "group": "font-weight:bold",
    "fold": "opacity:.7",
    "subtotal": "font-weight:bold",
    "total": "font-weight:bold;border-top:1px solid",
}


def html(report: Report) -> str:
    """The report as one element of a page, with the conventions first and the agreements last."""
    return "".join(_report(report))


def _report(report: Report) -> Iterator[str]:
    yield '<div class="tfinspect tex2jax_ignore mathjax_ignore">'
    yield f"<p>{_text(report.conventions)}</p>"
    tables = report.tables()
    left = REPORT_ROWS
    for at, table in enumerate(tables):
        if at >= TABLES or left <= 0:
            rest = len(tables) - at
            yield f"<p>({rest:,} of {len(tables):,} tables left out; tables() has them all)</p>"
            break
        rows = min(ROWS, left)
        left -= min(len(table.rows), rows)
        yield from _table(table, rows)
    yield from _agreements(report)
    yield "</div>"


def _table(table: Table, most: int) -> Iterator[str]:
    columns = table.drawn[:COLUMNS]
    yield f'<table style="{_TABLE}">'
    if table.title:
        yield f'<caption style="{_CAPTION}">{_text(table.title)}</caption>'
    if any(column.title for column in columns):
        titles = (f'<th scope="col"{_style(_align(column))}>{_text(column.title)}</th>' for column in columns)
        yield f"<thead><tr>{''.join(titles)}</tr></thead>"
    yield "<tbody>"
    head, tail = _ends(table.rows, most)
    for row in head:
        yield _row(row, columns)
    if missing := len(table.rows) - len(head) - len(tail):
        words = f"({missing:,} of {len(table.rows):,} rows left out; to_dataframe() and to_dict() have them all)"
        yield f'<tr style="{_ROLES["fold"]}"><td colspan="{len(columns)}"{_style("text-align:left")}>{words}</td></tr>'
    for row in tail:
        yield _row(row, columns)
    yield "</tbody></table>"
    for note in _notes(table):
        yield f'<div style="max-width:60em">{note}</div>'


def _ends(rows: Sequence[Row], most: int) -> tuple[Sequence[Row], Sequence[Row]]:
    """The first rows and the last, so many together; all of them as first where they are no more."""
    if len(rows) <= most:
        return rows, ()
    last = min(LAST_ROWS, most // 2)
    return rows[: most - last], rows[len(rows) - last :]


def _row(row: Row, columns: Sequence[Column]) -> str:
    first = columns[0]
    beside = (cell for key, cell in row.cells.items() if key != first.key)
    indent = f"padding-left:{0.5 + 1.5 * row.indent:g}em" if row.indent else ""
    if row.role in ("group", "fold") and all(cell in (None, "") for cell in beside):
        heading, style = _cell(row.cells.get(first.key), first), _style("text-align:left", indent)
        return f'<tr{_style(_ROLES[row.role])}><td colspan="{len(columns)}"{style}>{heading}</td></tr>'
    styles = (_style(_align(column), indent if column is first else "") for column in columns)
    words = (_cell(row.cells.get(column.key), column) for column in columns)
    cells = (f"<td{style}>{cell}</td>" for style, cell in zip(styles, words, strict=True))
    return f"<tr{_style(_ROLES[row.role])}>{''.join(cells)}</tr>"


def _cell(cell: Cell, column: Column) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return _text(cell)
    if isinstance(cell, Shades):
        places = "".join(map(_shade, cell.parts[:PLACES]))
        return f'<code style="white-space:nowrap;background:none">{places}</code>'
    if isinstance(cell, tuple):
        return _bar(cell)
    return escape(numbers.figure(cell, column.kind))


def _bar(parts: Sequence[tuple[str, float]]) -> str:
    """A bar whose parts are as long as their weights; each says under the pointer what it is."""
    total = sum(weight for _, weight in parts)
    drawn = (
        f'<span title="{_text(label)} {numbers.share(weight / total)}" style="display:inline-block;height:.8em;'
        f'width:{100 * (weight / total):.2f}%;background:currentColor;opacity:{_PARTS[at % len(_PARTS)]}"></span>'
        for at, (label, weight) in enumerate(parts if total else ())
    )
    return f'<span style="display:inline-block;width:16em;white-space:nowrap;font-size:100%">{"".join(drawn)}</span>'


def _shade(part: float | None) -> str:
    if part is None:
        return "-"
    dark = min(max(part, 0.08), 1.0) if part == part else 1.0  # what is not a number is not hidden
    return f'<span title="{escape(numbers.real(part))}" style="opacity:{dark:.2f}">█</span>'


def _notes(table: Table) -> Iterator[str]:
    """The legends of bars, the table's own notes, and what of its width is left out."""
    for column in table.drawn[:COLUMNS]:
        cells = [row.cells.get(column.key) for row in table.rows]
        bars = (cell for cell in cells if isinstance(cell, tuple))
        labels = dict.fromkeys((at % len(_PARTS), label) for bar in bars for at, (label, _) in enumerate(bar))
        if labels:
            marks = (f'<span style="opacity:{_PARTS[at]}">█</span> {_text(label)}' for at, label in labels)
            yield " &nbsp; ".join(marks)
        longest = max((len(cell.parts) for cell in cells if isinstance(cell, Shades)), default=0)
        if longest > PLACES:
            yield f"({PLACES} of {longest:,} places drawn; to_dict() has them all)"
    yield from map(_text, table.notes)
    if len(table.drawn) > COLUMNS:
        hidden = len(table.drawn) - COLUMNS
        yield f"({hidden:,} of {len(table.drawn):,} columns left out; to_dataframe() and to_dict() have them all)"


def _agreements(report: Report) -> Iterator[str]:
    """Each figure with a second path; where there are too many, those that fail come first."""
    agreements = report.agreements
    shown = agreements if len(agreements) <= AGREEMENTS else sorted(agreements, key=lambda one: not one.failed)
    how, style = "", _style("margin-top:.8em")
    for agreement in shown[:AGREEMENTS]:
        verdict = agreement.verdict if agreement.verdict == "agree" else f"<b>{agreement.verdict}</b>"
        yield f"<div{style}>{verdict} &nbsp;{_text(said(agreement, how))}</div>"
        how, style = agreement.how, ""
    if left := agreements[AGREEMENTS:]:
        yield f"<div>({len(left):,} of {len(agreements):,} agreements left out; agreements has them all)</div>"


def _text(text: str) -> str:
    """Text that a browser shows as it is: markup, quotes, controls and characters that turn a line about escaped."""
    cut = text[:CHARACTERS]
    more = f" ... ({len(text):,} characters)" if len(text) > CHARACTERS else ""
    return escape(escaped(cut, None)) + more


def _align(column: Column) -> str:
    return f"text-align:{'right' if column.numeric else 'left'}"


def _style(*declarations: str) -> str:
    said = ";".join(filter(None, declarations))
    return f' style="{said}"' if said else ""
