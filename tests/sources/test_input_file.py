"""Inputs in files: what is read, and what is refused before it is believed."""

from __future__ import annotations

import collections
import io
import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfinspect.errors import InputError
from tfinspect.sources.input_file import as_call, read

IDS = np.arange(6, dtype=np.int64).reshape(2, 3)


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(path)
    said = str(caught.value)
    assert said.isascii()
    assert len(said.splitlines()) == 1
    return said


def test_an_archive_of_numpy_has_arguments_and_keywords(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, *[IDS + number for number in range(11)], mask=IDS > 2)
    args, kwargs = read(path)
    assert [int(arg[0, 0]) for arg in args] == list(range(11))
    assert torch.equal(kwargs["mask"], torch.from_numpy(IDS > 2))
    np.savez_compressed(path, ids=IDS)
    assert torch.equal(read(path)[1]["ids"], torch.from_numpy(IDS))


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "<i2", ">i4", "<i8", "<f2", ">f4", "<f8", "<c8"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3)])
def test_an_array_of_numpy_is_the_same_tensor(tmp_path: Path, dtype: str, order: Any, shape: tuple[int, ...]) -> None:
    array = np.array(np.arange(int(np.prod(shape))).reshape(shape), dtype=dtype, order=order)
    np.save(tmp_path / "x.npy", array)
    (tensor,), kwargs = read(tmp_path / "x.npy")
    assert kwargs == {}
    assert tensor.shape == shape
    assert tensor.tolist() == array.tolist()


def test_what_torch_saved_is_a_tensor_arguments_keywords_or_both(tmp_path: Path) -> None:
    path, ids = tmp_path / "x.pt", torch.from_numpy(IDS)
    saved: list[tuple[Any, int, list[str]]] = [
        (ids, 1, []),
        ([ids, ids], 2, []),
        ((ids, [ids, None]), 2, []),
        ({"ids": ids, "scale": 0.5}, 0, ["ids", "scale"]),
        (((ids,), {"mask": ids}), 1, ["mask"]),
    ]
    for value, n_args, keywords in saved:
        torch.save(value, path)
        args, kwargs = read(path)
        assert (len(args), list(kwargs)) == (n_args, keywords)
    assert torch.equal(args[0], ids)


def test_safetensors_are_keywords(tmp_path: Path) -> None:
    header = {
        "ids": {"dtype": "I64", "shape": [2, 1], "data_offsets": [0, 16]},
        "none": {"dtype": "F32", "shape": [0], "data_offsets": [16, 16]},
        "x": {"dtype": "BF16", "shape": [2], "data_offsets": [16, 20]},
    }
    words = json.dumps(header).encode()
    data = np.array([7, 8], "<i8").tobytes() + b"\x80\x3f\x00\x40"  # bfloat16 1.0 is 3f80, 2.0 is 4000
    (tmp_path / "x.safetensors").write_bytes(len(words).to_bytes(8, "little") + words + data)
    args, kwargs = read(tmp_path / "x.safetensors")
    assert args == ()
    assert {name: tensor.tolist() for name, tensor in kwargs.items()} == {
        "ids": [[7], [8]],
        "none": [],
        "x": [1.0, 2.0],
    }
    (tmp_path / "x.safetensors").write_bytes(len(words).to_bytes(8, "little") + words + data[:-1])
    assert "ends 1 bytes early" in refused(tmp_path / "x.safetensors")


def test_what_is_no_call_is_none() -> None:
    assert as_call("text") is None
    assert as_call({1: 2}) is None
    assert as_call(collections.OrderedDict(a=1)) == ((), {"a": 1})
    assert as_call(((1, 2), (3, 4))) == (((1, 2), (3, 4)), {})


class Runs:
    def __reduce__(self) -> Any:
        return os.system, ("echo no",)


def test_no_code_in_a_file_is_run(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([Runs()], dtype=object), allow_pickle=True)
    assert "holds Python objects; an input holds plain numbers" in refused(tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", ids=np.array([Runs()], dtype=object))
    assert "'ids' holds Python objects" in refused(tmp_path / "x.npz")
    torch.save({"x": Runs()}, tmp_path / "x.pt")
    assert "cannot be read without running its code" in refused(tmp_path / "x.pt")
    (tmp_path / "y.pt").write_bytes(pickle.dumps(Runs()))
    assert "is no archive of torch.save" in refused(tmp_path / "y.pt")


def npy(shape: str, descr: str = "'<f8'", data: bytes = b"") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read"),
        (b"not numpy at all", "cannot be read"),
        (npy("(1000000000000,)"), "says shape [1000000000000] and holds no more than"),
        (npy("(-1, -8)", data=b"x" * 64), "says shape [-1, -8]"),
        (npy("(2,)", data=b"x" * 15), "ends early"),
        (npy("(2,)", "'<U4'"), "holds texts"),
        (npy("(2,)", "[('a', '<f8')]"), "holds records"),
        (npy("(2,)", "'<M8[s]'"), "holds dates"),
        (npy("2"), "cannot be read"),
        (npy("(2,)").replace(b"NUMPY\x01", b"NUMPY\x09"), "is of version 9.0"),
    ],
)
def test_a_damaged_array_is_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    assert said in refused(tmp_path / "x.npy")


def test_an_archive_that_unpacks_to_more_than_there_is_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(1000):
            archive.writestr(f"arr_{number}.npy", npy("(536870900,)", data=b"x" * 8))
    content = bytearray(path.read_bytes())
    at = content.find(b"PK\x01\x02")
    while at >= 0:
        content[at + 24 : at + 28] = (2**32 - 2).to_bytes(4, "little")  # the size, unpacked, that the directory says
        at = content.find(b"PK\x01\x02", at + 1)
    path.write_bytes(content)
    assert "unpacked, needs about 4,000.0 GiB" in refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(1001):
            archive.writestr(f"arr_{number}.npy", b"")
    assert "holds 1,001 members; at most 1,000 are read" in refused(path)


def test_odd_members_and_files_are_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("readme.txt", b"hello")
    assert "'readme.txt' is no .npy" in refused(tmp_path / "x.npz")
    torch.save("text", tmp_path / "x.pt")
    assert "holds a str; save a tensor" in refused(tmp_path / "x.pt")
    torch.save(torch.eye(2).to_sparse(), tmp_path / "x.pt")
    assert "sparse" in refused(tmp_path / "x.pt")
    torch.save(torch.zeros(1).expand(2**45), tmp_path / "x.pt")
    assert "GiB are free" in refused(tmp_path / "x.pt")
    assert "has no ending that is known; known: .npy, .npz" in refused(tmp_path / "x.csv")
    assert "No such file" in refused(tmp_path / "none.npz")
    (tmp_path / "folder.npz").mkdir()
    assert "is no file" in refused(tmp_path / "folder.npz")
    os.mkfifo(tmp_path / "pipe.npz")
    assert "is no file" in refused(tmp_path / "pipe.npz")


def whole_files() -> dict[str, bytes]:
    one, many, saved = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.save(one, IDS)
    np.savez_compressed(many, IDS, mask=IDS > 2)
    torch.save({"ids": torch.from_numpy(IDS)}, saved)
    return {"npy": one.getvalue(), "npz": many.getvalue(), "pt": saved.getvalue()}


WHOLE = whole_files()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None)
@given(st.sampled_from(sorted(WHOLE)), st.data())
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    content = bytearray(WHOLE[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / f"x.{kind}"
    path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    try:
        args, kwargs = read(path)
    except InputError as error:
        said = str(error)
        args, kwargs = (said,), {}
        assert said.isascii()
    assert args or kwargs or kind != "npy"
