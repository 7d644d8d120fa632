"""A report as HTML: well formed whatever it says, everything in it as it was typed, and never without end."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import tfinspect
from tfinspect.render import to_html
from tfinspect.render.page import escaped
from tfinspect.render.to_html import html
from tfinspect.results.agreement import Agreement
from tfinspect.results.report import Answer
from tfinspect.results.table import Column, Given, Row, Shades, Table

#: What the report is made of; anything else came from a text.
TAGS = {
    "div", "p", "table", "caption", "thead", "tbody", "tr", "th", "td", "span", "code", "b",
}  # fmt: skip
ATTRIBUTES = {"class", "style", "colspan", "scope", "title"}


class Read(HTMLParser):
    """HTML as a browser reads it: the text, row by row, and what it is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: dict[str, list[str]] = {}
        self.rows: list[list[str]] = []
        self.words = ""
        self.cell_styles: list[list[str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or "")
        if tag == "tr":
            self.rows.append([])
            self.cell_styles.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.cell_styles[-1].append(dict(attrs).get("style") or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


@dataclasses.dataclass(frozen=True)
class Shown(Answer):
    """A report of these tables."""

    shown: tuple[Table, ...]
    agreements: tuple[Agreement, ...] = ()
    schema: ClassVar[str] = "tfinspect.shown/1"
    conventions: str = "What is counted."

    def tables(self) -> tuple[Table, ...]:
        return self.shown

    def to_dict(self) -> dict[str, Any]:
        return {}


def of(*rows: Row, columns: tuple[Column, ...] = (Column("x", "x"),), **others: Any) -> Read:
    """A table of these rows, as a browser reads it."""
    return Read(html(Shown((Table("T", columns, rows, **others),))))


def test_the_ledger_of_gpt2_small() -> None:
    read = Read(tfinspect.params(tfinspect.ModelSpec())._repr_html_())
    assert read.rows[0] == ["component", "formula", "parameters", "share"]
    assert ["MLP", "L·(2·d·d_ff + d_ff + d)", "56,669,184", "45.5 %"] in read.rows
    assert ["total", "", "124,439,808", "100.0 %"] in read.rows
    assert "parameters: closed form 124,439,808 = measured 124,439,808" in read.words
    assert "One block" in read.words
    assert "total = " in read.words


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    read = of(Row({"x": "a", "n": 12_345}), columns=(Column("x", "name"), Column("n", "parameters", "count")))
    assert read.rows == [["name", "parameters"], ["a", "12,345"]]
    assert read.cell_styles == [["text-align:left", "text-align:right"]] * 2


@pytest.mark.parametrize(
    ("kind", "number", "text"),
    [
        ("count", 2**70, "1,180,591,620,717,411,303,424"),
        ("bytes", 1_536, "1,536"),
        ("binary", 1_536, "1.5 KiB"),
        ("share", 0.31, "31.0 %"),
        ("real", 2 / 9, "0.2222"),
        ("real", float("nan"), "nan"),
        ("real", 4_608, "4,608"),
    ],
)
def test_a_figure_reads_as_on_a_terminal(kind: Any, number: float, text: str) -> None:
    assert of(Row({"x": number}), columns=(Column("x", "x", kind),)).rows[-1] == [text]


def test_headings_span_the_table_and_rows_below_are_indented() -> None:
    columns = (Column("x", "x"), Column("n", "n", "count"))
    read = of(Row({"x": "Step 1"}, "group"), Row({"x": "ids", "n": 3}, indent=1), columns=columns)
    assert read.rows[1:] == [["Step 1"], ["ids", "3"]]
    assert "2" in read.attributes["colspan"]
    assert read.cell_styles[2][0] == "text-align:left;padding-left:2em"


def test_columns_for_data_frames_are_not_drawn() -> None:
    columns = (Column("x", "x"), Column("path", "path", data_only=True))
    assert of(Row({"x": "c", "path": "a.b.c"}), columns=columns).rows == [["x"], ["c"]]


def test_bars_and_shades_say_what_they_show() -> None:
    columns = (Column("bar", "", "bar"), Column("shades", "", "shades"))
    cells = {"bar": (("<linear>", 3.0), ("quadratic", 1.0)), "shades": Shades((0.5, None, 0.0, float("nan")))}
    read = of(Row(cells), columns=columns)
    assert {"<linear> 75.0 %", "quadratic 25.0 %", "0.5000", "0", "nan"} <= set(read.attributes["title"])
    assert any("width:75.00%" in style for style in read.attributes["style"])
    assert read.rows[-1] == ["", "█-██"]
    assert "█ <linear>" in read.words


def test_verdicts_that_are_not_agreement_stand_out() -> None:
    agree, differ = Agreement("parameters", 7, 7, "a count"), Agreement("parameters", 7, 8, "a count")
    text = html(Shown((), (agree, differ)))
    assert ">agree &nbsp;parameters: closed form 7 = measured 7 (a count)</div>" in text
    assert "<div><b>differ</b> &nbsp;parameters: closed form 7 ≠ measured 8</div>" in text


@given(st.text(st.characters(categories=("L", "M", "N", "P", "S", "Z", "C")), max_size=40))
def test_any_text_is_shown_and_never_read_as_markup(text: str) -> None:
    given_text = Given(text)
    column = (Column("x", given_text), Column("bar", "", "bar"))
    rows = (Row({"x": given_text, "bar": ((text, 1.0),)}), Row({"x": given_text}, "group"))
    agreement = Agreement(text, 1, 2, text, uncounted=(text,))
    read = Read(html(Shown((Table(given_text, column, rows, (given_text,)),), (agreement,), conventions=given_text)))
    assert read.tags <= TAGS
    assert set(read.attributes) <= ATTRIBUTES
    said = escaped(text, None)
    assert [row[0] for row in read.rows] == [said] * (3 if text else 2)  # no line of titles where all are empty
    assert read.words.count(said) >= 6 or not said.strip()


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "&lt;b&gt;", "</td>"])
def test_markup_is_text(text: str) -> None:
    read = of(Row({"x": Given(text)}))
    assert read.rows[-1] == [text]
    assert read.tags <= TAGS


