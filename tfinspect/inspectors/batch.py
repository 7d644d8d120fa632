"""What a model is run on: texts or token ids as the rows of a batch, and everything that can be wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from tfinspect import tokenizer
from tfinspect.closed_form.params import unindexable
from tfinspect.errors import InputError
from tfinspect.results.texts import Text
from tfinspect.results.weights import Weights
from tfinspect.spec import ModelSpec

__all__ = ["Texts", "knows_gpt2s_ids", "padded", "require_decoder", "rows", "seq_len"]

Texts: TypeAlias = "Sequence[str | bytes] | str | bytes"

#: Families whose checkpoints have GPT-2's ids, whatever rows their tables are filled up with.
_GPT2S_IDS: Final = ("gpt2", "nanogpt")

#: Most blocks that are run one by one; all are alike. DeepNet (Wang et al. 2022) has 1,000.
MOST_BLOCKS: Final = 5_000
#: Most experts of all blocks together. Qwen3-235B-A22B has 12,032.
MOST_EXPERTS: Final = 20_000


def require_decoder(spec: ModelSpec, command: str) -> None:
    """Nothing for a causal decoder with logits, which the command needs.

    Raises:  InputError that says what the model is instead.
    """
    way_out = "choose a decoder; tfinspect trace runs every model"
    if spec.architecture == "encoder_decoder":
        raise InputError(f"{command} runs a model of one stack, and this one is an encoder-decoder", way_out)
    if spec.architecture == "encoder":
        raise InputError(f"{command} predicts next tokens, and an encoder, which sees them, predicts none", way_out)
    if spec.head == "none":
        raise InputError(f"{command} needs logits, and a model without a head has none", "leave out --head-kind none")
    require_size(spec)


def require_size(spec: ModelSpec) -> None:
    """Nothing for a model that can be run block by block, and whose tensors torch can index.

    Raises:  InputError for more blocks or experts than are run one by one, and for a tensor of too many bytes.
    """
    n_blocks, n_experts = spec.n_layers + spec.n_encoder_layers, spec.n_layers * spec.n_experts
    if n_blocks > MOST_BLOCKS:
        raise InputError(
            f"a run of {n_blocks:,} blocks is too long, and the most is {MOST_BLOCKS:,}",
            "give fewer --layers; all blocks are alike",
        )
    if n_experts > MOST_EXPERTS:
        raise InputError(
            f"a run of {n_experts:,} experts is too long, and the most is {MOST_EXPERTS:,}",
            "give fewer --layers or --experts; all are alike",
        )
    if reason := unindexable(spec):
        raise InputError(reason, "choose a smaller model")


def knows_gpt2s_ids(spec: ModelSpec, weights: Weights | None) -> bool:
    """Whether the model's ids can be those of GPT-2's vocabulary; a checkpoint has the ids that it was trained on."""
    if weights is None:
        return spec.vocab_size >= tokenizer.VOCAB_SIZE
    return spec.vocab_size == tokenizer.VOCAB_SIZE or (
        spec.vocab_size > tokenizer.VOCAB_SIZE and weights.family in _GPT2S_IDS
    )


def rows(
    spec: ModelSpec,
    texts: Texts,
    ids: Sequence[Sequence[int]],
    allow_special: bool,
    *,
    meta: bool | None = None,
    weights: Weights | None = None,
) -> tuple[Text, ...]:
    """The rows of a batch, with their token ids; one text alone is a batch of one.

    On the meta device ids hold no values, so that a text stands for so many tokens whatever the vocabulary; None means
    that a run is never there.

    Raises:  InputError where both texts and ids were given, texts for a model whose vocabulary cannot be GPT-2's, or is
             another by its weights, or more blocks than are run one by one.
    """
    require_size(spec)
    try:
        texts, ids = [texts] if isinstance(texts, str | bytes) else list(texts), list(ids)
    except TypeError:
        raise InputError("texts and ids come in sequences", "for example ids=[[15496, 11, 995]]") from None
    if texts and ids:
        raise InputError("both texts and token ids were given", "give one of the two")
    if texts and not knows_gpt2s_ids(spec, weights) and not meta:
        without = "" if meta is None else ", or --meta, for which a text is so many tokens"
        raise InputError(
            f"texts become ids of GPT-2's vocabulary, {tokenizer.VOCAB_SIZE:,} entries, and this model has "
            f"{spec.vocab_size:,} of its own",
            f"give ids from 0 to {spec.vocab_size - 1} with --ids{without}",
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
    what: str = "text",
    looked_up: bool = True,
) -> int:
    """T, the length of the longest row, after everything that can be wrong with the rows has been looked for.

    `nothing` is the complaint about no token at all, `unequal` the hint where rows of unequal length are not padded,
    `what` the name of a row. Ids that are not looked up may be another vocabulary's.

    Raises:  InputError for no tokens, an id outside the vocabulary, more tokens than n_ctx, or unequal lengths
             without pad.
    """
    if not rows or not any(row.ids for row in rows):
        raise InputError(nothing, f"give a {what} of at least one token")
    for row in rows if looked_up else ():
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
            f"the {what} has {max(lengths):,} tokens and the model's context is {spec.n_ctx:,}",
            f"shorten it, or give --ctx {max(lengths)}",
        )
    if len(set(lengths)) > 1 and not pad:
        raise InputError(
            f"the {what}s have {', '.join(map(str, lengths[:8]))}{', ...' if len(lengths) > 8 else ''} tokens, "
            "and a batch needs one length",
            unequal,
        )
    if min(lengths) == 0:
        raise InputError(f"one of the {what}s has 0 tokens, so there is nothing to predict from", "leave it out")
    return max(lengths)


def padded(spec: ModelSpec, rows: Sequence[Text], seq_len: int) -> list[list[int]]:
    """The ids of each row, filled up to seq_len with <|endoftext|>, or the last id of a smaller vocabulary."""
    filler = min(tokenizer.SPECIAL_ID, spec.vocab_size - 1)
    return [[*row.ids, *[filler] * (seq_len - len(row.ids))] for row in rows]
