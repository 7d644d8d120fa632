"""Ids that GPT-2's tokenizer gives. Each was computed with tiktoken on OpenAI's vocabulary; sources stand beside."""

import pytest

from tfinspect.inspectors.tokens import decode, tokens
from tfinspect.results.tokens import TokenizedText

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"

IDS = {
    # The sample text of the chapters' forward pass: one kanji spans several tokens.
    "kanji and kana": (
        "蒔絵師が硯箱を",
        [164, 240, 242, 163, 113, 113, 30585, 104, 35585, 163, 94, 107, 163, 106, 109, 31758],
    ),
    # antonellof/ferrox #124
    "family emoji": (FAMILY, [41840, 101, 447, 235, 41840, 102, 447, 235, 41840, 100, 447, 235, 41840, 99]),
    # tenstorrent/tt-inference-server PR #2594: the space joins the first part of the emoji
    "emoji": ("\U0001f60a", [47249, 232]),
    "emoji after a space": (" \U0001f60a", [30325, 232]),
    # openai/tiktoken #82: surrogates in a Python string
    "surrogate pair": ("\ud83d\udc4d", [41840, 235]),
    "lone high surrogate": ("\ud83d", [4210]),
    "lone low surrogate": ("a\udce9b", [64, 4210, 65]),
    "NUL": ("a\0b", [64, 188, 65]),
    # openai/tiktoken #34, openai/gpt-2 #80: GPT-2 has no token for a run of spaces in text
    "space after": ("hello ", [31373, 220]),
    "spaces after": ("hello   ", [31373, 220, 220, 220]),
    "spaces before": ("   hello", [220, 220, 23748]),
    "spaces inside": ("a   b", [64, 220, 220, 275]),
    "spaces alone": ("   ", [220, 220, 220]),
    "indented code": ("    return x", [220, 220, 220, 1441, 2124]),
    "CR LF": ("a\r\nb", [64, 201, 198, 65]),
    "two LF": ("a\n\nb", [64, 198, 198, 65]),
    "two CR LF": ("a\r\n\r\nb", [64, 201, 198, 201, 198, 65]),
    "tab": ("\tx", [197, 87]),
    # simonw/ttok #13: a user's text may spell the special token
    "end of text as text": ("a <|endoftext|> b", [64, 1279, 91, 437, 1659, 5239, 91, 29, 275]),
    "no text": ("", []),
    # huggingface/tokenizers #156: no normalisation
    "composed accent": ("caf\u00e9", [66, 1878, 2634]),
    "decomposed accent": ("cafe\u0301", [66, 8635, 136, 223]),
    "character cut in three": ("i \u2b62 j", [72, 2343, 255, 95, 474]),
    # tiktoken-go/tokenizer #24: contractions are cut in lower case and after a straight quote only
    "contraction": ("don't", [9099, 470]),
    "contraction in capitals": ("DON'T", [41173, 6, 51]),
    "contractions": (
        "I'm we'll THEY'RE we'd I\u2019m",
        [40, 1101, 356, 1183, 33302, 6, 2200, 356, 1549, 314, 447, 247, 76],
    ),
    # openai/tiktoken #34
    "Hello, world!": ("Hello, world!", [15496, 11, 995, 0]),
    "hello world": ("hello world", [31373, 995]),
    "capital": ("Hello", [15496]),
    "space before": (" hello", [23748]),
    "two hanzi": ("\u4f60\u597d", [19526, 254, 25001, 121]),
    "digits": ("1234567890", [10163, 2231, 30924, 3829]),
    "superscript two is a number": ("x\u00b2", [87, 31185]),
    "Hindi": (
        "\u0928\u092e\u0938\u094d\u0924\u0947",
        [11976, 101, 11976, 106, 11976, 116, 24231, 235, 11976, 97, 24231, 229],
    ),
    "four hanzi": ("\u4f60\u597d\u4e16\u754c", [19526, 254, 25001, 121, 10310, 244, 45911, 234]),
    # pallets/click #2782: what a command line could take for its own
    "star": ("*", [9]),
    "percent": ("%PATH%", [4, 34219, 4]),
    "bracket": ("[", [58]),
    "brackets": ("[INST] hi [/INST]", [58, 38604, 60, 23105, 46581, 38604, 60]),
    "looks like an option": ("-5", [12, 20]),
    "looks like help": ("--help", [438, 16794]),
    "emoji code": (":smile:", [25, 5796, 576, 25]),
}  # fmt: skip


