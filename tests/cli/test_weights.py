"""--weights: the commands that run a model run it with the weights of a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.cli.conftest import Program
from tests.stored import GPT2, LLAMA, TINY, folder

IDS = ("--ids", "3,1,4")


@pytest.mark.parametrize(
    "command",
    [
        ("trace", *IDS, "--last", "--stats"),
        ("generate", *IDS, "--max-new", "2", "--show"),
        ("attention", *IDS, "--layer", "1"),
        ("train-step", *IDS),
    ],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("spec", [TINY, LLAMA], ids=["gpt2", "llama"])
def test_a_result_says_whose_weights_it_is_of(
    tfinspect: Program, tmp_path: Path, spec: object, command: tuple[str, ...]
) -> None:
    place = str(folder(tmp_path / "m", TINY if spec is TINY else LLAMA))
    ended = tfinspect(*command, "--weights", place)
    assert (ended.code, ended.err) == (0, "")
    said = " ".join(ended.out.split())
    assert "random" not in said
    assert f"weights of {place}"[-20:] in ended.out.replace("\n", "")
    assert all(len(line) <= 80 or place in line for line in ended.out.splitlines())
    document = json.loads(tfinspect(*command, "--weights", place, "--json").out)
    family = "gpt2" if spec is TINY else "llama"
    assert document["weights"] == {"dtype": "float32", "checkpoint": place, "family": family}
    assert {agreement["verdict"] for agreement in document["agreements"]} == {"agree"}


def test_the_format_is_the_files_or_another(tfinspect: Program, tmp_path: Path) -> None:
    place = str(folder(tmp_path / "m", LLAMA, dtype=torch.bfloat16))
    for flags, dtype in (((), "bfloat16"), (("--dtype", "float64"), "float64")):
        document = json.loads(tfinspect("attention", *IDS, "--weights", place, *flags, "--json").out)
        assert document["dtype"] == document["weights"]["dtype"] == dtype


def test_a_text_continues_with_the_models_own_words(tfinspect: Program, tmp_path: Path) -> None:
    place = str(folder(tmp_path / "m", GPT2))
    document = json.loads(tfinspect("generate", "Hello", "--max-new", "1", "--weights", place, "--json").out)
    assert document["texts"][0]["new_text"] is not None
    assert "noise" not in tfinspect("generate", "Hello", "--max-new", "1", "--weights", place).out
    ended = tfinspect("generate", "Hello", "--weights", str(folder(tmp_path / "l", LLAMA)))
    assert (ended.code, ended.out) == (2, "")
    assert "give ids from 0 to 12 with --ids" in ended.err


def test_the_model_in_a_checkpoint_is_checked(tfinspect: Program, tmp_path: Path) -> None:
    place = folder(tmp_path / "m", LLAMA)
    ended = tfinspect("verify", "--weights", str(place), "causality", "cache", "--trials", "1", "--json")
    document = json.loads(ended.out)
    assert (ended.code, document["module"], document["class"]) == (0, str(place), "llama")
    assert [check["verdict"] for check in document["checks"]] == ["pass", "pass"]
    (place / "config.json").rename(tmp_path / "config.json")
    elsewhere = ("--config", str(tmp_path / "config.json"))
    assert tfinspect("verify", "--weights", str(place), *elsewhere, "finite", "--dtype", "bfloat16").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("trace", *IDS, "--weights", "nowhere"), "nowhere"),
        (("trace", *IDS, "--weights", ""), "--weights is ''"),
        (("trace", *IDS, "--weights", "m", "--meta"), "--meta holds no values, and --weights are values"),
        (("trace", *IDS, "--weights", "m", "--layers", "3"), "the checkpoint has nothing for blocks.2.norm1.weight"),
        (("trace", *IDS, "--weights", "m", "--preset", "gpt2"), "the checkpoint has nothing for blocks.2.norm1.weight"),
        (("trace", *IDS, "--weights", "m", "--dtype", "int4"), "unknown dtype 'int4'"),
        (("trace", *IDS, "--weights", "m", "--weights", "m"), "--weights is given 2 times"),
        (("generate", "--ids", "11", "--weights", "m"), "id 11 at position 0 is outside the model's vocabulary"),
        (("train-step", *IDS, "--weights", "m", "--dtype", "float64"), "a training step is made in float32"),
        (("verify", "--weights", "m", "--n", "17"), "--n 17: the model's context is 16; give at most --n 16"),
        (("verify", "--weights", "m", "--module", "os:path"), "--module and --weights name two models"),
        (("verify", "--weights", "m", "--list"), "--list lists the claims of the sources"),
        (("verify", "--weights", "m", "nothing"), "no check of a module is called 'nothing'"),
        (("verify", "--preset", "gpt2"), "--preset says what model --weights are of; give --weights PATH too"),
        (("verify", "--config", "m"), "--config says what model --weights are of; give --weights PATH too"),
        (("verify", "--n", "3"), "--n is for --module and --weights"),
    ],
)
def test_what_cannot_be_run_is_one_line_and_exit_code_2(
    tfinspect: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder(tmp_path / "m", TINY)
    ended = tfinspect(*words)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert "Traceback" not in ended.err
