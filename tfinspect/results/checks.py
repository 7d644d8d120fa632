"""Claims that were put to the test: what was claimed, what was measured, and whether the claim holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from tfinspect.results.agreement import Agreement
from tfinspect.results.table import Cell, Column, Row, Table

__all__ = ["Checked", "Checks", "Figure", "Findings", "Matrix", "Outcome", "Value"]

Value: TypeAlias = "int | float | str"

Outcome = Literal["pass", "fail", "measured"]
"""measured: a figure that no claim is attached to."""


@dataclasses.dataclass(frozen=True)
class Figure:
    """One measured figure, and what it has to be."""

    name: str
    """What was measured: "largest |J·1|", "singular values 1"."""
    value: Value
    wanted: Value | None = None
    """What the claim says; None where the figure only informs."""
    tolerance: float = 0.0
    """Largest |value − wanted| that the claim allows; 0 for integers, words and exact zeros."""
    differs: bool = False
    """True where the claim is that the value is *not* wanted, by more than the tolerance."""

    @property
    def holds(self) -> bool:
        """Whether the figure is what the claim says; True where nothing is claimed of it."""
        if self.wanted is None:
            return True
        if isinstance(self.value, str) or isinstance(self.wanted, str):
            near = self.value == self.wanted
        else:
            near = abs(self.value - self.wanted) <= self.tolerance  # a NaN is near nothing
        return near is not self.differs if self.value == self.value else False


@dataclasses.dataclass(frozen=True)
class Matrix:
    """A small matrix for the explanation: numbers, or words such as "leaks"."""

    title: str
    rows: tuple[tuple[Value, ...], ...]
    row_labels: tuple[str, ...] = ()
    column_labels: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Findings:
    """What one check measured."""

    figures: tuple[Figure, ...]
    matrices: tuple[Matrix, ...] = ()
    """Intermediate matrices, shown with --explain."""
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """fail where a figure is not what the claim says; measured where nothing is claimed; pass otherwise."""
        if not all(figure.holds for figure in self.figures):
            return "fail"
        return "pass" if any(figure.wanted is not None for figure in self.figures) else "measured"


@dataclasses.dataclass(frozen=True)
class Checked:
    """One claim and what became of it."""

    id: str
    """Number in the sources: "A3.3"."""
    claim: str
    """The claim in one short sentence."""
    statement: str
    """The claim in full."""
    formula: str
    """Its equation as text."""
    source: str
    """Where it stands: "chapter A, proposition 3.3"."""
    dtype: str
    """Number format of the measurement."""
    findings: Findings
    seconds: float

    @property
    def outcome(self) -> Outcome:
        """pass, fail or measured."""
        return self.findings.outcome


@dataclasses.dataclass(frozen=True)
class Checks:
    """Many claims put to the test, one row each; with explain, each at length."""

    schema: ClassVar[str] = "tfinspect.verify/1"

    checked: tuple[Checked, ...]
    seed: int
    trials: int
    """Random inputs per check, where a check draws any."""
    explain: bool = False
    agreements: tuple[Agreement, ...] = ()

    @property
    def failed(self) -> tuple[Checked, ...]:
        """The claims that did not hold."""
        return tuple(check for check in self.checked if check.outcome == "fail")

    @property
    def conventions(self) -> str:
        """What was run, and how a verdict comes about."""
        n = len(self.checked)
        return (
            f"{n} claim{'s' * (n != 1)} of the two chapters, each from a real run; seed {self.seed}, {self.trials} "
            "random inputs where a check draws any. A claim passes where each figure is what it says, within the "
            "tolerance beside it; a row marked measured claims nothing."
        )

    def tables(self) -> tuple[Table, ...]:
        """One row per claim, or one table per claim where it is explained."""
        return tuple(t for check in self.checked for t in _explained(check)) if self.explain else (self._summary(),)

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values."""
        return {
            "conventions": self.conventions,
            "seed": self.seed,
            "trials": self.trials,
            "failed": [check.id for check in self.failed],
            "checks": [_check_dict(check) for check in self.checked],
        }

    def _summary(self) -> Table:
        columns = (
            Column("id", "id", keep=9),
            Column("claim", "claim", keep=9),
            Column("figures", "measured", keep=9),
            Column("outcome", "outcome", keep=9),
            Column("seconds", "seconds", "real", keep=1),
        )
        rows = tuple(
            Row(
                {
                    "id": check.id,
                    "claim": check.claim,
                    "figures": "; ".join(f"{f.name} {said(f.value)}{_allowed(f)}" for f in check.findings.figures),
                    "outcome": check.outcome,
                    "seconds": check.seconds,
                }
            )
            for check in self.checked
        )
        passed = sum(check.outcome == "pass" for check in self.checked)
        only = sum(check.outcome == "measured" for check in self.checked)
        note = f"{passed} passed, {len(self.failed)} failed, {only} measured without a claim."
        return Table("Claims", columns, rows, (note,))


