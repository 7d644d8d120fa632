"""What backward brings to each parameter."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfinspect.results.checks import Figure, Findings
from tfinspect.verify.own_model.case import Arrivals, Case, NotApplicable, listed
from tfinspect.verify.own_model.subject import ForwardRaised, Subject

__all__ = ["arrivals", "gradients"]


def gradients(case: Case) -> Findings:
    """How many trainable parameters get no gradient, and how many get nothing but zeros."""
    arrived = arrivals(case)
    if not arrived.state:
        raise NotApplicable("no parameter is trainable")
    if arrived.non_finite:
        raise NotApplicable("gradients are no numbers (see finite)")
    without, zero = arrived.those("none"), arrived.those("zero")
    # Rounding and a position without a choice (softmax over one key) make exact zeros of honest gradients.
    telling = case.seq_len >= 4 and torch.finfo(case.subject.dtype).eps < 1e-5
    notes = [f"No gradient reaches {listed(without)}."] if without else []
    notes += [f"The gradient is exactly 0 at {listed(zero)}, with noise in the weights too."] if zero else []
    figures = (
        Figure("parameter tensors", len(arrived.state)),
        Figure("no gradient", len(without), 0),
        Figure("zero gradient", len(zero), 0 if telling else None),
    )
    return Findings(figures, notes=tuple(notes))


def arrivals(case: Case) -> Arrivals:
    """What backward brings to each trainable parameter; found once for a case."""
    if case.arrivals is None:
        case.arrivals = _arrivals(case)
    return case.arrivals


def _arrivals(case: Case) -> Arrivals:
    named = {n: p for n, p in case.subject.module.named_parameters() if p.requires_grad and p.is_floating_point()}
    order = ("none", "zero", "some")
    state, non_finite = dict.fromkeys(named, "none"), []
    if not named:
        return Arrivals({}, ())
    for training in (True, False):
        if training:
            try:
                case.subject.logits(case.batches[0], training=True)
            except ForwardRaised:
                continue
        for tokens, targets in zip(case.batches, case.targets, strict=True):
            for name, gradient in zip(named, _gradients(case.subject, named, tokens, targets, training), strict=True):
                state[name] = max(state[name], _arrived(gradient), key=order.index)
                if gradient is not None and not gradient.isfinite().all():
                    non_finite.append(name)
        break
    if "zero" in state.values():
        with case.subject.with_noise() as noisy:
            for tokens, targets in zip(case.batches, case.targets, strict=True):
                for name, gradient in zip(named, _gradients(noisy, named, tokens, targets, False), strict=True):
                    if state[name] == "zero":
                        state[name] = max("zero", _arrived(gradient), key=order.index)
    return Arrivals(state, tuple(dict.fromkeys(non_finite)))


def _arrived(gradient: Tensor | None) -> str:
    if gradient is None:
        return "none"
    return "some" if bool(gradient.count_nonzero()) else "zero"


def _gradients(
    subject: Subject, named: Mapping[str, nn.Parameter], tokens: Tensor, targets: Tensor, training: bool
) -> tuple[Tensor | None, ...]:
    """Gradients of the loss in the order of the names; None for what is not in the graph. No .grad is touched."""
    subject.begin(training=training)
    with torch.enable_grad():
        logits = subject.call(tokens)[0]
        if not logits.requires_grad:
            return (None,) * len(named)
        logits = logits if torch.finfo(logits.dtype).eps < 1e-5 else logits.float()
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten().to(logits.device))

        def backward(tokens: Tensor) -> tuple[Tensor | None, ...]:
            return torch.autograd.grad(loss, list(named.values()), allow_unused=True)

        found: tuple[Tensor | None, ...] = subject.run(backward, tokens)
    return found
