"""The work of a model as torch counts it, beside the closed form: every figure of a report, twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from tfinspect.results.agreement import Agreement
from tfinspect.results.flops import Flops
from tfinspect.results.growth import exact
from tfinspect.results.passes import Passes, PassWork
from tfinspect.results.work import COMPONENTS

if TYPE_CHECKING:
    from tfinspect.measured.flops import Measurement
    from tfinspect.measured.operators import Tally

__all__ = ["agreements"]

Attention = Literal["eager", "fused"]
Grad = Literal["grad", "no_grad", "inference_mode"]

#: The runs of a check: both kinds of attention, with gradients and without.
_RUNS: Final[tuple[tuple[Attention, Grad], ...]] = (("eager", "grad"), ("fused", "inference_mode"))
#: Every kind of attention in every grad mode.
_EVERY_RUN: Final[tuple[tuple[Attention, Grad], ...]] = tuple(itertools.product(get_args(Attention), get_args(Grad)))

#: What a reader calls each kind of pass.
_PASSES: Final = {"prefill": "prefill", "decode": "decode step", "training": "training"}


def agreements(report: Flops, *, every_mode: bool = False) -> Iterator[Agreement]:
    """What torch's counter says of each figure of a report, with eager and with fused attention."""
    from tfinspect.measured.flops import count, unmeasurable

    spec, n, m, head = report.subject.spec, report.seq_len, report.source_len, report.head
    reason = unmeasurable(spec, report.batch, n, m)
    if 0 in (n, m) and (spec.pooler or spec.positions == "relative"):
        reason = "such a model does not run over no positions"
    kept = None if reason else _kept(report, n, m)
    if kept is None:
        reason = reason or f"the mask of {n:,} positions is too large to be counted pair by pair"
        yield Agreement("FLOPs", report.flops, None, _how(report), reason=reason)
        return

    runs: dict[str, Measurement] = {}
    for attention, grad in _EVERY_RUN if every_mode else _RUNS:
        run = count(spec, batch=report.batch, seq_len=n, source_len=m, attention=attention, grad=grad, head=head)
        runs[f"{attention} {grad}"] = run
        yield Agreement(
            f"FLOPs, {attention} attention, {grad}",
            report.flops,
            exact(_kept_flops(run, kept)),
            _how(report) + (", fused call taken apart" if attention == "fused" and _apart(run) else ""),
            uncounted=run.uncounted,
            coverage=run.coverage,
        )
    eager, how = runs["eager grad"], "eager, grad"
    for component, multiplications in report.by_component.items():
        measured = eager.by_component[component] * (kept.scores if component in ("scores", "mix") else 1)
        yield Agreement(f"FLOPs of {COMPONENTS[component]}", 2 * multiplications, exact(Fraction(measured)), how)
    for work in report.elementwise:
        measured = eager.evaluations[work.component] * (kept.softmax if work.component == "softmax" else 1)
        yield Agreement(f"evaluations, {work.title}", work.evaluations, exact(Fraction(measured)), how)
    if report.sweep:
        yield _sweep_agreement(report)
    if report.passes is not None:
        yield from _pass_agreements(report, report.passes)


class _Kept(NamedTuple):
    """The part of all pairs that a mask lets through, where the causal half counts; 1 elsewhere."""

    scores: Fraction
    """Of self-attention."""
    softmax: Fraction
    """Of all attention, cross-attention included."""


def _kept(report: Flops, n: int, m: int | None) -> _Kept | None:
    """What the model's own masks keep, counted pair by pair; None where they are too large."""
    from tfinspect.measured.flops import causal_pairs

    spec = report.subject.spec
    if report.causal == "full" or not spec.causal or n == 0:
        return _Kept(Fraction(1), Fraction(1))
    of_window = {window: causal_pairs(spec, n, window) for window in set(map(spec.window_of, range(spec.n_layers)))}
    kept = 0
    for layer in range(spec.n_layers):
        pairs = of_window[spec.window_of(layer)]
        if pairs is None:
            return None
        kept += pairs
    encoder, cross = spec.n_encoder_layers * (m or 0) ** 2, spec.n_layers * n * m if m is not None else 0
    run = spec.n_layers * n * n
    scores = Fraction(kept + encoder, run + encoder)
    return _Kept(scores, Fraction(kept + encoder + cross, run + encoder + cross))


