"""``tfinspect reconcile`` as a user meets it."""

from __future__ import annotations

import json

import pytest
from rich.cells import cell_len

from tests.cli.conftest import Program


def test_a_tied_head_that_is_counted_twice(tfinspect: Program) -> None:
    ended = tfinspect("reconcile", "163037184", "--preset", "gpt2")
    assert (ended.code, ended.err) == (0, "")
    words = " ".join(ended.out.split())
    assert "What gives 163,037,184" in words
    assert "parameters: one convention away" in words
    assert "the tied head counted a second time (torchinfo 1.8.0) + V·d 163,037,184" in words
    assert max(map(cell_len, ended.out.splitlines())) <= 80


def test_each_step_of_several_conventions_is_shown_with_its_figure(tfinspect: Program) -> None:
    ended = tfinspect("reconcile", "123,551,232", "gpt2", "--n", "512")
    words = " ".join(ended.out.split())
    assert ended.code == 0
    for figure in ("124,439,808", "− n_ctx·d 123,653,376", "123,551,232"):
        assert figure in words


def test_the_models_own_number_is_confirmed(tfinspect: Program) -> None:
    ended = tfinspect("reconcile", "291,648,307,200", "gpt2", "--n", "1024")
    assert ended.code == 0
    assert "FLOPs: its own figure" in ended.out


def test_a_number_that_nothing_explains_exits_with_1_and_shows_what_is_near(tfinspect: Program) -> None:
    ended = tfinspect("reconcile", "124443648", "gpt2")
    assert ended.code == 1
    assert ended.err == (
        "error: no known convention gives 124,443,648 for gpt2; "
        "is it this model, with this --n, and is every digit of it exact?\n"
    )
    words = " ".join(ended.out.split())
    assert "124,443,648 is unexplained" in words
    assert "its own figure 124,439,808 3,840" in words
    assert "the difference is exactly 5 × 768 (d)" in words


def test_a_rounded_number_says_what_it_stands_for(tfinspect: Program) -> None:
    ended = tfinspect("reconcile", "124M", "gpt2")
    assert ended.code == 0
    assert "it stands for anything from 123,500,000 to 124,500,000" in " ".join(ended.out.split())


def test_the_document_names_conventions_for_programs(tfinspect: Program) -> None:
    ended = tfinspect("reconcile", "3.14e23", "gpt3-175b", "--tokens", "300B", "--json")
    assert (ended.code, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert document["schema"] == "tfinspect.reconciliation/1"
    assert document["verdict"] == "explained"
    assert document["tokens"] == 300_000_000_000
    (reading,) = document["readings"]
    assert reading["figure"] == 314_287_666_790_400_000_000_000
    assert [step["key"] for step in reading["conventions"]] == ["6ND-all"]


def test_an_unexplained_number_is_a_whole_document_too(tfinspect: Program) -> None:
    ended = tfinspect("reconcile", "124443648", "gpt2", "--json")
    assert ended.code == 1
    document = json.loads(ended.out)
    assert (document["verdict"], document["readings"]) == ("unexplained", [])
    assert document["nearest"][0]["difference"] == 3_840
    assert document["nearest"][0]["multiple"] == {"times": 5, "formula": "d", "quantity": 768, "per_block": False}


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("many", "error: 'many' is no number that a model can have; give 163037184, "),
        ("0", "error: '0' is not above 0; "),
        ("0.5", "error: '0.5' is less than 1; a multiple of the model's own figure is 0.5x\n"),
        ("1e99", "error: '1e99' has more than 60 digits; "),
        ("9" * 101, "error: the number has 101 characters; "),
    ],
)
def test_what_is_no_number_is_an_error_that_quotes_it(tfinspect: Program, number: str, words: str) -> None:
    ended = tfinspect("reconcile", number)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(words)
    assert ended.err.count("\n") == 1


def test_a_number_is_needed(tfinspect: Program) -> None:
    ended = tfinspect("reconcile")
    assert (ended.code, ended.out) == (2, "")
    assert "NUMBER" in ended.err


def test_sizes_are_refused_where_no_pass_has_them(tfinspect: Program) -> None:
    ended = tfinspect("reconcile", "124M", "--n", "0")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: n (--n) must be from 1 to 1,000,000,000,000, not 0\n"
