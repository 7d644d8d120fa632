"""Checkpoints of one file and of many, whole and with parts missing."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sources.test_safetensors_header import tensor, write
from tfinspect.errors import InputError
from tfinspect.sources.checkpoint import is_checkpoint, is_stored, read, tied_by_config

INDEX = "model.safetensors.index.json"


def shards(folder: Path, files: dict[str, dict[str, Any]], **extra: str) -> Path:
    """Shards, and an index that names their tensors and more."""
    names = {name: file for file, header in files.items() for name in header}
    for file, header in files.items():
        write(folder / file, header)
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": {**names, **extra}}))
    return folder


TWO = {"a.safetensors": {"x": tensor("F32", [2], 0, 8)}, "b.safetensors": {"y": tensor("BF16", [3], 0, 6)}}


def test_a_directory_of_shards_is_counted_from_their_headers(tmp_path: Path) -> None:
    found = read(shards(tmp_path, TWO))
    assert {name: t.n_elements for name, t in found.tensors.items()} == {"x": 2, "y": 3}
    assert found.faults == ()
    assert is_checkpoint(tmp_path)
    assert read(tmp_path / INDEX).tensors == found.tensors


def test_one_file_needs_no_index(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", {"x": tensor("F32", [2], 0, 8)})
    assert list(read(tmp_path).tensors) == list(read(tmp_path / "model.safetensors").tensors) == ["x"]


def test_shards_and_tensors_that_are_missing_are_listed(tmp_path: Path) -> None:
    # huggingface_hub issue 4725
    found = read(shards(tmp_path, TWO, z="a.safetensors", gone="c.safetensors"))
    assert (found.missing_files, found.missing_tensors) == (("c.safetensors",), ("z",))
    assert found.faults == (
        "1 file is missing: c.safetensors",
        "1 tensor of the index is in no file: z",
    )
    assert len(found.tensors) == 2


def test_a_tensor_in_the_wrong_shard_is_missing_there_and_one_that_is_not_listed_is_told(tmp_path: Path) -> None:
    shards(tmp_path, TWO)
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"x": "b.safetensors"}}))
    found = read(tmp_path)
    assert (found.missing_tensors, found.unlisted) == (("x",), ("y",))
    assert found.remarks == ("There, and not named by the index: y.",)


def test_two_shards_with_one_tensor_are_refused(tmp_path: Path) -> None:
    both = {"a.safetensors": {"x": tensor("F32", [2], 0, 8)}, "b.safetensors": {"x": tensor("F32", [2], 0, 8)}}
    shards(tmp_path, both, more="a.safetensors")
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}))
    with pytest.raises(InputError, match=r"a\.safetensors and b\.safetensors both hold 'x'"):
        read(tmp_path)


@pytest.mark.parametrize("file", ["../a.safetensors", "/etc/passwd", "", "x\0", "sub/a.safetensors", "..\\a"])
def test_a_shard_elsewhere_is_refused(tmp_path: Path, file: str) -> None:
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"x": file}}))
    with pytest.raises(InputError, match=r"shards stand beside their index|cannot be read"):
        read(tmp_path)


@pytest.mark.parametrize("content", ["{}", '{"weight_map": []}', '{"weight_map": {"x": 3}}', "[]", ""])
def test_an_index_without_a_map_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / INDEX).write_text(content)
    with pytest.raises(InputError, match=r"index\.json"):
        read(tmp_path)


def test_a_directory_with_neither_or_both(tmp_path: Path) -> None:
    assert not is_checkpoint(tmp_path)
    with pytest.raises(InputError, match="holds neither"):
        read(tmp_path)
    shards(tmp_path, TWO)
    write(tmp_path / "model.safetensors", {"x": tensor("F32", [2], 0, 8)})
    with pytest.raises(InputError, match="give the one that is meant"):
        read(tmp_path)


def test_a_checkpoint_of_a_terabyte_is_read_from_its_headers(tmp_path: Path) -> None:
    n_shards, n = 200, 2**31 // 2  # 200 shards of 5 GiB each, sparse
    files = {
        f"model-{i:05}-of-{n_shards:05}.safetensors": {
            f"blocks.{i}.{name}": tensor("BF16", [n, 5], at * 10 * n, (at + 1) * 10 * n) for at, name in enumerate("ab")
        }
        for i in range(n_shards)
    }
    found = read(shards(tmp_path, files))
    assert sum(t.n_elements for t in found.tensors.values()) == n_shards * 2 * 5 * n
    assert sum(t.n_bytes for t in found.tensors.values()) >= 10**12
    assert found.n_header_bytes < 200_000


def test_shards_without_an_index_have_to_be_of_one_whole(tmp_path: Path) -> None:
    for name in ("model-00001-of-00002.safetensors", "model-00001-of-00003.safetensors"):
        write(tmp_path / name, {name: tensor("F32", [2], 0, 8)})
    with pytest.raises(InputError, match="holds shards of 2 checkpoints"):
        read(tmp_path)


def test_a_directory_that_holds_two_things_or_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds neither"):
        read(tmp_path)
    write(tmp_path / "model.safetensors", {})
    shards(tmp_path, TWO)
    with pytest.raises(InputError, match="give the one that is meant"):
        read(tmp_path)


def test_the_size_that_an_index_says_is_kept_and_not_believed(tmp_path: Path) -> None:
    for total, kept in ((14, 14), (-1, None), ("14", None), (True, None), (1.5, None), (None, None)):
        shards(tmp_path, TWO)
        content = json.loads((tmp_path / INDEX).read_text())
        (tmp_path / INDEX).write_text(json.dumps({**content, "metadata": {"total_size": total}}))
        assert read(tmp_path).total_size == kept


def test_what_may_be_a_checkpoint_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert not is_stored(tmp_path)
    assert not is_stored(tmp_path / "config.json")
    assert not is_stored(Path("a\0b.pt"))
    for name in ("pytorch_model.bin", "x.safetensors"):
        (tmp_path / name).touch()
        assert is_stored(tmp_path)
        assert is_stored(tmp_path / name)
        (tmp_path / name).unlink()


def test_whether_the_head_is_tied_is_the_configurations_to_say(tmp_path: Path) -> None:
    file = write(tmp_path / "model.safetensors", {})
    assert tied_by_config(file) is None
    for config, tied in (({"model_type": "gpt2"}, True), ({"model_type": "llama"}, False), ({"model_type": "?"}, None)):
        (tmp_path / "config.json").write_text(json.dumps(config))
        assert tied_by_config(file) is tied_by_config(tmp_path) is tied


names = st.text(max_size=3) | st.sampled_from(["x", "y", "a.safetensors", "b.safetensors", "../a.safetensors", "."])
values = st.recursive(names | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3), max_leaves=4)


@given(
    st.dictionaries(names, values, max_size=4)
    | st.fixed_dictionaries({"weight_map": st.dictionaries(names, names, max_size=4), "metadata": values})
)
@settings(max_examples=300)
def test_any_index_is_a_result_or_an_error(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    folder = tmp_path_factory.mktemp("any")
    shards(folder, TWO)
    (folder / INDEX).write_text(json.dumps(content))
    with contextlib.suppress(InputError):
        found = read(folder)
        assert found.tensors.keys() <= {"x", "y"}
        assert set(found.unlisted) <= found.tensors.keys()
        assert bool(found.faults) == bool(found.missing_files or found.missing_tensors)


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_any_bytes_are_an_index_or_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / INDEX).write_bytes(content)
    with pytest.raises(InputError):
        read(folder)
