"""Formulas whose text is what computes: ``"L·(4d² + 4d)"`` is read by a person and by `value` alike.

    sum      = product { (" + " | " − ") product }
    product  = factor { [ "·" | "/" ] factor }        "/" divides all that stands before it in the product
    factor   = ( number | symbol | "(" sum ")" ) [ "²" ]

A printed formula therefore cannot drift from the figure beside it. Arithmetic is exact at any size. `gathered` writes
a formula as the sum of its monomials, with like terms added up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from tfinspect.closed_form.polynomial import ORDER, Polynomial
from tfinspect.spec import ModelSpec

__all__ = ["gathered", "letters", "ratio", "value"]

_WORDS: Final = re.compile(r"\s*(\d+|[A-Za-z]\w*|[()·/²+−])", re.ASCII)


def letters(spec: ModelSpec, *, batch: int = 1, seq_len: int = 1, source_len: int = 1) -> dict[str, int]:
    """What each letter of the textbook's formulas is worth: B sequences of n positions through spec.

    m positions are read by the encoder of an encoder–decoder.
    """
    return {
        "B": batch,
        "n": seq_len,
        "m": source_len,
        "V": spec.vocab_size,
        "n_ctx": spec.n_ctx,
        "n_types": spec.n_token_types,
        "n_buckets": spec.n_buckets,
        "d": spec.d_model,
        "d_ff": spec.d_ff,
        "d_expert": spec.d_expert,
        "d_head": spec.d_head,
        "L": spec.n_layers,
        "L_enc": spec.n_encoder_layers,
        "L_dense": spec.n_dense_layers,
        "E": spec.n_experts,
        "k": spec.n_experts_per_token,
        "h": spec.n_heads,
        "h_kv": spec.n_kv_heads,
        "w": spec.window,
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
    return _read(formula, {name: Polynomial.number(worth) for name, worth in bound.items()}).terms.get((), Fraction(0))


def gathered(formula: str, spec: ModelSpec | None = None) -> str:
    """The same formula as a sum of monomials: "4·d·d + 2·d·d_ff + 4d" with d_ff = 4d becomes "12d² + 4d".

    Without a spec, d_ff stays as it is.

    Raises:  ValueError for a formula with an unknown symbol or a stray sign.
    """
    known = {name: Polynomial({(name,): Fraction(1)}) for name in ORDER}
    if spec is not None and spec.d_ff == 4 * spec.d_model:
        known["d_ff"] = Polynomial({("d",): Fraction(4)})
    return str(_read(formula, known))


def _read(formula: str, known: Mapping[str, Polynomial]) -> Polynomial:
    words = _split(formula)
    words.reverse()
    result = _sum(words, known, formula)
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


def _sum(words: list[str], known: Mapping[str, Polynomial], formula: str) -> Polynomial:
    result = _product(words, known, formula)
    while words and words[-1] in "+−":
        adds = words.pop() == "+"
        product = _product(words, known, formula)
        result = result + product if adds else result - product
    return result


def _product(words: list[str], known: Mapping[str, Polynomial], formula: str) -> Polynomial:
    result = _factor(words, known, formula)
    while words and words[-1] not in ")+−":
        divides = words[-1] == "/"
        if words[-1] in "/·":
            words.pop()
        factor = _factor(words, known, formula)
        result = result / factor if divides else result * factor
    return result


def _factor(words: list[str], known: Mapping[str, Polynomial], formula: str) -> Polynomial:
    word = words.pop() if words else "its end"
    if word.isdecimal():
        result = Polynomial.number(int(word))
    elif word in known:
        result = known[word]
    elif word == "(":
        result = _sum(words, known, formula)
        if not words or words.pop() != ")":
            raise ValueError(f"a bracket stays open in {formula}")
    else:
        raise ValueError(f"unexpected {word!r} in {formula}")
    if words and words[-1] == "²":
        words.pop()
        result = result * result
    return result
