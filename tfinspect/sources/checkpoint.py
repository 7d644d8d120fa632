"""What a checkpoint on the disk holds: one file, or shards under an index, each from its header alone.

    model.safetensors                          one file
    model.safetensors.index.json               {"metadata": {...}, "weight_map": {tensor: file}}
    model-00001-of-00030.safetensors ...       the shards

Counts come from the headers; the index says what should be there, and its total_size is believed by nobody.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tfinspect.errors import InputError
from tfinspect.sources import safetensors_header
from tfinspect.sources.json_file import read_object
from tfinspect.sources.safetensors_header import Header, StoredTensor

__all__ = ["Checkpoint", "is_checkpoint", "read"]

SINGLE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"

#: Largest index that is read; that of a model of 671 billion parameters has 9 MiB.
MOST_INDEX_BYTES: Final = 64 * 2**20
#: Most shards that an index may name.
MOST_SHARDS: Final = 10_000


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Every tensor of a checkpoint by name, and what is not as the index says."""

    path: Path
    headers: tuple[Header, ...]
    tensors: Mapping[str, StoredTensor]
    missing_files: tuple[str, ...] = ()
    """Files that the index names and that are not there."""
    missing_tensors: tuple[str, ...] = ()
    """Tensors that the index names and the file that should hold them does not."""
    unlisted: tuple[str, ...] = ()
    """Tensors that a shard holds and the index does not name."""

    @property
    def n_header_bytes(self) -> int:
        """Bytes that were read: of each file its first 8 and its header."""
        return sum(8 + header.n_header_bytes for header in self.headers)

    @property
    def faults(self) -> tuple[str, ...]:
        """Why the checkpoint is not whole, in sentences; empty where it is."""
        return tuple(self._faults())

    def _faults(self) -> Iterator[str]:
        for names, what in (
            (self.missing_files, "files of the index are missing"),
            (self.missing_tensors, "tensors of the index are in no file"),
        ):
            if names:
                yield f"{len(names):,} {what}: {_first(names)}"
        for header in self.headers:
            if header.missing_bytes:
                lost = _first(header.incomplete)
                yield f"{header.path.name} ends {header.missing_bytes:,} bytes early; incomplete: {lost}"


def is_checkpoint(path: Path) -> bool:
    """Whether a path is a safetensors file or index, or a directory that holds one."""
    if path.is_dir():
        return (path / SINGLE).is_file() or (path / INDEX).is_file()
    return path.name.endswith((".safetensors", ".safetensors.index.json")) and path.is_file()


def read(path: Path) -> Checkpoint:
    """A checkpoint's tensors: a safetensors file, an index, or a directory that holds either.

    Reads a few kilobytes of each file. Missing shards are listed, and the rest is counted all the same.

    Raises:  InputError for a directory that holds neither or both, a malformed header or index, and a tensor that two
             shards hold.
    """
    if path.is_dir():
        single, index = path / SINGLE, path / INDEX
        if single.is_file() and index.is_file():
            raise InputError(f"{str(path)!r} holds {SINGLE} and {INDEX}", "give the one that is meant")
        if not single.is_file() and not index.is_file():
            raise InputError(f"{str(path)!r} holds neither {SINGLE} nor {INDEX}", "give a checkpoint's directory")
        path = single if single.is_file() else index
    if path.name.endswith(".json"):
        return _sharded(path)
    header = safetensors_header.read(path)
    return Checkpoint(path, (header,), {tensor.name: tensor for tensor in header.tensors})


def _sharded(index: Path) -> Checkpoint:
    """The shards that an index names."""
    files = _weight_map(index)
    headers, missing_files = [], []
    tensors: dict[str, StoredTensor] = {}
    held_by: dict[str, str] = {}
    for name in sorted(set(files.values())):
        path = index.parent / name
        if not path.is_file():
            missing_files.append(name)
            continue
        headers.append(header := safetensors_header.read(path))
        for tensor in header.tensors:
            if tensor.name in tensors:
                raise InputError(
                    f"{str(index)!r}: {held_by[tensor.name]} and {name} both hold {tensor.name[:80]!r}",
                    "which of the two is meant is undefined",
                )
            tensors[tensor.name], held_by[tensor.name] = tensor, name
    lost = tuple(name for name, file in files.items() if file not in missing_files and held_by.get(name) != file)
    return Checkpoint(
        index,
        tuple(headers),
        tensors,
        tuple(missing_files),
        lost,
        tuple(name for name in tensors if name not in files),
    )


def _weight_map(index: Path) -> dict[str, str]:
    """Which file of the same directory holds each tensor.

    Raises:  InputError where the index is no such map, or names a file elsewhere.
    """
    found = read_object(index, most_bytes=MOST_INDEX_BYTES).get("weight_map")
    where = repr(str(index))
    if not isinstance(found, dict) or not all(isinstance(file, str) for file in found.values()):
        raise InputError(f"{where} has no weight_map of names", "give a model.safetensors.index.json")
    for file in set(found.values()):
        if not file or Path(file).name != file or "\0" in file or "\\" in file:
            raise InputError(f"{where} names the file {file[:80]!r}", "shards stand beside their index")
    if len(set(found.values())) > MOST_SHARDS:
        raise InputError(f"{where} names {len(set(found.values())):,} files", f"the most is {MOST_SHARDS:,}")
    return found


def _first(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return ", ".join(name[:80] for name in names[:3]) + more
