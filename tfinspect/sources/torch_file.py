"""The tensors of a file that torch.save wrote, mapped into memory, without running anything that the file says.

A file is looked at as a zip archive first: its directory is small, its records are stored as they are, and the pickle
in it is small. Only then torch reads it, with weights_only=True and mmap=True: of the tensors' bytes none is read. What
torch refuses is refused here, with its reason; there is no other way in.

Needs torch.

Source:  torch.serialization; PKWARE's APPNOTE 6.3, 4.3.14 to 4.3.16, for the end of an archive.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from tfinspect.errors import InputError

if TYPE_CHECKING:
    import torch

__all__ = ["DTYPES", "TorchFile", "pieces", "read"]

#: Largest pickle that is read: the names and shapes of 10,000 tensors have 2 MB.
MOST_PICKLE_BYTES: Final = 2**24
#: Largest directory of an archive.
MOST_DIRECTORY_BYTES: Final = 2**26
#: Largest file of the form before torch 1.6, which cannot be mapped.
MOST_LEGACY_BYTES: Final = 2**28
#: How deep a mapping in a mapping is followed.
MOST_LEVELS: Final = 8
#: Most values of mappings and lists that are looked at.
MOST_VALUES: Final = 2**21
#: Longest name of a tensor.
MOST_LETTERS: Final = 2**12

#: Entries of a training checkpoint that hold the model's tensors, and entries that never do.
_MODELS: Final = ("state_dict", "model_state_dict", "model", "module", "net", "network", "params", "weights", "ema")
_OTHERS: Final = re.compile(r"optim|sched|scaler|rng|callbacks|loops", re.IGNORECASE)

#: The names that safetensors gives to torch's number formats.
DTYPES: Final[Mapping[str, str]] = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
    "complex64": "C64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class TorchFile:
    """What a file holds that torch.save wrote."""

    path: Path
    tensors: Mapping[str, torch.Tensor]
    """By name, in the file's order; mapped into memory where the file is a zip archive."""
    entry: str
    """The entry of the file that they are in, "model"; empty where the file is nothing else."""
    left_out: tuple[str, ...]
    """The file's other entries."""
    n_file_bytes: int
    n_pickle_bytes: int
    """Bytes of the pickle, which has the names and the shapes."""
    n_record_bytes: int | None
    """Bytes of the archive's records of numbers; None where the file is no archive."""


def read(path: Path) -> TorchFile:
    """The tensors of a file that torch.save wrote, by name.

    A mapping of several entries is a training checkpoint: the one with the model's tensors is taken.

    Raises:  InputError for what cannot be read safely, with the reason, and for a file that holds no tensors.
    """
    where = repr(str(path))
    try:
        if not path.is_file():
            raise InputError(f"{where} is no file", "give a file that torch.save wrote")
        n_file = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(32)
            archive = start.startswith(b"PK\x03\x04")
            sizes = _looked_through(where, file, n_file) if archive else (n_file, None)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{where} cannot be read: {reason}", "give a file that torch.save wrote") from None
    if not archive:
        _require_legacy(where, start, n_file)
    content = _loaded(path, mmap=archive)
    entry, tensors, left_out = _model_tensors(where, content)
    for name, tensor in tensors.items():
        _require_plain(f"{where}: tensor {name[:80]!r}", tensor, n_file)
    return TorchFile(path, tensors, entry, left_out, n_file, *sizes)


