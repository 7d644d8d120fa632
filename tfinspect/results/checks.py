"""Claims that were put to the test: what was claimed, what was measured, and whether the claim holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, Literal, TypeAlias

from tfinspect.errors import CheckFailed
from tfinspect.results.agreement import Agreement
from tfinspect.results.report import Answer
from tfinspect.results.table import Cell, Column, Kind, Row, Table

__all__ = ["Checked", "Checks", "Claim", "Claims", "Figure", "Findings", "Matrix", "Outcome", "Value", "require"]

Value: TypeAlias = "int | float | str"

#: Words longer than this are not printed twice.
SHORT: Final = 12

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
    detail: bool = False
    """Shown only where the claim is explained; it counts for the verdict all the same."""

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
class Claim:
    """One claim of the sources."""

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


@dataclasses.dataclass(frozen=True)
class Checked(Claim):
    """One claim and what became of it."""

    dtype: str
    """Number format of the measurement."""
    findings: Findings
    seconds: float
    """Wall time of the check itself, imports aside."""

    @property
    def outcome(self) -> Outcome:
        """pass, fail or measured."""
        return self.findings.outcome


@dataclasses.dataclass(frozen=True)
class Checks(Answer):
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
        """Each claim with its figures, or at length where it is explained."""
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
            Column("name", "claim, and figure by figure", keep=9),
            Column("value", "measured", keep=9),
            Column("wanted", "claimed", keep=9),
            Column("fails", "", keep=9),
        )
        rows = [row for check in self.checked for row in _rows(check)]
        passed = sum(check.outcome == "pass" for check in self.checked)
        only = sum(check.outcome == "measured" for check in self.checked)
        note = f"{passed} passed, {len(self.failed)} failed, {only} measured without a claim."
        return Table("Claims", columns, tuple(rows), (note,))


@dataclasses.dataclass(frozen=True)
class Claims(Answer):
    """The claims that can be put to the test; none was run."""

    schema: ClassVar[str] = "tfinspect.claims/1"

    claims: tuple[Claim, ...]
    agreements: tuple[Agreement, ...] = ()

    @property
    def conventions(self) -> str:
        """How many there are, and how to put one to the test."""
        n = len(self.claims)
        return f"{n} claim{'s' * (n != 1)}; tfinspect verify ID puts one to the test, --explain shows how."

    def tables(self) -> tuple[Table, ...]:
        """One row per claim."""
        columns = (Column("id", "id", keep=9), Column("claim", "claim", keep=9), Column("source", "source", keep=1))
        rows = tuple(Row({"id": claim.id, "claim": claim.claim, "source": claim.source}) for claim in self.claims)
        return (Table("Claims", columns, rows),)

    def to_dict(self) -> dict[str, Any]:
        """The claims as JSON-ready values."""
        return {"claims": [_claim_dict(claim) for claim in self.claims]}


def require(checks: Checks) -> None:
    """Nothing, where every claim holds.

    Raises:  CheckFailed naming the first figure that is not what its claim says, and how many other claims fail.
    """
    if not checks.failed:
        return
    first = checks.failed[0]
    figure = next(f for f in first.findings.figures if not f.holds)
    others = f"; {len(checks.failed) - 1} more" if checks.failed[1:] else ""
    raise CheckFailed(
        f"{first.id}: {figure.name}: measured {said(figure.value)}, claimed {_wanted(figure)}{others}",
        f"tfinspect verify {first.id} --explain shows how",
    )


def said(value: Value) -> str:
    """A figure as text: integers exact, floats with the digits that matter, words as they are."""
    if isinstance(value, float):
        return f"{value:.5g}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.1e}"
    return f"{value:,}" if isinstance(value, int) else value


def _wanted(figure: Figure) -> str | None:
    if figure.wanted is None:
        return None
    if isinstance(figure.wanted, str) and len(figure.wanted) > SHORT and figure.holds and not figure.differs:
        return "the same"
    allowed = f" ±{figure.tolerance:.0e}" if figure.tolerance else ""
    return f"{'not ' * figure.differs}{said(figure.wanted)}{allowed}"


def _rows(check: Checked) -> Iterator[Row]:
    """A claim, below it each figure that is no detail or that fails, and the time that all took."""
    yield Row({"name": f"{check.id}  {check.claim}: {check.outcome}"}, role="group")
    for figure in check.findings.figures:
        if not figure.detail or not figure.holds:
            cells = {"name": figure.name, "value": said(figure.value), "wanted": _wanted(figure)}
            yield Row({**cells, "fails": None if figure.holds else "FAILS"}, indent=1)
    yield Row({"name": "time", "value": f"{check.seconds:.2f} s"}, indent=1)


def _explained(check: Checked) -> Sequence[Table]:
    words = {
        "statement": check.statement,
        "formula": check.formula,
        "source": check.source,
        "numbers": check.dtype,
        "outcome": check.outcome,
    }
    claim = Table(
        f"{check.id}  {check.claim}",
        (Column("what", "", keep=9), Column("words", "", "formula", keep=9)),
        tuple(Row({"what": what, "words": text}) for what, text in words.items()),
    )
    columns = (
        Column("name", "figure", keep=9),
        Column("value", "measured", keep=9),
        Column("wanted", "claimed", keep=9),
        Column("holds", "holds", keep=9),
    )
    rows = tuple(
        Row(
            {
                "name": f.name,
                "value": said(f.value),
                "wanted": _wanted(f),
                "holds": None if f.wanted is None else ("yes" if f.holds else "NO"),
            }
        )
        for f in check.findings.figures
    )
    figures = Table("Figures", columns, rows, check.findings.notes)
    return (claim, figures, *(_matrix_table(matrix) for matrix in check.findings.matrices))


def _matrix_table(matrix: Matrix) -> Table:
    width = max((len(row) for row in matrix.rows), default=0)
    labels = matrix.column_labels or tuple(str(j) for j in range(width))
    kinds = (_kind([row[j] for row in matrix.rows]) for j in range(width))
    columns = [Column(f"c{j}", label, kind, keep=9) for j, (label, kind) in enumerate(zip(labels, kinds, strict=True))]
    rows = []
    for i, values in enumerate(matrix.rows):
        cells: dict[str, Cell] = {f"c{j}": value for j, value in enumerate(values)}
        rows.append(Row({"row": matrix.row_labels[i], **cells} if matrix.row_labels else cells))
    if matrix.row_labels:
        columns.insert(0, Column("row", "", keep=9))
    return Table(matrix.title, tuple(columns), tuple(rows))


def _kind(column: Sequence[Value]) -> Kind:
    """Numbers stand below one another; words do not."""
    return "text" if any(isinstance(value, str) for value in column) else "real"


def _claim_dict(claim: Claim) -> dict[str, Any]:
    return {
        "id": claim.id,
        "claim": claim.claim,
        "statement": claim.statement,
        "formula": claim.formula,
        "source": claim.source,
    }


def _check_dict(check: Checked) -> dict[str, Any]:
    return {
        **_claim_dict(check),
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
