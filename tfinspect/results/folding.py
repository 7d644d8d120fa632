"""Siblings that are alike stand once: twelve blocks, or twelve times the same two layers.

A fold hides rows and changes no figure: totals are those of everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

__all__ = ["first_to_last", "patterns", "repeats", "stem"]

#: Longest run of unlike siblings that is looked for as one pattern.
LONGEST = 8

T = TypeVar("T")


def repeats(signatures: Sequence[object]) -> Iterator[tuple[int, int, int]]:
    """(place, length of a pattern, how often it comes) in order; (0, 1, 12) for twelve that are alike."""
    at = 0
    while at < len(signatures):
        best = (1, 1)
        rest = signatures[at:]
        for length in range(1, min(LONGEST, len(rest) // 2) + 1):
            times = 1
            while list(rest[length * times : length * (times + 1)]) == list(rest[:length]):
                times += 1
            if times > 1 and length * times > best[0] * best[1]:
                best = (length, times)
        yield (at, *best)
        at += best[0] * best[1]


def patterns(paths: Sequence[str]) -> dict[str, list[str]]:
    """Paths by what they share, a star for each number that differs: "h.*.mlp" for "h.0.mlp" to "h.11.mlp"."""
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(stem(path), []).append(path)
    return {_shared(alike): alike for alike in found.values()}


def stem(path: str) -> str:
    """A path with a star for each number: "h.*.mlp"."""
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", path)


def _shared(paths: Sequence[str]) -> str:
    places = zip(*(path.split(".") for path in paths), strict=True)
    return ".".join(words[0] if len(set(words)) == 1 else "*" for words in places)


def first_to_last(first: str, last: str) -> str:
    """What a fold stands for: "h.1 to h.11", or one name."""
    return first if first == last else f"{first} to {last}"
