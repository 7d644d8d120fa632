"""Texts to tokens and ids to bytes: tiktoken's ids, and the merges that lead to the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfinspect import tokenizer
from tfinspect.errors import InputError
from tfinspect.results.agreement import Agreement
from tfinspect.results.tokens import DecodedIds, Merge, PreToken, PreTokenKind, TokenizedText, TokenReport

__all__ = ["decode", "tokens"]


def tokens(
    *texts: str | bytes,
    allow_special: bool = False,
    merges: bool = False,
    origins: Sequence[str] = (),
) -> TokenReport:
    """GPT-2's tokens of each text: ids, bytes, and the characters or parts of characters that they hold.

    Bytes are encoded as they are, UTF-8 or not. In a str, a surrogate pair is the character that it stands for and a
    lone surrogate becomes U+FFFD; the report says so. `merges` adds the merges of each pre-token and checks them.

    Raises:  InputError for a text that is neither str nor bytes.
    Agrees:  tiktoken's encoder with the merges, one by one, for each pre-token of valid UTF-8.

    >>> tfinspect.tokens("Hello, world!").texts[0].ids
    (15496, 11, 995, 0)
    """
    if origins and len(origins) != len(texts):
        raise InputError(f"{len(origins)} origins do not name {len(texts)} texts", "give one for each text")
    names = origins or [f"text {number}" for number in range(1, len(texts) + 1)]
    tokenized = tuple(
        _tokenized(text, origin, allow_special, merges) for text, origin in zip(texts, names, strict=True)
    )
    return TokenReport(
        tokenized,
        allow_special,
        tokenizer.VOCAB_SIZE,
        tuple(map(_agreement, tokenized, range(1, len(tokenized) + 1))) if merges else (),
    )


def decode(ids: Sequence[int]) -> DecodedIds:
    """The bytes of the ids, exactly, with each token's place in them.

    Raises:  InputError naming an id that is no integer in 0..50256, and its position.

    >>> tfinspect.decode([15496, 11, 995, 0]).text
    'Hello, world!'
    """
    ids = tokenizer.plain_ids(ids)
    data = tokenizer.decode(ids)
    again = tokenizer.encode(data, allow_special=tokenizer.SPECIAL_ID in ids)
    return DecodedIds(
        data=data,
        ids=ids,
        tokens=tokenizer.Tokens(data, ids),
        n_invalid_bytes=tokenizer.count_invalid(data),
        canonical=tuple(again) == ids,
        vocab_size=tokenizer.VOCAB_SIZE,
    )


def _tokenized(text: str | bytes, origin: str, allow_special: bool, merges: bool) -> TokenizedText:
    n_joined = n_replaced = 0
    if isinstance(text, str):
        data, n_joined, n_replaced = tokenizer.to_bytes(text)
    elif isinstance(text, bytes):
        data = text
    else:
        raise InputError(f"a text is a str or bytes, not {type(text).__name__}")
    ids = tuple(tokenizer.encode(data, allow_special=allow_special))
    decoded = tokenizer.decode(ids)
    pieces = tokenizer.pretokens(data, allow_special=allow_special)
    merged = tuple(_merged(pieces)) if merges else None
    n_invalid = tokenizer.count_invalid(data)
    return TokenizedText(
        origin=origin,
        data=data,
        ids=ids,
        tokens=tokenizer.Tokens(decoded, ids),
        decoded=decoded,
        n_characters=len(data.decode("utf-8", "surrogateescape")) - n_invalid,
        n_pretokens=sum(1 for _ in pieces) if merged is None else len(merged),
        n_invalid_bytes=n_invalid,
        n_special_as_text=0 if allow_special else data.count(tokenizer.SPECIAL.encode()),
        n_joined_surrogates=n_joined,
        n_replaced_surrogates=n_replaced,
        merged=merged,
    )


def _merged(pieces: Iterator[tuple[PreTokenKind, bytes]]) -> Iterator[PreToken]:
    known: dict[bytes, tuple[tuple[Merge, ...], tuple[int, ...]]] = {}
    begin = 0
    for kind, data in pieces:
        if kind == "special":
            yield PreToken(kind, data, begin, (), (tokenizer.SPECIAL_ID,))
        else:
            if data not in known:
                steps, ids = tokenizer.merge(data)
                known[data] = steps, tuple(ids)
            yield PreToken(kind, data, begin, *known[data])
        begin += len(data)


def _agreement(text: TokenizedText, number: int) -> Agreement:
    """The ids that the merges end in, pre-token by pre-token, against tiktoken's at the same bytes."""
    by_merges = [piece for piece in text.merged or () if piece.kind == "text"]
    begins = {token.byte_start: token.position for token in text.tokens}
    n_same = 0
    for piece in by_merges:
        at = begins.get(piece.byte_start)
        n_same += at is not None and text.ids[at : at + len(piece.ids)] == piece.ids
    return Agreement(
        quantity=f"text {number}: pre-tokens of text with the same ids, merge by merge and from tiktoken",
        closed_form=len(by_merges),
        measured=n_same,
        how="tiktoken's encoder on the whole text",
    )
