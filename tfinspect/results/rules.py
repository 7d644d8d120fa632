"""Rules of thumb for the work of a model, each beside the exact figure that it stands for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from tfinspect.results.growth import exact
from tfinspect.results.table import Column, Row, Table

__all__ = ["Rule", "Rules", "Scope"]


@dataclasses.dataclass(frozen=True)
class Scope:
    """What a rule stands for, and the exact figure of it."""

    title: str
    flops: int | Fraction


@dataclasses.dataclass(frozen=True)
class Rule:
    """One rule for one model."""

    name: str
    formula: str
    """FLOPs in letters: N parameters, D tokens, and the letters of `closed_form.formula`."""
    flops: int | Fraction
    scope: Scope
    source: str
    meaning: str = ""
    """What its letters mean here, or what it leaves out."""

    @property
    def error(self) -> Fraction:
        """How much more than the exact figure it says, as a part of that."""
        return Fraction(self.flops - self.scope.flops) / self.scope.flops

    def to_dict(self) -> dict[str, Any]:
        """The rule, for JSON."""
        return {
            "name": self.name,
            "formula": self.formula,
            "flops": exact(self.flops),
            "stands_for": self.scope.title,
            "exact_flops": exact(self.scope.flops),
            "error": float(self.error),
            "source": self.source,
            "meaning": self.meaning or None,
        }


@dataclasses.dataclass(frozen=True)
class Rules:
    """Rules of thumb, by what they stand for."""

    rules: tuple[Rule, ...]

    def tables(self) -> tuple[Table, ...]:
        """Figures and errors, and where each rule stands."""
        columns = (
            Column("rule", "rule", "formula", keep=9),
            Column("flops", "FLOPs", "count", keep=9),
            Column("more", "rule − exact", "count", keep=5),
            Column("error", "error", "share", keep=9),
        )
        notes = ("The figure beside a heading is the exact one.", *map(_note, self.rules))
        return (Table("Rules of thumb", columns, tuple(self._rows()), notes),)

    def to_dict(self) -> list[dict[str, Any]]:
        """The answer as JSON-ready values."""
        return [rule.to_dict() for rule in self.rules]

    def _rows(self) -> Iterator[Row]:
        for scope in dict.fromkeys(rule.scope for rule in self.rules):
            yield Row({"rule": scope.title, "flops": exact(scope.flops)}, "group")
            for rule in self.rules:
                if rule.scope == scope:
                    more = exact(Fraction(rule.flops - scope.flops))
                    cells = {"rule": rule.name, "flops": exact(rule.flops), "more": more, "error": float(rule.error)}
                    yield Row(cells, indent=1)


def _note(rule: Rule) -> str:
    meaning = f", {rule.meaning}" if rule.meaning else ""
    return f"{rule.name}: {rule.formula}{meaning} ({rule.source})."
