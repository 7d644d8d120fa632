"""What a checkpoint on the disk holds: one file, or shards under an index, each from its header alone.

    model.safetensors                          one file
    model.safetensors.index.json               {"metadata": {...}, "weight_map": {tensor: file}}
    model-00001-of-00030.safetensors ...       the shards
    pytorch_model.bin, and its .index.json     the same in torch's own format: names and shapes, no numbers

Counts come from the headers; the index says what should be there, and its total_size is believed by nobody.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tfinspect.errors import InputError
from tfinspect.sources import safetensors_header
from tfinspect.sources.json_file import read_object
from tfinspect.sources.safetensors_header import MOST_TENSORS, Header, StoredTensor

if TYPE_CHECKING:
    from torch import Tensor

    from tfinspect.sources.torch_file import TorchFile

__all__ = [
    "Checkpoint",
    "Compared",
    "headers",
    "is_checkpoint",
    "is_named_like_one",
    "is_stored",
    "read",
    "tied_by_config",
]

SINGLE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
TORCH_SINGLE: Final = "pytorch_model.bin"
TORCH_INDEX: Final = "pytorch_model.bin.index.json"

#: Endings of files of torch.save.
TORCH_ENDINGS: Final = (".pt", ".pth", ".bin", ".ckpt")
#: Endings of files that nothing but a checkpoint has; that a GGUF file is one, and cannot be read, its error says.
ENDINGS: Final = (".safetensors", ".safetensors.index.json", ".bin.index.json", ".gguf", *TORCH_ENDINGS)

#: Largest index that is read; that of a model of 671 billion parameters has 9 MiB.
MOST_INDEX_BYTES: Final = 24_000_000
#: Most shards that an index may name.
MOST_SHARDS: Final = 10_000
#: Most bytes of a tensor that are compared with another's, and how many at a time.
MOST_COMPARED: Final = 2**28
_PIECE: Final = 2**20

#: A shard by its name: which of how many.
_SHARD: Final = re.compile(r"(?P<name>.+)-(?P<at>\d{5})-of-(?P<of>\d{5})\.safetensors")


@dataclasses.dataclass(frozen=True)
class Compared:
    """How far the bytes of two tensors were read, and whether all of them are equal."""

    equal: bool
    n_compared: int
    """Bytes that were read of each."""
    n_bytes: int
    """Bytes that each has."""


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Every tensor of a checkpoint by name, and what is not as the index says."""

    path: Path
    headers: tuple[Header, ...]
    """Of each safetensors file; empty for torch's files."""
    tensors: Mapping[str, StoredTensor]
    missing_files: tuple[str, ...] = ()
    """Files that the index names and that are not there."""
    missing_tensors: tuple[str, ...] = ()
    """Tensors that the index names and the file that should hold them does not."""
    unlisted: tuple[str, ...] = ()
    """Tensors that a shard holds and the index does not name."""
    total_size: int | None = None
    """Bytes of data as the index says; None where there is no index, or it does not say."""
    saved: tuple[TorchFile, ...] = ()
    """Each file of torch.save; empty for safetensors."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that hold the tensors and are there."""
        return (*(header.path for header in self.headers), *(file.path for file in self.saved))

    @property
    def n_header_bytes(self) -> int:
        """Bytes that were read: of each file its first 8 and its header, or its pickle."""
        return sum(8 + header.n_header_bytes for header in self.headers) + sum(f.n_pickle_bytes for f in self.saved)

    @property
    def n_file_bytes(self) -> int:
        """Bytes of the files that are there."""
        return sum(h.n_file_bytes for h in self.headers) + sum(f.n_file_bytes for f in self.saved)

    @property
    def n_data_bytes(self) -> int | None:
        """Bytes for tensors by the sizes of the files; None where files hold more than these tensors."""
        if not self.saved:
            return sum(header.n_file_bytes - 8 - header.n_header_bytes for header in self.headers)
        again = {name for _, *others in self.tied for name in others}
        stored = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in self.mapped.values()}
        records = [file.n_record_bytes for file in self.saved if not file.left_out]
        n_once = sum(tensor.n_bytes for name, tensor in self.tensors.items() if name not in again)
        if len(records) < len(self.saved) or None in records or sum(stored.values()) != n_once:
            return None
        return sum(n for n in records if n)

    @property
    def mapped(self) -> dict[str, Tensor]:
        """The tensors of torch's files, mapped into memory."""
        return {name: tensor for file in self.saved for name, tensor in file.tensors.items()}

    @property
    def tied(self) -> tuple[tuple[str, ...], ...]:
        """Names that torch's files give to one and the same tensor."""
        names = defaultdict(list)
        for name, tensor in self.mapped.items():
            if tensor.numel():
                places = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
                names[places].append(name)
        return tuple(tuple(same) for same in names.values() if len(same) > 1)

    @property
    def faults(self) -> tuple[str, ...]:
        """Why the checkpoint is not whole, in sentences; empty where it is."""
        return tuple(self._faults())

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is odd or was left out without making a count wrong, in sentences."""
        return tuple(self._remarks())

    @property
    def incomplete(self) -> frozenset[str]:
        """Tensors whose bytes are not all there."""
        return frozenset(name for header in self.headers for name in header.incomplete)

    def compare(self, one: str, other: str, most_bytes: int = MOST_COMPARED) -> Compared:
        """Whether two tensors of the same size have the same bytes; of large ones, pieces all over are compared.

        Raises:  InputError where the files cannot be read any more.
        """
        n_bytes = self.tensors[one].n_bytes
        every = -(-n_bytes // max(most_bytes, _PIECE))
        read = 0
        for piece, same in zip(self._pieces(one, every), self._pieces(other, every), strict=True):
            read += len(piece)
            if piece != same:
                return Compared(False, read, n_bytes)
        return Compared(True, read, n_bytes)

    def _pieces(self, name: str, every: int) -> Iterator[bytes]:
        """The bytes of a tensor, a piece at a time: of so many pieces the first."""
        tensor = self.tensors[name]
        if self.saved:
            from tfinspect.sources.torch_file import pieces

            yield from pieces(self.mapped[name], every, _PIECE)
            return
        header = next(h for h in self.headers if tensor in h.tensors)
        try:
            with header.path.open("rb") as file:
                for at in range(0, tensor.n_bytes, every * _PIECE):
                    file.seek(8 + header.n_header_bytes + tensor.begin + at)
                    yield file.read(min(_PIECE, tensor.n_bytes - at))
        except OSError as error:
            raise InputError(f"{str(header.path)!r} cannot be read: {error.strerror}") from None

    def _faults(self) -> Iterator[str]:
        for names, one, many in (
            (self.missing_files, "file is missing", "files are missing"),
            (self.missing_tensors, "tensor of the index is in no file", "tensors of the index are in no file"),
        ):
            if names:
                yield f"{len(names):,} {one if len(names) == 1 else many}: {_first(names)}"
        for header in self.headers:
            if header.missing_bytes:
                lost = _first(header.incomplete)
                yield f"{header.path.name} ends {header.missing_bytes:,} bytes early; incomplete: {lost}"

    def _remarks(self) -> Iterator[str]:
        if self.unlisted:
            yield f"There, and not named by the index: {_first(self.unlisted)}."
        odd = sorted({warning for header in self.headers for warning in header.warnings})
        if odd:
            yield f"In a header: {_first(tuple(odd))}."
        for file in self.saved:
            if file.entry:
                yield f"{file.path.name}: the tensors of its entry {file.entry[:80]!r}."
            if file.left_out:
                yield f"{file.path.name}: left out: {_first(file.left_out)}."


def is_checkpoint(path: Path) -> bool:
    """Whether a path is a safetensors file or index, or a directory that holds one."""
    if path.is_dir():
        return (path / SINGLE).is_file() or (path / INDEX).is_file()
    return path.name.endswith((".safetensors", ".safetensors.index.json")) and path.is_file()


def is_stored(path: Path) -> bool:
    """Whether a path is a file of tensors, or a directory in which there are some."""
    try:
        if path.is_dir():
            names = (SINGLE, INDEX, TORCH_SINGLE, TORCH_INDEX)
            return any((path / name).is_file() for name in names) or bool(_safetensors(path))
        return is_named_like_one(path.name) and path.exists()
    except (OSError, ValueError):
        return False


def is_named_like_one(name: str) -> bool:
    """Whether a file of this name can be nothing but a checkpoint."""
    return name.endswith(ENDINGS)


def read(path: Path) -> Checkpoint:
    """A checkpoint's tensors: a file of safetensors or of torch.save, an index, or a directory that holds either.

    Reads a few kilobytes of each file. Missing shards are listed, and the rest is counted all the same. Where a
    directory holds both formats, safetensors is read. Needs torch for torch's files only.

    Raises:  InputError for a directory that holds neither, or a file and an index, a malformed header or index, and a
             tensor that two shards hold.
    """
    try:
        return _read(_chosen(path) if path.is_dir() else path)
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read: {error.strerror}", "give a checkpoint") from None


def headers(path: str | Path) -> Checkpoint:
    """What the headers of a checkpoint say: a file of safetensors or of torch.save, an index, or a directory.

    ``tfinspect.params`` counts what it holds.

    Raises:  InputError as `read` does.

    >>> import pathlib, tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "model.pt"
    ...     torch.save(torch.nn.Linear(768, 3072).state_dict(), file)
    ...     found = tfinspect.headers(file)
    ...     tfinspect.params(found).total
    2362368
    """
    return read(Path(path))


def tied_by_config(path: Path) -> bool | None:
    """Whether the config.json beside a checkpoint ties the head to the table; None where none can be read."""
    from tfinspect.sources import hf_config

    try:
        config = (path if path.is_dir() else path.parent) / "config.json"
        return hf_config.read(config).spec.tied_head if config.is_file() else None
    except (InputError, OSError, ValueError):
        return None


def _read(path: Path) -> Checkpoint:
    if path.is_dir():
        return _unindexed(path)
    if path.name.endswith(".json"):
        return _sharded(path)
    if path.name.endswith(TORCH_ENDINGS):
        return _of_torch(path)
    header = safetensors_header.read(path)
    return Checkpoint(path, (header,), {tensor.name: tensor for tensor in header.tensors})


def _chosen(folder: Path) -> Path:
    """What a directory's checkpoint is: its file, its index, or itself where its shards have no index."""
    for single, index in ((SINGLE, INDEX), (TORCH_SINGLE, TORCH_INDEX)):
        there = [folder / name for name in (single, index) if (folder / name).is_file()]
        if len(there) > 1:
            raise InputError(f"{str(folder)!r} holds {single} and {index}", "give the one that is meant")
        if there:
            return there[0]
        if index == INDEX and (files := _safetensors(folder)):
            if len(files) == 1 and not _SHARD.fullmatch(files[0].name):
                return files[0]
            if all(_SHARD.fullmatch(file.name) for file in files):
                return folder
            names = ", ".join(file.name[:80] for file in files[:3])
            raise InputError(f"{str(folder)!r} holds {len(files):,} safetensors files: {names}", "give one of them")
    raise InputError(f"{str(folder)!r} holds neither {SINGLE} nor {INDEX}", "give a checkpoint's directory")


