"""``tfinspect tokenize``."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from tfinspect.cli.options import Json
from tfinspect.cli.texts import Files, Special, ids_given, texts_given
from tfinspect.errors import CheckFailed, InputError

#: Most tokens and merges of a text that JSON spells out: those of a megabyte of anything. Each takes a kilobyte.
MOST_SPELLED: Final = 2**20

Texts = Annotated[
    list[str] | None, typer.Argument(metavar="TEXT", help="Texts, one report each; - reads standard input.")
]
Decode = Annotated[bool, typer.Option("--decode", help="TEXT is ids: show the bytes and the text that they stand for.")]
Merges = Annotated[bool, typer.Option("--merges", help="Show each merge of each pre-token, and check them.")]
Ids = Annotated[bool, typer.Option("--ids", help="Print the ids alone, one line for each text.")]
Limit = Annotated[int, typer.Option("--limit", metavar="ROWS", help="Most rows of a table; totals do not change.")]


def tokenize(
    texts: Texts = None,
    files: Files = None,
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
    inputs = texts_given(texts or (), files or ())

    import dataclasses

    from tfinspect.inspectors import tokens as inspector
    from tfinspect.render.output import Output

    output = Output(as_json)
    if decode:
        decoded = dataclasses.replace(inspector.decode(ids_given(data for _, data in inputs)), rows_shown=limit)
        _require_spellable(as_json, len(decoded.ids))
        output.show(decoded)
        output.finish(decoded)
        return
    origins, data = zip(*inputs, strict=True)
    tokenized = inspector.tokens(*data, origins=origins, allow_special=allow_special, merges=merges)
    if ids:
        sys.stdout.writelines(f"{' '.join(map(str, text.ids))}\n" for text in tokenized.texts)
        return
    for text in tokenized.texts:
        _require_spellable(as_json, text.n_tokens + sum(len(piece.merges) for piece in text.merged or ()))
    report = dataclasses.replace(tokenized, rows_shown=limit)
    output.show(report)
    output.show_agreements(report)
    output.finish(report)
    if any(agreement.failed for agreement in report.agreements):
        raise CheckFailed("the merges do not end in tiktoken's ids", "the line above counts the pre-tokens")


def _require_spellable(as_json: bool, n: int) -> None:
    if as_json and n > MOST_SPELLED:
        raise InputError(
            f"--json would spell out {n:,} tokens and merges, and the most is {MOST_SPELLED:,}",
            "give a part of the text, or --ids in the place of --json",
        )


def _exclude(one: tuple[str, bool], other: tuple[str, bool], why: str) -> None:
    if one[1] and other[1]:
        raise InputError(f"{one[0]} and {other[0]} do not go together", why)
