"""What passes say of themselves: are they numbers, and do equal tokens give equal logits?"""

from __future__ import annotations

from typing import Any

from tfinspect.results.checks import Figure, Findings
from tfinspect.verify.difference import largest
from tfinspect.verify.own_model.case import EVALUATION, NOISE, Case, Gap, NotApplicable, apart, listed, rounding
from tfinspect.verify.own_model.gradients import arrivals
from tfinspect.verify.own_model.subject import ForwardRaised, Subject

__all__ = ["determinism", "finite"]


def finite(case: Case) -> Findings:
    """How many logits and gradients are no numbers, and where."""
    logits = [case.subject.logits(tokens) for tokens in case.batches]
    notes = []
    positions = sorted({int(t) for z in logits for t in (~z.isfinite()).any(dim=2).any(dim=0).nonzero()})
    if positions:
        notes.append(f"Logits at position{'s' * (len(positions) > 1)} {listed(map(str, positions))} are not finite.")
    figures = [Figure("non-finite logits", sum(int((~z.isfinite()).sum()) for z in logits), 0)]
    try:
        trained = [case.subject.logits(tokens, training=True) for tokens in case.batches]
        figures.append(Figure("in training", sum(int((~z.isfinite()).sum()) for z in trained), 0))
    except ForwardRaised as error:
        figures.append(Figure("in training", "raises", "numbers"))
        notes.append(f"In training mode {error.message}.")
    if (arrived := arrivals(case)).state:
        broken = arrived.non_finite
        figures.append(Figure("gradients", len(broken), 0))
        if broken:
            notes.append(f"Gradients are not finite at {listed(broken)}.")
    return Findings(tuple(figures), notes=tuple(notes))


def determinism(case: Case) -> Findings:
    """How far two equal passes are apart, with another between them, and what brings it about."""
    given = _repeated(case, case.subject)
    if not given.closed:
        return Findings((given.figure(EVALUATION),), notes=(_why(case, case.subject),))
    with case.subject.with_noise() as noisy:
        with_noise = _repeated(case, noisy)
        notes = rounding((given, with_noise)) if with_noise.closed else (_why(case, noisy),)
    if noisy.state.parameters:
        case.subject.keep_parameters()
    return Findings((given.figure(EVALUATION), with_noise.figure(NOISE)), notes=notes)


def _repeated(case: Case, subject: Subject) -> Gap:
    tokens, between = case.batches[0], case.others[0]
    first = subject.logits(tokens)
    if not first.isfinite().any():
        raise NotApplicable("no logit is a number (see finite)")
    subject.logits(between, as_left=True)
    return Gap(largest(apart(first, subject.logits(tokens, as_left=True))), subject.tolerance(first))


def _why(case: Case, subject: Subject) -> str:
    """What makes equal passes differ; the case then knows what can still be compared."""
    tokens = case.batches[0]

    def differ(**again: Any) -> bool:
        first = subject.logits(tokens)
        return largest(apart(first, subject.logits(tokens, **again))) > subject.tolerance(first)

    if differ():
        subject.keep_parameters()
        case.irreproducible = differ()
    if case.irreproducible:
        return "They differ although attributes, buffers, parameters and random seeds are put back in between."
    case.draws = differ(seed=subject.seed + 1) or subject.state.drew
    if case.draws:
        return "It draws random numbers in evaluation mode, others in each pass."
    return "A pass leaves something behind that the next one reads: an attribute, a buffer or a parameter."
