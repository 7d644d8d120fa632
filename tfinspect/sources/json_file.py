"""A stranger's JSON file as an object, read strictly: nothing twice, nothing that is no JSON, nothing too large."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tfinspect.errors import InputError

__all__ = ["MOST_BYTES", "read_object"]

#: Largest file that is read: a configuration has a few kilobytes.
MOST_BYTES: Final = 4 * 2**20


def read_object(path: Path, *, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The JSON object in a file; a byte-order mark before it is no fault.

    Raises:  InputError naming the file, and the line and column where it applies: what cannot be read, more than 4 MiB,
             bytes that are no text, JSON that is none, NaN, a key given twice, anything but an object.
    """
    where = repr(str(path))
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
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_json)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{where} is no JSON at {place}: {error.msg}", _hint(text)) from None
    except RecursionError:
        raise InputError(f"{where} is nested too deeply", "a configuration has a few levels") from None
    except ValueError as error:  # a key twice, NaN, an integer of thousands of digits
        raise InputError(f"{where}: {error}", "mend the file") from None
    if not isinstance(found, dict):
        raise InputError(f"{where} holds {_kind(found)} where an object belongs", "a configuration begins with {")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in fields if names.count(name) > 1)
        raise ValueError(f"the key {twice[:80]!r} is given twice")
    return fields


def _no_json(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _hint(text: str) -> str:
    if "//" in text or "/*" in text:
        return "JSON has no comments"
    return "no comma before a closing bracket, and names in double quotes"


def _kind(value: object) -> str:
    names = {list: "a list", str: "a string", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")
