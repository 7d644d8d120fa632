"""Symbols for the sizes of a traced pass, from the same pass at other sizes.

A size that stays as it is belongs to the model and is a number. One that follows the inputs is looked for among few
forms: a·X, X/b, X + c, X·Y. Two runs tell apart what one cannot: 12 positions from 12 heads.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["dims", "other_sizes"]

#: Sizes of a second run, unlike each other and unlike what models are made of.
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)

#: Largest number that is added to a symbol.
MOST_ADDED = 4_096


def other_sizes(bound: Mapping[str, int]) -> dict[str, int]:
    """A small size for each symbol, another than it has, and no two alike."""
    found: dict[str, int] = {}
    for name, size in bound.items():
        found[name] = next(p for p in _PRIMES if p != size and p not in found.values())
    return found


def dims(sizes: Sequence[int], others: Sequence[int], bound: Mapping[str, int], others_bound: Mapping[str, int]) -> str:
    """A shape in symbols from its sizes in two runs; a size that fits no form stays a number.

    Raises:  ValueError where the two have another number of axes.
    """
    return " ".join(_axis(size, other, bound, others_bound) for size, other in zip(sizes, others, strict=True))


def _axis(size: int, other: int, bound: Mapping[str, int], others_bound: Mapping[str, int]) -> str:
    if size == other:
        return str(size)
    for form, here, there in _forms(bound, others_bound):
        if here and size % here == 0 and other == size // here * there:
            times = size // here
            return form if times == 1 else f"{times}·{form}"
    for name, here in bound.items():
        there = others_bound[name]
        if size and here % size == 0 and other * (here // size) == there:
            return f"{name}/{here // size}"
        if size - here == other - there and abs(size - here) <= MOST_ADDED:
            return f"{name}{size - here:+d}"
    return str(size)


def _forms(bound: Mapping[str, int], others_bound: Mapping[str, int]) -> Iterator[tuple[str, int, int]]:
    """(product of symbols, what it is worth in either run), single symbols first."""
    for n_factors in (1, 2, 3):
        for names in itertools.combinations(bound, n_factors):
            here = there = 1
            for name in names:
                here, there = here * bound[name], there * others_bound[name]
            yield "·".join(names), here, there
