"""``tfinspect train-step`` as a user meets it."""

from __future__ import annotations

import json

import pytest
from rich.cells import cell_len

from tests.cli.conftest import Program

MAKIE = "蒔絵師が硯箱を"
SMALL = ("--d", "64", "--layers", "2")
TINY = ("--preset", "tiny-568")


def test_a_model_of_another_family_is_trained_and_looked_at_and_generates(tfinspect: Program) -> None:
    llama = ("--norm", "rmsnorm", "--activation", "swiglu", "--positions", "rope", "--kv-heads", "1", "--untied")
    model = ("--preset", "tiny-568", *llama, "--no-bias", "--window", "3", "--ids", "3,1,4,1,5", "--json")
    for command in (("train-step",), ("attention", "--head", "1"), ("generate", "--max-new", "2")):
        ended = tfinspect(*command, *model)
        assert (ended.code, ended.err) == (0, ""), command
        document = json.loads(ended.out)
        assert {a["verdict"] for a in document["agreements"]} == {"agree"}
        assert document["model"]["spec"]["n_kv_heads"] == 1


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_the_sample_text_on_a_page_of_80_columns(tfinspect: Program, optimizer: str) -> None:
    ended = tfinspect("train-step", MAKIE, *SMALL, "--optimizer", optimizer)
    assert (ended.code, ended.err) == (0, "")
    assert max(map(cell_len, ended.out.splitlines())) <= 80
    words = " ".join(ended.out.split())
    for stage in ("1. forward:", "2. loss:", "3. backward:", "4. step:", "5. zero_grad:"):
        assert stage in words
    assert "agree predictions: closed form 15 = measured 15" in words  # 16 tokens, all but the first
    assert "agree blocks that a gradient reaches: closed form 2 = measured 2" in words
    assert "differ" not in words.replace("difference", "")


def test_the_document_tells_the_stages_apart(tfinspect: Program) -> None:
    ended = tfinspect("train-step", "--ids", "3,1,4,1,5,9", *TINY, "--json")
    document = json.loads(ended.out)
    assert document["schema"] == "tfinspect.train_step/1"
    digests = [stage["parameters_sha256"] for stage in document["stages"]]
    assert [len(digest) for digest in digests] == [64] * 6
    assert [digest == digests[0] for digest in digests] == [True, True, True, True, False, False]
    assert digests[4] == digests[5]
    by_stage = {stage["stage"]: stage for stage in document["stages"]}
    assert by_stage["loss"]["kept_for_backward"]["bytes"] == sum(t["bytes"] for t in document["kept_for_backward"])
    assert by_stage["backward"]["gradients"] == {"tensors": 36, "bytes": 4 * 568}
    assert document["zero_grad_leaves"] == "None"
    assert sum(len(g["shape"]) == len(g["sizes"]) for g in document["gradients"]) == 36
    assert {a["verdict"] for a in document["agreements"]} == {"agree"}


def test_a_seed_repeats_a_step_to_the_last_byte(tfinspect: Program) -> None:
    words = ("train-step", "--ids", "3,1,4", *TINY, "--dropout", "0.5", "--json")
    one, same, other = (tfinspect(*words, "--seed", seed).out for seed in ("5", "5", "6"))
    assert one == same != other


def test_standard_input_and_files_are_texts(tfinspect: Program) -> None:
    ended = tfinspect("train-step", *SMALL, "--json", stdin=b"hello world")
    assert json.loads(ended.out)["texts"] == [{"text": "hello world", "ids": [31373, 995], "n_padding": 0}]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("hello",), "the text has 1 token, so there is nothing to predict"),
        (("",), "nothing to train on (0 tokens)"),
        (("hello world", "--optimizer", "adam"), "unknown --optimizer 'adam'"),
        (("hello world", "--lr", "fast"), "--lr"),
        (("hello world", "--lr", "0"), "--lr"),
        (("hello world", "--momentum", "0.9"), "belongs to SGD"),
        (("hello world", "a b c"), "2, 3 tokens"),
        (("hello world", "--blocks", "12"), "no block 12"),
        (("--ids", "1"), "nothing to predict"),
        (("hello world", "--d", "65536", "--heads", "64", "--layers", "200"), "GiB"),
    ],
)
def test_what_cannot_be_trained_is_one_line_and_exit_code_2(
    tfinspect: Program, arguments: tuple[str, ...], words: str
) -> None:
    ended = tfinspect("train-step", *arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert words in ended.err
    assert len(ended.err.splitlines()) <= 2
