"""Encoding and decoding over arbitrary text and arbitrary bytes."""

import tiktoken
import tiktoken_ext.openai_public
from hypothesis import given, settings
from hypothesis import strategies as st

from tfinspect import tokenizer
from tfinspect.inspectors.tokens import decode, tokens

# White space, contractions, numbers and special tokens are rare in uniformly drawn text.
PIECES = [
    "'",
    "'s",
    "'LL",
    "'ve",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "\xa0",
    "\u2028",
    "\x1c",
    "a",
    "Z",
    "ſ",
    "蒔",
    "é",
    "9",
]
PIECES += ["²", "Ⅷ", "!", "_", "\u0301", "\u200d", "👨", "<|endoftext|>", "<|", "the", "\0"]
KNOTTY = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
TEXT = st.one_of(st.text(st.characters(exclude_categories=["Cs"])), KNOTTY)
BYTES = st.one_of(
    st.binary(),
    st.lists(st.one_of(st.binary(max_size=4), KNOTTY.map(str.encode)), max_size=8).map(b"".join),
)

tiktokens = tiktoken.Encoding(
    "gpt2 by tiktoken's own pattern",
    pat_str=tiktoken_ext.openai_public.r50k_pat_str,
    mergeable_ranks=tokenizer.ranks(),
    special_tokens={"<|endoftext|>": 50_256},
)
many = settings(deadline=None, max_examples=300)


@many
@given(TEXT)
def test_text_has_the_ids_that_tiktoken_gives(text: str) -> None:
    assert tokenizer.encode(text.encode()) == tiktokens.encode_ordinary(text)


@many
@given(TEXT)
def test_text_with_special_tokens_has_the_ids_that_tiktoken_gives(text: str) -> None:
    ids = tiktokens.encode(text, allowed_special="all")
    assert tokenizer.encode(text.encode(), allow_special=True) == ids


@many
@given(st.text(st.characters()))
def test_any_python_string_has_the_ids_that_tiktoken_gives(text: str) -> None:
    assert list(tokens(text).texts[0].ids) == tiktokens.encode_ordinary(text)


@many
@given(BYTES, st.booleans())
def test_decoding_gives_the_bytes_back(data: bytes, allow_special: bool) -> None:
    text = tokens(data, allow_special=allow_special).texts[0]
    assert decode(text.ids).data == data
    assert text.exact


@many
@given(st.lists(st.integers(0, 50_256)))
def test_any_ids_decode_to_the_bytes_of_their_tokens(ids: list[int]) -> None:
    decoded = decode(ids)
    assert decoded.data == tiktokens.decode_bytes(ids)
    assert b"".join(token.data for token in decoded.tokens) == decoded.data


@many
@given(st.text(st.characters()))
def test_only_lone_surrogates_change_a_string(text: str) -> None:
    tokenized = tokens(text).texts[0]
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    lone = sum("\ud800" <= character <= "\udfff" for character in joined)
    assert tokenized.n_replaced_surrogates == lone
    assert tokenized.exact == (lone == 0)
    assert tokenized.n_joined_surrogates == len(text) - len(joined)


def test_a_changed_text_says_so() -> None:
    (note,) = tokens("a\udce9b").texts[0].notes()
    assert "1 lone surrogate became U+FFFD" in note
    assert not tokens("\ud83d\udc4d").texts[0].n_replaced_surrogates
    assert tokens("\ud83d\udc4d").texts[0].n_joined_surrogates == 1