def _safetensors(folder: Path) -> list[Path]:
    """The first files of a directory that end in .safetensors."""
    found = (entry for entry in folder.iterdir() if entry.name.endswith(".safetensors") and entry.is_file())
    return sorted(file for file, _ in zip(found, range(MOST_SHARDS + 1), strict=False))


def _unindexed(folder: Path) -> Checkpoint:
    """Shards that no index names: each number of the whole is expected."""
    found = {file.name: _SHARD.fullmatch(file.name) for file in _safetensors(folder)}
    wholes = {(match["name"], int(match["of"])) for match in found.values() if match}
    if len(wholes) > 1 or any(n > MOST_SHARDS for _, n in wholes):
        raise InputError(f"{str(folder)!r} holds shards of {len(wholes):,} checkpoints", "give one of its files")
    ((name, n_shards),) = wholes
    expected = {f"{name}-{at:05}-of-{n_shards:05}.safetensors" for at in range(1, n_shards + 1)}
    shards = _Shards(folder)
    for file in sorted(found):
        shards.add(safetensors_header.read(folder / file))
    return Checkpoint(folder, tuple(shards.headers), shards.tensors, tuple(sorted(expected - found.keys())))


def _sharded(index: Path) -> Checkpoint:
    """The shards that an index names."""
    files, total_size = _index(index)
    missing_files = []
    shards = _Shards(index)
    for name in sorted(set(files.values())):
        path = index.parent / name
        if not path.is_file():
            missing_files.append(name)
        elif index.name.endswith(".bin.index.json"):
            shards.add_saved(_torch_file(path))
        else:
            shards.add(safetensors_header.read(path))
    gone = set(missing_files)
    return Checkpoint(
        index,
        tuple(shards.headers),
        shards.tensors,
        tuple(missing_files),
        tuple(name for name, file in files.items() if file not in gone and shards.held_by.get(name) != file),
        tuple(name for name in shards.tensors if name not in files),
        total_size,
        tuple(shards.saved),
    )


