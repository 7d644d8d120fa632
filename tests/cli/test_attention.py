"""``tfinspect attention`` as a user meets it."""

from __future__ import annotations

import json
import re

import pytest
from rich.cells import cell_len

from tests.cli.conftest import Program

MAKIE = "蒔絵師が硯箱を"
TINY = ("attention", "--preset", "tiny-568", "--ids", "3,1,4,1,5,9")


def test_the_sample_text_on_a_page_of_80_columns(tfinspect: Program) -> None:
    ended = tfinspect("attention", MAKIE)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert max(map(cell_len, lines)) <= 80
    shades = lines[lines.index("Weights as shades, and the entropy of each row") :]
    rows = [line for line in shades if set(line) & set("░▒▓█") and "%" not in line]
    assert len(rows) == 16
    for i, row in enumerate(rows):  # two characters for each of 16 places; all after the own position are marked
        drawn = "".join(mark for mark in row if mark in "░▒▓█")
        assert len(drawn) == 2 * (i + 1)
        assert row.count("--" * (15 - i)) == 1 or i == 15
        assert row.startswith(f"{i:>2} ")
    assert rows[0].split() == ["0", "蒔", "1/3", "██" + "--" * 15, "0", "0"]
    assert rows[15].endswith("  4.000")  # log2(16)
    assert "0.00 " not in ended.out
    assert "agree masked scores, T(T − 1)/2: closed form 120 = measured 120" in " ".join(ended.out.split())


def test_the_document_has_every_cell(tfinspect: Program) -> None:
    ended = tfinspect(*TINY, "--layer", "1", "--head", "1", "--dtype", "float64", "--json")
    document = json.loads(ended.out)
    assert (ended.code, ended.err) == (0, "")
    assert document["schema"] == "tfinspect.attention/1"
    assert (document["layer"], document["head"], document["dtype"], document["seed"]) == (1, 1, "float64", 0)
    (text,) = document["texts"]
    assert text["ids"] == [3, 1, 4, 1, 5, 9]
    for i in range(6):
        assert text["mask"][i] == [0.0] * (i + 1) + ["-Infinity"] * (5 - i)
        assert text["scores"][i][i + 1 :] == ["-Infinity"] * (5 - i)
        assert text["scores"][i][: i + 1] == pytest.approx(text["products"][i][: i + 1], abs=1e-15)
        assert text["weights"][i][i + 1 :] == [0.0] * (5 - i)
        assert sum(text["weights"][i]) == pytest.approx(1, abs=1e-15)
        assert 0 <= text["entropy_bits"][i] <= text["largest_entropy_bits"][i]
    assert {a["verdict"] for a in document["agreements"]} == {"agree"}


def test_a_long_text_is_cut_with_a_word_and_its_document_is_whole(tfinspect: Program) -> None:
    small = ("--d", "64", "--layers", "1")
    ended = tfinspect("attention", "-", *small, stdin=b"one two three four " * 20)
    assert ended.code == 0
    assert max(map(cell_len, ended.out.splitlines())) <= 80
    assert ended.out.count("Positions 32 to 80 are not shown; --json has all.") == 4
    assert re.search(r"\(columns left out: \d+ to 31; a wider terminal", ended.out)
    document = json.loads(tfinspect("attention", "-", *small, "--json", stdin=b"one two three four " * 20).out)
    assert {len(row) for row in document["texts"][0]["weights"]} == {81}


def test_a_wide_terminal_shows_what_a_narrow_one_leaves_out(tfinspect: Program) -> None:
    narrow, wide = (tfinspect("attention", MAKIE, env={"COLUMNS": width}).out for width in ("40", "200"))
    assert "left out" in narrow
    assert max(map(cell_len, narrow.splitlines())) <= 40
    assert "left out" not in wide


def test_a_page_without_shades_spells_them(tfinspect: Program) -> None:
    ended = tfinspect(*TINY, env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert ended.code == 0
    assert ended.out.isascii()
    assert "0 id 3  ##----------" in ended.out
    assert ". less   + from 5%   = from 20%   # from 50%" in ended.out


def test_texts_of_unequal_length_each_have_their_matrices(tfinspect: Program) -> None:
    ended = tfinspect("attention", "hello", "hello [b]world[/b]", "--d", "64", "--layers", "1")
    assert ended.code == 0
    assert "Weights of text 1: softmax of each row" in ended.out
    assert "Weights of text 2: softmax of each row" in ended.out
    assert '"[/"' in ended.out or '"/"' in ended.out  # text is never markup


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("hi", "--layer", "12"), "--layer 12: there is no layer 12; layers go from 0 to 11"),
        (("hi", "--layer", "-1"), "layers go from 0 to 11"),
        (("hi", "--head", "12"), "--head 12: there is no head 12; heads go from 0 to 11"),
        (("hi", "--head", "-1"), "heads go from 0 to 11"),
        (("hi", "--head", "1.5"), "--head takes a whole number, not '1.5'"),
        (("hi", "--dtype", "int8"), "unknown dtype 'int8'"),
        (("",), "nothing to attend to (0 tokens)"),
        (("--ids", "1,-1"), "id -1 at position 1"),
        (("--ids", ",".join(["1"] * 1025)), "1,025 tokens and the model's context is 1,024"),
        (("hi", "--file", "no-such-file"), "no-such-file"),
        (("hi", "--preset", "tiny-568"), "--ids"),
    ],
)
def test_what_cannot_be_looked_at_is_one_line_and_exit_code_2(
    tfinspect: Program, arguments: tuple[str, ...], words: str
) -> None:
    ended = tfinspect("attention", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert words in ended.err
    assert len(ended.err.splitlines()) == 1
