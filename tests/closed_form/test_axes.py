"""Symbols from two runs: each form is found, and a size that only looks like an input is left a number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfinspect.closed_form.axes import dims, other_sizes

HERE = {"B": 2, "T": 12}
THERE = {"B": 5, "T": 7}


@pytest.mark.parametrize(
    ("size", "other", "wanted"),
    [
        (12, 12, "12"),  # twelve heads, not twelve positions
        (12, 7, "T"),
        (2, 5, "B"),
        (24, 35, "B·T"),
        (36, 21, "3·T"),
        (13, 8, "T+1"),
        (11, 6, "T-1"),
        (144, 49, "144"),  # T·T is no form
        (10, 100, "10"),
    ],
)
def test_each_form(size: int, other: int, wanted: str) -> None:
    assert dims([size], [other], HERE, THERE) == wanted


def test_half_of_an_axis() -> None:
    assert dims([16], [4], {"H": 32}, {"H": 8}) == "H/2"


@given(st.dictionaries(st.sampled_from("BTHWnm"), st.integers(1, 40), min_size=1))
def test_other_sizes_are_other_sizes(bound: dict[str, int]) -> None:
    others = other_sizes(bound)
    assert others.keys() == bound.keys()
    assert len(set(others.values())) == len(others)
    assert all(others[name] != size for name, size in bound.items())


@given(st.data())
def test_a_product_of_symbols_is_told_from_a_number_of_its_size(data: st.DataObject) -> None:
    bound = {"B": data.draw(st.integers(1, 20)), "T": data.draw(st.integers(1, 40))}
    others = other_sizes(bound)
    times = data.draw(st.integers(1, 9))
    names = data.draw(st.sampled_from([("B",), ("T",), ("B", "T")]))
    here, there = times, times
    for name in names:
        here, there = here * bound[name], there * others[name]
    found = dims([here, here], [there, here], bound, others)
    first, second = found.split()
    assert second == str(here)  # the same size in both runs belongs to the model
    worth = {"·".join(names), f"{times}·{'·'.join(names)}"}
    if here != there:
        value_here, value_there = (_worth(first, sizes) for sizes in (bound, others))
        assert (value_here, value_there) == (here, there)
        assert first in worth or "+" in first or "-" in first or "/" in first or "·" in first or first in bound


def _worth(form: str, sizes: dict[str, int]) -> float:
    """What a form is worth, read independently of how it was found."""
    python = form.replace("·", "*")
    return float(eval(python, {"__builtins__": {}}, dict(sizes)))
