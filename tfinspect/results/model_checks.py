"""Whether a user's own language model keeps what every causal language model has to keep.

Positions count from 0. "Leaks" are changes of a logit by a token that comes later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar, Final, Literal

from tfinspect.dims import brackets
from tfinspect.errors import CheckFailed
from tfinspect.results.agreement import Agreement
from tfinspect.results.checks import Figure, Findings, Matrix, Value
from tfinspect.results.report import Answer
from tfinspect.results.table import Cell, Column, Row, Table

__all__ = ["ModelCheck", "ModelChecks", "Verdict", "require"]

Verdict = Literal["pass", "fail", "measured", "not applicable"]
"""measured: a figure that no claim is attached to here.  not applicable: there was nothing to check, and the reason."""

#: How many figures a row tells one by one.
FEW: Final = 3
#: How many rows and columns of a matrix of positions a page shows.
SHOWN: Final = 8


@dataclasses.dataclass(frozen=True)
class ModelCheck:
    """One question about the model."""

    id: str
    """Its name: "causality"."""
    claim: str
    """What a right model does."""
    meaning: str
    """What a failure means, and where to look."""
    findings: Findings
    """What was measured; empty where the question does not apply."""
    seconds: float
    reason: str = ""
    """Why it does not apply, where it does not."""
    follows_from: str | None = None
    """The failed check that explains this failure, where one does."""

    @property
    def verdict(self) -> Verdict:
        """pass, fail, measured or not applicable."""
        return "not applicable" if self.reason else self.findings.outcome


@dataclasses.dataclass(frozen=True)
class ModelChecks(Answer):
    """All questions about one model, and their answers."""

    schema: ClassVar[str] = "tfinspect.model-checks/1"

    name: str
    """Where the model comes from, as it was typed: "my_model:build"."""
    kind: str
    """Its class."""
    n_params: int
    """Unique parameters."""
    n_trainable: int
    """Those of them that want gradients."""
    dtype: str
    """Format of the parameters during the checks."""
    device: str
    vocab_size: int
    """V: width of the logits."""
    n_ids: int
    """Token ids were drawn from 0 to n_ids − 1."""
    batch: int
    seq_len: int
    seed: int
    trials: int
    """Batches of random ids."""
    checks: tuple[ModelCheck, ...]
    explain: bool = False
    """Whether the tables show every figure and matrix."""
    agreements: tuple[Agreement, ...] = ()

    @property
    def failed(self) -> tuple[ModelCheck, ...]:
        """The checks that failed, whatever explains them."""
        return tuple(check for check in self.checks if check.verdict == "fail")

    @property
    def causes(self) -> tuple[ModelCheck, ...]:
        """The failed checks that no other failure explains."""
        return tuple(check for check in self.failed if check.follows_from is None)

    @property
    def conventions(self) -> str:
        """The model, the inputs, and how a verdict comes about."""
        frozen = self.n_params - self.n_trainable
        return (
            f"{self.name}: {self.kind}, {self.n_params:,} parameters{f' ({frozen:,} frozen)' if frozen else ''}, "
            f"{self.dtype} on {self.device}. {self.trials} batch{'es' * (self.trials != 1)} of random ids [B, T] = "
            f"{brackets((self.batch, self.seq_len))} below {self.n_ids:,}; V = {self.vocab_size:,}; seed {self.seed}. "
            "Positions count from 0. Passes begin with the same state and random numbers, and differ by their tokens; "
            "what has to be equal may differ by rounding at the size of the largest logit. With noise: asked again "
            "with noise in the weights, so that no part is idle. "
            f"Nothing is said of sequences beyond {self.seq_len} positions; --n asks about longer ones."
        )

    def tables(self) -> tuple[Table, ...]:
        """One row per question; what each failure means; who sees whom, where a later token is seen."""
        matrices = [
            _matrix(matrix)
            for check in self.checks
            for matrix in check.findings.matrices
            if self.explain or check.verdict == "fail"
        ]
        details = [_details(check) for check in self.checks if check.findings.figures] if self.explain else []
        meanings = [self._meanings()] if self.failed else []
        return (self._summary(), *meanings, *details, *matrices)

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values."""
        return {
            "conventions": self.conventions,
            "module": self.name,
            "class": self.kind,
            "n_params": self.n_params,
            "n_trainable_params": self.n_trainable,
            "dtype": self.dtype,
            "device": self.device,
            "vocab_size": self.vocab_size,
            "n_ids": self.n_ids,
            "batch": self.batch,
            "seq_len": self.seq_len,
            "seed": self.seed,
            "trials": self.trials,
            "failed": [check.id for check in self.failed],
            "causes": [check.id for check in self.causes],
            "checks": [_check_dict(check) for check in self.checks],
        }

    def _summary(self) -> Table:
        columns = (
            Column("id", "check", keep=9),
            Column("claim", "a right model", keep=9),
            Column("figures", "measured", keep=9),
            Column("verdict", "verdict", keep=9),
        )
        rows = []
        for check in self.checks:
            cells: dict[str, Cell] = {"id": check.id, "claim": check.claim}
            cells["figures"] = check.reason or _gist(check.findings.figures)
            cells["verdict"] = "FAIL" if check.verdict == "fail" else check.verdict
            rows.append(Row(cells))
        counted = {verdict: sum(c.verdict == verdict for c in self.checks) for verdict in ("pass", "fail", "measured")}
        rest = len(self.checks) - sum(counted.values())
        note = (
            f"{counted['pass']} passed, {counted['fail']} failed, {counted['measured']} measured without a claim, "
            f"{rest} not applicable."
        )
        own = [f"{c.id}: {n}" for c in self.checks if c.verdict != "fail" for n in c.findings.notes]
        return Table("Checks", columns, tuple(rows), (note, *own))

    def _meanings(self) -> Table:
        columns = (Column("id", "failed", keep=9), Column("meaning", "what was found, and where to look", keep=9))
        rows = []
        for check in self.failed:
            found = " ".join(check.findings.notes)
            follows = f"Follows from {check.follows_from}: mend that first."
            rows.append(
                Row({"id": check.id, "meaning": f"{found} {check.meaning}" if not check.follows_from else follows})
            )
        return Table("Failures", columns, tuple(rows))


