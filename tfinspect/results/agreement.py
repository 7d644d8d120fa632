"""Whether two independent paths to one figure agree."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal

from tfinspect.errors import CheckFailed

__all__ = ["Agreement", "Verdict", "require"]

Verdict = Literal["agree", "differ", "incomplete", "not measured"]


@dataclasses.dataclass(frozen=True)
class Agreement:
    """One figure from two paths: a closed form and a measurement."""

    quantity: str
    """What the figure is, with its unit: "parameters", "multiplications, eager attention, no_grad"."""
    closed_form: int | float
    """The figure that arithmetic on the spec gives."""
    measured: int | float | None
    """The figure that a run or a module gives; None where nothing could be measured."""
    how: str
    """How it was measured: "torch model on the meta device, unique parameters"."""
    tolerance: float = 0.0
    """Largest |closed form − measured| that counts as agreement; 0 for integers."""
    uncounted: tuple[str, ...] = ()
    """Operations that ran and that nobody counted: the measured figure is then "at least"."""
    coverage: tuple[int, int] | None = None
    """(operations counted, operations seen), where the measurement goes by operations."""
    reason: str = ""
    """Why nothing was measured, where nothing was."""

    @property
    def verdict(self) -> Verdict:
        """agree, differ, incomplete (something was left uncounted), or not measured."""
        if self.measured is None:
            return "not measured"
        if self.uncounted:
            return "incomplete"
        return "agree" if abs(self.closed_form - self.measured) <= self.tolerance else "differ"

    @property
    def failed(self) -> bool:
        """True where a command has to exit with 1."""
        return self.verdict in ("differ", "incomplete")

    def to_dict(self) -> dict[str, Any]:
        """The fields and the verdict, for JSON."""
        fields = dataclasses.asdict(self)
        fields["uncounted"] = list(self.uncounted)
        fields["coverage"] = (
            None if self.coverage is None else dict(zip(("counted", "seen"), self.coverage, strict=True))
        )
        return {**fields, "verdict": self.verdict}


def require(agreements: Iterable[Agreement]) -> None:
    """Nothing, where every figure that was measured agrees.

    Raises:  CheckFailed naming the first figure that differs or is incomplete, and how many others are.
    """
    failed = [agreement for agreement in agreements if agreement.failed]
    if failed:
        first = failed[0]
        others = f"; {len(failed) - 1} more" if failed[1:] else ""
        at_least = "at least " if first.uncounted else ""
        raise CheckFailed(
            f"{first.quantity}: closed form {first.closed_form:,}, measured {at_least}{first.measured:,}{others}",
            "one of the two paths is wrong; please report it",
        )
