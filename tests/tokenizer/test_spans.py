"""Which characters a token holds, and which of their bytes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tfinspect.inspectors.tokens import decode, tokens
from tfinspect.results.tokens import CharPart, Token, visible

many = settings(deadline=None, max_examples=300)
TEXT = st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.sampled_from("a ⭢蒔👨\u200dé\u0301न")))


def of(text: str | bytes) -> tuple[Token, ...]:
    return tokens(text).texts[0].tokens[:]


@many
@given(TEXT)
def test_character_spans_cover_the_text(text: str) -> None:
    touched = [index for token in of(text) for index in range(token.char_start, token.char_stop)]
    assert sorted(set(touched)) == list(range(len(text)))
    assert touched == sorted(touched)


@many
@given(TEXT)
def test_each_token_holds_bytes_of_exactly_the_characters_it_names(text: str) -> None:
    begins = [len(text[:index].encode()) for index in range(len(text) + 1)]
    for token in of(text):
        stop = token.byte_start + len(token.data)
        assert begins[token.char_start] <= token.byte_start < begins[token.char_start + 1]
        assert begins[token.char_stop - 1] < stop <= begins[token.char_stop]
        assert (token.text is None) == (begins[token.char_start] < token.byte_start or stop < begins[token.char_stop])


@many
@given(st.one_of(TEXT.map(str.encode), st.binary()))
def test_the_parts_joined_are_the_bytes_of_the_token(data: bytes) -> None:
    for token in of(data):
        assert b"".join(map(held, token.parts)) == token.data
        assert token.text is None or token.text.encode() == token.data


@many
@given(st.lists(st.integers(0, 50_256), max_size=20))
def test_the_parts_of_any_ids_joined_are_their_bytes(ids: list[int]) -> None:
    for token in decode(ids).tokens:
        assert b"".join(map(held, token.parts)) == token.data


def held(part: str | CharPart) -> bytes:
    if isinstance(part, CharPart):
        return part.character.encode()[part.first_byte - 1 : part.last_byte]
    return part.encode("utf-8", "surrogateescape")


def test_offsets_where_a_character_is_cut() -> None:
    # tiktoken's decode_with_offsets gives the same character offsets
    row = of("i \u2b62 j")
    assert [token.data.hex() for token in row] == ["69", "20e2", "ad", "a2", "206a"]
    assert [token.byte_start for token in row] == [0, 1, 3, 4, 5]
    assert [token.char_start for token in row] == [0, 1, 2, 2, 3]


def test_a_token_may_hold_a_space_and_a_part_of_a_character() -> None:
    space_and_part = of("i \u2b62 j")[1]
    assert space_and_part.parts == (" ", CharPart("\u2b62", 2, 1, 1, 3))
    assert space_and_part.shown() == '" " + byte 1 of 3 of \u2b62'
    assert of(" \U0001f60a")[0].shown() == '" " + bytes 1-3 of 4 of \U0001f60a'


def test_each_token_of_a_family_is_a_part_of_a_code_point() -> None:
    # antonellof/ferrox #124: four people and three joiners, seven code points in 25 bytes
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
    row = of(family)
    assert len(family.encode()) == 25
    assert [token.data.hex() for token in row] == [
        "f09f91", "a8", "e280", "8d", "f09f91", "a9", "e280", "8d", "f09f91", "a7", "e280", "8d", "f09f91", "a6",
    ]  # fmt: skip
    assert all(token.text is None and isinstance(token.parts[0], CharPart) for token in row)
    assert [token.char_start for token in row] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    assert row[2].shown() == "bytes 1-2 of 3 of U+200D"


def test_white_space_and_control_characters_are_visible() -> None:
    assert [decode([token_id]).tokens[0].shown() for token_id in (198, 220, 262, 188, 201)] == [
        r'"\n"', '" "', '" the"', r'"\x00"', r'"\r"',
    ]  # fmt: skip
    assert visible('say "\\"\u3000') == r'"say \"\\\"\u3000"'
    assert visible("") == '""'


def test_bytes_outside_utf8_are_named() -> None:
    text = tokens(b"caf\xe9").texts[0]
    assert text.tokens[2].shown() == "byte e9 outside UTF-8"
    assert text.tokens[2].to_dict()["parts"] == [{"invalid": "e9"}]
    assert (text.n_characters, text.n_invalid_bytes) == (3, 1)
    assert "1 byte outside UTF-8" in text.notes()[0]


def test_a_combining_mark_is_named_by_its_code_point() -> None:
    # U+0301 is cc 81 in UTF-8
    assert [token.shown() for token in of("cafe\u0301")[2:]] == ["byte 1 of 2 of U+0301", "byte 2 of 2 of U+0301"]
    assert visible("\u0301e") == r'"\u0301e"'


def test_one_token_can_be_read_by_its_place() -> None:
    row = tokens("Hello, world!").texts[0].tokens
    assert len(row) == 4
    assert row[1].data == b","
    assert row[-1].data == b"!"
    assert [token.id for token in row[1:3]] == [11, 995]
    assert [token.position for token in row[::-1]] == [3, 2, 1, 0]