def tokenized(text: str | bytes, allow_special: bool = False) -> TokenizedText:
    return tokens(text, allow_special=allow_special).texts[0]


@pytest.mark.parametrize("name", IDS)
def test_ids(name: str) -> None:
    text, ids = IDS[name]
    assert list(tokenized(text).ids) == ids


@pytest.mark.parametrize("name", IDS)
def test_merge_by_merge_ends_in_the_same_ids(name: str) -> None:
    text, ids = IDS[name]
    report = tokens(text, merges=True)
    assert [token_id for piece in report.texts[0].merged or () for token_id in piece.ids] == ids
    assert [agreement.verdict for agreement in report.agreements] == ["agree"]


# openai/tiktoken #195, #391, #15: a run without a break, where a loop that rescans after each merge takes minutes
@pytest.mark.parametrize(
    ("letter", "n", "token_id", "n_tokens"),
    [
        ("^", 1_000_000, 39_397, 250_000),
        ("a", 100_000, 24_794, 25_000),
        ("A", 100_000, 43_488, 12_500),
        ("0", 100_000, 25_645, 6_250),
    ],
)
def test_a_long_run_of_one_letter_is_one_token_many_times(letter: str, n: int, token_id: int, n_tokens: int) -> None:
    assert tokenized(letter * n).ids == (token_id,) * n_tokens


def test_the_special_token_is_cut_out_first_where_it_is_honoured() -> None:
    # "a " is encoded alone, so its space is a token of its own
    assert tokenized("a <|endoftext|> b", allow_special=True).ids == (64, 220, 50_256, 275)


@pytest.mark.parametrize(
    ("byte", "token_id"),
    # openai/gpt-2, src/encoder.py, bytes_to_unicode: printable bytes first, then the others in order
    [(0x21, 0), (0x20, 220), (0x00, 188), (0x7F, 221), (0x80, 222), (0xA0, 254), (0xAD, 255), (0xFF, 187)],
)
def test_a_single_byte_has_an_id_below_256(byte: int, token_id: int) -> None:
    assert tokenized(bytes([byte])).ids == (token_id,)


def test_all_single_bytes_are_the_ids_below_256() -> None:
    assert sorted(tokenized(bytes([byte])).ids[0] for byte in range(256)) == list(range(256))


def test_bytes_outside_utf8_are_kept() -> None:
    assert tokenized(b"abc\xff\xfe").ids == (39_305, 187, 186)
    assert tokenized(b"caf\xe9").ids == (66, 1_878, 165)


def test_bytes_outside_utf8_merge_like_any_others() -> None:
    # The first three bytes of U+1F60A are the token 47249 with the fourth and without it.
    assert tokenized(b"\xf0\x9f\x98").ids == (47_249,)


@pytest.mark.parametrize(
    ("ids", "text"),
    # huggingface/transformers #21119: a decoder that "cleans up" takes the spaces before punctuation away
    [
        ([88, 318, 5633], "y is ?"),
        ([5633], " ?"),
        ([1169, 2151, 764, 764, 764, 287], "the party . . . in"),
        ([50_256], "<|endoftext|>"),
        ([], ""),
    ],
)
def test_decoding_keeps_every_space(ids: list[int], text: str) -> None:
    decoded = decode(ids)
    assert decoded.data == text.encode()
    assert decoded.text == text


def test_a_part_of_a_character_decodes_to_its_bytes() -> None:
    decoded = decode([47_249])
    assert decoded.data == b"\xf0\x9f\x98"
    assert decoded.text is None
    assert decoded.n_invalid_bytes == 3


def test_ids_that_no_text_has_decode_and_are_told_apart() -> None:
    # "hello" is the one token 31373; letter by letter it is the same text in ids that encoding never gives
    assert decode([71, 68, 75, 75, 78]).text == "hello"
    assert not decode([71, 68, 75, 75, 78]).canonical
    assert decode([31_373]).canonical