def require(report: ModelChecks) -> None:
    """Nothing, where no check failed.

    Raises:  CheckFailed naming the checks that failed by themselves, and how many failures follow from them.
    """
    if report.failed:
        causes, others = report.causes or report.failed, len(report.failed) - len(report.causes)
        follow = f"; {others} more follow{'s' * (others == 1)} from that" if report.causes and others else ""
        raise CheckFailed(f"{report.name} fails {_listed(check.id for check in causes)}{follow}")


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _gist(figures: tuple[Figure, ...]) -> str:
    """A few figures one by one; of many, those that do not hold, or the largest."""
    if len(figures) <= FEW:
        return "; ".join(map(_figure, figures))
    failing = [figure for figure in figures if not figure.holds]
    if failing:
        rest = f"; {len(failing) - FEW} more" if len(failing) > FEW else ""
        return "; ".join(map(_figure, failing[:FEW])) + rest
    numbers = [f for f in figures if not isinstance(f.value, str) and f.value != 0]
    if not numbers:
        return f"all {len(figures)} differences 0"
    return f"largest of {len(figures)}: " + _figure(max(numbers, key=lambda f: float(f.value) / (f.tolerance or 1.0)))


def _figure(figure: Figure) -> str:
    wanted = "" if figure.holds or figure.wanted is None else f", not {_said(figure.wanted)}"
    allowed = f" (±{_said(figure.tolerance)})" if figure.tolerance and figure.value != figure.wanted else ""
    return f"{figure.name} {_said(figure.value)}{wanted}{allowed}"


def _said(value: Value) -> str:
    """A figure as text: of a difference two digits, of other numbers four, integers exact."""
    if isinstance(value, float):
        return f"{value:.4g}" if value == 0 or 0.1 <= abs(value) < 1e4 else f"{value:.1e}"
    return f"{value:,}" if isinstance(value, int) else value


def _details(check: ModelCheck) -> Table:
    columns = (
        Column("name", "figure", keep=9),
        Column("value", "measured", keep=9),
        Column("wanted", "has to be", keep=9),
        Column("tolerance", "tolerance", keep=8),
        Column("holds", "holds", keep=9),
    )
    rows = tuple(
        Row(
            {
                "name": f.name,
                "value": _said(f.value),
                "wanted": None if f.wanted is None else _said(f.wanted),
                "tolerance": _said(f.tolerance) if f.tolerance else None,
                "holds": None if f.wanted is None else ("yes" if f.holds else "NO"),
            }
        )
        for f in check.findings.figures
    )
    title = f"{check.id}: {check.verdict}, {check.seconds:.2f} s"
    return Table(title, columns, rows, (*check.findings.notes, f"A failure: {check.meaning}"))


def _matrix(matrix: Matrix) -> Table:
    """Who sees whom: leaks as their sizes, what is allowed as a dot; a large matrix is cut to a window."""
    first = next((i for i, _ in _leaks(matrix)), 0)
    n = len(matrix.rows)
    start = max(0, min(first, n - SHOWN))
    window = range(start, min(n, start + SHOWN))
    columns = (Column("token", "", keep=9), *(Column(f"row{i}", f"row {i}", keep=9) for i in window))
    rows = tuple(
        Row({"token": f"token {j}", **{f"row{i}": _leak(matrix.rows[j][i]) if i < j else "·" for i in window}})
        for j in window
    )
    cut = (f"Positions {window[0]} to {window[-1]} of {n}; --json has all.",) if len(window) < n else ()
    return Table(matrix.title, columns, rows, ("·: a token may change its own row and later ones.", *cut))


def _leak(size: Value) -> str:
    return f"{size:.1e}" if isinstance(size, float) and size else "0"


def _leaks(matrix: Matrix) -> Iterable[tuple[int, int]]:
    """(row, token) of each leak, by row."""
    n = len(matrix.rows)
    return ((i, j) for i in range(n) for j in range(i + 1, n) if matrix.rows[j][i] != 0)


def _check_dict(check: ModelCheck) -> dict[str, Any]:
    return {
        "id": check.id,
        "claim": check.claim,
        "verdict": check.verdict,
        "reason": check.reason or None,
        "follows_from": check.follows_from,
        "meaning": check.meaning,
        "seconds": check.seconds,
        "figures": [{**dataclasses.asdict(f), "holds": f.holds} for f in check.findings.figures],
        "matrices": [{"title": m.title, "rows": [list(row) for row in m.rows]} for m in check.findings.matrices],
        "notes": list(check.findings.notes),
    }
