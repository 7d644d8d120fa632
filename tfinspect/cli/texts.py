"""Texts as they reach a command: arguments, files, standard input, or token ids in place of them. Always bytes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tfinspect.errors import InputError

__all__ = ["ids_given", "texts_given"]


def texts_given(arguments: Sequence[str], files: Sequence[str]) -> list[bytes]:
    """The texts of a command line, in order: arguments (``-`` is standard input), then files.

    With neither, standard input, unless it is a terminal. Bytes are kept as they are: no newline is translated or
    stripped, and bytes outside UTF-8 survive.

    Raises:  InputError for no text at all and for a file that cannot be read.
    """
    if not arguments and not files:
        if sys.stdin is None or sys.stdin.isatty():
            raise InputError("no text was given", "give one as an argument, with --file PATH, or on standard input")
        arguments = ["-"]
    texts = [_standard_input() if argument == "-" else os.fsencode(argument) for argument in arguments]
    return texts + [_file(path) for path in files]


def ids_given(rows: Sequence[str]) -> list[list[int]]:
    """Rows of token ids, each written as ``15496,11,995,0`` or with spaces.

    Raises:  InputError naming what is no integer, and its position.
    """
    return [_ids(row) for row in rows]


def _ids(row: str) -> list[int]:
    ids = []
    for position, word in enumerate(row.replace(",", " ").split()):
        try:
            ids.append(int(word))
        except ValueError:
            raise InputError(f"id {word!r} at position {position} is not an integer") from None
    return ids


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise InputError("standard input is closed", "give the text as an argument")
    return sys.stdin.buffer.read()


def _file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path!r}: {error.strerror or error}") from None