def said(value: Value) -> str:
    """A figure as text: integers exact, floats with the digits that matter, words as they are."""
    if isinstance(value, float):
        return f"{value:.4g}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.1e}"
    return f"{value:,}" if isinstance(value, int) else value


def _allowed(figure: Figure) -> str:
    if figure.wanted is None:
        return ""
    if figure.differs:
        return f" (not {said(figure.wanted)})"
    return f" (±{figure.tolerance:.0e})" if figure.tolerance else ""


def _explained(check: Checked) -> Sequence[Table]:
    columns = (
        Column("name", "figure", keep=9),
        Column("value", "measured", keep=9),
        Column("wanted", "claimed", keep=9),
        Column("tolerance", "tolerance", keep=8),
        Column("holds", "holds", keep=9),
    )
    rows = tuple(
        Row(
            {
                "name": f.name,
                "value": said(f.value),
                "wanted": None if f.wanted is None else ("not " if f.differs else "") + said(f.wanted),
                "tolerance": f"{f.tolerance:.0e}" if f.tolerance else None,
                "holds": None if f.wanted is None else ("yes" if f.holds else "NO"),
            }
        )
        for f in check.findings.figures
    )
    notes = (check.statement, f"Formula: {check.formula}", f"Source: {check.source}. {check.dtype}.")
    head = Table(f"{check.id}  {check.claim}: {check.outcome}", columns, rows, (*notes, *check.findings.notes))
    return (head, *(_matrix_table(matrix) for matrix in check.findings.matrices))


def _matrix_table(matrix: Matrix) -> Table:
    width = max((len(row) for row in matrix.rows), default=0)
    labels = matrix.column_labels or tuple(str(j) for j in range(width))
    columns = (Column("row", "", keep=9), *(Column(f"c{j}", label, keep=9) for j, label in enumerate(labels)))
    rows = []
    for i, values in enumerate(matrix.rows):
        cells: dict[str, Cell] = {"row": matrix.row_labels[i] if matrix.row_labels else str(i)}
        cells.update({f"c{j}": said(value) for j, value in enumerate(values)})
        rows.append(Row(cells))
    return Table(matrix.title, columns, tuple(rows))


def _check_dict(check: Checked) -> dict[str, Any]:
    return {
        "id": check.id,
        "claim": check.claim,
        "statement": check.statement,
        "formula": check.formula,
        "source": check.source,
        "dtype": check.dtype,
        "outcome": check.outcome,
        "seconds": check.seconds,
        "figures": [{**dataclasses.asdict(f), "holds": f.holds} for f in check.findings.figures],
        "matrices": [
            {
                "title": m.title,
                "rows": [list(row) for row in m.rows],
                "row_labels": list(m.row_labels),
                "column_labels": list(m.column_labels),
            }
            for m in check.findings.matrices
        ],
        "notes": list(check.findings.notes),
    }