def pieces(tensor: torch.Tensor, every: int, n_bytes: int) -> Iterator[bytes]:
    """The bytes of a tensor, so many at a time: of so many pieces the first."""
    import torch

    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_contiguous():
        tensor = tensor.reshape(-1)
    rows = max(1, n_bytes // max(1, tensor[:1].numel() * tensor.element_size()))
    for at in range(0, len(tensor), every * rows):
        yield tensor[at : at + rows].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _require_plain(what: str, tensor: torch.Tensor, n_file: int) -> None:
    """Nothing, where a tensor is numbers that the file holds.

    Raises:  InputError for one that is sparse, quantised by torch or empty of numbers, or repeats a few without end.
    """
    if str(tensor.layout) != "torch.strided" or tensor.is_quantized or tensor.device.type != "cpu":
        kind = "quantised" if tensor.is_quantized else f"{tensor.layout} on {tensor.device}"
        raise InputError(f"{what} is {kind}", "dense tensors are counted")
    if tensor.numel() * tensor.element_size() > n_file:
        raise InputError(
            f"{what} stands for {tensor.numel():,} numbers, and the file has {n_file:,} bytes", "save it contiguous"
        )


def _looked_through(where: str, file: IO[bytes], n_file: int) -> tuple[int, int]:
    """Bytes of the pickle and of the tensors in an archive.

    Raises:  InputError where it is damaged, or anything in it would be unpacked, or is too large.
    """
    if _directory_bytes(file, n_file) > MOST_DIRECTORY_BYTES:
        raise _unsafe(where, f"its directory is larger than {MOST_DIRECTORY_BYTES:,} bytes")
    try:
        with zipfile.ZipFile(file) as archive:
            records = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise InputError(f"{where} is a damaged zip archive: {str(error)[:200]}", "fetch it again") from None
    if any(record.compress_type != zipfile.ZIP_STORED for record in records):
        raise _unsafe(where, "a record in it is compressed, and torch.save compresses none")
    if sum(record.file_size for record in records) > n_file:
        raise _unsafe(where, "its records are larger than the file")
    pickles = [record.file_size for record in records if record.filename.endswith(".pkl")]
    if not any(record.filename.endswith("data.pkl") for record in records):
        raise InputError(f"{where} is a zip archive that torch.save did not write", "give a checkpoint")
    if any("/code/" in record.filename or record.filename.endswith("constants.pkl") for record in records):
        raise _unsafe(where, "it is a TorchScript program, which holds code")
    if sum(pickles) > MOST_PICKLE_BYTES:
        raise _unsafe(where, f"its pickle has {sum(pickles):,} bytes, and the most is {MOST_PICKLE_BYTES:,}")
    return sum(pickles), sum(record.file_size for record in records if "/data/" in record.filename)


def _directory_bytes(file: IO[bytes], n_file: int) -> int:
    """Size of an archive's directory as its end says, or 0 where it has no such end."""
    file.seek(max(0, n_file - 2**16 - 22))
    tail = file.read(2**16 + 22)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0:
        return 0
    n_directory = int.from_bytes(tail[at + 12 : at + 16], "little")
    locator = tail[max(0, at - 20) : at]
    if locator.startswith(b"PK\x06\x07"):
        file.seek(min(n_file, int.from_bytes(locator[8:16], "little")))
        n_directory = max(n_directory % (2**32 - 1), int.from_bytes(file.read(56)[40:48], "little"))
    file.seek(0)
    return n_directory


def _require_legacy(where: str, start: bytes, n_file: int) -> None:
    """Nothing, where the file may be a pickle of torch before 1.6 that is small."""
    if not start.startswith(b"\x80"):
        signs = (
            (b"version https://git-lfs", "a Git LFS pointer; fetch the file itself: git lfs pull"),
            (b"GGUF", "a GGUF file"),
            (b"<", "a web page or XML"),
        )
        guess = next((f", but {what}" for sign, what in signs if start.startswith(sign)), "")
        raise InputError(f"{where} is no file that torch.save wrote{guess}", "give a .pt, .pth or .bin of torch")
    if n_file > MOST_LEGACY_BYTES:
        raise _unsafe(
            where,
            f"it is a bare pickle of {n_file:,} bytes, which cannot be mapped, and the most is {MOST_LEGACY_BYTES:,}",
        )


def _loaded(path: Path, mmap: bool) -> Any:
    """What torch reads without running anything."""
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except InputError:
        raise
    except Exception as error:  # whatever a stranger's pickle makes of torch's reader
        raise _unsafe(repr(str(path)), _reason(error)) from None


def _reason(error: Exception) -> str:
    """Why torch refuses, on one line."""
    said = " ".join(str(error).split())
    if found := re.search(r"GLOBAL ([\w.]+)", said):
        return f"it holds {found.group(1)}, which is no tensor, and reading it would run code"
    return f"torch refuses it: {type(error).__name__}: {said[:160]}"


def _unsafe(where: str, reason: str) -> InputError:
    return InputError(f"{where} cannot be read safely: {reason}", "save model.state_dict(), best as safetensors")


def _model_tensors(where: str, content: Any) -> tuple[str, dict[str, torch.Tensor], tuple[str, ...]]:
    """The entry with the model's tensors, those tensors by name, and the entries that are left out."""
    if _is_tensor(content):
        return "", {"tensor": content}, ()
    values = _Values(where)
    entry, found = "", content
    left_out: list[str] = []
    for _ in range(MOST_LEVELS):
        if not isinstance(found, Mapping):
            break
        inside = {str(name): value for name, value in found.items() if isinstance(value, Mapping)}
        models = {name: value for name, value in inside.items() if not _OTHERS.search(name)}
        models = {name: value for name, value in models.items() if any(values.tensors(value))}
        best = next((name for name in _MODELS if name in models), next(iter(models), None))
        if best is None or (best not in _MODELS and (len(models) > 1 or any(map(_is_tensor, found.values())))):
            other = [name for name in inside if _OTHERS.search(name)]
            found = {name: value for name, value in found.items() if name not in other}
            left_out += other
            break
        left_out += [str(name) for name in found if name != best]
        entry, found = f"{entry}.{best}".removeprefix("."), models[best]
    tensors = dict(values.tensors(found))
    if not tensors:
        raise InputError(f"{where} holds no tensors", "give a state_dict")
    return entry, tensors, tuple(name[:80] for name in left_out)


class _Values:
    """Finds tensors in mappings and lists, and stops where a stranger's file makes that endless."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._looked_at = 0

    def tensors(self, value: Any, prefix: str = "", level: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
        """Every tensor in a mapping or list by its path, the parts joined by dots."""
        if isinstance(value, Mapping):
            members: Iterable[tuple[Any, Any]] = value.items()
        elif isinstance(value, list | tuple):
            members = enumerate(value)
        else:
            return
        for name, inner in members:
            self._looked_at += 1
            path = f"{prefix}{name}"
            if self._looked_at > MOST_VALUES or len(path) > MOST_LETTERS:
                raise _unsafe(self._where, f"it holds more than {MOST_VALUES:,} values, or endless names")
            if _is_tensor(inner):
                yield path, inner
            elif level < MOST_LEVELS:
                yield from self.tensors(inner, f"{path}.", level + 1)


def _is_tensor(value: object) -> bool:
    import torch

    return isinstance(value, torch.Tensor)
