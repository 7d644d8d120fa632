"""``tfinspect params`` on a checkpoint as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests import headers
from tests.cli.conftest import Program
from tests.facts.test_stored import GPT2
from tests.sources.test_safetensors_header import tensor, write


def test_gpt2_small_as_it_is_published(tfinspect: Program, tmp_path: Path) -> None:
    file = write(tmp_path / "model.safetensors", headers.header(GPT2))
    ended = tfinspect("params", str(file), "--expect", "124,439,808")
    assert (ended.code, ended.err) == (0, "")
    words = " ".join(ended.out.split())
    assert "160 tensors with names of gpt2, in 1 file of safetensors" in words
    assert "elements of all tensors 137,022,720 masks and other buffers -12,582,912" in words
    assert "h.*.attn.c_attn.weight × 12 F32 [768,2304]" in words
    assert "h.* × 12 156 85,054,464" in words
    assert "are [in, out], as GPT-2's Conv1D has them" in words
    assert "agree bytes of all tensors: closed form 548,090,880 = measured 548,090,880" in words
    assert max(map(cell_len, ended.out.splitlines())) <= 80


def test_the_depth_of_the_tree_is_the_users(tfinspect: Program, tmp_path: Path) -> None:
    file = str(write(tmp_path / "model.safetensors", headers.header(GPT2)))
    paths = {
        depth: [m["path"] for m in json.loads(tfinspect("params", file, "--depth", depth, "--json").out)["modules"]]
        for depth in ("0", "1", "2")
    }
    assert paths["0"] == []
    assert paths["1"] == ["wte", "wpe", "h.*", "ln_f"]
    assert "h.*.attn" in paths["2"]
    assert "--depth 2 shows more" in tfinspect("params", file, "--depth", "1").out


def test_a_directory_with_both_is_its_checkpoint_and_config_its_configuration(tfinspect: Program) -> None:
    folder = headers.sharded()
    stored, described = (
        json.loads(tfinspect("params", *words, "--no-check", "--json").out)
        for words in ((folder,), ("--config", folder))
    )
    assert (stored["schema"], stored["files"], stored["index_total_size"]) == ("tfinspect.stored/1", 2, 0)
    assert described["schema"] == "tfinspect.params/1"
    assert stored["copies"][0]["tied"] is True
    assert (stored["family"], stored["total_params"]) == ("gpt2", 9 * 8 + 4 * 8 + 12 * 8 * 8 + 3 * 8)


def test_what_is_not_whole_is_listed_and_fails(tfinspect: Program, tmp_path: Path) -> None:
    short = write(tmp_path / "model.safetensors", {"a": tensor("F32", [1], 0, 4), "b": tensor("F32", [3], 4, 16)}, 12)
    ended = tfinspect("params", str(short))
    assert ended.code == 1
    assert ended.out.startswith("INCOMPLETE,")
    assert "tensor, cut off  b" in ended.out
    assert ended.err.startswith(
        "error: the checkpoint is not whole: model.safetensors ends 4 bytes early; incomplete: b"
    )


def test_an_expectation_that_fails(tfinspect: Program) -> None:
    ended = tfinspect("params", headers.single(), "--expect", "73")
    assert (ended.code, ended.err) == (1, "error: the checkpoint has 72 parameters, 1 fewer than the expected 73\n")


@pytest.mark.parametrize("name", ["gone.safetensors", "gone.pt", "gone.bin", "gone.safetensors.index.json"])
def test_a_file_that_is_not_there_is_a_checkpoint_that_cannot_be_read(tfinspect: Program, name: str) -> None:
    ended = tfinspect("params", name)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: '{name}' ")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--d 12", "--no-bias", "--meta", "--module a:b", "--preset gpt2", "--input f32[1]"])
def test_options_of_models_are_refused(tfinspect: Program, option: str) -> None:
    ended = tfinspect("params", headers.single(), *option.split())
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {option.split()[0]} does nothing with a checkpoint; ")


def test_strange_names_disorder_nothing(tfinspect: Program, tmp_path: Path) -> None:
    names = ("[bold]x[/bold]", "a\nb", "\x1b[31mred", "\u202eabc", "名前.重み", "x" * 5_000, "a." * 300 + "w", "")
    file = write(tmp_path / "model.safetensors", headers.header({name: [2] for name in names}))
    ended = tfinspect("params", str(file), "--per-tensor")
    assert (ended.code, ended.err) == (0, "")
    assert "[bold]x[/bold]" in ended.out
    assert "\x1b" not in ended.out
    assert "a\\nb" in ended.out
    assert max(map(cell_len, ended.out.splitlines())) <= 80
    assert json.loads(tfinspect("params", str(file), "--json").out)["total_params"] == 2 * len(names)


def test_many_that_differ_are_cut_on_the_page_alone(tfinspect: Program, tmp_path: Path) -> None:
    file = write(tmp_path / "model.safetensors", headers.header({f"w{at}": [at] for at in range(1, 301)}))
    assert "100 more; --json has all" in tfinspect("params", str(file)).out
    assert len(json.loads(tfinspect("params", str(file), "--json").out)["groups"]) == 300
