"""A table is aligned, whole and literal at any width."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tfinspect.render.numbers import binary_bytes, count
from tfinspect.render.terminal import PARTS, Page, wrapped
from tfinspect.results.table import Column, Given, Kind, Row, Shades, Table

WIDTHS = st.integers(40, 200)
WORDS = st.text(st.characters(categories=("L", "N", "P", "Zs")), max_size=60)


def lines(table: Table, width: int, encoding: str = "utf-8") -> list[str]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    page = Page(stream, width)
    page.write(page.table(table))
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode(encoding).splitlines()


def two_columns(texts: list[str]) -> Table:
    """Texts, each with its place as a number to the right."""
    columns = (Column("text", "text", keep=9), Column("place", "place", "count", keep=9))
    return Table("", columns, tuple(Row({"text": text, "place": 1_000 + at}) for at, text in enumerate(texts)))


def test_wide_characters_align() -> None:
    # cells per text by Unicode's East Asian Width: 4, 2, 1, 2, 1
    texts = ["\u4f60\u597d", "\uff21", "\uff71", "\ud55c", "e\u0301"]
    rows = lines(two_columns(texts), 80)[2:]
    assert [cell_len(row) for row in rows] == [cell_len(rows[0])] * len(texts)
    assert all(text in row for text, row in zip(texts, rows, strict=True))


@pytest.mark.parametrize("text", ["[INST]", "[/INST]", "[bold]x[/bold]", "a [x] b", ":smile:", "[link=x]", "\\[b]"])
def test_markup_in_text_shows_literally(text: str) -> None:
    assert lines(two_columns([text]), 80)[2].startswith(f"{text} ")


@given(st.lists(WORDS, min_size=1, max_size=5), WIDTHS)
def test_numbers_are_whole_and_end_in_one_terminal_column(texts: list[str], width: int) -> None:
    drawn = lines(two_columns(texts), width)
    ends = {cell_len(line) for line in drawn if re.search(r"1,00\d$", line)}
    shown = re.findall(r"1,00\d$", "\n".join(drawn), re.MULTILINE)
    assert shown == [count(1_000 + at) for at in range(len(texts))]
    assert len(ends) == 1


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Tables whose numbers leave room for text on 40 cells."""
    kinds: list[Kind] = draw(st.lists(st.sampled_from(["text", "formula", "count", "share", "real"]), max_size=6))
    columns = [Column("name", "component", keep=9)]
    columns += [Column(f"c{at}", f"column {at}", kind, draw(st.integers(0, 8))) for at, kind in enumerate(kinds)]
    cells = {"text": WORDS, "formula": WORDS, "count": st.integers(0, 10**9), "share": st.floats(0, 1)}
    rows = []
    for role in draw(st.lists(st.sampled_from(["row", "group", "fold", "subtotal", "total"]), max_size=6)):
        row = {"name": draw(WORDS)}
        if role != "group":
            row |= {c.key: draw(cells.get(c.kind, st.floats())) for c in columns[1:]}
        rows.append(Row(row, role, draw(st.integers(0, 2))))
    return Table(draw(WORDS), tuple(columns), tuple(rows), tuple(draw(st.lists(WORDS, max_size=2))))


@given(tables(), WIDTHS)
def test_no_line_is_wider_than_the_page(table: Table, width: int) -> None:
    assert max(map(cell_len, lines(table, width))) <= width


@given(tables(), st.sampled_from(["ascii", "cp1252", "shift_jis"]))
def test_a_table_can_be_written_in_any_encoding_within_the_page(table: Table, encoding: str) -> None:
    assert max(map(cell_len, lines(table, 80, encoding))) <= 80


@given(tables(), WIDTHS)
def test_each_column_shows_or_is_said_to_be_left_out(table: Table, width: int) -> None:
    text = " ".join(" ".join(lines(table, width)).split())
    said = re.search(r"\(columns? left out: ([^;]*);", text)
    hidden = set(said[1].split(", ")) if said else set()
    keeps = {True: [9], False: []}
    for column in table.columns[1:]:
        keeps[column.title not in hidden].append(column.keep)
    assert hidden <= {column.title for column in table.columns[1:]}
    assert max(keeps[False], default=0) <= min(keeps[True])  # whoever left was worth no more than who stayed


def test_a_wide_number_is_never_cut() -> None:
    number = 18_432_000_123_532_032_000_000_000_000  # multiplications of GPT-2 Small at n = 10^12
    table = Table("", (Column("n", "n"), Column("work", "work", "count", keep=9)), (Row({"n": "x", "work": number}),))
    assert lines(table, 40)[-1].endswith(count(number))


def test_columns_of_the_lowest_keep_leave_first() -> None:
    columns = tuple(Column(name, name, "count", keep) for name, keep in (("a", 9), ("b", 1), ("c", 3), ("d", 1)))
    table = Table("", columns, (Row(dict.fromkeys("abcd", 10**12)),))
    assert [lines(table, width)[0].split() for width in (80, 70, 50, 40)] == [
        ["a", "b", "c", "d"], ["a", "b", "c"], ["a", "c"], ["a", "c"],
    ]  # fmt: skip


