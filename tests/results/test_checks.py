"""What a figure has to be for a claim to hold, and how claims are told."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfinspect.errors import CheckFailed
from tfinspect.results.checks import Checked, Checks, Claim, Claims, Figure, Findings, Matrix, require

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100)


def checked(*figures: Figure, name: str = "A0.0", matrices: tuple[Matrix, ...] = ()) -> Checked:
    findings = Findings(figures, matrices, ("a note",))
    return Checked(name, "short", "at length", "a = b", "nowhere", "float64", findings, 0.25)


@given(value=NUMBERS, wanted=NUMBERS, tolerance=st.floats(0, 1e3))
def test_a_number_holds_within_its_tolerance_and_differs_beyond_it(
    value: float, wanted: float, tolerance: float
) -> None:
    near = Figure("x", value, wanted, tolerance).holds
    assert near == (abs(value - wanted) <= tolerance)
    assert Figure("x", value, wanted, tolerance, differs=True).holds is not near


@pytest.mark.parametrize("tolerance", [0.0, 1e-9, math.inf])
@pytest.mark.parametrize("differs", [False, True])
def test_a_nan_holds_nowhere(tolerance: float, differs: bool) -> None:
    """Neither "equal to 0" nor "not 0" may be claimed of what is no number."""
    assert not Figure("x", math.nan, 0.0, tolerance, differs).holds
    assert not Figure("x", math.nan, math.nan, tolerance, differs).holds


def test_an_infinite_value_is_near_no_number() -> None:
    assert not Figure("x", math.inf, 0.0, 1e-3).holds
    assert not Figure("x", -math.inf, 0.0, 1e-3).holds


@pytest.mark.parametrize(
    ("figure", "holds"),
    [
        (Figure("x", 7, 7), True),
        (Figure("x", 7, 8), False),
        (Figure("x", 0.0, 0.0), True),
        (Figure("x", 5e-324, 0.0), False),
        (Figure("x", "001", "001"), True),
        (Figure("x", "001", "110"), False),
        (Figure("x", "1", 1), False),
        (Figure("x", "none", "causal", differs=True), True),
        (Figure("x", "none", "none", differs=True), False),
        (Figure("x", 7), True),
    ],
)
def test_words_integers_and_exact_zeros_have_no_room(figure: Figure, holds: bool) -> None:
    assert figure.holds is holds


def test_one_figure_that_does_not_hold_fails_the_claim() -> None:
    good, bad, free = Figure("a", 1, 1), Figure("b", 2, 3, detail=True), Figure("c", 4)
    assert Findings((good, free)).outcome == "pass"
    assert Findings((good, bad, free)).outcome == "fail"
    assert Findings((free,)).outcome == "measured"
    assert Findings(()).outcome == "measured"


def test_require_names_the_first_figure_that_fails_and_counts_other_claims() -> None:
    right = checked(Figure("a", 1, 1))
    wrong = checked(Figure("a", 1, 1), Figure("b", 2.5, 3.0, 0.1), name="A0.1")
    require(Checks((right,), 0, 5))
    with pytest.raises(CheckFailed) as caught:
        require(Checks((right, wrong, wrong), 0, 5))
    assert caught.value.message == "A0.1: b: measured 2.5, claimed 3 ±1e-01; 1 more"
    assert caught.value.hint == "tfinspect verify A0.1 --explain shows how"
    assert caught.value.exit_code == 1


def test_a_detail_that_fails_is_shown_in_the_summary() -> None:
    figures = Figure("quiet", 1, 1, detail=True), Figure("loud", 1, 2, detail=True)
    (table,) = Checks((checked(*figures),), 0, 5).tables()
    names = [row.cells.get("name") for row in table.rows]
    assert names == ["A0.0  short: fail", "loud", "time"]
    assert table.rows[1].cells["fails"] == "FAILS"
    assert table.notes == ("0 passed, 1 failed, 0 measured without a claim.",)


def test_an_explanation_has_the_statement_every_figure_and_the_matrices() -> None:
    matrix = Matrix("m", ((1, "leaks"), (2.5, "none")), ("i", "j"), ("n", "what"))
    check = checked(Figure("a", 1, 1, detail=True), Figure("b", "x", "y", differs=True), matrices=(matrix,))
    claim, figures, shown = Checks((check,), 0, 5, explain=True).tables()
    assert [row.cells["words"] for row in claim.rows] == ["at length", "a = b", "nowhere", "float64", "pass"]
    assert [(r.cells["name"], r.cells["wanted"], r.cells["holds"]) for r in figures.rows] == [
        ("a", "1", "yes"), ("b", "not y", "yes"),
    ]  # fmt: skip
    assert figures.notes == ("a note",)
    assert [(c.title, c.kind) for c in shown.columns] == [("", "text"), ("n", "real"), ("what", "text")]
    assert [tuple(row.cells.values()) for row in shown.rows] == [("i", 1, "leaks"), ("j", 2.5, "none")]


def test_a_list_of_claims_says_what_they_are() -> None:
    listed = Claims((Claim("A0.0", "short", "at length", "a = b", "nowhere"),))
    assert listed.to_dict() == {
        "claims": [
            {"id": "A0.0", "claim": "short", "statement": "at length", "formula": "a = b", "source": "nowhere"},
        ]
    }
    assert [row.cells["id"] for row in listed.tables()[0].rows] == ["A0.0"]
