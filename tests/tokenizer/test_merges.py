"""The split and the merges on foot, against the definition and against tiktoken."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfinspect import tokenizer
from tfinspect.inspectors.tokens import tokens
from tfinspect.results.tokens import PreToken

many = settings(deadline=None, max_examples=300)
KNOTTY = st.text(st.sampled_from("'sdmtlverSL a9²Ⅷ \n\r\t\xa0\u2028\x1c\x85!_蒔é\u0301👨\ua7cb\u1c89\U0001e5f0"))


def by_definition(piece: bytes) -> list[int]:
    """Merge the pair of lowest rank, the leftmost of equals, and look at all pairs again."""
    rank_of, parts = tokenizer.ranks(), [bytes([byte]) for byte in piece]
    while True:
        candidates = [
            (rank_of[left + right], at)
            for at, (left, right) in enumerate(itertools.pairwise(parts))
            if left + right in rank_of
        ]
        if not candidates:
            return [rank_of[part] for part in parts]
        _, at = min(candidates)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


@many
@given(st.one_of(st.binary(), st.text(st.sampled_from("aeinrst")).map(str.encode), st.text().map(str.encode)))
def test_the_merges_are_those_of_the_definition(piece: bytes) -> None:
    assert tokenizer.merge(piece)[1] == by_definition(piece)


@many
@given(st.one_of(st.text(), KNOTTY), st.booleans())
def test_split_and_merges_end_in_the_ids_of_tiktoken(text: str, allow_special: bool) -> None:
    report = tokens(text, allow_special=allow_special, merges=True)
    assert [agreement.verdict for agreement in report.agreements] == ["agree"]
    merged = report.texts[0].merged or ()
    assert tuple(token_id for piece in merged for token_id in piece.ids) == report.texts[0].ids


@many
@given(st.one_of(st.binary(), KNOTTY.map(str.encode)), st.booleans())
def test_pretokens_joined_are_the_bytes(data: bytes, allow_special: bool) -> None:
    pieces = [piece for _, piece in tokenizer.pretokens(data, allow_special=allow_special)]
    assert b"".join(pieces) == data
    assert tokens(data, allow_special=allow_special).texts[0].n_pretokens == len(pieces)


@many
@given(st.binary(max_size=80))
def test_after_the_last_merge_the_parts_are_the_tokens(data: bytes) -> None:
    merges, ids = tokenizer.merge(data)
    piece = PreToken("bytes", data, 0, merges, tuple(ids))
    begins = list(range(len(data)))
    for merge, place, after in piece.steps():
        assert after[place] == merge.start
        assert len(after) == len(begins) - 1
        assert tokenizer.ranks()[data[merge.start : merge.stop]] == merge.rank
        begins = list(after)
    parts = [data[begin:stop] for begin, stop in itertools.pairwise([*begins, len(data)])]
    assert parts == [token.data for token in tokenizer.Tokens(data, tuple(ids))]


def test_the_pretokens_of_a_sentence() -> None:
    # openai/gpt-2, src/encoder.py: contractions, then letters, numbers and others with at most one space before them;
    # the last of a run of white space belongs to what follows only if it is a space
    split = [piece.decode() for _, piece in tokenizer.pretokens(b"Don't pay  $100,\n\nplease  ")]
    assert split == ["Don", "'t", " pay", " ", " $", "100", ",", "\n", "\n", "please", "  "]


def test_the_steps_of_hello() -> None:
    # vocab.bpe has these pairs on its lines 4, 43, 12,504 and 31,119; "l o" is on line 5,185 and "ll o" on 18,544
    (piece,) = tokens("hello", merges=True).texts[0].merged or ()
    merges = piece.to_dict()["merges"]
    assert [(bytes.fromhex(m["left"]), bytes.fromhex(m["right"])) for m in merges] == [
        (b"h", b"e"), (b"l", b"l"), (b"he", b"ll"), (b"hell", b"o"),
    ]  # fmt: skip
    assert [bytes.fromhex(part) for part in merges[1]["parts"]] == [b"he", b"ll", b"o"]
    # after the line of the version, the first merge has the rank 256
    assert [m["rank"] for m in merges] == [254 + line for line in (4, 43, 12_504, 31_119)]


def test_two_ranks_exchanged_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens("the")  # tiktoken has read the right ranks
    right = tokenizer.ranks()
    wrong = {**right, b"the": right[b"his"], b"his": right[b"the"]}
    monkeypatch.setattr(tokenizer, "ranks", lambda: wrong)
    assert [agreement.verdict for agreement in tokens("the", merges=True).agreements] == ["differ"]


def test_a_split_that_forgets_the_space_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [("text", b"the"), ("text", b" "), ("text", b"cat")]
    monkeypatch.setattr(tokenizer, "pretokens", lambda data, allow_special: iter(pieces))
    assert [agreement.verdict for agreement in tokens("the cat", merges=True).agreements] == ["differ"]


def test_400_000_letters_merge_to_the_ids_of_tiktoken() -> None:
    report = tokens("^" * 200_000 + "a" * 200_000, merges=True)
    assert [agreement.verdict for agreement in report.agreements] == ["agree"]
