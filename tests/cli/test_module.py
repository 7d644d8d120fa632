"""``tfinspect trace|params|flops --module`` as a user meets it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from tests.cli.conftest import Ended, Program
from tfinspect.cli.app import main

MODELS = """
import torch
from torch import nn

print("imported")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        print("built")
        self.tokens, self.head = nn.Embedding(31, 8), nn.Linear(8, 31)

    def forward(self, ids, mask=None):
        print("passed")
        x = self.tokens(ids)
        return self.head(x if mask is None else x * mask[..., None])


class Keywords(nn.Module):
    def forward(self, *, g, x):
        return {"logits": g + x, "past": None, "aux": (g, [x, 3, "txt"]), "loss": 0.5}


class Raises(Model):
    def forward(self, ids):
        self.tokens(ids)
        raise KeyError("[bold]no such thing[/bold]")


class Ends(Model):
    def forward(self, ids):
        raise SystemExit(0)


def lazy():
    return nn.Sequential(nn.LazyLinear(3), nn.ReLU())


def large():
    return nn.Sequential(nn.Linear(10**6, 10**6), nn.ReLU())


def half():
    return nn.Linear(4, 4, dtype=torch.bfloat16)


def no_input():
    class Empty(nn.Module):
        def forward(self):
            return torch.zeros(2)

    return Empty()


def example():
    return (torch.arange(6).reshape(2, 3),), {"mask": torch.ones(2, 3)}


named = Model()
"""

Called = Callable[..., Ended]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "their_models.py").write_text(MODELS, encoding="utf-8")
    return {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def called(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Called]:
    """The same within this process, where torch is there already; the user's module is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", [env["PYTHONPATH"], *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield lambda *words: Ended(main(words), *capsys.readouterr())
    sys.modules.pop("their_models", None)


def test_a_trace_shows_modules_and_shapes_and_what_the_code_prints_goes_aside(
    tfinspect: Program, env: dict[str, str]
) -> None:
    ended = tfinspect("trace", "--module", "their_models:Model", "--input", "int64[2,5]<31", env=env)
    assert ended.code == 0
    assert {"imported", "built", "passed"} == set(ended.err.split())
    assert not {"imported", "built", "passed"} & set(ended.out.split())
    words = " ".join(ended.out.split())
    assert "their_models:Model (Model)" in words
    assert "Symbols: B = 2, T = 5." in words
    assert "[B, T, 31]" in words or "[B,T,31]" in words
    assert "2,480" in words  # 2·5·8·31 multiplications
    assert max(map(cell_len, ended.out.splitlines())) <= 80


def test_parameters_need_no_input(called: Called) -> None:
    ended = called("params", "--module", "their_models:Model", "--expect", "527", "--no-check")  # 31·8 + 8·31 + 31
    assert ended.code == 0
    assert "527" in ended.out
    ended = called("params", "--module", "their_models:Model", "--expect", "528")
    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith("error: the model has 527 parameters, 1 fewer than")


@pytest.mark.parametrize("command", ["trace", "params", "flops"])
@pytest.mark.parametrize("reference", ["Model", "named"])
def test_the_document_is_json_alone(called: Called, command: str, reference: str) -> None:
    ended = called(
        command, "--module", f"their_models:{reference}", "--input", "int64[2,5]<31", "--json"
    )  # fmt: skip
    document = json.loads(ended.out)
    assert ended.code == 0
    assert document["schema"].startswith("tfinspect.module_")
    assert document["total_params"] == 527
    assert {agreement["verdict"] for agreement in document["agreements"]} == {"agree"}
    if command != "params":
        assert document["total_multiplications"] == 2480


