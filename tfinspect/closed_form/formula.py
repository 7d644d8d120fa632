"""Formulas whose text is what computes: ``"L·(4d² + 4d)"`` is read by a person and by `value` alike.

    sum      = product { (" + " | " − ") product }
    product  = factor { [ "·" | "/" ] factor }        "/" divides all that stands before it in the product
    factor   = ( number | symbol | "(" sum ")" ) [ "²" ]

A printed formula therefore cannot drift from the figure beside it. Arithmetic is exact at any size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from tfinspect.spec import ModelSpec

__all__ = ["letters", "ratio", "value"]

_WORDS: Final = re.compile(r"\s*(\d+|[A-Za-z]\w*|[()·/²+−])", re.ASCII)


def letters(spec: ModelSpec, *, batch: int = 1, seq_len: int = 1) -> dict[str, int]:
    """What each letter of the textbook's formulas is worth: B sequences of n positions through spec."""
    return {
        "B": batch,
        "n": seq_len,
        "V": spec.vocab_size,
        "n_ctx": spec.n_ctx,
        "d": spec.d_model,
        "d_ff": spec.d_ff,
        "L": spec.n_layers,
        "h": spec.n_heads,
    }


def value(formula: str, bound: Mapping[str, int]) -> int:
    """The exact integer that a formula stands for.

    Raises:  ValueError for a formula with an unknown symbol, a stray sign, or a value that is no integer.
    """
    exact = ratio(formula, bound)
    if exact.denominator != 1:
        raise ValueError(f"{formula} is {exact}, no integer")
    return exact.numerator


def ratio(formula: str, bound: Mapping[str, int]) -> Fraction:
    """The exact fraction that a formula stands for.

    Raises:  ValueError for a formula with an unknown symbol or a stray sign.
    """
    words = _split(formula)
    words.reverse()
    result = _sum(words, bound, formula)
    if words:
        raise ValueError(f"unexpected {words[-1]!r} in {formula}")
    return result


def _split(formula: str) -> list[str]:
    words, at = [], 0
    while at < len(formula):
        match = _WORDS.match(formula, at)
        if match is None:
            raise ValueError(f"unexpected {formula[at]!r} in {formula}")
        words.append(match[1])
        at = match.end()
    return words


def _sum(words: list[str], bound: Mapping[str, int], formula: str) -> Fraction:
    result = _product(words, bound, formula)
    while words and words[-1] in "+−":
        sign = 1 if words.pop() == "+" else -1
        result += sign * _product(words, bound, formula)
    return result


def _product(words: list[str], bound: Mapping[str, int], formula: str) -> Fraction:
    result = _factor(words, bound, formula)
    while words and words[-1] not in ")+−":
        if words[-1] == "/":
            words.pop()
            result /= _factor(words, bound, formula)
        else:
            if words[-1] == "·":
                words.pop()
            result *= _factor(words, bound, formula)
    return result


def _factor(words: list[str], bound: Mapping[str, int], formula: str) -> Fraction:
    word = words.pop() if words else "its end"
    if word.isdecimal():
        result = Fraction(int(word))
    elif word in bound:
        result = Fraction(bound[word])
    elif word == "(":
        result = _sum(words, bound, formula)
        if not words or words.pop() != ")":
            raise ValueError(f"a bracket stays open in {formula}")
    else:
        raise ValueError(f"unexpected {word!r} in {formula}")
    if words and words[-1] == "²":
        words.pop()
        result *= result
    return result