class _Shards:
    """Tensors of several files together."""

    def __init__(self, of: Path) -> None:
        self._where = repr(str(of))
        self.headers: list[Header] = []
        self.saved: list[TorchFile] = []
        self.tensors: dict[str, StoredTensor] = {}
        self.held_by: dict[str, str] = {}

    def add(self, header: Header) -> None:
        self.headers.append(header)
        self._take(header.path.name, header.tensors)

    def add_saved(self, file: TorchFile) -> None:
        self.saved.append(file)
        self._take(file.path.name, _described(file))

    def _take(self, file: str, tensors: tuple[StoredTensor, ...]) -> None:
        for tensor in tensors:
            if tensor.name in self.tensors:
                raise InputError(
                    f"{self._where}: {self.held_by[tensor.name]} and {file} both hold {tensor.name[:80]!r}",
                    "which of the two is meant is undefined",
                )
            self.tensors[tensor.name], self.held_by[tensor.name] = tensor, file
        if len(self.tensors) > MOST_TENSORS:
            raise InputError(f"{self._where}: its shards hold more than {MOST_TENSORS:,} tensors", "give one of them")


def _of_torch(path: Path) -> Checkpoint:
    file = _torch_file(path)
    return Checkpoint(path, (), {tensor.name: tensor for tensor in _described(file)}, saved=(file,))


