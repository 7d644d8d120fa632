"""The work of one pass of each kind, reading a prompt, decoding a token, training, and the bytes that a cache holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final, Literal

from tfinspect.results.table import Column, Row, Table
from tfinspect.results.work import FlopTerm, by_component

__all__ = ["CacheSize", "PassWork", "Passes"]

Kind = Literal["prefill", "forward", "decode", "training"]

#: Bytes of one number, by format.
_BYTES_EACH: Final = {"fp32": 4, "bf16": 2}


@dataclasses.dataclass(frozen=True)
class PassWork:
    """One pass, product by product."""

    kind: Kind
    title: str
    """What a reader calls it, with its length: "decode step with 1,024 keys"."""
    terms: tuple[FlopTerm, ...]

    @property
    def multiplications(self) -> int:
        """Multiplications of the whole model."""
        return sum(term.multiplications for term in self.terms)

    @property
    def by_component(self) -> dict[str, int]:
        """Multiplications of the whole model by component."""
        return by_component(self.terms)

    def to_dict(self) -> dict[str, Any]:
        """The pass, for JSON."""
        return {
            "kind": self.kind,
            "multiplications": self.multiplications,
            "flops": 2 * self.multiplications,
            "components": [
                {
                    "component": term.component,
                    "title": term.title,
                    "block": term.stack or None,
                    "formula": term.formula,
                    "copies": term.copies,
                    "multiplications": term.multiplications,
                }
                for term in self.terms
            ],
        }


@dataclasses.dataclass(frozen=True)
class CacheSize:
    """Keys and values that decoding holds."""

    title: str
    formula: str
    """Numbers, in letters."""
    numbers: int

    def to_dict(self) -> dict[str, Any]:
        """The cache, for JSON."""
        sizes = {name: each * self.numbers for name, each in _BYTES_EACH.items()}
        return {"title": self.title, "formula": self.formula, "numbers": self.numbers, "bytes": sizes}


@dataclasses.dataclass(frozen=True)
class Passes:
    """The work of one pass of each kind; attention counts in full, as it runs."""

    works: tuple[PassWork, ...]
    caches: tuple[CacheSize, ...]
    """What a cache holds after n positions; empty where nothing is decoded."""
    made_again: int
    """Multiplications that a fused kernel adds to training, which keeps no scores and makes them once more."""
    spared: int = 0
    """Multiplications that a decode step does not need where a cache keeps a window's keys alone."""

    def work(self, kind: Kind) -> PassWork | None:
        """The pass of one kind; None where the model has none."""
        return next((work for work in self.works if work.kind == kind), None)

    def tables(self) -> tuple[Table, ...]:
        """The passes under each other, and the cache."""
        return (self._work_table(), *([self._cache_table()] if self.caches else []))

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values."""
        return {
            "works": [work.to_dict() for work in self.works],
            "fused_training_multiplications_more": self.made_again,
            "windowed_decode_multiplications_less": self.spared,
            "caches": [cache.to_dict() for cache in self.caches],
        }

    def _work_table(self) -> Table:
        columns = (
            Column("part", "part", "formula", keep=9),
            Column("formula", "formula (one block)", "formula", keep=4),
            Column("multiplications", "multiplications", "count", keep=9),
            Column("flops", "FLOPs", "count", keep=3),
        )
        notes = ["Attention counts in full, as it runs: n² pairs, or n for one new token that attends to n keys."]
        if self.work("prefill"):
            notes.append("A prompt needs logits at its last position alone; training has them at all positions.")
        else:
            notes.append("An encoder decodes nothing: each new position would change all others.")
        training = self.work("training")
        if training is not None:
            fused = 2 * (training.multiplications + self.made_again)
            notes.append(
                "Training is forward and backward: for each product two more, the gradients of both factors. A fused "
                f"kernel keeps no scores and makes QKᵀ once more on the way back: {fused:,} FLOPs."
            )
        if self.spared:
            notes.append(
                f"Where a cache keeps a window's keys alone, a decode step has {self.spared:,} multiplications less."
            )
        rows = [row for work in self.works for row in _rows(work)]
        return Table("Work of one pass of each kind", columns, tuple(rows), tuple(notes))

    def _cache_table(self) -> Table:
        rows = tuple(
            Row(
                {
                    "what": cache.title,
                    "formula": cache.formula,
                    "fp32": cache.numbers * _BYTES_EACH["fp32"],
                    "bf16": cache.numbers * _BYTES_EACH["bf16"],
                    "short": cache.numbers * _BYTES_EACH["bf16"],
                }
            )
            for cache in self.caches
        )
        columns = (
            Column("what", "keys and values", keep=9),
            Column("formula", "numbers", "formula", keep=4),
            Column("fp32", "fp32 bytes", "bytes", keep=5),
            Column("bf16", "bf16 bytes", "bytes", keep=9),
            Column("short", "bf16", "binary", keep=4),
        )
        return Table("KV cache after n positions", columns, rows, ("4 bytes for each number in fp32, 2 in bf16.",))


def _rows(work: PassWork) -> Iterator[Row]:
    yield Row({"part": work.title}, "group")
    several = len({term.stack for term in work.terms if term.stack}) > 1
    stack = ""
    for term in work.terms:
        if several and term.stack and term.stack != stack:
            stack = term.stack
            yield Row({"part": stack}, indent=1)
        yield Row(
            {
                "part": term.title,
                "formula": term.formula,
                "multiplications": term.multiplications,
                "flops": 2 * term.multiplications,
            },
            indent=2 if several and term.stack else 1,
        )
    total = work.multiplications
    yield Row({"part": "whole model", "multiplications": total, "flops": 2 * total}, "subtotal")
