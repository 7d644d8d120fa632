"""``tfinspect tokenize``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from tfinspect.cli.options import Json
from tfinspect.errors import CheckFailed, InputError

Texts = Annotated[list[str], typer.Argument(metavar="TEXT", help="Texts, one report each; - reads standard input.")]
Files = Annotated[list[str], typer.Option("--file", metavar="PATH", help="Read a text from a file; repeatable.")]
Special = Annotated[
    bool, typer.Option("--allow-special", help="Read <|endoftext|> as the special token 50256, not as text.")
]
Decode = Annotated[bool, typer.Option("--decode", help="TEXT is ids: show the bytes and the text that they stand for.")]
Merges = Annotated[bool, typer.Option("--merges", help="Show each merge of each pre-token, and check them.")]
Ids = Annotated[bool, typer.Option("--ids", help="Print the ids alone, one line for each text.")]
Limit = Annotated[int, typer.Option("--limit", metavar="ROWS", help="Most rows of a table; totals do not change.")]


def tokenize(
    texts: Texts = [],  # noqa: B006 - never changed; typer shows None as a default
    files: Files = [],  # noqa: B006
    merges: Merges = False,
    allow_special: Special = False,
    decode: Decode = False,
    ids: Ids = False,
    limit: Limit = 200,
    as_json: Json = False,
) -> None:
    """GPT-2's tokens of a text: ids, bytes, and the characters or parts of characters that they hold.

    Bytes are taken as they are: no newline translation, no normalisation, and bytes outside UTF-8 are kept.

    Examples:
      tfinspect tokenize "Hello, world!"
      tfinspect tokenize --merges --file notes.txt
      tfinspect tokenize --ids "Hello" | tfinspect tokenize --decode -
    """
    if limit < 0:
        raise InputError(f"--limit {limit} is below 0", "give the most rows that a table may have")
    _exclude(("--ids", ids), ("--json", as_json), "JSON has the ids too")
    _exclude(("--ids", ids), ("--merges", merges), "--ids prints ids and nothing else")
    _exclude(("--decode", decode), ("--ids", ids), "one goes from ids to bytes, the other to ids")
    _exclude(("--decode", decode), ("--merges", merges), "one goes from ids to bytes, the other to ids")
    _exclude(("--decode", decode), ("--allow-special", allow_special), "the id 50256 always decodes to <|endoftext|>")
    inputs = list(_inputs(texts, files))

    import dataclasses

    from tfinspect.inspectors import tokens as inspector
    from tfinspect.render.output import Output

    output = Output(as_json)
    if decode:
        decoded = dataclasses.replace(inspector.decode(_ids(data for _, data in inputs)), rows_shown=limit)
        output.show(decoded)
        output.finish(decoded)
        return
    origins, data = zip(*inputs, strict=True)
    tokenized = inspector.tokens(*data, origins=origins, allow_special=allow_special, merges=merges)
    if ids:
        sys.stdout.writelines(f"{' '.join(map(str, text.ids))}\n" for text in tokenized.texts)
        return
    report = dataclasses.replace(tokenized, rows_shown=limit)
    output.show(report)
    output.show_agreements(report)
    output.finish(report)
    if any(agreement.failed for agreement in report.agreements):
        raise CheckFailed("the merges do not end in tiktoken's ids", "the line above counts the pre-tokens")


def _inputs(texts: Sequence[str], files: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Each text as bytes, with its name: arguments, then files; standard input for - or where nothing is given.

    An argument's bytes are those that the system passed on, UTF-8 or not.
    """
    if not texts and not files:
        if sys.stdin is None or sys.stdin.isatty():
            raise InputError("no text is given", "give TEXT, --file PATH, or pipe a text into tfinspect tokenize")
        yield "standard input", _standard_input()
    if texts.count("-") > 1:
        raise InputError("- is given twice", "standard input can be read once")
    for number, text in enumerate(texts, start=1):
        yield ("standard input", _standard_input()) if text == "-" else (f"text {number}", os.fsencode(text))
    for path in files:
        yield f"file {path}", _content(path)


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise InputError("standard input is closed", "give TEXT or --file PATH")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise InputError(f"standard input cannot be read: {error.strerror or error}") from None


def _content(path: str) -> bytes:
    if not path:
        raise InputError("--file '' names no file", "give the path of a file that can be read")
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"--file {path!r}: {reason}", "give the path of a file that can be read") from None


def _ids(inputs: Iterable[bytes]) -> list[int]:
    """The integers that were typed, with or without the commas and brackets of a list."""
    words = re.findall(r"[^\s,\[\]]+", " ".join(data.decode("utf-8", "surrogateescape") for data in inputs))
    for position, word in enumerate(words):
        if not re.fullmatch("[+-]?[0-9]{1,1000}", word):
            raise InputError(
                f"id {_shortened(word)} at position {position} is not an integer", "ids go from 0 to 50256"
            )
    return list(map(int, words))


def _exclude(one: tuple[str, bool], other: tuple[str, bool], why: str) -> None:
    if one[1] and other[1]:
        raise InputError(f"{one[0]} and {other[0]} do not go together", why)


def _shortened(word: str) -> str:
    return repr(word) if len(word) <= 40 else f"{word[:40]!r}..."