def test_a_heading_runs_over_the_columns_and_a_total_stands_under_a_rule() -> None:
    columns = (Column("part", "part", keep=9), Column("n", "n", "count", keep=9))
    rows = (
        Row({"part": "a heading that is wider than its column"}, "group"),
        Row({"part": "one", "n": 1}, indent=1),
        Row({"part": "all", "n": 1}, "total"),
    )
    assert lines(Table("Parts", columns, rows), 80) == [
        "Parts",
        "part   n",
        "────────",
        "a heading that is wider than its column",
        "  one  1",
        "────────",
        "all    1",
    ]


def test_a_bar_is_as_long_in_each_part_as_its_weight() -> None:
    columns = (Column("n", "n", "count", 9), Column("bar", "", "bar", 9))
    parts = ((3, 1), (1, 1), (0, 1), (10**40, 3 * 10**40))
    rows = tuple(Row({"n": at, "bar": (("linear", a), ("quadratic", b))}) for at, (a, b) in enumerate(parts))
    *drawn, legend = lines(Table("", columns, rows), 80)[2:]
    assert [(line.count(PARTS[0]), line.count(PARTS[1])) for line in drawn] == [(18, 6), (12, 12), (0, 24), (6, 18)]
    assert legend == "█ linear   ░ quadratic"


def shaded(*parts: float | None) -> Table:
    columns = (Column("row", "", keep=9), Column("shades", "", "shades", keep=9), Column("sum", "sum", "real", keep=9))
    return Table("", columns, (Row({"row": "a", "shades": Shades(parts), "sum": 1.0}),))


def test_a_place_is_as_dark_as_its_part() -> None:
    title, ticks, _, row, legend = lines(shaded(0.0, 0.049, 0.05, 0.2, 0.5, 1.0, None), 80)
    assert row.split() == ["a", "░░░░▒▒▓▓████--", "1.000"]
    assert legend == "░ less   ▒ from 5%   ▓ from 20%   █ from 50%"
    assert [row[ticks.index(number)] for number in "05"] == ["░", "█"]  # numbers stand above their places
    assert title.split() == ["sum"]


@given(st.lists(st.floats(0, 1) | st.none(), min_size=1, max_size=200), WIDTHS, st.sampled_from(["utf-8", "ascii"]))
def test_shades_fit_the_page_or_are_said_to_be_cut(parts: list[float | None], width: int, encoding: str) -> None:
    drawn = lines(shaded(*parts), width, encoding)
    assert max(map(cell_len, drawn)) <= width
    (row,) = (line for line in drawn if line.startswith("a "))
    _, shades, total = row.split()
    assert total == "1.000"
    cut = re.search(r"\((\d+) of (\d+) places drawn", " ".join(drawn))
    if cut:
        assert (int(cut[1]), int(cut[2])) == (len(shades), len(parts))
        assert len(shades) < len(parts)
    else:
        assert len(shades) in (len(parts), 2 * len(parts))


def test_many_columns_that_leave_are_named_by_the_first_and_the_last() -> None:
    columns = (Column("row", "", keep=9), *(Column(str(at), str(at), "count", keep=5) for at in range(30)))
    drawn = lines(Table("", columns, (Row({"row": "a", **{str(at): 10**6 for at in range(30)}}),)), 80)
    assert drawn[-1] == "(columns left out: 7 to 29; a wider terminal or --json shows more)"


def test_bytes_in_binary_units() -> None:
    table = Table("", (Column("b", "bytes", "binary", 9),), (Row({"b": 3 * 2**20}),))
    assert lines(table, 80)[-1] == binary_bytes(3 * 2**20)


@given(st.text(), st.integers(2, 40))
def test_wrapping_loses_nothing_but_spaces(text: str, width: int) -> None:
    assert "".join("".join(wrapped(text, width)).split()) == "".join(text.split())


def test_own_words_are_spelled_and_a_users_are_escaped() -> None:
    columns = (Column("text", "a → b", keep=9), Column("formula", "n²", "formula", keep=9))
    rows = (
        Row({"text": Given("after →")}, "group"),
        Row({"text": "a part → b"}, "group"),
        Row({"text": "→", "formula": "→"}),
    )
    drawn = lines(Table(Given("Tokens of →"), columns, rows, ("a → b",)), 80, "ascii")
    assert drawn == [
        r"Tokens of \u2192", "a -> b  n^2", "-----------",
        r"after \u2192", "", "a part -> b", r"\u2192  ->", "", "a -> b",
    ]  # fmt: skip


def test_columns_for_data_frames_are_neither_drawn_nor_said_to_be_left_out() -> None:
    columns = (Column("x", "x"), Column("path", "path", data_only=True), Column("n", "n", "count"))
    assert lines(Table("", columns, (Row({"x": "c", "path": "a.b.c", "n": 7}),)), 80) == ["x  n", "────", "c  7"]
