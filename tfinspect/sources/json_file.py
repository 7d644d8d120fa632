"""A stranger's JSON file as an object, read strictly: nothing twice, nothing that is no JSON, nothing too large."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tfinspect.errors import InputError

__all__ = ["MOST_BYTES", "read_object"]

#: Largest file that is read: a configuration has a few kilobytes.
MOST_BYTES: Final = 4 * 2**20

#: Longest integer that is read; Python itself refuses 4,301 digits, and some releases any number.
_MOST_DIGITS: Final = 1_000

_NEWLINE: Final = "\n"

#: Longest text in which the place of a fault is looked for: each escape takes memory until its string ends.
_MOST_SEARCHED: Final = 2**19


def read_object(path: Path, *, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The JSON object in a file; a byte-order mark before it is no fault.

    Raises:  InputError naming the file, and the line and column where it applies: what cannot be read, more than 4 MiB,
             bytes that are no text, JSON that is none, NaN, a key given twice, anything but an object.
    """
    where = repr(str(path))
    if path.is_fifo():
        raise InputError(f"{where} is a pipe, and may never end", "write it to a file first")
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{where} cannot be read: {reason}", "give the path of a config.json") from None
    if len(data) > most_bytes:
        raise InputError(f"{where} goes beyond {most_bytes:,} bytes", "a configuration has a few kilobytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is no text: byte {error.start} is not UTF-8", "give a config.json") from None
    if not text.strip():
        raise InputError(f"{where} is empty", "give a config.json")
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_json, parse_int=_integer)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{where} is no JSON at {place}: {error.msg}", _hint(text)) from None
    except RecursionError:
        raise InputError(f"{where} is nested too deeply", "a configuration has a few levels") from None
    except ValueError as error:  # a key twice, NaN, an integer of thousands of digits
        raise InputError(f"{where}{_place(text, str(error))}: {error}", "mend the file") from None
    if not isinstance(found, dict):
        raise InputError(f"{where} holds {_kind(found)} where an object belongs", "a configuration begins with {")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(_said_twice(name))
        fields[name] = value
    return fields


#: Strings, which hide what they hold, brackets of objects, and words and numbers that are refused.
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|[{}]|-?Infinity|NaN|-?\d{1001,}')


def _place(text: str, said: str) -> str:
    """Where the fault stands that was said, in words; empty where it is not found."""
    if len(text) > _MOST_SEARCHED:
        return ""
    with contextlib.suppress(ValueError, IndexError):  # what stands behind the fault need not be JSON
        for at, fault in _faults(text):
            if fault == said:
                return f" at line {text.count(_NEWLINE, 0, at) + 1}, column {at - text.rfind(_NEWLINE, 0, at)}"
    return ""


def _faults(text: str) -> Iterator[tuple[int, str]]:
    """Where something stands that is refused, and in which words."""
    objects: list[set[str]] = []
    for token in _TOKEN.finditer(text):
        word = token.group()
        if word == "{":
            objects.append(set())
        elif word == "}":
            objects.pop()
        elif token.group(1):
            key = json.loads(word.removesuffix(":").rstrip())
            if key in objects[-1]:
                yield token.start(), _said_twice(key)
            objects[-1].add(key)
        elif word[-1].isdigit():
            yield token.start(), _said_long(word)
        elif not word.startswith('"'):
            yield token.start(), _said_no_json(word)


def _said_twice(key: str) -> str:
    return f"the key {key[:80]!r} is given twice"


def _said_long(digits: str) -> str:
    return f"an integer of {len(digits.lstrip('-')):,} digits is no size"


def _said_no_json(word: str) -> str:
    return f"{word} is no JSON"


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(_said_long(digits))
    return int(digits)


def _no_json(word: str) -> Any:
    raise ValueError(_said_no_json(word))


def _hint(text: str) -> str:
    if text.lstrip().startswith(("#", "//", "/*")) or re.search(r"^\s*(//|/\*|#)|[,{\[]\s*//", text, re.MULTILINE):
        return "JSON has no comments"
    return "no comma before a closing bracket, and names in double quotes"


def _kind(value: object) -> str:
    names = {list: "a list", str: "a string", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")
