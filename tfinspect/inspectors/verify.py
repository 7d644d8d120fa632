"""The claims of the sources, put to the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, get_args

from tfinspect.errors import InputError
from tfinspect.results.checks import Checks, Claims
from tfinspect.verify.propositions import DType, Settings, chosen, run

__all__ = ["checks", "claims"]

DTYPES: Final[tuple[DType, ...]] = get_args(DType)

#: Most random draws that a claim is put to.
MOST_TRIALS: Final = 1_000


def checks(
    *ids: str,
    seed: int = 0,
    dtype: DType = "float64",
    trials: int = 5,
    explain: bool = False,
    told: Callable[[str], None] = lambda progress: None,
) -> Checks:
    """What was measured for each claim of the sources, and whether the claim holds.

    Ids are those of the sources ("A3.3"); "A3" stands for all below it; none stands for all claims. Before each,
    `told` is called with how far the work is.

    Raises:  InputError for an id that names no claim, an unknown dtype, and for no trials or too many.
    Agrees:  each check holds two paths against one another; its figures name them.

    >>> [(check.id, check.outcome) for check in tfinspect.checks("A3.1", trials=1).checked]
    [('A3.1.1', 'pass'), ('A3.1.2', 'pass')]
    """
    if dtype not in DTYPES:
        raise InputError(f"unknown dtype {dtype!r}", f"choose one of {', '.join(DTYPES)}")
    for what, given in (("seed", seed), ("trials", trials)):
        if isinstance(given, bool) or not isinstance(given, int):
            raise InputError(f"--{what} must be an integer, not {given!r}")
    if trials < 1:
        raise InputError(f"--trials must be at least 1, not {trials}")
    if trials > MOST_TRIALS:
        raise InputError(f"--trials must be at most {MOST_TRIALS:,}, not {trials}")
    propositions = chosen(ids)
    settings = Settings(seed=seed, dtype=dtype, trials=trials)
    checked = []
    for number, proposition in enumerate(propositions, start=1):
        told(f"{proposition.id}, {number} of {len(propositions)}")
        checked.append(run(proposition, settings))
    return Checks(tuple(checked), seed=seed, trials=trials, explain=explain)


def claims(*ids: str) -> Claims:
    """The claims that `checks` puts to the test, none of them run.

    Raises:  InputError for an id that names no claim.

    >>> tfinspect.claims("A3.1.1").claims[0].formula
    'LN(a·x + b·1) = LN(x)'
    """
    return Claims(chosen(ids))
