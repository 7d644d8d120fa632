"""The claims, in the order of the sources: id, words, formula, and the function that puts each to the test.

A check is a function of `Settings`, and of the parts that it tests, with the right ones as defaults; a test hands it a
broken part and sees it fail. Checks are named here and imported when they run, so that the list needs no torch.
"""

from __future__ import annotations

import dataclasses
import importlib
import time
from collections.abc import Callable, Iterable
from typing import Final, Literal

from tfinspect.errors import InputError
from tfinspect.results.checks import Checked, Findings

__all__ = ["PROPOSITIONS", "Proposition", "Settings", "chosen", "run"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """How checks are run."""

    seed: int = 0
    """Seed of everything random."""
    dtype: Literal["float64", "float32"] = "float64"
    trials: int = 5
    """Random inputs per check, where a check draws any."""

    def tolerance(self, in_float64: float) -> float:
        """A tolerance stated for float64, widened for float32 by the ratio of the two formats' precision."""
        return in_float64 if self.dtype == "float64" else in_float64 * 2.0**29


@dataclasses.dataclass(frozen=True)
class Proposition:
    """One claim."""

    id: str
    """Number in the sources: A or B for the chapter, then its own number."""
    claim: str
    """One short sentence."""
    statement: str
    """The claim in full, in our own words."""
    formula: str
    """Its equation, as text."""
    source: str
    """Where it stands."""
    check: str
    """Where the check is, under `tfinspect.verify`: "layer_norm:jacobian"."""

    def function(self) -> Callable[[Settings], Findings]:
        """The check itself."""
        module, _, name = self.check.partition(":")
        function: Callable[[Settings], Findings] = getattr(importlib.import_module(f"tfinspect.verify.{module}"), name)
        return function


PROPOSITIONS: Final[tuple[Proposition, ...]] = ()


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
    begin = time.perf_counter()
    findings = proposition.function()(settings)
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
