"""What a file says a module is called with: arrays of NumPy, tensors of torch or of safetensors.

    .npy           one array                        one argument
    .npz           arrays by name                   keywords; arr_0, arr_1, ... are arguments
    .pt, .pth      what torch.save wrote            a tensor, a list or tuple of arguments, keywords by name
    .safetensors   tensors by name                  keywords

No code in a file is run, and each size is held against the file and the memory that is free before anything is read.
"""

from __future__ import annotations

import math
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from tfinspect.errors import InputError
from tfinspect.measured.memory import require_bytes
from tfinspect.sources import safetensors_header

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Call", "as_call", "read"]

#: Positional arguments and keywords.
Call = tuple[tuple[Any, ...], dict[str, Any]]

#: Most arrays in an archive.
MOST_MEMBERS: Final = 1_000
#: Deepest nest of lists and mappings in a file.
DEEPEST: Final = 32

_SMALLER: Final = "give a smaller input, or --meta with sizes: --input"
_NO_DTYPE: Final = "an input holds plain numbers: bool, int, float or complex"
_UNSIGNED: Final = "write it with numpy.save, numpy.savez or torch.save"
_ITS_DTYPES: Final[Mapping[str, str]] = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "C64": "complex64", "BOOL": "bool",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
}  # fmt: skip


def read(path: Path) -> Call:
    """The arguments and keywords in a file.

    Raises:  InputError for a file that cannot be read, that holds anything but numbers, or that does not fit in memory.
    """
    where = f"--input-file {str(path)!r}"
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{where} has no ending that is known", f"known: {', '.join(_READERS)}")
    if path.exists() and not path.is_file():
        raise InputError(f"{where} is no file", "give the path of one")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch and numpy warn of what is refused below
            return reader(path, where)
    except OSError as error:
        raise InputError(f"{where}: {error.strerror or _line(error)}", "give the path of a file") from None
    except InputError:
        raise
    except Exception as error:  # a damaged archive makes its readers raise errors of every kind
        raise InputError(f"{where} cannot be read: {_line(error)}", _UNSIGNED) from None


def as_call(found: Any) -> Call | None:
    """A call from what stands for one: (args, kwargs), a list or tuple of arguments, keywords by name, or a tensor.

    None for anything else.
    """
    import torch

    if isinstance(found, torch.Tensor):
        return (found,), {}
    if _keywords(found):
        return (), dict(found)
    if not isinstance(found, list | tuple):
        return None
    if len(found) == 2 and isinstance(found[0], list | tuple) and _keywords(found[1]):
        return tuple(found[0]), dict(found[1])
    return tuple(found), {}


def _keywords(found: Any) -> bool:
    return isinstance(found, Mapping) and all(isinstance(key, str) for key in found)


def _npy(path: Path, where: str) -> Call:
    with path.open("rb") as file:
        return (_array(file, path.stat().st_size, where),), {}


