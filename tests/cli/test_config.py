"""A config.json as the model of every command, as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Program

CONFIG = {
    "model_type": "mistral", "vocab_size": 320, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 96, "sliding_window": 3, "max_position_embeddings": 128,
}  # fmt: skip

#: Two tables of 320·64; per block 2·64² + 2·64·32 of attention, 3·64·96 of the MLP, two gains; one gain after them.
TOTAL = 2 * 320 * 64 + 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * 64) + 64


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def test_params_of_a_file_and_of_its_directory(tfinspect: Program, directory: Path) -> None:
    for path in (directory, directory / "config.json"):
        ended = tfinspect("params", str(path), "--expect", str(TOTAL), "--json")
        assert (ended.code, ended.err) == (0, "")
        document = json.loads(ended.out)
        assert document["total_params"] == TOTAL
        assert document["model"]["name"] == "mistral"
        assert any("tie_word_embeddings = false" in said for said in document["model"]["derived"])


def test_flags_change_it(tfinspect: Program, directory: Path) -> None:
    document = json.loads(tfinspect("flops", str(directory), "--n", "8", "--layers", "3", "--no-check", "--json").out)
    assert document["model"]["spec"]["n_layers"] == 3
    assert document["model"]["origin"].endswith("(mistral) with n_layers changed")


def test_commands_that_read_texts_take_it_as_an_option(tfinspect: Program, directory: Path) -> None:
    for command in (["trace", "--blocks", "none"], ["attention"], ["generate", "--max-new", "2"]):
        ended = tfinspect(*command, "--config", str(directory), "--ids", "1,2,3", "--json")
        assert (ended.code, ended.err) == (0, "")
        assert json.loads(ended.out)["model"]["name"] == "mistral"


def test_what_is_not_understood_is_said_on_the_page(tfinspect: Program, directory: Path) -> None:
    (directory / "config.json").write_text(json.dumps({**CONFIG, "n_memory_tokens": 16}))
    for command in (["params", str(directory)], ["flops", str(directory), "--n", "4"]):
        page = " ".join(tfinspect(*command, "--no-check").out.split())
        assert page.startswith("INCOMPLETE, mistral of ")
        assert "figures may be wrong: n_memory_tokens is not understood" in page


def test_a_broken_file_is_one_line(tfinspect: Program, directory: Path) -> None:
    (directory / "config.json").write_text('{"model_type": "mistral",\n "hidden_size": 64,\n "hidden_size": 128}')
    ended = tfinspect("params", str(directory))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith("config.json' at line 3, column 2: the key 'hidden_size' is given twice; mend the file\n")
