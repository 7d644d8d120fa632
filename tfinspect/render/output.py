"""Where a report goes: to a reader as text, part by part as it becomes known, or to a program as one JSON document."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from tfinspect.render.numbers import count, real
from tfinspect.results.agreement import Agreement
from tfinspect.results.report import Report

if TYPE_CHECKING:
    from tfinspect.render.terminal import Page

__all__ = ["Output", "document"]

LINE: Final = 320
"""Longest JSON, in characters, that stands on one line although it is nested: a token, a tensor."""


class Output:
    """Standard output for one command.

    Text: `show` writes the report and `show_agreements` what a second path says of it, each at once; `finish` adds
    nothing. JSON: `show` and `show_agreements` write nothing, and `finish` writes the one document.
    """

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json

    def show(self, report: Report) -> None:
        """Write the conventions and the tables."""
        if self.as_json:
            return
        page = _page()
        page.write(page.paragraph(report.conventions))
        for table in report.tables():
            page.write([*page.paragraph(""), *page.table(table)])

    def show_agreements(self, report: Report) -> None:
        """Write, for each figure with a second path, whether the two agree."""
        if self.as_json or not report.agreements:
            return
        page = _page()
        page.write(page.paragraph(""))
        hanging = max(len(agreement.verdict) for agreement in report.agreements) + 2
        how = ""
        for agreement in report.agreements:
            sentence = f"{agreement.verdict:<{hanging}}{said(agreement, how)}"
            how = agreement.how
            page.write(page.paragraph(sentence, hanging, "" if agreement.verdict == "agree" else "bold"))

    def finish(self, report: Report) -> None:
        """Write the document, where the reader is a program."""
        if self.as_json:
            sys.stdout.writelines(document(report, sys.stdout.encoding))
            sys.stdout.flush()


def said(agreement: Agreement, how: str = "") -> str:
    """Two figures in words, and how the second was measured unless the reader was just told (how)."""
    closed = _figure(agreement.closed_form)
    if agreement.measured is None:
        reason = f"; {agreement.reason}" if agreement.reason else ""
        return f"{agreement.quantity}: closed form {closed}{reason}"
    measured = _figure(agreement.measured)
    relation = {"agree": "=" if agreement.closed_form == agreement.measured else "≈", "differ": "≠"}
    words = (
        f"{agreement.quantity}: closed form {closed}, measured at least {measured}"
        if agreement.verdict == "incomplete"
        else f"{agreement.quantity}: closed form {closed} {relation[agreement.verdict]} measured {measured}"
    )
    if agreement.how != how:
        words += f" ({agreement.how})"
    if agreement.tolerance:
        words += f", within {_figure(agreement.tolerance)}"
    if agreement.coverage is not None:
        counted, seen = map(count, agreement.coverage)
        words += f"; ops counted {counted} of {seen}"
    if agreement.uncounted:
        words += f"; uncounted: {', '.join(agreement.uncounted)}"
    return words


def document(report: Report, encoding: str | None = "utf-8") -> Iterator[str]:
    """The report as JSON text that a stream of this encoding can carry: schema, version, answer, agreements.

    It comes in parts of about a line, and is nowhere held as a whole. Integers are exact. What JSON has no literal for
    is a string: "NaN", "Infinity", "-Infinity". Characters stand for themselves unless the encoding lacks one of their
    line, or one is half a surrogate pair: then all but ASCII is escaped there.
    """
    import json

    from tfinspect import __version__

    plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    in_ascii = json.JSONEncoder(allow_nan=False).encode

    def written(value: Any) -> str:
        try:
            text = plain(value)
        except ValueError:  # a number that JSON has no literal for
            value = _finite(value)
            text = plain(value)
        try:
            text.encode(encoding or "utf-8")
        except UnicodeEncodeError:
            return in_ascii(value)
        return text

    content = {
        "schema": report.schema,
        "tfinspect": __version__,
        **report.to_dict(),
        "agreements": [agreement.to_dict() for agreement in report.agreements],
    }
    yield from _laid_out(content, written, "\n")
    yield "\n"


def _laid_out(value: Any, written: Callable[[Any], str], margin: str) -> Iterator[str]:
    """JSON text on one line where it is short or holds nothing that holds something; else each member on its own."""
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    line = written(value) if 2 * len(members) < LINE else None
    if line is None or len(line) > LINE:
        nested = any(isinstance(member, dict | list | tuple) for member in members)
        line = None if nested else written(value)
    if line is not None:
        yield line
        return
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inner = f"{margin}  "
    for at, member in enumerate(value):
        yield f"{',' if at else opening}{inner}"
        if isinstance(value, dict):
            yield f"{written(member)}: "
            member = value[member]
        yield from _laid_out(member, written, inner)
    yield f"{margin}{closing}"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _figure(number: int | float) -> str:
    return count(number) if isinstance(number, int) else real(number)


def _page() -> Page:
    from tfinspect.render.terminal import Page

    return Page(sys.stdout)
