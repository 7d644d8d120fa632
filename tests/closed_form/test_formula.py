"""A formula that is printed is the formula that computes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfinspect.closed_form.formula import gathered, letters, ratio, value
from tfinspect.spec import ModelSpec

sizes = st.integers(1, 10**30)


@given(d=sizes, n=sizes, d_ff=sizes)
def test_text_is_worth_what_a_reader_reads(d: int, n: int, d_ff: int) -> None:
    bound = {"d": d, "n": n, "d_ff": d_ff}
    assert value("12d² + 13d", bound) == 12 * d * d + 13 * d
    assert value("2·n²·d", bound) == 2 * n * n * d
    assert value("n(n + 1)/2·d", bound) == n * (n + 1) // 2 * d
    assert value("4d + 2·d_ff − 1", bound) == 4 * d + 2 * d_ff - 1
    assert value("d − n + n", bound) == d
    assert value("(d + n)²", bound) == (d + n) ** 2
    assert ratio("n/(2d + d_ff)", bound) == Fraction(n, 2 * d + d_ff)
    assert ratio("n/2d", bound) == Fraction(n, 2) * d


@pytest.mark.parametrize("formula", ["", "d +", "(d", "d)", "d ++ d", "x·d", "d - 1", "n_ctxd", "²", "d$"])
def test_what_is_no_formula_has_no_value(formula: str) -> None:
    with pytest.raises(ValueError, match=r"unexpected|stays open"):
        value(formula, letters(ModelSpec()))


def test_a_fraction_is_no_count() -> None:
    with pytest.raises(ValueError, match="d/5 is 768/5, no integer"):
        value("d/5", letters(ModelSpec()))


def test_a_sum_is_divided_by_letters_that_are_in_each_of_its_terms() -> None:
    assert gathered("(4·d·d + 2·d·d_ff)/(2·d)") == "2d + d_ff"
    assert gathered("(4d² + 3·d·E)/(2·d)") == "2d + 3E/2"
    for formula in ("(4d² + d_ff)/(2·d)", "d²/(d + 1)", "n/(d·d)"):
        with pytest.raises(ValueError, match="is divided by"):
            gathered(formula)
