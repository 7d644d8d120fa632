"""``tfinspect verify --module`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.cli.conftest import Program

MODELS = """
import torch
from torch import nn

print("imported")

class Right(nn.Module):
    def __init__(self):
        super().__init__()
        print("built")
        self.tokens, self.head = nn.Embedding(31, 8), nn.Linear(8, 31)

    def forward(self, tokens):
        print("passed")
        return self.head(self.mixed(self.tokens(tokens)))

    def mixed(self, x):
        return x.cumsum(dim=1) / torch.arange(1, x.shape[1] + 1)[:, None]

class Leaks(Right):
    def mixed(self, x):
        return x + x.mean(dim=1, keepdim=True)

class Raises(Right):
    def mixed(self, x):
        raise KeyError("[bold]no such thing[/bold]")
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "their_models.py").write_text(MODELS, encoding="utf-8")
    return {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}


def test_a_right_model_passes_and_its_prints_stay_out_of_the_report(tfinspect: Program, env: dict[str, str]) -> None:
    ended = tfinspect("verify", "--module", "their_models:Right", env=env)
    assert ended.code == 0
    assert "their_models:Right: Right, 527 parameters" in ended.out  # 31·8 + 8·31 + 31
    assert {"imported", "built", "passed"} == set(ended.err.split())
    assert not {"imported", "built", "passed"} & set(ended.out.split("\n"))
    assert max(map(cell_len, ended.out.splitlines())) <= 80


def test_a_leak_is_shown_with_its_place_and_ends_with_1(tfinspect: Program, env: dict[str, str]) -> None:
    ended = tfinspect("verify", "--module", "their_models:Leaks", "--n", "4", "--explain", env=env)
    assert ended.code == 1
    words = " ".join(ended.out.split())
    assert "6 of 6 pairs of a row and a later token leak" in words
    assert "prefix Follows from causality" in words
    assert ended.err.endswith("error: their_models:Leaks fails causality; 1 more follows from that\n")
    assert max(map(cell_len, ended.out.splitlines())) <= 80


def test_the_document_is_json_alone(tfinspect: Program, env: dict[str, str]) -> None:
    ended = tfinspect(
        "verify", "--module", "their_models:Leaks", "causality", "batch", "--n", "6", "--batch", "2", "--vocab", "7",
        "--trials", "1", "--dtype", "float64", "--seed", "5", "--json", env=env,
    )  # fmt: skip
    document = json.loads(ended.out)
    assert ended.code == 1
    assert (document["schema"], document["module"], document["dtype"]) == (
        "tfinspect.model-checks/1", "their_models:Leaks", "float64",
    )  # fmt: skip
    sizes = [document[key] for key in ("seq_len", "batch", "n_ids", "vocab_size", "trials", "seed")]
    assert sizes == [6, 2, 7, 31, 1, 5]
    assert [(check["id"], check["verdict"]) for check in document["checks"]] == [
        ("causality", "fail"),
        ("batch", "pass"),
    ]
    (matrix,) = document["checks"][0]["matrices"]
    assert [len(row) for row in matrix["rows"]] == [6] * 6
    assert all(size > 0 for row in matrix["rows"] for size in row)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--module", "their_models:Raises"], "KeyError: '[bold]no such thing[/bold]'"),
        (["--module", "their_models:Wrong"], "'their_models' has no 'Wrong'"),
        (["--module", "no_such_models:Right"], "no module 'no_such_models'"),
        (["--module", "their_models:Right", "--list"], "--list"),
        (["--module", "their_models:Right", "A3.3"], "'A3.3'"),
        (["--n", "4"], "--n is for --module"),
        (["causality"], "no claim has the id 'causality'"),
    ],
)
def test_what_cannot_be_checked_is_one_error(
    tfinspect: Program, env: dict[str, str], words: list[str], said: str
) -> None:
    ended = tfinspect("verify", *words, env=env)
    assert (ended.code, ended.out) == (2, "")
    *prints, error = ended.err.splitlines()
    assert set(prints) <= {"imported", "built", "passed"}
    assert error.startswith("error: ")
    assert said in error