def _npz(path: Path, where: str) -> Call:
    """Each array is read by its own header: one that says more than its member holds is refused."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        _require_members(members, where)
        found: dict[str, Tensor] = {}
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in found or name == member.filename:
                what = "stands twice" if name in found else "is no .npy"
                raise InputError(f"{where}: {member.filename[:80]!a} {what}", "write the file with numpy.savez")
            with archive.open(member) as stream:
                found[name] = _array(stream, member.file_size, f"{where}: {name[:80]!a}")
    numbered = sorted((int(name[4:]), name) for name in found if re.fullmatch(r"arr_[0-9]{1,9}", name))
    args = tuple(found.pop(name) for _, name in numbered)
    return args, found


def _array(stream: IO[bytes], n_bytes: int, where: str) -> Tensor:
    """One array of numbers, of at most so many bytes."""
    import numpy as np
    import torch

    version = np.lib.format.read_magic(stream)
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in headers:
        raise InputError(f"{where} is of version {version[0]}.{version[1]}, not 1.0 or 2.0", _NO_DTYPE)
    shape, by_columns, dtype = headers[version](stream)
    if dtype.hasobject or dtype.kind not in "biufc":
        raise InputError(f"{where} holds {_word(dtype)}", _NO_DTYPE)
    if any(size < 0 for size in shape) or math.prod(shape) * dtype.itemsize > n_bytes:
        raise InputError(f"{where} says shape {list(shape)!s:.80} and holds no more than {n_bytes:,} bytes", _UNSIGNED)
    require_bytes(2 * math.prod(shape) * dtype.itemsize, where, _SMALLER)
    data = stream.read(math.prod(shape) * dtype.itemsize)
    if len(data) < math.prod(shape) * dtype.itemsize:
        raise InputError(f"{where} ends early", "write it again")
    flat = np.frombuffer(data, dtype) if data else np.zeros(0, dtype)
    array = flat.reshape(shape, order="F" if by_columns else "C")
    try:
        return torch.from_numpy(np.array(array, dtype=dtype.newbyteorder("="), order="C"))
    except TypeError:  # 16 bytes for one number
        raise InputError(f"{where} holds {_word(dtype)}, which torch does not have", _NO_DTYPE) from None


def _saved(path: Path, where: str) -> Call:
    import torch

    with path.open("rb") as file:  # what cannot be opened is said by the system
        if not zipfile.is_zipfile(file):
            raise InputError(f"{where} is no archive of torch.save", _UNSIGNED)
    with zipfile.ZipFile(path) as archive:
        _require_members(archive.infolist(), where)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        raise InputError(f"{where} cannot be read without running its code: {_line(error)}", _NO_DTYPE) from None
    call = as_call(found)
    if call is None:
        raise InputError(f"{where} holds a {type(found).__name__}", "save a tensor, a list of them, or a dict by name")
    require_bytes(_bytes(call, where, 0), where, _SMALLER)
    return call


def _bytes(found: Any, where: str, depth: int) -> int:
    """Bytes that the tensors in a nest stand for; nothing but plain tensors and values is let through."""
    import torch

    if isinstance(found, torch.Tensor):
        if found.layout != torch.strided or found.is_quantized or found.is_nested:
            raise InputError(f"{where} holds a tensor that is sparse, nested or quantised", _NO_DTYPE)
        return found.numel() * found.element_size()
    if depth > DEEPEST:
        raise InputError(f"{where} is nested deeper than {DEEPEST}", "give it with --inputs package.module:function")
    inner = found.values() if isinstance(found, Mapping) else found if isinstance(found, list | tuple) else ()
    return sum(_bytes(item, where, depth + 1) for item in inner)


def _safetensors(path: Path, where: str) -> Call:
    import torch

    header = safetensors_header.read(path)
    if header.missing_bytes:
        raise InputError(f"{where} ends {header.missing_bytes:,} bytes early", "fetch it again")
    require_bytes(sum(stored.n_bytes for stored in header.tensors), where, _SMALLER)
    found: dict[str, Tensor] = {}
    with path.open("rb") as file:
        for stored in header.tensors:
            if stored.dtype not in _ITS_DTYPES:
                raise InputError(f"{where}: {stored.name[:80]!a} holds {stored.dtype}", _NO_DTYPE)
            file.seek(8 + header.n_header_bytes + stored.begin)
            data, dtype = bytearray(file.read(stored.n_bytes)), getattr(torch, _ITS_DTYPES[stored.dtype])
            flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
            found[stored.name] = flat.reshape(stored.shape)
    return (), found


def _require_members(members: list[zipfile.ZipInfo], where: str) -> None:
    """Nothing where what an archive unpacks to fits into memory."""
    if len(members) > MOST_MEMBERS:
        raise InputError(f"{where} holds {len(members):,} members", f"at most {MOST_MEMBERS:,} are read")
    require_bytes(sum(member.file_size for member in members), f"{where}, unpacked,", _SMALLER)


def _word(dtype: Any) -> str:
    """A dtype of NumPy in words."""
    kinds = {"O": "Python objects", "U": "texts", "S": "bytes", "V": "records", "M": "dates", "m": "durations"}
    return kinds.get(dtype.kind, str(dtype))


def _line(error: BaseException) -> str:
    """What an exception says, on one line."""
    words = " ".join(str(error).split())
    words = words.encode("ascii", "backslashreplace").decode()
    return words[:200] or type(error).__name__


_READERS: Final[dict[str, Callable[[Path, str], Call]]] = {
    ".npy": _npy, ".npz": _npz, ".pt": _saved, ".pth": _saved, ".safetensors": _safetensors,
}  # fmt: skip
