"""What every result offers, so that any renderer can draw any result."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from tfinspect.results.agreement import Agreement
from tfinspect.results.table import Table

__all__ = ["Report"]


class Report(Protocol):
    """A frozen answer to one question."""

    schema: ClassVar[str]
    """Name and version of its JSON form: "tfinspect.params/1"."""

    @property
    def conventions(self) -> str:
        """One line that says what is counted and how: it opens the report."""

    @property
    def agreements(self) -> tuple[Agreement, ...]:
        """Each figure that has a second path; empty before the check has run."""

    def tables(self) -> tuple[Table, ...]:
        """The answer as tables, in reading order."""

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values: integers exact, shapes symbolic and concrete."""
