"""Files that torch.save wrote: what they hold, and that nothing in them is run."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tfinspect.errors import InputError
from tfinspect.sources import torch_file
from tfinspect.sources.torch_file import pieces, read

W, B = torch.ones(3, 2), torch.zeros(3, dtype=torch.bfloat16)


def saved(path: Path, content: Any, **how: Any) -> Path:
    torch.save(content, path, **how)
    return path


def shapes(path: Path) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in read(path).tensors.items()}


def test_a_state_dict_is_its_tensors(tmp_path: Path) -> None:
    found = read(saved(tmp_path / "x.pt", {"w": W, "b": B, "n_steps": 7}))
    assert {name: tensor.tolist() for name, tensor in found.tensors.items()} == {"w": W.tolist(), "b": B.tolist()}
    assert (found.entry, found.left_out, found.n_record_bytes) == ("", (), 4 * 6 + 2 * 3)


@pytest.mark.parametrize(
    ("content", "entry", "names", "left_out"),
    [
        ({"model": {"w": W}, "optimizer": {"state": {0: {"m": W}}}}, "model", ["w"], ("optimizer",)),
        ({"state_dict": {"w": W}, "epoch": 3, "rng": B}, "state_dict", ["w"], ("epoch", "rng")),
        ({"step": B, "model": {"net": {"w": W}}}, "model.net", ["w"], ("step",)),
        ({"actor": {"w": W}, "critic": {"w": W}, "optim": {"m": W}}, "", ["actor.w", "critic.w"], ("optim",)),
        ({"whatever": {"w": W}}, "whatever", ["w"], ()),
        ({"w": W, "more": {"b": B}}, "", ["w", "more.b"], ()),
        ([W, {"b": B}], "", ["0", "1.b"], ()),
        (W, "", ["tensor"], ()),
    ],
)  # fmt: skip
def test_the_models_tensors_are_found_in_what_a_training_script_saves(
    tmp_path: Path, content: Any, entry: str, names: list[str], left_out: tuple[str, ...]
) -> None:
    found = read(saved(tmp_path / "x.pt", content))
    assert (found.entry, list(found.tensors), found.left_out) == (entry, names, left_out)


def test_a_small_file_of_old_is_read(tmp_path: Path) -> None:
    assert shapes(saved(tmp_path / "x.pt", {"w": W}, _use_new_zipfile_serialization=False)) == {"w": [3, 2]}


def test_a_large_file_of_old_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.pt", {"w": W}, _use_new_zipfile_serialization=False)
    os.truncate(path, 2**29)
    with pytest.raises(InputError, match="a bare pickle of 536,870,912 bytes, which cannot be mapped"):
        read(path)


class Runs:
    """What would make a file, were it unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("zipped", [True, False])
def test_nothing_that_a_file_says_is_run(tmp_path: Path, zipped: bool) -> None:
    # pytorch PR 86812
    trace = tmp_path / "trace"
    path = saved(tmp_path / "x.pt", {"w": Runs(trace)}, _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match=r"cannot be read safely: it holds posix\.mkdir") as raised:
        read(path)
    assert "\n" not in str(raised.value)
    assert not trace.exists()


def test_a_bare_pickle_that_runs_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(pickle.dumps(Runs(tmp_path / "trace")))
    with pytest.raises(InputError, match="cannot be read safely"):
        read(tmp_path / "x.pt")
    assert not (tmp_path / "trace").exists()


def test_a_whole_module_is_refused(tmp_path: Path) -> None:
    # pytorch/torchtune issue 1142
    with pytest.raises(InputError, match=r"it holds torch\.nn\.modules\.linear\.Linear.*save model\.state_dict"):
        read(saved(tmp_path / "x.pt", torch.nn.Linear(2, 2)))


def rezipped(path: Path, change: Callable[[zipfile.ZipFile, str, bytes], None]) -> Path:
    """The same archive with each record written anew."""
    with zipfile.ZipFile(path) as old:
        records = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w") as new:
        for name, content in records.items():
            change(new, name, content)
    return path


def test_an_archive_that_would_be_unpacked_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.pt", {"w": torch.zeros(10**6)})
    rezipped(path, lambda z, name, content: z.writestr(name, content, zipfile.ZIP_DEFLATED))
    with pytest.raises(InputError, match="a record in it is compressed"):
        read(path)


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("word/document.xml", "<w/>")
    with pytest.raises(InputError, match=r"a zip archive that torch\.save did not write"):
        read(tmp_path / "x.pt")


def test_a_pickle_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "x.pt", {"w": W})
    monkeypatch.setattr(torch_file, "MOST_PICKLE_BYTES", 10)
    with pytest.raises(InputError, match=r"its pickle has .* bytes, and the most is 10"):
        read(path)


def test_lists_in_lists_do_not_go_on_for_ever(tmp_path: Path) -> None:
    nest: Any = W
    for _ in range(6):
        nest = [nest] * 40  # 4,096,000,000 tensors in a file of a few bytes
    with pytest.raises(InputError, match="holds more than 2,097,152 values"):
        read(saved(tmp_path / "x.pt", nest))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no file that torch.save wrote"),
        (b"PK\x03\x04", "damaged zip archive"),
        (b"\x80\x02", "cannot be read safely"),
        (b"\x80\x02" + bytes(400), "cannot be read safely"),
        (b"version https://git-lfs.github.com/spec/v1", "git lfs pull"),
        (b"GGUF\x03", "a GGUF file"),
    ],
)
def test_what_torch_did_not_write_is_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(InputError, match=complaint) as raised:
        read(tmp_path / "x.pt")
    assert "\n" not in str(raised.value)


def test_each_part_of_a_file_may_be_damaged(tmp_path: Path) -> None:
    whole = saved(tmp_path / "x.pt", {"w": W, "b": B}).read_bytes()
    for at in range(0, len(whole), 7):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]):
            (tmp_path / "y.pt").write_bytes(damaged)
            try:
                found = read(tmp_path / "y.pt")
            except InputError:
                continue
            assert len(found.tensors) <= 2


@pytest.mark.parametrize("content", [{}, {"lr": 0.1}, [], "words", {"optimizer": {"m": W}}])
def test_a_file_without_a_models_tensors_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(InputError, match="holds no tensors"):
        read(saved(tmp_path / "x.pt", content))


@pytest.mark.parametrize(
    ("tensor", "complaint"),
    [
        (W.to_sparse(), r"'w' is torch\.sparse_coo"),
        (W.to("meta"), r"'w' is torch\.strided on meta"),
        (torch.ones(1).expand(10**6, 10**6), r"'w' stands for 1,000,000,000,000 numbers, and the file has"),
    ],
    ids=["sparse", "meta", "endless"],
)
def test_tensors_without_numbers_of_their_own_are_refused(tmp_path: Path, tensor: torch.Tensor, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read(saved(tmp_path / "x.pt", {"w": tensor}))


@pytest.mark.parametrize(
    "tensor",
    [torch.arange(700).reshape(70, 10), torch.arange(700).reshape(10, 70).T, torch.ones(3).bfloat16().expand(50, 3)],
    ids=["as it lies", "turned", "repeated"],
)
def test_the_bytes_of_a_tensor_come_in_pieces(tensor: torch.Tensor) -> None:
    whole = tensor.contiguous().view(torch.uint8).numpy().tobytes()
    assert b"".join(pieces(tensor, 1, 96)) == whole
    assert len(b"".join(pieces(tensor, 5, 96))) < len(whole) / 3
    assert list(pieces(torch.ones(0, 4), 1, 96)) == []


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing.pt", Path("a\0b")):
        with pytest.raises(InputError):
            read(path)
