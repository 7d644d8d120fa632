"""Sums of monomials in the letters of formulas, with exact coefficients: what a formula is once it has been read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

__all__ = ["ORDER", "Polynomial"]

#: The letters of formulas in the order in which a product writes them.
ORDER: Final = (
    "B", "V", "n_ctx", "n_types", "n_buckets", "L", "L_enc", "L_dense", "E", "k", "n", "m", "T", "S", "w",
    "d", "h", "h_kv", "d_head", "d_ff", "d_expert",
)  # fmt: skip

_NONE: Final = Fraction(0)


class Polynomial:
    """A sum of monomials, each a sorted tuple of letters with its coefficient."""

    def __init__(self, terms: Mapping[tuple[str, ...], Fraction]) -> None:
        self.terms = {letters: factor for letters, factor in terms.items() if factor}

    @classmethod
    def number(cls, worth: int) -> Polynomial:
        """A constant."""
        return cls({(): Fraction(worth)})

    def __add__(self, other: Polynomial) -> Polynomial:
        keys = (*self.terms, *(key for key in other.terms if key not in self.terms))
        return Polynomial({key: self.terms.get(key, _NONE) + other.terms.get(key, _NONE) for key in keys})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + Polynomial({key: -factor for key, factor in other.terms.items()})

    def __mul__(self, other: Polynomial) -> Polynomial:
        total: dict[tuple[str, ...], Fraction] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                key = tuple(sorted((*left, *right), key=ORDER.index))
                total[key] = total.get(key, _NONE) + a * b
        return Polynomial(total)

    def __truediv__(self, other: Polynomial) -> Polynomial:
        if not other.terms:
            raise ZeroDivisionError(f"{self} is divided by 0")
        if len(other.terms) > 1:
            raise ValueError(f"{self} is divided by {other}, which is a sum")
        ((letters, number),) = other.terms.items()
        return Polynomial({_without(key, letters): factor / number for key, factor in self.terms.items()})

    def __str__(self) -> str:
        written = ""
        for key, factor in sorted(self.terms.items(), key=lambda term: -len(term[0])):
            monomial = _monomial(key, abs(factor))
            sign = "−" if factor < 0 else "+"
            written += f" {sign} {monomial}" if written else ("−" if factor < 0 else "") + monomial
        return written or "0"


def _without(key: tuple[str, ...], letters: tuple[str, ...]) -> tuple[str, ...]:
    """The letters of a monomial that is divided by others.

    Raises:  ValueError where one of those is not in it.
    """
    left = Counter(key)
    left.subtract(letters)
    if any(power < 0 for power in left.values()):
        raise ValueError(f"{' '.join(key) or 1} is divided by {' '.join(letters)}, not all of which is in it")
    return tuple(left.elements())


def _monomial(key: tuple[str, ...], factor: Fraction) -> str:
    """ "12d²", "2·d_ff", "2·d·d_ff", "n·d²", "7", "n²·d/2"."""
    powers = [letter + {1: "", 2: "²"}.get(power, "·" + letter) for letter, power in Counter(key).items()]
    number = [] if factor.numerator == 1 and powers else [str(factor.numerator)]
    below = f"/{factor.denominator}" if factor.denominator != 1 else ""
    alone = len(powers) == 1 and "_" not in powers[0]
    return ("" if alone else "·").join((*number, *powers)) + below
