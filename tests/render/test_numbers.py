"""Numbers as text never say more, or other, than the number."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfinspect.render.numbers import binary_bytes, count, real, share, short

HUGE = st.integers(-(10**45), 10**45)
UNITS = {unit: 1_000**power for power, unit in enumerate(("", "k", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q"))}
BINARY_UNITS = {
    unit: 1_024**power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"))
}


def value(text: str, units: dict[str, int]) -> tuple[Fraction, int]:
    """A short form read back: its value, and what its unit is worth."""
    number, _, unit = text.replace(",", "").partition(" ")
    return Fraction(number) * units[unit], units[unit]


@given(HUGE)
def test_count_has_the_digits_of_the_integer_in_groups_of_three(number: int) -> None:
    text = count(number)
    assert text.replace(",", "") == str(number)
    assert re.fullmatch(r"-?\d{1,3}(,\d{3})*", text)


@given(HUGE)
def test_short_is_within_half_a_tenth_of_its_unit(number: int) -> None:
    worth, unit = value(short(number), UNITS)
    assert abs(worth - number) <= Fraction(unit, 20)


@given(st.integers(1_000, 10**32))
def test_short_has_a_whole_part_between_1_and_999(number: int) -> None:
    """10^8 is 100.0 M and never 0.1 G."""
    assert 1 <= Fraction(short(number).split()[0]) < 1_000


@given(st.integers(-999, 999))
def test_short_leaves_small_numbers_alone(number: int) -> None:
    assert short(number) == str(number)


@given(st.integers(0, 10**45))
def test_binary_bytes_is_within_half_a_tenth_of_its_unit(number: int) -> None:
    worth, unit = value(binary_bytes(number), BINARY_UNITS)
    assert abs(worth - number) <= Fraction(unit, 20)


@given(st.integers(0, 10**6), st.integers(0, 8))
def test_binary_bytes_has_a_decimal_only_where_it_rounds(number: int, power: int) -> None:
    """48 KiB are 49,152 bytes; 48.0 KiB are only near it."""
    number *= 1_024**power
    worth, unit = value(binary_bytes(number), BINARY_UNITS)
    assert ("." not in binary_bytes(number)) == (number % unit == 0)
    assert worth == number or "." in binary_bytes(number)


def test_figures_of_gpt2_small() -> None:
    # chapter B, 15.7: 124,439,808 parameters; four bytes each in float32
    assert count(124_439_808) == "124,439,808"
    assert short(124_439_808) == "124.4 M"
    assert binary_bytes(4 * 124_439_808) == "474.7 MiB"


def test_shares_of_gpt2_small() -> None:
    # chapter B, 15.7: tokens 31.0 %, positions 0.6 %, attention 22.8 %, MLP 45.5 %, layer norms < 0.1 %
    parts = (38_597_376, 786_432, 28_348_416, 56_669_184, 38_400)
    shares = [share(part / 124_439_808) for part in parts]
    assert shares == ["31.0 %", "0.6 %", "22.8 %", "45.5 %", "< 0.1 %"]


@given(st.fractions(0, 1))
def test_only_nothing_is_0_percent_and_only_everything_is_100(fraction: Fraction) -> None:
    assert (share(fraction) == "0.0 %") == (fraction == 0)
    assert (share(fraction) == "100.0 %") == (fraction == 1)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_real_keeps_four_significant_digits(number: float) -> None:
    exact, shown = Fraction(number), Fraction(real(number).replace(",", ""))
    assert abs(shown - exact) <= abs(exact) / 2_000


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (2 / 9, "0.2222"), (16 / 7, "2.286"), (-0.5345224838, "-0.5345"), (124_439.8, "124,440")],
)
def test_real_reads_like_a_number_in_a_book(number: float, text: str) -> None:
    assert real(number) == text


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_real_says_what_is_no_number(number: float) -> None:
    assert str(number) == real(number) == share(number)
