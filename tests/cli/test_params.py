"""``tfinspect params`` as a user meets it."""

from __future__ import annotations

import json

import pytest
from rich.cells import cell_len

from tests.cli.conftest import Program


def test_gpt2_small_typed_out(tfinspect: Program) -> None:
    ended = tfinspect("params", "--d", "768", "--layers", "12")
    assert (ended.code, ended.err) == (0, "")
    for figure in ("38,597,376", "786,432", "28,348,416", "56,669,184", "38,400", "7,087,872", "85,054,464"):
        assert figure in ended.out
    words = " ".join(ended.out.split())
    assert "total 124,439,808 100.0 %" in words
    assert "says 117M" in words
    assert "agree parameters: closed form 124,439,808 = measured 124,439,808" in words
    assert "differ" not in words
    assert max(map(cell_len, ended.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("flags", "total"),
    [
        (["--preset", "gpt2-xl"], 1_557_611_200),
        (["--d", "1024", "--layers", "24"], 354_823_168),
        (["--untied"], 163_037_184),
        (["--positions", "rope"], 124_439_808 - 786_432),
        (["--layers", "6"], 81_912_576),
        (["--preset", "tiny-568"], 568),
    ],
)
def test_the_document_has_the_same_answer_from_both_paths(tfinspect: Program, flags: list[str], total: int) -> None:
    ended = tfinspect("params", *flags, "--json")
    assert (ended.code, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert document["schema"] == "tfinspect.params/1"
    assert document["total_params"] == total
    assert [a["verdict"] for a in document["agreements"]] == ["agree"] * 8
    assert document["agreements"][0]["measured"] == total
    assert sum(component["params"] for component in document["components"]) == total


def test_without_the_check_nothing_is_measured_and_all_else_is_the_same(tfinspect: Program) -> None:
    checked, unchecked = (
        tfinspect("params", "--preset", "tiny-568", "--json", flag) for flag in ("--check", "--no-check")
    )
    assert {**json.loads(checked.out), "agreements": []} == json.loads(unchecked.out)
    text = tfinspect("params", "--preset", "tiny-568", "--no-check").out
    assert "agree" not in text
    assert tfinspect("params", "--preset", "tiny-568").out.startswith(text)


def test_every_tensor_is_listed_and_the_tied_one_once(tfinspect: Program) -> None:
    arguments = ("params", "--preset", "tiny-568", "--no-check", "--per-tensor")
    lines = [" ".join(line.split()) for line in tfinspect(*arguments).out.splitlines()]
    assert "embed.tokens.weight = head.weight [V, d_model] [10, 4] 40" in lines
    assert "blocks.1.mlp.up.weight [d_ff, d_model] [16, 4] 64" in lines
    assert "36 tensors 568" in lines
    tensors = json.loads(tfinspect(*arguments, "--json").out)["tensors"]
    assert tensors[0] == {
        "name": "embed.tokens.weight",
        "alias": "head.weight",
        "shape": ["V", "d_model"],
        "sizes": [10, 4],
        "params": 40,
    }
    assert sum(tensor["params"] for tensor in tensors) == 568


@pytest.mark.parametrize("spelling", ["124439808", "124_439_808", "124,439,808"])
def test_an_expectation_that_holds(tfinspect: Program, spelling: str) -> None:
    ended = tfinspect("params", "--no-check", "--expect", spelling)
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize(("expected", "words"), [("117000000", "7,439,808 more"), ("124439809", "1 fewer")])
def test_an_expectation_that_fails_exits_with_1(tfinspect: Program, expected: str, words: str) -> None:
    ended = tfinspect("params", "--no-check", "--expect", expected)
    assert ended.code == 1
    assert ended.err == f"error: the model has 124,439,808 parameters, {words} than the expected {int(expected):,}\n"
    ended = tfinspect("params", "--no-check", "--expect", expected, "--json")
    assert ended.code == 1
    assert json.loads(ended.out)["expected"] == {
        "params": int(expected),
        "surplus": 124_439_808 - int(expected),
    }


def test_a_value_that_a_rule_chose_is_printed(tfinspect: Program) -> None:
    words = " ".join(tfinspect("params", "--d", "1536", "--no-check").out.split())
    assert "d_model 1536" in words
    assert "Chosen by rule: d_ff = 4·d = 6144; heads = d/64 = 24." in words
    assert "117M" not in words


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--d", "770", "--heads", "12"], "770 mod 12 = 2"),
        (["--d", "-5"], "d_model (--d) must be at least 1, not -5"),
        (["--d", "1" + "0" * 30], "the largest size is 2147483647"),
        (["--preset", "gpt3"], "unknown preset 'gpt3'"),
        (["--positions", "rotary"], "choose one of learned, sinusoidal, rope"),
        (["--expect", "117M"], "--expect takes a whole number, not '117M'"),
        (["--expect=-1"], "--expect"),
        (["--layers", "100000000", "--per-tensor"], "would list 1,600,000,004 tensors"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tfinspect: Program, flags: list[str], words: str) -> None:
    ended = tfinspect("params", *flags)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert words in ended.err
    assert len(ended.err.splitlines()) <= 2


@pytest.mark.parametrize("width", ["40", "60", "120"])
def test_no_line_is_wider_than_the_page_and_no_figure_is_cut(tfinspect: Program, width: str) -> None:
    ended = tfinspect("params", "--no-check", env={"COLUMNS": width})
    assert max(map(cell_len, ended.out.splitlines())) <= int(width)
    assert "124,439,808" in ended.out


def test_a_page_of_ascii(tfinspect: Program) -> None:
    ended = tfinspect("params", "--no-check", env={"PYTHONIOENCODING": "ascii"})
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.isascii()
    assert "L*(4d^2 + 4d)" in ended.out
