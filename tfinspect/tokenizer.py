r"""GPT-2's byte-level BPE: bytes to ids and back, from a rank table inside the package.

    bytes ──cut──> stretches ──split──> pre-tokens ──merge──> ids ──look up──> the same bytes

Two paths lead from bytes to ids. `encode` gives each stretch of text to tiktoken. `pretokens` and `merge` take the same
road on foot: the split by its grammar, then one merge after the other, lowest rank first.

Bytes are kept, whatever they are: no newline translation, no stripping, no normalisation. Each run of bytes outside
UTF-8 is a pre-token of its own, merged like any other, and the text on either side is split as if it ended there
(tiktoken itself takes text only, and would put U+FFFD in the bytes' place). A ``str`` is text, not bytes: `to_bytes`
reads surrogate pairs as the character they stand for, and puts U+FFFD for a lone surrogate, as tiktoken does. So
``"a\udce9b"`` is a changed text in Python, while the byte E9 in a command's argument stays the byte E9: the command
line passes on the argument's bytes.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import itertools
import operator
import re
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

from tfinspect.errors import InputError
from tfinspect.results.tokens import CharPart, Merge, PreTokenKind, Token

if TYPE_CHECKING:
    from tiktoken import Encoding

__all__ = [
    "SPECIAL",
    "SPECIAL_ID",
    "VOCAB_SIZE",
    "Tokens",
    "count_invalid",
    "decode",
    "encode",
    "merge",
    "plain_ids",
    "pretokens",
    "ranks",
    "to_bytes",
]

#: 256 bytes, 50,000 merges, and <|endoftext|>.
VOCAB_SIZE: Final = 50_257
SPECIAL: Final = "<|endoftext|>"
SPECIAL_ID: Final = 50_256

#: tiktoken's spelling of the pattern in openai/gpt-2, src/encoder.py: the same pre-tokens without backtracking.
PATTERN: Final = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


def ranks() -> dict[bytes, int]:
    """The rank of each of the 50,256 mergeable tokens, which is also its id: the lowest rank merges first."""
    return _tables()[0]


def encode(data: bytes, *, allow_special: bool = False) -> list[int]:
    """The ids of the bytes; decoding them gives exactly these bytes back.

    Raises:  nothing: every sequence of bytes has ids.
    Source:  Radford et al. 2019, 2.2; openai/gpt-2, src/encoder.py.
    Agrees:  pretokens and merge, id by id; tiktoken's encode_ordinary for valid UTF-8.
    """
    ids: list[int] = []
    for kind, text in _stretches(data, allow_special):
        if kind == "text":
            ids += _encoding().encode_ordinary(text)
        elif kind == "special":
            ids.append(SPECIAL_ID)
        else:
            ids += merge(_escaped(text))[1]
    return ids


def plain_ids(ids: Iterable[Any]) -> tuple[Any, ...]:
    """The ids as Python's own integers, numpy's and torch's among them; what is no integer stays as it is.

    Raises:  InputError for something that holds no ids.
    """
    try:
        return tuple(map(_plain, ids))
    except TypeError:
        raise InputError(f"{ids!r} is no sequence of token ids", "for example [15496, 11, 995]") from None


def _plain(token_id: Any) -> Any:
    try:
        return token_id if isinstance(token_id, bool) else operator.index(token_id)
    except TypeError:
        return token_id


def decode(ids: Sequence[int]) -> bytes:
    """The bytes of the ids, one token after the other: no clean-up of spaces, no replacement characters.

    Raises:  InputError naming an id that is no integer in 0..50256, and its position.
    """
    vocabulary = _tables()[1]
    for position, token_id in enumerate(ids):
        if isinstance(token_id, bool) or not isinstance(token_id, int):
            raise InputError(f"id {token_id!r} at position {position} is not an integer")
        if not 0 <= token_id < VOCAB_SIZE:
            raise InputError(
                f"id {token_id} at position {position} is not in GPT-2's vocabulary",
                f"ids go from 0 to {SPECIAL_ID}",
            )
    return b"".join(map(vocabulary.__getitem__, ids))


def to_bytes(text: str) -> tuple[bytes, int, int]:
    """A string as UTF-8, with how many surrogate pairs were joined and how many lone surrogates became U+FFFD."""
    try:
        return text.encode(), 0, 0
    except UnicodeEncodeError:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        whole, n_lone = re.subn("[\ud800-\udfff]", "\ufffd", joined)
        return whole.encode(), len(text) - len(joined), n_lone


@dataclasses.dataclass(frozen=True)
class Tokens(Sequence[Token]):
    """Each id with its place in bytes and characters, and the characters or parts of one that it holds.

    A token is laid out when it is read, from the first one on: a million cost nothing until somebody looks at them.
    """

    data: bytes
    """What the ids decode to."""
    ids: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Token]:
        return _laid_out(self.data, self.ids)

    @overload
    def __getitem__(self, at: int) -> Token: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Token, ...]: ...
    def __getitem__(self, at: int | slice) -> Token | tuple[Token, ...]:
        wanted = range(len(self.ids))[at]
        if isinstance(wanted, int):
            return next(itertools.islice(self, wanted, None))
        read = tuple(itertools.islice(self, max(wanted, default=-1) + 1))
        return tuple(map(read.__getitem__, wanted))


def count_invalid(data: bytes) -> int:
    """How many of the bytes are outside UTF-8."""
    return sum(map(len, _RAW.findall(data.decode("utf-8", "surrogateescape"))))


def pretokens(data: bytes, *, allow_special: bool = False) -> Iterator[tuple[PreTokenKind, bytes]]:
    """The pieces that merges never cross, in order; joined, they are the bytes.

    Source:  openai/gpt-2, src/encoder.py: contractions, then runs of letters, numbers and other marks, each with at
             most one space before it, then white space.
    """
    for kind, text in _stretches(data, allow_special):
        if kind == "text":
            classes = text.translate(_classes(text))
            yield from (("text", text[m.start() : m.end()].encode()) for m in _GRAMMAR.finditer(classes))
        else:
            yield kind, _escaped(text)


def merge(piece: bytes) -> tuple[tuple[Merge, ...], list[int]]:
    """The byte-pair merges of one pre-token in the order in which they happen, and the ids that they end in.

    Of all neighbours whose joined bytes are a token, the pair of lowest rank merges, the leftmost of equals; until none
    is left. A heap holds the candidates, so that n bytes take about n·log n steps and not n².
    """
    rank_of, n = ranks(), len(piece)
    stop = list(range(1, n + 1))  # where the part that starts here stops; 0 once it has merged into the part before
    before = list(range(-1, n - 1))  # where the part before the one that starts here starts
    heap = [(rank_of[pair], i, i + 1, i + 2) for i in range(n - 1) if (pair := piece[i : i + 2]) in rank_of]
    heapq.heapify(heap)
    merges: list[Merge] = []
    while heap:
        rank, start, middle, end = heapq.heappop(heap)
        if stop[start] != middle or stop[middle] != end:
            continue  # one of the two has merged with its other neighbour since
        stop[start], stop[middle] = end, 0
        merges.append(Merge(rank, start, middle, end))
        if end < n:
            before[end] = start
            if (right := rank_of.get(piece[start : stop[end]])) is not None:
                heapq.heappush(heap, (right, start, end, stop[end]))
        if start and (left := rank_of.get(piece[before[start] : end])) is not None:
            heapq.heappush(heap, (left, before[start], start, end))
    return tuple(merges), [rank_of[piece[i : stop[i]]] for i in range(n) if stop[i]]


class _Stretch(NamedTuple):
    kind: PreTokenKind
    text: str


def _stretches(data: bytes, allow_special: bool) -> Iterator[_Stretch]:
    """The bytes as text, runs of bytes outside UTF-8, and special tokens where they are honoured."""
    text = data.decode("utf-8", "surrogateescape")
    done = 0
    for border in (_SPECIAL_OR_RAW if allow_special else _RAW).finditer(text):
        if done < border.start():
            yield _Stretch("text", text[done : border.start()])
        yield _Stretch("special" if border.group() == SPECIAL else "bytes", border.group())
        done = border.end()
    if done < len(text):
        yield _Stretch("text", text[done:])


#: In a text decoded with surrogateescape, U+DC80 to U+DCFF stand for the bytes 80 to FF outside UTF-8.
_RAW: Final = re.compile("[\udc80-\udcff]+")
_SPECIAL_OR_RAW: Final = re.compile(re.escape(SPECIAL) + "|[\udc80-\udcff]+")


def _escaped(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _laid_out(data: bytes, ids: Iterable[int]) -> Iterator[Token]:
    text, vocabulary = data.decode("utf-8", "surrogateescape"), _tables()[1]
    begin = place = held = 0  # byte, character, and how many bytes of that character earlier tokens hold
    for position, token_id in enumerate(ids):
        piece = vocabulary[token_id]
        first, parts = place, list[str | CharPart]()
        if not held and piece.isascii():
            place += len(piece)
            parts.append(text[first:place])
        else:
            whole, left = place, len(piece)  # the first character that is in no part yet; bytes still to place
            while left:
                width = _width(text[place])
                taken = min(width - held, left)
                if taken < width:
                    parts += [text[whole:place]] if whole < place else []
                    parts.append(CharPart(text[place], place, held + 1, held + taken, width))
                    whole = place + 1
                held, left = held + taken, left - taken
                if held == width:
                    place, held = place + 1, 0
            parts += [text[whole:place]] if whole < place else []
        yield Token(position, token_id, piece, begin, first, place + (held > 0), tuple(parts))
        begin += len(piece)


def _width(character: str) -> int:
    """Bytes of a character in UTF-8; 1 for the stand-in of a byte outside UTF-8."""
    code = ord(character)
    return 1 if code < 0x80 or 0xDC80 <= code <= 0xDCFF else 2 if code < 0x800 else 3 if code < 0x10000 else 4


# The split, as a grammar over classes of characters: L a letter, N a number, S white space other than the space,
# O anything else. The letters of the contractions, the apostrophe and the space stand for themselves.
_GRAMMAR: Final = re.compile(
    r"""
    '(?:[sdmt]|ll|ve|re)      # a contraction, in lower case only
    | [ ]?[Lsdmtlver]+        # letters, and the space before them
    | [ ]?N+                  # numbers
    | [ ]?[O']+               # anything else that is seen
    | [ S]+(?![^ S])          # white space; the last of it belongs to what follows
    | [ S]+
    """,
    re.VERBOSE,
)
_CLASSES: Final = (("L", r"\p{L}+"), ("N", r"\p{N}+"), ("S", r"\s+"))
_ASCII_CLASSES: Final = {
    code: "L" if c.isalpha() else "N" if c.isdigit() else "S" if c in "\t\n\v\f\r" else "O"
    for code in range(128)
    if (c := chr(code)) not in "sdmtlver' "
}


def _classes(text: str) -> dict[int, str]:
    """The class of each character of the text, by code point.

    Unicode adds letters every year, and Python, its regex package and tiktoken each follow at their own pace. So
    tiktoken's own engine is asked: an encoding whose pattern is one class skips every other character.
    """
    if text.isascii():
        return _ASCII_CLASSES
    beyond = "".join(c for c in set(text) if not c.isascii())
    classes = {**_ASCII_CLASSES, **dict.fromkeys(map(ord, beyond), "O")}
    for name, pattern in _CLASSES:
        engine = _class_engine(pattern)
        members = engine.decode_bytes(engine.encode_ordinary(beyond)).decode()
        classes.update(dict.fromkeys(map(ord, members), name))
    return classes


@functools.cache
def _class_engine(pattern: str) -> Encoding:
    from tiktoken import Encoding

    return Encoding(pattern, pat_str=pattern, mergeable_ranks={bytes([b]): b for b in range(256)}, special_tokens={})


@functools.cache
def _encoding() -> Encoding:
    """tiktoken's encoder over the embedded ranks: nothing is downloaded, no cache is looked up."""
    from tiktoken import Encoding

    return Encoding(
        "gpt2",
        pat_str=PATTERN,
        mergeable_ranks=ranks(),
        special_tokens={SPECIAL: SPECIAL_ID},
        explicit_n_vocab=VOCAB_SIZE,
    )


@functools.cache
def _tables() -> tuple[dict[bytes, int], tuple[bytes, ...]]:
    """Rank by token, and token by id. The file is in rank order, so a line's number is its rank."""
    lines = (Path(__file__).parent / "data" / "gpt2.tiktoken").read_bytes().split()
    by_id = tuple(map(a2b_base64, lines[::2]))
    return dict(zip(by_id, range(len(by_id)), strict=True)), (*by_id, SPECIAL.encode())
