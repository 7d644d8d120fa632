"""How far the loss of a fresh model lies above ln V."""

from __future__ import annotations

import math
from typing import Final

import torch

from tfinspect.results.checks import Figure, Findings
from tfinspect.verify.own_model.case import Case

__all__ = ["loss"]

#: Largest loss above ln V, in nats, that counts as near it: logits of standard deviation s add about s²/2.
EXCESS: Final = 1.0


def loss(case: Case) -> Findings:
    """The cross-entropy against every token in turn, and how far it lies above ln V."""
    values = []
    for tokens in case.batches:
        logits = case.subject.logits(tokens)
        values.append((logits.logsumexp(dim=-1) - logits.mean(dim=-1)).mean())
    value, least = float(torch.stack(values).mean()), math.log(case.width)
    excess = value - least
    figures = (Figure("loss", value), Figure("ln V", least))
    if abs(excess) <= EXCESS or not math.isfinite(excess) or _at_initialisation(case):
        return Findings((*figures, Figure("excess", excess, 0.0, EXCESS)))
    note = "Two builds gave the same weights, so they may be trained"
    if case.rebuild is None:
        note = "A model was named and not a function that builds it, so it may be trained"
    return Findings(
        (*figures, Figure("excess", excess)), notes=(f"{note}; at initialisation this would be a failure.",)
    )


def _at_initialisation(case: Case) -> bool:
    """Whether the weights are drawn anew each time that the model is built: most matrices of two builds differ."""
    if case.rebuild is None:
        return False
    builds = []
    for seed in (case.subject.seed, case.subject.seed + 1):
        torch.manual_seed(seed)
        builds.append([p for p in case.rebuild().parameters() if p.ndim > 1])
    if [p.shape for p in builds[0]] != [p.shape for p in builds[1]]:
        return True
    return 2 * sum(not torch.equal(one, other) for one, other in zip(*builds, strict=True)) > len(builds[0])