def test_inputs_come_from_specs_files_and_functions(called: Called, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", np.zeros((2, 3), np.int64), mask=np.ones((2, 3), np.float32))
    ways = [
        ["--input", "int64[2,3]<31", "--input", "mask=f32[2,3]"],
        ["--input-file", str(tmp_path / "x.npz")],
        ["--inputs", "their_models:example"],
    ]
    for way in ways:
        ended = called("trace", "--module", "their_models:Model", "--json", *way)
        document = json.loads(ended.out)
        assert [(value["path"], value["sizes"]) for value in document["inputs"]][1] == ("mask", [2, 3])
        assert document["calls"][0]["outputs"][0]["sizes"] == [2, 3, 31]


def test_keywords_and_outputs_have_their_paths(called: Called) -> None:
    words = ("--input", "g=f32[1,4]", "--input", "x=f32[1,4]")
    ended = called("trace", "--module", "their_models:Keywords", *words, "--json")
    document = json.loads(ended.out)
    (call,) = document["calls"]
    assert [value["path"] for value in call["inputs"]] == ["g", "x"]
    outputs = {value["path"]: value["sizes"] or value["kind"] for value in call["outputs"]}
    assert outputs["logits"] == outputs["aux[0]"] == outputs["aux[1][0]"] == [1, 4]
    assert (outputs["loss"], outputs["aux[1][2]"]) == ("float", "str")


def test_a_failing_pass_is_shown_up_to_there_and_ends_with_2(called: Called) -> None:
    words = ("--module", "their_models:Raises", "--input", "int64[2,5]<31")
    ended = called("trace", *words)
    assert ended.code == 2
    assert "tokens" in ended.out
    last = ended.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert "KeyError: '[bold]no such thing[/bold]'" in last
    assert "try --input" not in last
    ended = called("trace", *words, "--json")
    assert (ended.code, json.loads(ended.out)["calls"][1]["path"]) == (2, "tokens")
    ended = called("flops", *words)
    assert (ended.code, ended.out) == (2, "")
    assert "KeyError" in ended.err.splitlines()[-1]


def test_a_first_layer_that_raises_is_told_with_an_input_that_fits(called: Called) -> None:
    ended = called("trace", "--module", "their_models:Model", "--input", "f32[2,5]")
    assert ended.code == 2
    assert ended.err.endswith('; the first layer is Embedding(31, 8): try --input "int64[1,16]<31"\n')


def test_an_id_beyond_the_table_is_named(called: Called) -> None:
    ended = called("flops", "--module", "their_models:Model", "--inputs", "their_models:example")
    assert ended.code == 0
    ended = called("flops", "--module", "their_models:Model", "--input", "int64[1,99]<1000")
    assert ended.code == 2
    assert "30" in ended.err.splitlines()[-1]


def test_the_meta_device_takes_what_memory_does_not(called: Called) -> None:
    for command in ("trace", "flops"):
        ended = called(
            command, "--module", "their_models:large", "--meta", "--input", "f32[10,1000000]", "--json"
        )  # fmt: skip
        document = json.loads(ended.out)
        assert document["total_params"] == 1_000_001_000_000
        assert document["total_multiplications"] == 10**13
    ended = called("params", "--module", "their_models:large", "--meta")
    assert "1,000,001,000,000" in ended.out


def test_lazy_parameters_are_counted_over_an_input(called: Called) -> None:
    ended = called("params", "--module", "their_models:lazy", "--json")
    document = json.loads(ended.out)
    assert (document["total_params"], document["uninitialised_tensors"]) == (0, 2)
    ended = called("params", "--module", "their_models:lazy", "--input", "f32[2,5]", "--json")
    document = json.loads(ended.out)
    assert (document["total_params"], document["uninitialised_tensors"]) == (18, 0)  # 3·5 + 3


def test_a_module_without_inputs_runs_without(called: Called) -> None:
    ended = called("trace", "--module", "their_models:no_input")
    assert ended.code == 0
    assert "[2]" in ended.out


def test_integers_without_a_bound_are_noted(called: Called) -> None:
    ended = called("flops", "--module", "their_models:Model", "--input", "int64[2,5]")
    assert ended.code == 0
    assert "note: int64[2,5] has no bound: only 0 and 1 are drawn; int64[2,5]<100 draws below 100\n" in ended.err


def test_options_of_the_run_are_taken(called: Called) -> None:
    words = ("--module", "their_models:Model", "--input", "int64[2,5]<31", "--seed", "3", "--json")
    ended = called("trace", *words, "--ops", "--stats", "--train", "--time", "--memory")
    document = json.loads(ended.out)
    head = next(call for call in document["calls"] if call["path"] == "head")
    assert document["model"]["mode"] == "train"
    assert head["ops"]
    assert head["outputs"][0]["stats"]["non_finite"] == 0
    assert head["seconds"] is not None
    assert head["peak_bytes"] > 0
    assert called("trace", *words, "--stats").out == called("trace", *words, "--stats").out
    shallow = called("trace", *words[:-1], "--depth", "0")
    assert "head" not in shallow.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trace", "--module", "their_models:Model"],
         'no input is given; the first layer is Embedding(31, 8): try --input "int64[1,16]<31"'),
        (["flops", "--module", "their_models:Keywords"],
         'no input is given; say its number format and sizes: --input "g=float32[1,16]"; forward needs g, x'),
        (["trace", "--module", "their_models:Model", "Hello"],
         'TEXT is for the built-in models, not for --module; say what it is called with: --input '
         '"int64[1,16]<50257"'),
        (["trace", "--module", "their_models:Model", "--ids", "1,2"], "--ids is for the built-in models"),
        (["trace", "--module", "their_models:Model", "--d", "8"], "--d is for the built-in models, not for --module"),
        (["trace", "--module", "their_models:Model", "--untied"], "--untied is for the built-in models"),
        (["trace", "--module", "their_models:Model", "--preset", "gpt2"], "--preset is for the built-in models"),
        (["params", "--module", "their_models:Model", "gpt2"], "MODEL is for the built-in models, not for --module"),
        (["flops", "--module", "their_models:Model", "--n", "8"], "--n is for the built-in models, not for --module"),
        (["flops", "--module", "their_models:Model", "--head", "last"], "--head is for the built-in models"),
        (["flops", "--module", "their_models:Model", "--rules"],
         "--rules is for the built-in models, not for --module; leave out the one or the other"),
        (["trace", "--input", "f32[2]", "hi"], "--input is for --module; for example --module my_model:build"),
        (["flops", "--train"], "--train is for --module"),
        (["params", "--depth", "1"], "--depth is for --module"),
        (["flops", "--module", "their_models:Model", "--input", "int46[2]"],
         "--input 'int46[2]': 'int46' is no dtype at character 1; did you mean int64?"),
        (["flops", "--module", "their_models:Model", "--input-file", "none.npz"], "No such file or directory"),
        (["flops", "--module", "their_models:Model", "--inputs", "their_models:none"], "'their_models' has no 'none'"),
        (["flops", "--module", "no_such_models:Model"], "no module 'no_such_models'"),
        (["flops", "--module", "their_models:Model", "--depth", "-1", "--input", "int64[1,2]<3"], "depth"),
        (["flops", "--module", "their_models:Model", "--input", "f32[10000000000,1000]"], "GiB are free"),
        (["flops", "--module", "their_models:half", "--input", "f32[2,4]"], "float"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(called: Called, words: list[str], said: str) -> None:
    ended = called(*words)
    assert (ended.code, ended.out) == (2, "")
    error = ended.err.splitlines()[-1]
    assert error.startswith("error: ")
    assert said in error


def test_help_imports_nothing_heavy_and_has_a_panel_for_modules(tfinspect: Program, env: dict[str, str]) -> None:
    for command in ("trace", "params", "flops"):
        ended = tfinspect(command, "--help", env={**env, "PYTHONPROFILEIMPORTTIME": "1"})
        assert "Your own module:" in ended.out
        assert not {"torch", "numpy"} & {line.rpartition("|")[2].strip() for line in ended.err.splitlines()}


@pytest.mark.parametrize("command", ["trace", "flops"])
def test_a_forward_that_ends_the_program_is_said_to_have_done_so(called: Called, command: str) -> None:
    ended = called(command, "--module", "their_models:Ends", "--input", "int64[2,5]<31")
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith("error: the module ended the program: SystemExit: 0")
