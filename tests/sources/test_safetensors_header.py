"""Headers of safetensors files: what they say, and every way in which they lie."""

from __future__ import annotations

import itertools
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfinspect.errors import InputError
from tfinspect.sources import safetensors_header
from tfinspect.sources.safetensors_header import read


def write(
    path: Path, header: dict[str, Any] | bytes, n_data: int | None = None, *, announced: int | None = None
) -> Path:
    """A file with this header, and so many bytes of data; by default as many as the header says."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    if n_data is None:
        ends = (
            [t["data_offsets"][1] for t in header.values() if "data_offsets" in t] if isinstance(header, dict) else []
        )
        n_data = max(ends, default=0)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(raw) if announced is None else announced) + raw)
        file.truncate(8 + len(raw) + n_data)
    return path


def tensor(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_scalars_empty_tensors_and_padding(tmp_path: Path) -> None:
    # huggingface/safetensors PR 215: 6 + 1 + 0 elements; a header may end in spaces
    header = {"w": tensor("BF16", [2, 3], 0, 12), "s": tensor("F32", [], 12, 16), "e": tensor("F32", [0, 5], 16, 16)}
    found = read(write(tmp_path / "m", json.dumps(header).encode() + b"   ", 16))
    assert [(t.name, t.n_elements, t.n_bytes) for t in found.tensors] == [("w", 6, 12), ("s", 1, 4), ("e", 0, 0)]
    assert (found.missing_bytes, found.warnings, found.metadata) == (0, (), {})


def test_dtypes_that_numpy_does_not_know(tmp_path: Path) -> None:
    # huggingface/safetensors PR 683
    header = {
        "b": tensor("BF16", [2, 3], 0, 12), "c": tensor("F8_E4M3", [4], 12, 16), "d": tensor("F8_E5M2", [4], 16, 20),
        "e": tensor("F4", [3, 4], 20, 26), "f": tensor("I8", [2], 26, 28), "g": tensor("BOOL", [1], 28, 29),
        "h": tensor("Q9", [7], 29, 33),
    }  # fmt: skip
    found = read(write(tmp_path / "m", header))
    assert [t.n_elements for t in found.tensors] == [6, 4, 4, 12, 2, 1, 7]
    assert found.warnings == ("unknown dtype Q9",)


@pytest.mark.parametrize(
    ("value", "words", "warned"),
    [({}, {}, 0), ({"format": "pt"}, {"format": "pt"}, 0), (None, {}, 1), ({"a": 3}, {}, 1), ([1], {}, 1)],
)
def test_metadata_is_no_tensor(tmp_path: Path, value: Any, words: dict[str, str], warned: int) -> None:
    # fastsafetensors issue 96
    raw = json.dumps({"__metadata__": value, "w": tensor("F32", [1], 0, 4)}).encode()
    found = read(write(tmp_path / "m", raw, 4))
    assert (len(found.tensors), found.metadata, len(found.warnings)) == (1, words, warned)


def test_a_file_that_ends_early_is_listed_and_says_so(tmp_path: Path) -> None:
    found = read(write(tmp_path / "m", {"a": tensor("F32", [1], 0, 4), "b": tensor("F32", [3], 4, 16)}, 12))
    assert (found.missing_bytes, found.incomplete) == (4, ("b",))


def test_a_header_of_a_terabyte_is_read_without_its_data(tmp_path: Path) -> None:
    n = 2**38
    found = read(write(tmp_path / "m", {"w": tensor("F32", [n], 0, 4 * n)}))  # a sparse file
    assert found.tensors[0].n_elements == n


W = tensor("F32", [2], 0, 8)

LIES: dict[str, tuple[Any, str]] = {
    "absurd length": (b"\xff" * 16, "gives its header 18,446,744,073,709,551,615 bytes; the limit is 100,000,000"),
    "length 0": (bytes(16), "gives its header 0 bytes"),
    "under 8 bytes": (b"abc", "has 3 bytes"),
    "empty": (b"", "has 0 bytes"),
    "beyond the file": (struct.pack("<Q", 999) + b"{}", "gives its header 999 bytes, and the file has 2"),
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "git lfs pull"),
    "html": (b"<!DOCTYPE html><html><body>Sign in</body></html>", "a web page"),
    "zip": (b"PK\x03\x04" + bytes(60), "a zip archive"),
    "gguf": (b"GGUF\x03\x00\x00\x00" + bytes(60), "a GGUF file"),
    "bare json": (b'{"w": {"dtype": "F32"}}' + bytes(20), "JSON without the 8 bytes"),
    "no json": (struct.pack("<Q", 8) + b"{oh dear", "no JSON"),
    "a list": (struct.pack("<Q", 2) + b"[]", "does not begin with {"),
    "not utf-8": (struct.pack("<Q", 4) + b'{"\xff}', "no JSON"),
    "deep": (struct.pack("<Q", 60_000) + b'{"a":' * 10_000 + b"1" + b"}" * 9_999, "no JSON|nested too deeply"),
    "twice": (b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{"dtype":"F32","shape":[4],'
              b'"data_offsets":[8,24]}}', "names 'w' twice"),
    "no object": ({"w": 3}, "is described by no object"),
    "no dtype": ({"w": {**W, "dtype": None}}, "has no dtype"),
    "negative size": ({"w": {**W, "shape": [-2]}}, "no list of sizes"),
    "size of a float": ({"w": {**W, "shape": [2.0]}}, "no list of sizes"),
    "size of a boolean": ({"w": {**W, "shape": [True]}}, "no list of sizes"),
    "backwards": ({"w": {**W, "data_offsets": [8, 0]}}, "begins at byte 8 and ends at 0"),
    "three offsets": ({"w": {**W, "data_offsets": [0, 4, 8]}}, "no pair of positions"),
    "too few bytes": ({"w": tensor("F32", [3], 0, 8)}, "has 3 elements of F32 in 8 bytes"),
    "half a byte": ({"w": tensor("F4", [3], 0, 1)}, "has 3 elements of F4 in 1 bytes"),
    "overlap": ({"a": W, "b": tensor("F32", [2], 4, 12)}, "overlap"),
    "hole": ({"a": W, "b": tensor("F32", [2], 12, 20)}, "leave a hole of 4 bytes"),
    "late start": ({"a": tensor("F32", [2], 4, 12)}, "leave a hole of 4 bytes"),
    "unknown field": ({"w": {**W, "stride": [1]}}, "unknown field 'stride'"),
    "a hundred axes": ({"w": tensor("F32", [1] * 100, 0, 4)}, "has 100 axes"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_named_before_it_is_believed(tmp_path: Path, name: str) -> None:
    content, complaint = LIES[name]
    path = tmp_path / "m.safetensors"
    if name == "twice":
        write(path, content, 24)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        write(path, content, 20)
    with pytest.raises(InputError, match=complaint) as raised:
        read(path)
    assert "m.safetensors" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_header_is_read_piece_by_piece_wherever_the_pieces_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = {"__metadata__": {"note": "häß 😊 }{"}, 'w"}\\': W, "ä": tensor("U8", [3], 8, 11)}
    raw = b" \n".join(json.dumps(header, ensure_ascii=False, indent=1).encode().split(b"\n")) + b" \n "
    path = write(tmp_path / "m", raw, 11)
    whole = read(path)
    assert [t.name for t in whole.tensors] == ['w"}\\', "ä"]
    for size in (1, 2, 3, 7, 50):
        monkeypatch.setattr(safetensors_header, "_PIECE", size)
        assert read(path) == whole


@pytest.mark.parametrize(
    "raw", [b"{", b'{"a"', b'{"a":', b'{"a":1,', b'{"a":1,}', b"{}x", b'{"a":1 "b":2}', b"{1:2}", b'{"a" 1}']
)
def test_a_header_that_is_cut_off_or_ill_formed_is_no_json(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(InputError, match=r"no JSON|described by no object"):
        read(write(tmp_path / "m", raw.ljust(2), 0))


def test_one_entry_does_not_fill_the_memory(tmp_path: Path) -> None:
    raw = b'{"__metadata__":{"a":"' + b"x" * 2**23 + b'"}}'
    with pytest.raises(InputError, match=r"an entry of more than 4,194,304 characters"):
        read(write(tmp_path / "m", raw, 0))


def test_metadata_and_fields_come_once(tmp_path: Path) -> None:
    for raw in (b'{"__metadata__":{},"__metadata__":{}}', b'{"w":{"dtype":"U8","dtype":"I8"}}'):
        with pytest.raises(InputError, match="twice in its header"):
            read(write(tmp_path / "m", raw, 0))


def test_a_size_of_many_digits_is_none(tmp_path: Path) -> None:
    raw = b'{"w":{"dtype":"U8","shape":[' + b"9" * 10**6 + b'],"data_offsets":[0,1]}}'
    with pytest.raises(InputError, match="no list of sizes"):
        read(write(tmp_path / "m", raw, 1))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m")
    with pytest.raises(InputError, match="may never end"):
        read(tmp_path / "m")


def test_bytes_that_belong_to_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has 3 bytes that belong to no tensor"):
        read(write(tmp_path / "m", {"w": W}, 11))


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing", Path("a\0b")):
        with pytest.raises(InputError, match="cannot be read"):
            read(path)


def outcome(path: Path) -> Any:
    try:
        return read(path)
    except InputError as error:
        return error


@given(st.binary(max_size=300), st.integers(0, 2**64 - 1) | st.integers(0, 400))
@settings(max_examples=500)
def test_any_bytes_are_a_header_or_an_error(tmp_path_factory: pytest.TempPathFactory, data: bytes, length: int) -> None:
    path = tmp_path_factory.mktemp("any") / "m"
    path.write_bytes(struct.pack("<Q", length) + data)
    found = outcome(path)
    assert isinstance(found, InputError) or sum(t.n_bytes for t in found.tensors) + found.n_header_bytes + 8 <= (
        len(data) + 8 + found.missing_bytes
    )


fields = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(("F32", "BF16", "F4", "BOOL", "X")) | st.none(),
        "shape": st.lists(st.integers(-1, 5) | st.floats(), max_size=3),
        "data_offsets": st.lists(st.integers(-1, 40), max_size=3),
    }
)


@given(st.dictionaries(st.text(max_size=3), fields | st.integers(), max_size=4), st.integers(0, 60))
@settings(max_examples=500)
def test_any_header_is_whole_or_refused(tmp_path_factory: pytest.TempPathFactory, header: Any, n_data: int) -> None:
    path = tmp_path_factory.mktemp("any") / "m"
    found = outcome(write(path, json.dumps(header).encode(), n_data))
    if not isinstance(found, InputError):
        ends = [(t.begin, t.end) for t in found.tensors]
        assert all(a[1] == b[0] for a, b in itertools.pairwise(ends))
