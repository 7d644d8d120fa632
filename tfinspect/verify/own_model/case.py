"""What every question shares: the case, its inputs, and how logits that have to be equal are compared."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from torch import Tensor, nn

from tfinspect.results.checks import Figure
from tfinspect.verify.difference import largest
from tfinspect.verify.own_model.subject import ForwardRaised, Subject

__all__ = [
    "EVALUATION",
    "NOISE",
    "TRAINING",
    "Arrivals",
    "Case",
    "Gap",
    "NotApplicable",
    "apart",
    "listed",
    "rounding",
    "with_and_without_noise",
]

#: Names that a note lists before it counts the rest.
MOST_NAMES: Final = 6

EVALUATION, NOISE, TRAINING = "evaluation", "with noise", "training"


class NotApplicable(Exception):
    """There is nothing to check, and why."""


class Gap(NamedTuple):
    """How far apart logits are that have to be equal, and how far rounding can bring them."""

    size: float
    tolerance: float

    @property
    def closed(self) -> bool:
        return self.size <= self.tolerance

    def figure(self, name: str) -> Figure:
        return Figure(name, self.size, 0.0, self.tolerance)


@dataclasses.dataclass(frozen=True)
class Arrivals:
    """What backward brings to each trainable parameter, over all batches."""

    state: dict[str, str]
    """none (not in the graph), zero (in all batches, with noise in the weights too), or some."""
    non_finite: tuple[str, ...]

    def those(self, state: str) -> list[str]:
        return [name for name, found in self.state.items() if found == state]


@dataclasses.dataclass
class Case:
    """One model, the inputs that it is asked with, and what is known of it so far."""

    subject: Subject
    batches: tuple[Tensor, ...]
    """Token ids [B, T]."""
    others: tuple[Tensor, ...]
    """For each batch, ids that differ from it in every place."""
    targets: tuple[Tensor, ...]
    """For each batch, ids below V to be predicted."""
    width: int
    """V: logits at each position."""
    rebuild: Callable[[], nn.Module] | None = None
    """Builds the model anew, where that is known."""
    draws: bool = False
    """Whether it draws random numbers in evaluation mode."""
    irreproducible: bool = False
    """Whether equal passes from the same state and randomness differ."""
    arrivals: Arrivals | None = None
    """What backward brings, once it was asked for."""
    open_in: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    """For causality and batch, the modes in which they do not hold."""

    @property
    def seq_len(self) -> int:
        return self.batches[0].shape[1]

    @property
    def batch(self) -> int:
        return self.batches[0].shape[0]

    def require_comparable(self) -> None:
        """Nothing where the logits of two passes can be compared.

        Raises:  NotApplicable where they cannot.
        """
        if self.irreproducible:
            raise NotApplicable("two equal passes differ (see determinism)")
        if not any(self.subject.logits(tokens).isfinite().any() for tokens in self.batches):
            raise NotApplicable("no logit is a number (see finite)")

    def each_way(self, measure: Callable[[Subject, bool], Gap]) -> tuple[dict[str, Gap], tuple[str, ...]]:
        """What is measured in evaluation mode, with noise in the weights, and in training mode; and what was not."""
        found = {EVALUATION: measure(self.subject, False)}
        with self.subject.with_noise() as noisy:
            found[NOISE] = measure(noisy, False)
            try:
                if largest(apart(*(noisy.logits(self.batches[0], training=True) for _ in range(2)))):
                    return found, ("Training mode was not compared: it draws from a source that cannot be repeated.",)
                found[TRAINING] = measure(noisy, True)
            except ForwardRaised as error:
                return found, (f"Training mode was not compared: {error.message}.",)
        return found, ()


def apart(one: Tensor, other: Tensor) -> Tensor:
    """|one − other|, 0 where both are the same non-number, ∞ where only one is a number."""
    gap = (one - other).abs()
    if bool(gap.isfinite().all()):
        return gap
    same = (one == other) | (one.isnan() & other.isnan())
    return gap.nan_to_num(nan=math.inf, posinf=math.inf).masked_fill(same, 0.0)


def with_and_without_noise(case: Case, measure: Callable[[Subject], Gap]) -> dict[str, Gap]:
    found = {EVALUATION: measure(case.subject)}
    with case.subject.with_noise() as noisy:
        found[NOISE] = measure(noisy)
    return found


def rounding(gaps: Iterable[Gap]) -> tuple[str, ...]:
    """A word on what is not exactly 0 among passes of one shape, and is small enough to be rounding."""
    largest = max((gap.size for gap in gaps if gap.closed), default=0.0)
    if not largest:
        return ()
    return (f"Not exactly 0 but within rounding, {largest:.1e}; --dtype float64 tells rounding from a small leak.",)


def listed(names: Iterable[str]) -> str:
    names = list(names)
    rest = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + rest
