"""What a model is run on: texts or token ids as the rows of a batch, and everything that can be wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tfinspect import tokenizer
from tfinspect.errors import InputError
from tfinspect.results.trace import Text
from tfinspect.spec import ModelSpec

__all__ = ["padded", "rows", "seq_len"]

#: Most blocks that are run one by one; all are alike. DeepNet (Wang et al. 2022) has 1,000.
MOST_BLOCKS: Final = 5_000


def rows(
    spec: ModelSpec, texts: Sequence[str | bytes] | str | bytes, ids: Sequence[Sequence[int]], allow_special: bool
) -> tuple[Text, ...]:
    """The rows of a batch, with their token ids; one text alone is a batch of one.

    Raises:  InputError where both texts and ids were given, texts for a model whose vocabulary cannot be GPT-2's, or
             more blocks than are run one by one.
    """
    if spec.n_layers > MOST_BLOCKS:
        raise InputError(
            f"a run of {spec.n_layers:,} blocks is too long, and the most is {MOST_BLOCKS:,}",
            "give fewer --layers; all blocks are alike",
        )
    try:
        texts, ids = [texts] if isinstance(texts, str | bytes) else list(texts), list(ids)
    except TypeError:
        raise InputError("texts and ids come in sequences", "for example ids=[[15496, 11, 995]]") from None
    if texts and ids:
        raise InputError("both texts and token ids were given", "give one of the two")
    if texts and spec.vocab_size < tokenizer.VOCAB_SIZE:
        raise InputError(
            f"texts become ids of GPT-2's vocabulary, {tokenizer.VOCAB_SIZE:,} entries, and this model has "
            f"{spec.vocab_size:,} of its own",
            f"give ids from 0 to {spec.vocab_size - 1} with --ids",
        )
    given = []
    for text in texts:
        if not isinstance(text, str | bytes):
            raise InputError(f"a text is a str or bytes, not {type(text).__name__}")
        data = tokenizer.to_bytes(text)[0] if isinstance(text, str) else text
        given.append(
            Text(data.decode(errors="backslashreplace"), tuple(tokenizer.encode(data, allow_special=allow_special)))
        )
    return tuple(given) if texts else tuple(Text(None, tokenizer.plain_ids(row)) for row in ids)


def seq_len(
    spec: ModelSpec,
    rows: Sequence[Text],
    *,
    pad: bool = False,
    nothing: str = "nothing to trace (0 tokens)",
    unequal: str = "--pad fills the shorter ones up",
) -> int:
    """T, the length of the longest row, after everything that can be wrong with the rows has been looked for.

    `nothing` is the complaint about no token at all, `unequal` the hint where rows of unequal length are not padded.

    Raises:  InputError for no tokens, an id outside the vocabulary, more tokens than n_ctx, or unequal lengths
             without pad.
    """
    if not rows or not any(row.ids for row in rows):
        raise InputError(nothing, "give a text of at least one token")
    for row in rows:
        for position, token_id in enumerate(row.ids):
            if isinstance(token_id, bool) or not isinstance(token_id, int):
                raise InputError(f"id {token_id!r} at position {position} is not an integer")
            if not 0 <= token_id < spec.vocab_size:
                raise InputError(
                    f"id {token_id} at position {position} is outside the model's vocabulary",
                    f"its ids go from 0 to {spec.vocab_size - 1}",
                )
    lengths = [len(row.ids) for row in rows]
    if max(lengths) > spec.n_ctx:
        raise InputError(
            f"the text has {max(lengths):,} tokens and the model's context is {spec.n_ctx:,}",
            f"shorten it, or give --ctx {max(lengths)}",
        )
    if len(set(lengths)) > 1 and not pad:
        raise InputError(
            f"the texts have {', '.join(map(str, lengths[:8]))}{', ...' if len(lengths) > 8 else ''} tokens, "
            "and a batch needs one length",
            unequal,
        )
    if min(lengths) == 0:
        raise InputError("one of the texts has 0 tokens, so there is nothing to predict from", "leave it out")
    return max(lengths)


def padded(spec: ModelSpec, rows: Sequence[Text], seq_len: int) -> list[list[int]]:
    """The ids of each row, filled up to seq_len with <|endoftext|>, or the last id of a smaller vocabulary."""
    filler = min(tokenizer.SPECIAL_ID, spec.vocab_size - 1)
    return [[*row.ids, *[filler] * (seq_len - len(row.ids))] for row in rows]
