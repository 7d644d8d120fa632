"""The presets side by side: how many parameters each has, its context, its year, its source.

Units:  parameters, each counted once.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from tfinspect.presets import Preset
from tfinspect.results.agreement import Agreement
from tfinspect.results.report import Answer
from tfinspect.results.table import Column, Row, Table

__all__ = ["Listed", "Presets"]


@dataclasses.dataclass(frozen=True)
class Listed:
    """One preset with its counts."""

    preset: Preset
    total: int
    """Parameters of the whole model."""
    active: int | None
    """Parameters that take part in each token, of a mixture of experts; None where all do."""


@dataclasses.dataclass(frozen=True)
class Presets(Answer):
    """Named models, all of them or those that a search found."""

    schema: ClassVar[str] = "tfinspect.presets/1"

    listed: tuple[Listed, ...]
    n_presets: int
    """How many there are."""
    search: str = ""
    """What was searched for; empty for all."""
    agreements: tuple[Agreement, ...] = ()

    @property
    def conventions(self) -> str:
        """What is listed, and what counts."""
        which = (
            f"{len(self.listed)} of {self.n_presets} presets, with {self.search!r}" if self.search else "All presets"
        )
        return f"{which}. Parameters by closed form, each counted once; tfinspect params NAME measures one."

    def tables(self) -> tuple[Table, ...]:
        """One row for each preset."""
        rows = tuple(
            Row(
                {
                    "name": item.preset.name,
                    "total": item.total,
                    "n_ctx": item.preset.spec.n_ctx,
                    "year": str(item.preset.year or ""),
                    "title": item.preset.title,
                    "source": item.preset.source,
                }
            )
            for item in self.listed
        )
        columns = (
            Column("name", "name", keep=9),
            Column("total", "parameters", "count", keep=9),
            Column("n_ctx", "context", "count", keep=8),
            Column("year", "year", keep=8),
            Column("source", "source", keep=7),
            Column("title", "what it is", keep=3),
        )
        active = "; ".join(f"{item.preset.name} {item.active:,}" for item in self.listed if item.active is not None)
        notes = (f"Parameters that take part in each token, of a mixture of experts: {active}.",) if active else ()
        return (Table("Presets", columns, rows, notes),)

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values."""
        return {
            "conventions": self.conventions,
            "search": self.search or None,
            "presets": [
                {
                    "name": item.preset.name,
                    "title": item.preset.title,
                    "params": item.total,
                    "active_params": item.active,
                    "n_ctx": item.preset.spec.n_ctx,
                    "year": item.preset.year,
                    "source": item.preset.source,
                    "remark": item.preset.remark or None,
                    "spec": item.preset.spec.to_dict(),
                }
                for item in self.listed
            ],
        }
