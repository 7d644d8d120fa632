"""The names, number formats and shapes of a safetensors file, from its header alone.

    8 bytes      N, the length of the header, little-endian
    N bytes      a JSON object: name -> {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__" -> words
    the rest     the tensors' bytes, each where its offsets say, one after the other without a gap

Nothing in a file is trusted: each length is held against the size of the file before anything of that length is read,
and each tensor against its shape and its neighbours. Of the tensors' own bytes none is read.

Source:  the format's description in huggingface/safetensors, README, "Format"; the limit of 100,000,000 bytes is that
         of its own reader.
"""

from __future__ import annotations

import codecs
import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from tfinspect.errors import InputError

__all__ = ["BITS", "MOST_TENSORS", "Header", "StoredTensor", "read"]

#: Longest header that is read.
MOST_BYTES: Final = 100_000_000

#: Most tensors that are listed, ten times those of any checkpoint that is published.
MOST_TENSORS: Final = 2**20

#: The one name in a header that is no tensor's.
METADATA: Final = "__metadata__"

#: Bytes of a header that are taken at a time, and most of one entry: its name and its description, or the metadata.
_PIECE: Final = 2**20
_MOST_OF_ENTRY: Final = 2**22

#: Bits of one element, by the format's name of the dtype.
BITS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}

#: Most axes of a tensor.
MOST_AXES: Final = 64

