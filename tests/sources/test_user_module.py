"""From ``package.module:name`` to a model: what is found, and what is said where nothing is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from tfinspect.errors import InputError, described
from tfinspect.sources.user_module import load

OWN = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)

class Zoo:
    @staticmethod
    def small():
        return Model(2)

def build():
    return Model()

def wide(width):
    return Model(width)

def forgets():
    Model()

def names():
    return {"a": Model()}

def fails():
    raise ValueError("17 does not divide 4\\nand a second line")

def leaves():
    raise SystemExit(3)

model = Model()
width = 4
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with modules of its own, forgotten afterwards."""
    files = {
        "own_model.py": OWN,
        "own_package/__init__.py": "",
        "own_package/inner.py": OWN,
        "own_needs.py": "import no_such_dependency\n",
        "own_broken.py": "def build(:\n",
        "own_raises.py": "x = 1\ny = 1 / 0\n",
        "own_program.py": "import sys\nsys.exit('usage: own_program FILE')\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    "reference",
    ["own_model:build", "own_model:Model", "own_model:model", "own_model:Zoo.small", "own_package.inner:build"],
)
def test_functions_classes_and_models_are_found(reference: str) -> None:
    own = load(reference)
    assert own.name == reference
    assert isinstance(own.module, nn.Module)
    assert (own.rebuild is None) == reference.endswith(":model")


def test_a_seed_decides_the_weights_and_leaves_no_trace() -> None:
    before = torch.get_rng_state()
    one, same, other = (load("own_model:build", seed=seed).module.get_parameter("linear.weight") for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_can_be_built_again() -> None:
    own = load("own_model:build")
    assert own.rebuild is not None
    assert own.rebuild() is not own.module


@pytest.mark.parametrize(
    ("reference", "words", "hint"),
    [
        ("own_model", "'own_model'", "def build()"),
        ("own_model:", "'own_model:'", "def build()"),
        (":build", "':build'", "def build()"),
        ("own model:build", "'own model:build'", ""),
        ("own_model.py:build", "not the path 'own_model.py'", "own_model:build"),
        ("models/own_model.py:build", "not the path", "own_model:build"),
        ("no_such_module:build", "no module 'no_such_module'", "installed packages"),
        ("own_package.none:build", "no module 'own_package.none'", "installed packages"),
        ("own_model:bild", "no 'bild'", "did you mean 'build'?"),
        ("own_model:Zoo.tall", "no 'Zoo.tall'", "did you mean 'small'?"),
        ("own_model:width", "is an int, neither", "def build()"),
        ("own_model:wide", "needs arguments: width", "needs none"),
        ("own_model:forgets", "returned None", "return"),
        ("own_model:names", "returned a dict", "model"),
        ("own_model:fails", "raised ValueError: 17 does not divide 4 (own_model.py:28)", ""),
        ("own_model:leaves", "raised SystemExit: 3 (own_model.py:31)", ""),
        ("own_needs:build", "ModuleNotFoundError: No module named 'no_such_dependency' (own_needs.py:1)", ""),
        ("own_broken:build", "SyntaxError", ""),
        ("own_broken:build", "(own_broken.py:1)", ""),
        ("own_raises:build", "ZeroDivisionError: division by zero (own_raises.py:2)", ""),
        ("own_program:build", "ended the program: SystemExit: usage: own_program FILE (own_program.py:2)", "__main__"),
    ],
)
def test_what_cannot_be_loaded_is_said_with_its_line(reference: str, words: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        load(reference)
    assert words in caught.value.message
    assert hint in caught.value.hint
    assert "\n" not in str(caught.value)


def test_an_exception_is_described_by_the_innermost_line_that_is_not_torchs(folder: Path) -> None:
    module = load("own_model:Model").module
    try:
        module.get_submodule("linear")(torch.zeros(3))
    except RuntimeError as error:
        said = described(error)
    assert said.startswith("RuntimeError: ")
    assert "test_user_module.py:" in said


def test_a_long_message_is_cut() -> None:
    assert len(described(ValueError("x" * 10_000))) < 300
    assert described(KeyError()) == "KeyError"
