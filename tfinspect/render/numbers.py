"""Numbers as text: the only rounding in the project.

Integers stay exact at any size: they are divided as integers and never pass through a float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["binary_bytes", "count", "figure", "real", "share", "short"]

_THOUSANDS = ("", "k", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB")


def figure(number: int | float, kind: str) -> str:
    """A number as a column of this kind shows it."""
    if kind == "share":
        return share(number)
    if isinstance(number, float):
        return real(number)
    return binary_bytes(number) if kind == "binary" else count(number)


def count(number: int) -> str:
    """All digits, in groups of three: ``124,439,808``."""
    return f"{number:,}"


def short(number: int) -> str:
    """One decimal and a power of a thousand: ``124.4 M``; below a thousand, the number itself."""
    return _scaled(number, 1_000, _THOUSANDS)


def binary_bytes(number: int) -> str:
    """One decimal and a power of 1,024: ``474.7 MiB``; no decimal where there is nothing to round: ``48 KiB``."""
    text = _scaled(number, 1_024, _BINARY)
    whole, _, unit = text.partition(".0 ")
    return f"{whole} {unit}" if unit and number % 1_024 ** _BINARY.index(unit) == 0 else text


def share(fraction: float | Fraction) -> str:
    """A part of one as a percentage: ``31.0 %``.

    What is neither nothing nor everything never reads as if it were: ``< 0.1 %``, ``> 99.9 %``.
    """
    if not math.isfinite(fraction):
        return real(float(fraction))
    text = f"{float(fraction * 100):,.1f}"
    if text in ("0.0", "-0.0"):
        return "0.0 %" if fraction == 0 else "< 0.1 %" if fraction > 0 else "> -0.1 %"
    if text == "100.0" and fraction < 1:
        return "> 99.9 %"
    return f"{text} %"


def real(number: float) -> str:
    """Four significant digits, and never fewer than the whole part has: ``0.2222``, ``4,608``, ``1.235e+09``."""
    if isinstance(number, int):
        return count(number)
    if not math.isfinite(number):
        return {math.inf: "inf", -math.inf: "-inf"}.get(number, "nan")
    if number == 0:
        return "0"
    exponent = math.floor(math.log10(abs(number)))
    if not -5 < exponent < 6:
        return f"{number:.3e}"
    return f"{number:,.{max(0, 3 - exponent)}f}"


def _scaled(number: int, step: int, units: Sequence[str]) -> str:
    size, power = abs(number), 0
    if size < step:
        return f"{number} {units[0]}".rstrip()
    while power + 1 < len(units) and _tenths(size, step**power) >= 10 * step:
        power += 1
    whole, tenth = divmod(_tenths(size, step**power), 10)
    return f"{'-' if number < 0 else ''}{whole:,}.{tenth} {units[power]}"


def _tenths(size: int, unit: int) -> int:
    """Size in tenths of a unit, halves rounded up."""
    return (20 * size + unit) // (2 * unit)