def test_names_of_a_module_are_text() -> None:
    name = "<script>alert(1)</script>"
    model = nn.Sequential()
    model.add_module(name, type("<b>", (nn.Linear,), {})(2, 2))
    for result in (tfinspect.params(model, per_tensor=True), tfinspect.trace(model, torch.zeros(1, 2), ops=True)):
        read = Read(result._repr_html_())
        assert read.tags <= TAGS
        assert [name, "<b>"] in [row[:2] for row in read.rows]


def test_dollars_are_no_mathematics() -> None:
    """The classes by which MathJax 2 and 3 leave an element alone."""
    assert "tex2jax_ignore mathjax_ignore" in html(Shown(()))


def test_characters_that_turn_a_line_about_are_escapes() -> None:
    assert of(Row({"x": "a\u202eb\x1b[31m"})).rows[-1] == ["a\\u202eb\\x1b[31m"]


def test_nothing_comes_from_elsewhere() -> None:
    text = tfinspect.params(tfinspect.ModelSpec(), check=False)._repr_html_()
    assert not any(word in text for word in ("http", "<script", "<style", "<link", "<img", "url("))


def test_colours_are_those_of_the_page() -> None:
    """Neither theme, light or dark, is taken for granted."""
    row = Row({"x": (("a", 1.0),)}, "total")
    text = html(Shown((Table("T", (Column("x", "x", "bar"),), (row,)),)))
    parts = {part for style in Read(text).attributes["style"] for part in style.split(";")}
    colours = {part for part in parts if part.startswith(("color", "background", "border"))}
    assert colours == {"color:inherit", "background:currentColor", "border-collapse:collapse", "border-top:1px solid"}


def test_a_long_table_shows_its_beginning_and_its_end() -> None:
    rows = tuple(Row({"x": str(number)}) for number in range(100_000))
    read = of(*rows, Row({"x": "total"}, "total"))
    assert len(read.rows) == 1 + to_html.ROWS + 1
    assert read.rows[1] == ["0"]
    assert read.rows[-1] == ["total"]
    missing = 100_001 - to_html.ROWS
    note = f"({missing:,} of 100,001 rows left out; to_dataframe() and to_dict() have them all)"
    assert [note] in read.rows


def test_no_report_is_without_end() -> None:
    rows = (Row({"x": "y" * 100_000, "s": Shades((0.5,) * 10_000)}),) * 1_000
    columns = (Column("x", "x"), Column("s", "", "shades"), *(Column(f"c{at}", "c") for at in range(1_000)))
    agreements = (*(Agreement("q", 1, 1, "h"),) * 1_000, Agreement("last", 1, 2, "h"))
    text = html(Shown((Table("T", columns, rows),) * 1_000, agreements))
    assert len(text) < 10_000_000
    assert f"{'y' * 1_000} ... (100,000 characters)" in text
    assert f"{'y' * 1_001}" not in text
    for left_out in (
        "(995 of 1,000 tables left out; tables() has them all)",
        "(938 of 1,002 columns left out; to_dataframe() and to_dict() have them all)",
        "(64 of 10,000 places drawn; to_dict() has them all)",
        "(901 of 1,001 agreements left out; agreements has them all)",
    ):
        assert left_out in text
    assert "<b>differ</b> &nbsp;last" in text
