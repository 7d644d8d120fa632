"""``tfinspect generate`` as a user meets it."""

from __future__ import annotations

import json

import pytest
from rich.cells import cell_len

from tests.cli.conftest import Program

TINY = ("--preset", "tiny-568")
NARROW = ("--d", "64", "--layers", "1")


def test_gpt2_small_step_by_step_on_a_page_of_80_columns(tfinspect: Program) -> None:
    ended = tfinspect("generate", "Hello, world!", "--max-new", "3", "--top-k", "40", "--top-p", "0.9", "--show")
    assert (ended.code, ended.err) == (0, "")
    assert max(map(cell_len, ended.out.splitlines())) <= 80
    words = " ".join(ended.out.split())
    for said in (
        "temperature 1, then top-k 40, then top-p 0.9, then one draw",
        "random weights, seed 0 of weights and draws, a KV cache",
        "The weights are random, so the new text is noise.",
        '15496 11 995 0 "Hello, world!"',
        "2 [1, 1] [1, 50257] [1] [1, 12, 5, 64] 368,640",
        "agree same ids without the cache: closed form 3 = measured 3",
        "agree largest difference of a logit, float32: closed form 0",
        "agree draws that the filters allow: closed form 3 = measured 3",
    ):
        assert said in words, said
    # 12·(12·768² + 2·5·768) + 768·50257: one token that attends to 5 keys
    assert "step 2, S = 5 123,624,192 463,731,456" in words


def test_the_document_holds_every_step_whatever_is_shown(tfinspect: Program) -> None:
    words = ("generate", "--ids", "3,1,4", "--ids", "1,5,9", *TINY, "--max-new", "4", "--seed", "5", "--json")
    plain, shown = (json.loads(tfinspect(*words, "--temperature", "1", *more).out) for more in ((), ("--show",)))
    assert plain == shown
    assert plain["schema"] == "tfinspect.generation/1"
    assert [step["step"] for step in plain["steps"]] == [1, 2, 3, 4]
    assert plain["cache_bytes"] == plain["steps"][-1]["cache_bytes"] == 2 * 2 * 2 * 2 * 6 * 2 * 4
    chosen = [[step["choices"][row]["chosen"]["token_id"] for step in plain["steps"]] for row in (0, 1)]
    assert chosen == [text["new_ids"] for text in plain["texts"]]
    assert {a["verdict"] for a in plain["agreements"]} == {"agree"}


def test_a_seed_gives_the_same_draws_with_and_without_a_cache(tfinspect: Program) -> None:
    words = ("generate", "--ids", "3,1", *TINY, "--max-new", "6", "--temperature", "1", "--json", "--no-check")
    found = [
        json.loads(tfinspect(*words, *more).out)["texts"][0]["new_ids"]
        for more in (("--seed", "5"), ("--seed", "5", "--no-cache"), ("--seed", "6"))
    ]
    assert found[0] == found[1] != found[2]


def test_without_a_check_nothing_is_compared(tfinspect: Program) -> None:
    ended = tfinspect("generate", "--ids", "3", *TINY, "--max-new", "2", "--no-check")
    assert ended.code == 0
    assert "agree" not in ended.out


def test_bytes_outside_utf8_and_control_characters_are_shown_and_never_sent(tfinspect: Program) -> None:
    ended = tfinspect("generate", b"caf\xe9 \x1b[31m", *NARROW, "--max-new", "40", "--temperature", "3", "--no-check")
    assert ended.code == 0
    assert "byte e9 outside UTF-8" in " ".join(ended.out.split())
    assert not any(ord(c) < 32 and c != "\n" for c in ended.out)


def test_standard_input_is_a_text(tfinspect: Program) -> None:
    ended = tfinspect("generate", "-", *NARROW, "--max-new", "1", "--no-check", "--json", stdin=b"hello world")
    document = json.loads(ended.out)
    assert document["texts"][0]["ids"] == [31373, 995]
    assert document["texts"][0]["text"] == "hello world"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("",), "nothing to continue (0 tokens)"),
        (("hello", "hello world"), "1, 2 tokens, and a batch needs one length; generate after each in a run"),
        (("hi", "--max-new", "0"), "--max-new"),
        (("hi", "--max-new", "1024"), "1 token and 1,024 new ones are 1,025, and the model's context is 1,024"),
        (("hi", "--max-new", "x"), "--max-new takes a whole number, not 'x'"),
        (("hi", "--temperature", "-1"), "--temperature"),
        (("hi", "--temperature", "nan"), "--temperature"),
        (("hi", "--top-k", "0"), "--top-k"),
        (("hi", "--top-p", "0"), "--top-p"),
        (("hi", "--top-p", "1.5"), "--top-p"),
        (("--ids", "10", *TINY), "id 10 at position 0"),
    ],
)
def test_what_cannot_be_generated_is_one_line_and_exit_code_2(
    tfinspect: Program, arguments: tuple[str, ...], words: str
) -> None:
    ended = tfinspect("generate", *arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert words in ended.err
    assert len(ended.err.splitlines()) == 1
