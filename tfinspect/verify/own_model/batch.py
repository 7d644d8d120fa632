"""Whether a row's logits depend on the rows beside it."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from tfinspect.results.checks import Findings
from tfinspect.verify.difference import largest
from tfinspect.verify.own_model.case import Case, Gap, NotApplicable, apart, rounding, with_and_without_noise
from tfinspect.verify.own_model.subject import ForwardRaised, Subject

__all__ = ["batch"]


def batch(case: Case) -> Findings:
    """How far a row's logits move with other neighbours, alone, and in another order."""
    if case.batch < 2:
        raise NotApplicable("one row has no neighbours; --batch 2 shows it")
    case.require_comparable()

    def neighbours(subject: Subject, training: bool) -> Gap:
        worst, tolerance = 0.0, 0.0
        for tokens, others in zip(case.batches, case.others, strict=True):
            base = subject.logits(tokens, training=training)
            tolerance = max(tolerance, subject.tolerance(base))
            for row in range(case.batch):
                among = others.clone()
                among[row] = tokens[row]
                worst = max(worst, largest(apart(subject.logits(among, training=training)[row], base[row])))
        return Gap(worst, tolerance)

    ways, notes = case.each_way(neighbours)
    figures = [gap.figure(f"other neighbours, {way}") for way, gap in ways.items()]
    open_in = {way for way, gap in ways.items() if not gap.closed}
    try:
        for name, regrouped in (("alone", _alone), ("another order", _turned)):
            for way, gap in with_and_without_noise(case, functools.partial(_regrouped, case, regrouped)).items():
                figures.append(gap.figure(f"{name}, {way}"))
                open_in |= set() if gap.closed else {way}
    except ForwardRaised as error:
        notes = (*notes, f"Other batches were not tried: {error.message}.")
    case.open_in["batch"] = open_in
    broken = [f"A row changes with {f.name} by {f.value:.1e}." for f in figures if not f.holds][:1]
    return Findings(tuple(figures), notes=(*broken, *rounding(ways.values()), *notes))


def _regrouped(case: Case, regrouped: Callable[[Subject, Tensor], Tensor], subject: Subject) -> Gap:
    worst, tolerance = 0.0, 0.0
    for tokens in case.batches:
        base = subject.logits(tokens)
        tolerance = max(tolerance, subject.tolerance(base))
        worst = max(worst, largest(apart(regrouped(subject, tokens), base)))
    return Gap(worst, tolerance)


def _alone(subject: Subject, tokens: Tensor) -> Tensor:
    return torch.cat([subject.logits(row) for row in tokens.split(1)])


def _turned(subject: Subject, tokens: Tensor) -> Tensor:
    return subject.logits(tokens.roll(1, 0)).roll(-1, 0)
