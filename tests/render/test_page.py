"""What a page carries: styles, and characters that its encoding lacks."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfinspect.render.page import SPELLINGS, escaped, harden, spelled, styled

ENCODINGS = ("ascii", "cp1252", "latin-1", "shift_jis", "utf-8")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "terminal", "pipe"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),  # no-color.org: an empty NO_COLOR is none
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, False, False),
        ({"TERM": "xterm"}, True, False),
    ],
)
def test_styles_follow_the_stream_and_the_switches(environ: dict[str, str], terminal: bool, pipe: bool) -> None:
    assert styled(Terminal(), environ) is terminal
    assert styled(io.StringIO(), environ) is pipe


@given(st.text(st.characters()), st.sampled_from(ENCODINGS))
def test_any_text_can_be_carried_by_any_encoding(text: str, encoding: str) -> None:
    for carried in (spelled(text, encoding), escaped(text, encoding)):
        carried.encode(encoding)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)), st.sampled_from(ENCODINGS))
def test_printable_ascii_stays_as_it_is(text: str, encoding: str) -> None:
    assert spelled(text, encoding) == escaped(text, encoding) == text


def test_formulas_are_spelled_in_ascii() -> None:
    assert spelled("12·n·d² + 2·n²·d → H·Eᵀ ≠ 2 × 3", "ascii") == "12*n*d^2 + 2*n^2*d -> H*E^T != 2 x 3"
    assert spelled("12·n·d² → 1", "cp1252") == "12·n·d² -> 1"  # cp1252 has the dot and the square, not the arrow


def test_spellings_are_ascii() -> None:
    assert "".join(SPELLINGS.values()).isascii()


def test_a_users_text_is_escaped_and_never_respelled() -> None:
    assert escaped("·→你", "ascii") == "\\xb7\\u2192\\u4f60"
    assert escaped("·→你", "utf-8") == "·→你"


@pytest.mark.parametrize("text", ["\x1b[31m", "a\rb", "a\nb", "\x00", "\x7f", "\x9b", "\u2028", "\u202e", "\ud83d"])
def test_nothing_can_move_the_cursor_or_turn_a_line_around(text: str) -> None:
    assert escaped(text, "utf-8").isprintable()


def test_a_hardened_stream_takes_any_text() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    harden(stream)
    stream.write("d² → 蒔 \udcff")
    stream.flush()
    assert raw.getvalue() == b"d^2 -> \\u8494 \\udcff"
