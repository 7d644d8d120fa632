"""Texts and ids as they reach a command: arguments, files, standard input. Always bytes, never changed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Annotated, Final

import typer

from tfinspect.errors import InputError

__all__ = ["Files", "Ids", "Pad", "Special", "Texts", "ids_given", "rows_given", "texts_given"]

#: Most bytes that files and standard input are read for together: 32 MiB, a hundred times a novel. A text of bytes that
#: make a token each takes a hundred times its length in memory, and some inputs never end.
MOST_BYTES: Final = 32 * 2**20

Texts = Annotated[
    list[str] | None, typer.Argument(metavar="TEXT", help="Texts, each a row of its own. - reads standard input.")
]
Files = Annotated[list[str] | None, typer.Option("--file", metavar="PATH", help="Read a text from a file; repeatable.")]
Special = Annotated[
    bool, typer.Option("--allow-special", help="Read <|endoftext|> as the special token 50256, not as text.")
]
Ids = Annotated[
    list[str] | None,
    typer.Option("--ids", metavar="IDS", help="Token ids in place of a text: 15496,11,995. Repeat for more rows."),
]
Pad = Annotated[bool, typer.Option("--pad", help="Fill shorter texts of a batch up with <|endoftext|>.")]

_WAYS: Final = "give one as an argument, with --file PATH, or on standard input"


def rows_given(
    arguments: Sequence[str] | None, files: Sequence[str] | None, ids: Sequence[str] | None
) -> tuple[list[bytes], list[list[int]]]:
    """What a model runs on, as texts or as rows of token ids; standard input where neither is given.

    Raises:  InputError as `texts_given` and `ids_given` do.
    """
    rows = [ids_given([row.encode("utf-8", "surrogateescape")]) for row in ids or ()]
    if rows and not arguments and not files:
        return [], rows
    return [data for _, data in texts_given(arguments or (), files or ())], rows


def texts_given(arguments: Sequence[str], files: Sequence[str]) -> list[tuple[str, bytes]]:
    """Each text with the name of its origin: arguments (``-`` is standard input), then files.

    With neither, standard input, unless it is a terminal. An argument's bytes are those that the system passed on,
    UTF-8 or not; no newline is translated or stripped.

    Raises:  InputError for no text at all, what cannot be read, and more than 32 MiB together.
    """
    if not arguments and not files:
        if sys.stdin is None or sys.stdin.isatty():
            raise InputError("no text is given", _WAYS)
        arguments = ["-"]
    if list(arguments).count("-") > 1:
        raise InputError("- is given twice", "standard input can be read once")
    given, room = list[tuple[str, bytes]](), MOST_BYTES
    for number, argument in enumerate(arguments, start=1):
        if argument == "-":
            given.append(("standard input", _standard_input(room)))
            room -= len(given[-1][1])
        else:
            given.append((f"text {number}", os.fsencode(argument)))
    for path in files:
        given.append((f"file {path}", _content(path, room)))
        room -= len(given[-1][1])
    return given


def ids_given(texts: Iterable[bytes]) -> list[int]:
    """The integers that were typed, with or without the commas and brackets of a list.

    Raises:  InputError naming what is no integer, and its position; for a list of lists.
    """
    typed = " ".join(text.decode("utf-8", "surrogateescape") for text in texts)
    if typed.count("[") > 1:
        raise InputError("the ids are several lists, and one is read", "a batch takes --ids once for each row")
    words = re.findall(r"[^\s,\[\]]+", typed)
    for position, word in enumerate(words):
        if not re.fullmatch("[+-]?[0-9]{1,1000}", word):
            shown = repr(word) if len(word) <= 40 else f"{word[:40]!r}..."
            raise InputError(f"id {shown} at position {position} is not an integer", "ids go from 0 to 50256")
    return list(map(int, words))


def _standard_input(room: int) -> bytes:
    if sys.stdin is None:
        raise InputError("standard input is closed", "give the text as an argument or with --file PATH")
    try:
        return _within(room, sys.stdin.buffer, "standard input")
    except OSError as error:
        raise InputError(f"standard input cannot be read: {error.strerror or error}") from None


def _content(path: str, room: int) -> bytes:
    if not path:
        raise InputError("--file '' names no file", "give the path of a file that can be read")
    try:
        with Path(path).open("rb") as file:
            return _within(room, file, f"--file {path!r}")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"--file {path!r}: {reason}", "give the path of a file that can be read") from None


def _within(room: int, stream: IO[bytes], name: str) -> bytes:
    """Everything in the stream, where that is no more than so many bytes; a stream without an end is not waited for."""
    data = stream.read(room + 1)
    if len(data) > room:
        raise InputError(f"{name} goes beyond {MOST_BYTES:,} bytes, the most that is read", "give a part of it")
    return data
