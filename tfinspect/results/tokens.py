"""What a text is to GPT-2: its tokens, the characters that they hold, and the merges that made them.

Positions, bytes and characters count from 0. A character is a code point; a byte outside UTF-8 takes the place of one.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

from tfinspect.results.agreement import Agreement
from tfinspect.results.report import Answer
from tfinspect.results.table import Column, Given, Row, Table

__all__ = ["CharPart", "DecodedIds", "Merge", "PreToken", "PreTokenKind", "Token", "TokenReport", "TokenizedText"]

PreTokenKind: TypeAlias = Literal["text", "special", "bytes"]
"""text: a piece of the split.  special: <|endoftext|>, where it is honoured.  bytes: a run of bytes outside UTF-8."""

#: Rows that a table shows unless told otherwise. No total depends on it, and JSON always has all.
ROWS_SHOWN: Final = 200
#: Parts of a pre-token that a row shows on either side of a merge.
PARTS_SHOWN: Final = 6
#: Bytes of the longest pre-token whose parts JSON spells out after each merge: their number grows with the square.
LONGEST_SPELLED: Final = 64
#: Characters of a user's text that a title, and that a decoded text takes in a table.
TITLE_SHOWN: Final = 40
TEXT_SHOWN: Final = 1_000


class CharPart(NamedTuple):
    """Some of the bytes of one character."""

    character: str
    """The whole character."""
    char_index: int
    """Which character of the text it is."""
    first_byte: int
    """The first of its bytes that are held, from 1."""
    last_byte: int
    """The last of them."""
    n_bytes: int
    """Bytes that the character has in UTF-8."""

    def __str__(self) -> str:
        one = self.first_byte == self.last_byte
        held = f"byte {self.first_byte}" if one else f"bytes {self.first_byte}-{self.last_byte}"
        return f"{held} of {self.n_bytes} of {_glyph(self.character)}"

    def brief(self) -> str:
        """The same in a few cells: ``師 1-2/3``."""
        held = f"{self.first_byte}" if self.first_byte == self.last_byte else f"{self.first_byte}-{self.last_byte}"
        return f"{_glyph(self.character)} {held}/{self.n_bytes}"

    def to_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return self._asdict()


class Token(NamedTuple):
    """One token, with its place in the bytes and in the characters of the text."""

    position: int
    """Place in the sequence."""
    id: int
    """Row of the token table E."""
    data: bytes
    """The bytes that it stands for."""
    byte_start: int
    """Where they begin in the text's bytes."""
    char_start: int
    """The first character of which it holds a byte."""
    char_stop: int
    """One past the last character of which it holds a byte."""
    parts: tuple[str | CharPart, ...]
    """Runs of whole characters, and parts of a character at its ends; a byte outside UTF-8 as its surrogate escape."""

    @property
    def text(self) -> str | None:
        """The characters, where it holds whole ones only."""
        whole = self.parts[0]
        return whole if len(self.parts) == 1 and isinstance(whole, str) and not _RAW.search(whole) else None

    def shown(self) -> str:
        """The characters in quotes, white space and control characters visible; or which bytes of which character."""
        return " + ".join(visible(part) if isinstance(part, str) else str(part) for part in self.parts)

    def brief(self) -> str:
        """The same in a few cells: ``師 1-2/3`` for bytes 1-2 of 3 of 師."""
        return " + ".join(visible(part) if isinstance(part, str) else part.brief() for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: bytes in hex; the text, or the parts where it is not whole characters."""
        return {
            "position": self.position,
            "id": self.id,
            "bytes": self.data.hex(),
            "byte_start": self.byte_start,
            "byte_stop": self.byte_start + len(self.data),
            "char_start": self.char_start,
            "char_stop": self.char_stop,
            "text": (text := self.text),
            "parts": [] if text is not None else [entry for part in self.parts for entry in _entries(part)],
        }


class Merge(NamedTuple):
    """Two neighbouring parts of a pre-token become one token."""

    rank: int
    """Its rank, and the id of the token: the lowest rank merges first."""
    start: int
    """Where the left part begins in the pre-token's bytes."""
    middle: int
    """Where the right part begins."""
    stop: int
    """Where it stops."""


@dataclasses.dataclass(frozen=True, slots=True)
class PreToken:
    """A piece that merges never cross, with the merges inside it."""

    kind: PreTokenKind
    data: bytes
    byte_start: int
    """Where it begins in the text's bytes."""
    merges: tuple[Merge, ...]
    """In the order in which they happen."""
    ids: tuple[int, ...]
    """What the merges end in."""

    def steps(self) -> Iterator[tuple[Merge, int, list[int]]]:
        """Each merge with the parts after it: which part is the merged one, and where each part begins.

        The list is one and the same from step to step.
        """
        begins = list(range(len(self.data)))
        for merge in self.merges:
            place = bisect.bisect_left(begins, merge.start)
            del begins[place + 1]
            yield merge, place, begins

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; the parts after each merge are null in a pre-token of more than 64 bytes."""
        spelled = len(self.data) <= LONGEST_SPELLED
        return {
            "kind": self.kind,
            "bytes": self.data.hex(),
            "text": _text_or_none(self.data),
            "byte_start": self.byte_start,
            "ids": list(self.ids),
            "merges": [
                {
                    "rank": merge.rank,
                    "left": self.data[merge.start : merge.middle].hex(),
                    "right": self.data[merge.middle : merge.stop].hex(),
                    "at_byte": merge.start,
                    "parts": [part.hex() for part in _parts(self.data, begins)] if spelled else None,
                }
                for merge, _, begins in (self.steps() if spelled else ((merge, 0, []) for merge in self.merges))
            ],
        }


@dataclasses.dataclass(frozen=True)
class TokenizedText:
    """One text and its tokens."""

    origin: str
    """Where the text came from: "text 1", "standard input", "file notes.txt"."""
    data: bytes
    """Its bytes, as they were encoded."""
    ids: tuple[int, ...]
    """The ids, in order."""
    tokens: Sequence[Token]
    """Each id with its place and what it holds; laid out as it is read."""
    decoded: bytes
    """What the ids decode to."""
    n_characters: int
    """Code points; bytes outside UTF-8 are not among them."""
    n_pretokens: int
    """Pieces that merges never cross."""
    n_invalid_bytes: int
    """Bytes outside UTF-8, each kept as it is."""
    n_special_as_text: int
    """How often <|endoftext|> stands in the text and was read as plain text."""
    n_joined_surrogates: int = 0
    """Surrogate pairs of a Python string that were read as the character they stand for."""
    n_replaced_surrogates: int = 0
    """Lone surrogates of a Python string that became U+FFFD: the text was changed."""
    merged: tuple[PreToken, ...] | None = None
    """The merges of each pre-token, where they were asked for."""

    @property
    def n_tokens(self) -> int:
        """Tokens."""
        return len(self.ids)

    @property
    def n_bytes(self) -> int:
        """Bytes."""
        return len(self.data)

    @property
    def bytes_per_token(self) -> float | None:
        """Bytes per token; None for a text of no tokens."""
        return self.n_bytes / self.n_tokens if self.ids else None

    @property
    def exact(self) -> bool:
        """True where the ids decode to the very input: every byte came back, and no surrogate was replaced."""
        return self.decoded == self.data and not self.n_replaced_surrogates

    def notes(self) -> tuple[str, ...]:
        """What a reader should know about this text, a sentence each."""
        return tuple(
            sentence
            for n, sentence in (
                (
                    self.n_invalid_bytes,
                    f"Warning: {_some(self.n_invalid_bytes, 'byte')} outside UTF-8, kept as is: "
                    "each run of them is a pre-token of its own.",
                ),
                (
                    self.n_replaced_surrogates,
                    f"Warning: {_some(self.n_replaced_surrogates, 'lone surrogate')} became U+FFFD: "
                    "decoding does not give the input back.",
                ),
                (
                    self.n_joined_surrogates,
                    f"{_some(self.n_joined_surrogates, 'surrogate pair')} read as the character it stands for.",
                ),
                (
                    self.n_special_as_text,
                    f"The text spells <|endoftext|> {_some(self.n_special_as_text, 'time')}: "
                    "read as plain text; --allow-special makes it one token.",
                ),
            )
            if n
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: totals, ids, every token, and the merges where they were asked for."""
        return {
            "origin": self.origin,
            "n_tokens": self.n_tokens,
            "n_characters": self.n_characters,
            "n_bytes": self.n_bytes,
            "bytes_per_token": self.bytes_per_token,
            "n_pretokens": self.n_pretokens,
            "n_invalid_bytes": self.n_invalid_bytes,
            "n_joined_surrogates": self.n_joined_surrogates,
            "n_replaced_surrogates": self.n_replaced_surrogates,
            "exact": self.exact,
            "notes": list(self.notes()),
            "ids": list(self.ids),
            "tokens": [token.to_dict() for token in self.tokens],
            "pretokens": None if self.merged is None else [piece.to_dict() for piece in self.merged],
        }


@dataclasses.dataclass(frozen=True)
class TokenReport(Answer):
    """Texts and their tokens, in the order in which they were given."""

    schema: ClassVar[str] = "tfinspect.tokens/1"

    texts: tuple[TokenizedText, ...]
    allow_special: bool
    """True where <|endoftext|> in a text is the special token, False where it is plain text."""
    vocab_size: int
    """V: entries of the vocabulary, the special token among them."""
    agreements: tuple[Agreement, ...] = ()
    """Merge by merge against tiktoken, where the merges were asked for."""
    rows_shown: int = ROWS_SHOWN
    """Rows that a table shows; no total and no JSON depends on it."""

    @property
    def conventions(self) -> str:
        """The encoding, and how special tokens are read."""
        special = "honoured" if self.allow_special else "read as text"
        return (
            f"GPT-2 byte-level BPE, {self.vocab_size:,} entries; special tokens {special}; bytes are kept as they are"
        )

    def unfolded(self) -> TokenReport:
        """The same report with every token and every merge in its tables."""
        return dataclasses.replace(self, rows_shown=sys.maxsize)

    def tables(self) -> tuple[Table, ...]:
        """For each text its tokens, its merges where they were asked for, and its totals."""
        return tuple(table for number, text in enumerate(self.texts) for table in self._of_text(text, number))

    def _of_text(self, text: TokenizedText, number: int) -> Iterator[Table]:
        name = f"{text.origin}: {_beginning(text.data)}"
        yield _token_table(name, text.tokens, self.rows_shown, text.notes())
        if text.merged is not None:
            yield _merge_table(name, text.merged, self.rows_shown)
        yield Table(
            Given(f"Totals of {name}") if len(self.texts) > 1 else "Totals",
            (
                Column("tokens", "tokens", "count", 9),
                Column("characters", "characters", "count", 9),
                Column("bytes", "UTF-8 bytes" if not text.n_invalid_bytes else "bytes", "count", 9),
                Column("per_token", "bytes per token", "real", 8),
                Column("pretokens", "pre-tokens", "count", 7),
                Column("exact", "round trip", "text", 6),
            ),
            (
                Row(
                    {
                        "tokens": text.n_tokens,
                        "characters": text.n_characters,
                        "bytes": text.n_bytes,
                        "per_token": "n/a" if text.bytes_per_token is None else text.bytes_per_token,
                        "pretokens": text.n_pretokens,
                        "exact": "exact" if text.exact else "changed",
                    }
                ),
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the convention, and each text in full."""
        return {
            "conventions": self.conventions,
            "allow_special": self.allow_special,
            "vocab_size": self.vocab_size,
            "texts": [text.to_dict() for text in self.texts],
            "agreements": [agreement.to_dict() for agreement in self.agreements],
        }


@dataclasses.dataclass(frozen=True)
class DecodedIds(Answer):
    """Ids and the bytes that they stand for."""

    schema: ClassVar[str] = "tfinspect.decoded/1"

    data: bytes
    """The bytes, exactly: nothing is cleaned up or replaced."""
    ids: tuple[int, ...]
    """The ids, in order."""
    tokens: Sequence[Token]
    """Each id with its place and what it holds; laid out as it is read."""
    n_invalid_bytes: int
    """Bytes outside UTF-8."""
    canonical: bool
    """True where encoding the bytes gives these ids again."""
    vocab_size: int
    """V: ids go from 0 to V - 1."""
    agreements: tuple[Agreement, ...] = ()
    rows_shown: int = ROWS_SHOWN
    """Rows that a table shows."""

    @property
    def text(self) -> str | None:
        """The bytes as text, where they are valid UTF-8."""
        return _text_or_none(self.data)

    @property
    def conventions(self) -> str:
        """The encoding, and that nothing is changed."""
        return f"GPT-2 byte-level BPE, {self.vocab_size:,} entries; ids to bytes, nothing cleaned up or replaced"

    def unfolded(self) -> DecodedIds:
        """The same report with every token in its tables."""
        return dataclasses.replace(self, rows_shown=sys.maxsize)

    def tables(self) -> tuple[Table, ...]:
        """The tokens, and what they decode to."""
        shown = self.data[:TEXT_SHOWN]
        left_out = len(self.data) - len(shown)
        facts = (
            ("text", visible(shown.decode("utf-8", "surrogateescape"))),
            ("bytes in hex", shown.hex()),
            ("valid UTF-8", "no" if self.n_invalid_bytes else "yes"),
            ("encodes to these ids again", "yes" if self.canonical else "no"),
        )
        return (
            _token_table(_some(len(self.tokens), "id"), self.tokens, self.rows_shown, ()),
            Table(
                f"Decoded: {_some(len(self.data), 'byte')}",
                (Column("fact", "", "text", 9), Column("value", "", "text", 9)),
                tuple(Row({"fact": fact, "value": value}) for fact, value in facts),
                (f"The last {_some(left_out, 'byte')} not shown; --json has them all.",) if left_out else (),
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: bytes in hex, the text or null, and each token."""
        return {
            "conventions": self.conventions,
            "vocab_size": self.vocab_size,
            "ids": list(self.ids),
            "bytes": self.data.hex(),
            "text": self.text,
            "valid_utf8": not self.n_invalid_bytes,
            "n_invalid_bytes": self.n_invalid_bytes,
            "canonical": self.canonical,
            "tokens": [token.to_dict() for token in self.tokens],
            "agreements": [agreement.to_dict() for agreement in self.agreements],
        }


def visible(text: str) -> str:
    r"""The text in double quotes, with what cannot be seen as an escape: ``" the"``, ``"\n"``, ``"\u200d"``.

    Bytes outside UTF-8, which the text holds as surrogate escapes, stand beside the quotes in words.
    """
    runs = enumerate(_RAW.split(text))  # text and raw bytes in turn
    return " + ".join(_raw_words(run) if number % 2 else f'"{_escaped(run)}"' for number, run in runs if run) or '""'


_RAW: Final = re.compile("([\udc80-\udcff]+)")
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}


def _escaped(text: str) -> str:
    shown = "".join(_ESCAPES.get(c) or (c if c.isprintable() else _code_point(c)) for c in text)
    # A combining mark without its letter would sit on the quote.
    return _code_point(text[0]) + shown[1:] if unicodedata.category(text[0]).startswith("M") else shown


def _code_point(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _glyph(character: str) -> str:
    """The character, or its code point where it cannot be seen by itself."""
    seen = character.isprintable() and not unicodedata.category(character).startswith("M")
    return character if seen else f"U+{ord(character):04X}"


def _raw_words(run: str) -> str:
    return f"{'byte' if len(run) == 1 else 'bytes'} {run.encode('utf-8', 'surrogateescape').hex()} outside UTF-8"


def _entries(part: str | CharPart) -> Iterator[dict[str, Any]]:
    """A part of a token for JSON, which cannot hold surrogate escapes."""
    if isinstance(part, CharPart):
        yield part.to_dict()
        return
    for number, run in enumerate(_RAW.split(part)):
        if run:
            yield {"invalid": run.encode("utf-8", "surrogateescape").hex()} if number % 2 else {"text": run}


def _text_or_none(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _some(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def _beginning(data: bytes) -> str:
    """How a text begins, for titles."""
    text = data[: 4 * TITLE_SHOWN].decode("utf-8", "surrogateescape")
    return visible(text[:TITLE_SHOWN]) + (" ..." if len(text) > TITLE_SHOWN else "")


def _token_table(name: str, tokens: Sequence[Token], rows_shown: int, notes: tuple[str, ...]) -> Table:
    shown = tokens[:rows_shown]
    digits = len(str(len(shown)))
    last_byte = len(str(shown[-1].byte_start)) if shown else 1
    return Table(
        Given(f"Tokens of {name}"),
        (
            Column("position", "#", "text", 9),
            Column("id", "id", "text", 9),
            Column("bytes", "bytes in hex", "text", 8),
            Column("text", "text, or part of a character", "text", 9),
            Column("characters", "character", "text", 7),
            Column("byte", "from byte", "text", 6),
        ),
        tuple(
            Row(
                {
                    "position": str(token.position).rjust(digits),
                    "id": str(token.id).rjust(5),
                    "bytes": token.data.hex(),
                    "text": token.shown(),
                    "characters": _span(token.char_start, token.char_stop),
                    "byte": str(token.byte_start).rjust(last_byte),
                }
            )
            for token in shown
        ),
        _left_out(len(tokens) - len(shown), "token") + notes,
    )


def _merge_table(name: str, pretokens: tuple[PreToken, ...], rows_shown: int) -> Table:
    n_rows = sum(1 + len(piece.merges) for piece in pretokens)
    rows = tuple(itertools.islice((row for piece in pretokens for row in _merge_rows(piece)), rows_shown))
    return Table(
        Given(f"Merges of {name}"),
        (
            Column("step", "step", "text", 9),
            Column("rank", "rank", "text", 9),
            Column("pair", "merges", "text", 9),
            Column("parts", "parts after it", "text", 8),
        ),
        rows,
        (
            "The pair of lowest rank merges first, the leftmost of equals; a rank is the id of the merged token.",
            *_left_out(n_rows - len(rows), "row"),
        ),
    )


def _merge_rows(piece: PreToken) -> Iterator[Row]:
    """The pre-token and what it ends in, then a row for each merge with the parts near it."""
    ids = " ".join(map(str, piece.ids[: 2 * PARTS_SHOWN])) + (" ..." if len(piece.ids) > 2 * PARTS_SHOWN else "")
    kind = "special token " if piece.kind == "special" else ""
    heading = Given(f"{kind}{_beginning(piece.data)}: {'id' if len(piece.ids) == 1 else 'ids'} {ids}")
    yield Row({"step": heading}, "group")
    for step, (merge, place, begins) in enumerate(piece.steps(), start=1):
        low, high = max(0, place - PARTS_SHOWN), min(len(begins), place + PARTS_SHOWN + 1)
        near = [_seen(part) for part in _parts(piece.data, begins, low, high)]
        yield Row(
            {
                "step": str(step),
                "rank": str(merge.rank).rjust(5),
                "pair": " ".join(
                    map(_seen, (piece.data[merge.start : merge.middle], piece.data[merge.middle : merge.stop]))
                ),
                "parts": " ".join(["..."] * (low > 0) + near + ["..."] * (high < len(begins))),
            },
            indent=1,
        )


def _parts(data: bytes, begins: list[int], low: int = 0, high: int | None = None) -> list[bytes]:
    """The parts of a pre-token from the low-th up to the high-th."""
    high = len(begins) if high is None else high
    borders = begins[low : high + 1] + [len(data)] * (high == len(begins))
    return [data[begin:stop] for begin, stop in itertools.pairwise(borders)]


def _seen(part: bytes) -> str:
    """A part as text in quotes, or in hex where it is not whole characters."""
    text = _text_or_none(part)
    return part.hex() if text is None else visible(text)


def _span(start: int, stop: int) -> str:
    return str(start) if stop - start == 1 else f"{start}-{stop - 1}"


def _left_out(n: int, noun: str) -> tuple[str, ...]:
    return (f"{_some(n, noun)} not shown; --limit shows more, --json has all.",) if n else ()