#: What files that are no safetensors begin with, what they are, and what to do.
_SIGNS: Final = (
    (b"version https://git-lfs", "a Git LFS pointer", "fetch the file itself: git lfs pull"),
    (b"PK\x03\x04", "a zip archive, such as torch.save writes", "give it with the ending .pt or .bin"),
    (b"GGUF", "a GGUF file", "give the original safetensors"),
    (b"\x80\x02", "a pickle", "give it with the ending .pt or .bin"),
    (b"<", "a web page or XML", "download the file itself"),
    (b"{", "JSON without the 8 bytes before it", "give the .safetensors file"),
    (b"\x89HDF", "an HDF5 file", "give the .safetensors file"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor as the header describes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    """First byte, counted from the end of the header."""
    end: int
    """One past the last byte."""

    @property
    def n_elements(self) -> int:
        """1 for a scalar, 0 where an axis is 0."""
        return math.prod(self.shape)

    @property
    def bits(self) -> int | None:
        """Bits of one element; None for a dtype that is not known."""
        return BITS.get(self.dtype)

    @property
    def n_bytes(self) -> int:
        """Bytes in the file."""
        return self.end - self.begin


@dataclasses.dataclass(frozen=True)
class Header:
    """Everything that a header says."""

    path: Path
    tensors: tuple[StoredTensor, ...]
    """In the order of their bytes."""
    metadata: Mapping[str, str]
    n_header_bytes: int
    n_file_bytes: int
    warnings: tuple[str, ...]
    """What is odd without making a count wrong."""
    missing_bytes: int
    """By how much the file is too short for its tensors; 0 for a whole one."""

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Tensors whose bytes the file does not hold to their end."""
        held = self.n_file_bytes - 8 - self.n_header_bytes
        return tuple(tensor.name for tensor in self.tensors if tensor.end > held)


def read(path: Path) -> Header:
    """The header of a safetensors file; a file that ends early is listed all the same, and says so.

    Raises:  InputError naming the file and what is wrong: no safetensors at all, a length beyond the file, JSON that
             is none, names given twice, unknown fields, shapes that do not fit their bytes, gaps and overlaps.
    """
    try:
        if path.is_fifo():
            raise InputError(f"{str(path)!r} is a pipe, and may never end", "write it to a file first")
        n_file = path.stat().st_size
        with path.open("rb") as file:
            return _read(path, file, n_file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{str(path)!r} cannot be read: {reason}", "give the path of a .safetensors file") from None


def _read(path: Path, file: IO[bytes], n_file: int) -> Header:
    where = f"{str(path)!r}"
    start = file.read(32)
    if len(start) < 8:
        raise InputError(f"{where} has {len(start)} bytes, and a safetensors file begins with 8", _again())
    n_header = int.from_bytes(start[:8], "little")
    for sign, what, advice in _SIGNS:
        if start.startswith(sign) and not 2 <= n_header <= min(n_file - 8, MOST_BYTES):
            raise InputError(f"{where} is no safetensors file but {what}", advice)
    if n_header < 2:
        raise InputError(f"{where} gives its header {n_header} bytes, and the shortest is {{}}", _again())
    if n_header > MOST_BYTES:
        raise InputError(f"{where} gives its header {n_header:,} bytes; the limit is {MOST_BYTES:,}", _again())
    if n_header > n_file - 8:
        raise InputError(
            f"{where} gives its header {n_header:,} bytes, and the file has {max(0, n_file - 8):,} after the first 8",
            _again(),
        )
    file.seek(8)
    found: dict[str, StoredTensor] = {}
    metadata: list[object] = []
    for name, value in _Entries(where, file, n_header):
        if name in found or (metadata and name == METADATA):
            raise InputError(f"{where} names {_short(name)} twice in its header", "one of the two would be lost")
        if name == METADATA:
            metadata.append(value)
            continue
        if len(found) == MOST_TENSORS:
            raise InputError(f"{where} names more than {MOST_TENSORS:,} tensors", "that is the most that is listed")
        found[name] = _tensor(where, name, value)
    words, warnings = _metadata(metadata[0] if metadata else {})
    tensors = sorted(found.values(), key=lambda t: (t.begin, t.end))
    _require_seamless(where, tensors)
    n_data = tensors[-1].end if tensors else 0
    held = n_file - 8 - n_header
    if held > n_data:
        raise InputError(f"{where} has {held - n_data:,} bytes that belong to no tensor", _again())
    warnings += [f"unknown dtype {dtype}" for dtype in sorted({t.dtype for t in tensors} - BITS.keys())]
    return Header(path, tuple(tensors), words, n_header, n_file, tuple(warnings), max(0, n_data - held))


class _Entries:
    """The members of the JSON object that a header is, one by one, so that it is nowhere held as a whole.

    Iterating raises InputError where the header is no JSON, or one entry alone goes beyond 4 MiB.
    """

    def __init__(self, where: str, file: IO[bytes], n_bytes: int) -> None:
        self._where = where
        self._file = file
        self._unread = n_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        self._more()
        if not self._text.startswith("{"):
            raise InputError(f"{self._where} has a header that does not begin with {{", _again())
        self._at = 1
        if self._sign("}", '"') == '"':
            while True:
                yield self._entry()
                if self._sign(",", "}") == "}":
                    break
                self._sign('"')
        if self._sign(""):
            raise self._no_json("more after the closing brace")

    def _sign(self, *signs: str) -> str:
        """The next character but spaces, which has to be one of these; "" is the end. A quotation mark is not taken."""
        while (found := _NO_SPACE.search(self._text, self._at)) is None:
            self._at = len(self._text)
            if not self._more():
                break
        self._at = found.start() if found else len(self._text)
        sign = self._text[self._at : self._at + 1]
        if sign not in signs:
            raise self._no_json(f"{sign!r} where {' or '.join(filter(None, signs)) or 'the end'} belongs")
        self._at += sign not in ('"', "")
        return sign

    def _entry(self) -> tuple[str, Any]:
        """The name and the value that stand here; more is read as long as they do not end in what has been read."""
        while True:
            try:
                name, at = _VALUES.raw_decode(self._text, self._at)
                colon = _COLON.match(self._text, at)
                if colon is None:
                    raise json.JSONDecodeError("no colon after a name", self._text, at)
                value, at = _VALUES.raw_decode(self._text, colon.end())
                if at == len(self._text) and self._more():  # a number may go on
                    continue
            except RecursionError:
                raise InputError(f"{self._where} has a header that is nested too deeply", _again()) from None
            except _Twice as twice:
                raise InputError(f"{self._where} names {twice} twice in its header", "one would be lost") from None
            except ValueError as error:
                if len(self._text) - self._at > _MOST_OF_ENTRY:
                    raise self._no_json(f"an entry of more than {_MOST_OF_ENTRY:,} characters") from None
                if not self._more():
                    raise self._no_json(getattr(error, "msg", str(error))) from None
                continue
            self._at = at
            return name, value

    def _more(self) -> bool:
        """Take as much again as is left, at least a piece; False where nothing is left to take."""
        if not self._unread:
            return False
        raw = self._file.read(min(self._unread, max(_PIECE, len(self._text) - self._at)))
        if not raw:
            raise InputError(f"{self._where} ends inside its header", _again())
        self._unread -= len(raw)
        try:
            text = self._decoder.decode(raw, final=not self._unread)
        except UnicodeDecodeError as error:
            raise self._no_json(f"not UTF-8: {error.reason}") from None
        self._text = self._text[self._at :] + text
        self._at = 0
        return True

    def _no_json(self, what: str) -> InputError:
        return InputError(f"{self._where} has a header that is no JSON: {what[:200]}", _again())


_NO_SPACE: Final = re.compile(r"[^ \t\n\r]")
_COLON: Final = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")


class _Twice(Exception):
    """A name that an object has twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise _Twice(_short(name))
        fields[name] = value
    return fields


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _integer(digits: str) -> int:
    """An integer; one that no file can mean is -1, which no size is: Python takes ages over millions of digits."""
    return int(digits) if len(digits) <= 20 else -1


_VALUES: Final = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number, parse_int=_integer)


def _metadata(value: object) -> tuple[dict[str, str], list[str]]:
    """The file's own words, and a warning for what is none."""
    if value is None:
        return {}, ["__metadata__ is null"]
    if not isinstance(value, dict):
        return {}, [f"__metadata__ is no object but {type(value).__name__}"]
    words = {name: word for name, word in value.items() if isinstance(word, str)}
    odd = sorted(value.keys() - words.keys())
    return words, [f"__metadata__ of {name!r} is no string" for name in odd[:8]]


def _tensor(where: str, name: str, value: object) -> StoredTensor:
    def refuse(what: str) -> InputError:
        return InputError(f"{where}: tensor {_short(name)} {what}", _again())

    if not isinstance(value, dict):
        raise refuse("is described by no object")
    dtype, shape, offsets = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if len(value) > 3 and (extra := value.keys() - {"dtype", "shape", "data_offsets"}):
        raise refuse(f"has the unknown field {_short(min(extra))}")
    if not isinstance(dtype, str):
        raise refuse("has no dtype")
    if not isinstance(shape, list) or not all(map(_is_size, shape)):
        raise refuse("has a shape that is no list of sizes")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise refuse("has data_offsets that are no pair of positions")
    begin, end = offsets
    if begin > end:
        raise refuse(f"begins at byte {begin:,} and ends at {end:,}")
    tensor = StoredTensor(name, dtype, tuple(shape), begin, end)
    if len(shape) > MOST_AXES:
        raise refuse(f"has {len(shape):,} axes")
    if dtype in BITS:
        n_bytes, rest = divmod(tensor.n_elements * BITS[dtype], 8)
        if rest or n_bytes != tensor.n_bytes:
            raise refuse(f"has {tensor.n_elements:,} elements of {dtype} in {tensor.n_bytes:,} bytes")
    return tensor


def _require_seamless(where: str, tensors: list[StoredTensor]) -> None:
    """Each tensor begins where the one before it ends."""
    at, before = 0, "the header"
    for tensor in tensors:
        if tensor.begin != at:
            what = "overlap" if tensor.begin < at else f"leave a hole of {tensor.begin - at:,} bytes"
            raise InputError(f"{where}: {before} and tensor {_short(tensor.name)} {what}", _again())
        at, before = tensor.end, f"tensor {_short(tensor.name)}"


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _short(name: str) -> str:
    return repr(name) if len(name) <= 80 else f"{name[:80]!r}..."


def _again() -> str:
    return "the file is damaged; fetch it again"
