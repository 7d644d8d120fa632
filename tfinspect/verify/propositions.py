"""The claims, in the order of the sources: id, words, formula, and the function that puts each to the test.

A check is a function of `Settings`, and of the parts that it tests, with the right ones as defaults; a test hands it a
broken part and sees it fail. Checks are named here and imported when they run, so that the list needs no torch.
"""

from __future__ import annotations

import dataclasses
import importlib
import time
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

from tfinspect.errors import InputError
from tfinspect.results.checks import Checked, Claim, Findings

__all__ = ["PROPOSITIONS", "DType", "Proposition", "Settings", "chosen", "run"]

DType: TypeAlias = Literal["float64", "float32"]

#: Rounding unit of float32 over that of float64: 2^-24 / 2^-53.
COARSER: Final = 2.0**29


@dataclasses.dataclass(frozen=True)
class Settings:
    """How checks are run."""

    seed: int = 0
    """Seed of everything random."""
    dtype: DType = "float64"
    trials: int = 5
    """Random inputs per check, where a check draws any."""

    def tolerance(self, in_float64: float, order: float = 1.0) -> float:
        """A tolerance stated for float64, widened for float32 by the ratio of the two formats' precision.

        The order is the power of the rounding unit that the error follows: 1 for plain arithmetic, 2/3 for central
        differences at their best step, 1/2 for second differences at theirs.
        """
        return in_float64 if self.dtype == "float64" else in_float64 * COARSER**order


@dataclasses.dataclass(frozen=True)
class Proposition(Claim):
    """One claim with the check that puts it to the test."""

    check: str
    """Where the check is, under `tfinspect.verify`: "layer_norm:jacobian"."""

    def function(self) -> Callable[[Settings], Findings]:
        """The check itself."""
        module, _, name = self.check.partition(":")
        function: Callable[[Settings], Findings] = getattr(importlib.import_module(f"tfinspect.verify.{module}"), name)
        return function


PROPOSITIONS: Final[tuple[Proposition, ...]] = (
    Proposition(
        "A3.1.1",
        "layer norm ignores scale and shift",
        "Scaling all components by a > 0 and adding b to each leaves the layer norm as it is, for any gain and shift.",
        "LN(a·x + b·1) = LN(x)",
        "chapter A, proposition 3.1 (1)",
        "layer_norm:invariance",
    ),
)


def chosen(ids: Iterable[str]) -> tuple[Proposition, ...]:
    """The propositions of these ids, or those below them ("A3" is A3.1.1 to A3.3), in the order of the sources.

    Raises:  InputError for an id that names none.
    """
    wanted = [i.upper() for i in ids]
    for i in wanted:
        if not any(_within(p.id, i) for p in PROPOSITIONS):
            raise InputError(f"no claim has the id {i!r}", f"known: {', '.join(p.id for p in PROPOSITIONS)}")
    return tuple(p for p in PROPOSITIONS if not wanted or any(_within(p.id, i) for i in wanted))


def run(proposition: Proposition, settings: Settings) -> Checked:
    """One claim put to the test."""
    check = proposition.function()  # imports torch, the first time
    begin = time.perf_counter()
    findings = check(settings)
    return Checked(
        id=proposition.id,
        claim=proposition.claim,
        statement=proposition.statement,
        formula=proposition.formula,
        source=proposition.source,
        dtype=settings.dtype,
        findings=findings,
        seconds=time.perf_counter() - begin,
    )


def _within(known: str, wanted: str) -> bool:
    return known.upper() == wanted or known.upper().startswith(f"{wanted}.")