def _apart(run: Measurement) -> bool:
    """Whether a softmax was seen, which a fused kernel keeps to itself."""
    return run.evaluations["softmax"] > 0


def _kept_flops(run: Measurement, kept: _Kept) -> Fraction:
    """Measured FLOPs of the model where attention counts only a part of the pairs that it runs."""
    attention = run.by_component["scores"] + run.by_component["mix"]
    return run.flops - attention + attention * kept.scores


def _sweep_agreement(report: Flops) -> Agreement:
    """The lengths of the sweep, each measured with fused attention: FLOPs of the model, summed."""
    from tfinspect.measured.flops import count, unmeasurable

    spec = report.subject.spec
    closed, measured, n_points = 0, Fraction(0), 0
    uncounted: dict[str, None] = {}
    for point in report.sweep:
        n = point.seq_len
        m = n if report.source_len_is_n and report.source_len is not None else report.source_len
        kept = None if unmeasurable(spec, report.batch, n, m) else _kept(report, n, m)
        if kept is None:
            continue
        run = count(
            spec, batch=report.batch, seq_len=n, source_len=m, attention="fused", grad="no_grad", head=report.head
        )
        n_points += 1
        closed += 2 * point.multiplications
        measured += _kept_flops(run, kept)
        uncounted.update(dict.fromkeys(run.uncounted))
    quantity = f"FLOPs, sum over {n_points} of the sweep's {len(report.sweep)} lengths"
    how = "fused, no_grad, n_ctx extended where n is beyond it"
    if not n_points:
        return Agreement(quantity, closed, None, how, reason="torch can index none of them")
    return Agreement(quantity, closed, exact(measured), how, uncounted=tuple(uncounted))


def _pass_agreements(report: Flops, passes: Passes) -> Iterator[Agreement]:
    """Each kind of pass, measured on the meta device; an encoder's forward pass has been."""
    from tfinspect.measured.flops import backward, count, decode_step

    spec, n, m, batch = report.subject.spec, report.seq_len, report.source_len, report.batch

    def agrees(work: PassWork, run: Measurement | Tally, how: str) -> Agreement:
        quantity = f"FLOPs, {_PASSES[work.kind]}"
        flops = 2 * work.multiplications
        return Agreement(quantity, flops, run.flops, how, uncounted=run.uncounted, coverage=run.coverage)

    if (prefill := passes.work("prefill")) is not None:
        ran = count(spec, batch=batch, seq_len=n, source_len=m, attention="eager", head="last")
        yield agrees(prefill, ran, "eager, no_grad, logits at the last position")
    if (decode := passes.work("decode")) is not None:
        ran, how = decode_step(spec, keys=n, batch=batch, source_len=m), f"one token after {n - 1:,} in a cache"
        yield agrees(decode, ran, how)
        for component, multiplications in decode.by_component.items():
            quantity = f"FLOPs, decode step, {COMPONENTS[component]}"
            yield Agreement(quantity, 2 * multiplications, ran.by_component[component], how)
    if (training := passes.work("training")) is not None:
        both = backward(spec, seq_len=n, batch=batch, source_len=m)
        yield agrees(training, both, "forward and autograd's way back, eager")


def _how(report: Flops) -> str:
    how = "FlopCounterMode on the torch model, meta device"
    if report.beyond_context:
        how += ", n_ctx extended to n"
    if report.causal == "half":
        how += ", attention × the share of pairs that its mask keeps"
    return how