def _torch_file(path: Path) -> TorchFile:
    from tfinspect.sources import torch_file

    return torch_file.read(path)


def _described(file: TorchFile) -> tuple[StoredTensor, ...]:
    """The tensors of a file of torch as a header would describe them, one after the other."""
    from tfinspect.sources.torch_file import DTYPES

    described, at = [], 0
    for name, tensor in file.tensors.items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        end = at + tensor.numel() * tensor.element_size()
        described.append(StoredTensor(name, DTYPES.get(dtype, dtype), tuple(tensor.shape), at, end))
        at = end
    return tuple(described)


def _index(index: Path) -> tuple[dict[str, str], int | None]:
    """Which file of the same directory holds each tensor, and how many bytes they have as the index says.

    Raises:  InputError where the index is no such map, or names a file elsewhere.
    """
    content = read_object(index, most_bytes=MOST_INDEX_BYTES)
    found = content.get("weight_map")
    where = repr(str(index))
    if not isinstance(found, dict) or not all(isinstance(file, str) for file in found.values()):
        raise InputError(f"{where} has no weight_map of names", "give a model.safetensors.index.json")
    for file in set(found.values()):
        if not file or Path(file).name != file or "\0" in file or "\\" in file:
            raise InputError(f"{where} names the file {file[:80]!r}", "shards stand beside their index")
    if len(set(found.values())) > MOST_SHARDS:
        raise InputError(f"{where} names {len(set(found.values())):,} files", f"the most is {MOST_SHARDS:,}")
    metadata = content.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return found, total if type(total) is int and total >= 0 else None


def _first(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return ", ".join(name[:80] for name in names[:3]) + more
