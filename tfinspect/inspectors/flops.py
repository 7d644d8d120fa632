"""What one forward pass costs: multiplications by term, and whether the torch model does as many."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from tfinspect.closed_form import flops as closed_form
from tfinspect.closed_form import params as param_formulas
from tfinspect.errors import InputError
from tfinspect.presets import Preset
from tfinspect.results import agreement
from tfinspect.results.agreement import Agreement
from tfinspect.results.flops import Causal, Flops, Head, exact
from tfinspect.results.subject import Described, Subject
from tfinspect.spec import ModelSpec

if TYPE_CHECKING:
    from tfinspect.measured.flops import Measurement

__all__ = ["checked", "flops", "require"]

#: Longest sequence, and largest batch, that the closed form is asked for: its figures then have under 200 digits.
LONGEST: Final = 10**40

#: Most doublings in a sweep.
MOST_DOUBLINGS: Final = 60

Attention = Literal["eager", "fused"]
Grad = Literal["grad", "no_grad", "inference_mode"]

#: The runs of a check: both kinds of attention, with gradients and without.
_RUNS: Final[tuple[tuple[Attention, Grad], ...]] = (("eager", "grad"), ("fused", "inference_mode"))
#: Every kind of attention in every grad mode.
_EVERY_RUN: Final[tuple[tuple[Attention, Grad], ...]] = tuple(itertools.product(get_args(Attention), get_args(Grad)))


def flops(
    model: ModelSpec | Preset | Described,
    *,
    seq_len: int | None = None,
    batch: int = 1,
    causal: str = "full",
    head: str = "all",
    sweep: tuple[int, int] | None = None,
    check: bool = True,
    every_mode: bool = False,
) -> Flops:
    """The multiplications of one forward pass by component, their growth with n, and the cost of a token.

    seq_len None means the model's n_ctx; 0 gives zeros; beyond n_ctx the figures are arithmetic, and marked so.
    check=False stops at the closed form, which needs no torch; every_mode checks each kind of attention in each grad
    mode, six runs in the place of two.

    Raises:  InputError for a negative n, a batch below 1, an unknown convention, or a sweep that runs backwards.
    Agrees:  measured.flops.count, exactly, for eager and fused attention, with and without gradients.
    """
    subject = Subject.of(model)
    spec = subject.spec
    n = spec.n_ctx if seq_len is None else _length("n (--n)", seq_len, least=0)
    _length("batch (--batch)", batch, least=1)
    pairs = cast("Causal", _known("--causal", causal, get_args(Causal)))
    positions = cast("Head", _known("--head", head, get_args(Head)))
    if sweep is not None:
        if not isinstance(sweep, tuple | list) or len(sweep) != 2:
            raise InputError(f"the sweep is {sweep!r}", "give its first and its last n, such as (128, 65536)")
        _check_sweep(*sweep)
    report = Flops(
        subject=subject,
        seq_len=n,
        batch=batch,
        causal=pairs,
        head=positions,
        terms=closed_form.terms(spec, seq_len=n, batch=batch, causal=pairs, head=positions),
        elementwise=closed_form.elementwise(spec, seq_len=n, batch=batch, causal=pairs),
        growth=closed_form.growth(spec, seq_len=n, batch=batch, causal=pairs, head=positions),
        per_token=closed_form.per_token(spec, seq_len=n, causal=pairs, head=positions),
        n_params=sum(term.params for term in param_formulas.ledger(spec)),
        sweep=() if sweep is None else closed_form.sweep(spec, *sweep, batch=batch, causal=pairs, head=positions),
        seq_len_is_n_ctx=seq_len is None,
    )
    return checked(report, every_mode=every_mode) if check else report


def checked(report: Flops, *, every_mode: bool = False) -> Flops:
    """The same report with the torch model's own count beside it."""
    return dataclasses.replace(report, agreements=tuple(_agreements(report, _EVERY_RUN if every_mode else _RUNS)))


def require(report: Flops) -> None:
    """Nothing, where every measured figure agrees.

    Raises:  CheckFailed naming both figures of the first that does not.
    """
    agreement.require(report.agreements)


def _agreements(report: Flops, modes: Sequence[tuple[Attention, Grad]]) -> Iterator[Agreement]:
    from tfinspect.measured.flops import causal_pairs, count, unmeasurable

    spec, n, head = report.subject.spec, report.seq_len, report.head
    reason = unmeasurable(spec, report.batch, n)
    pairs = n * n if reason or report.causal == "full" else causal_pairs(spec, n)
    if pairs is None:
        reason = f"the mask of {n:,} positions is too large to be counted pair by pair"
    if reason or pairs is None:
        yield Agreement("FLOPs", report.flops, None, _how(report), reason=reason or "")
        return

    kept = Fraction(pairs, n * n) if n else Fraction(1)
    runs: dict[str, Measurement] = {}
    for attention, grad in modes:
        run = count(spec, batch=report.batch, seq_len=n, attention=attention, grad=grad, head=head)
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
    for term in report.terms:
        measured = eager.by_component[term.component] * (kept if term.part == "quadratic" else 1)
        yield Agreement(f"FLOPs of {term.title}", 2 * term.multiplications, exact(Fraction(measured)), how)
    for work in report.elementwise:
        measured = eager.evaluations[work.component] * (kept if work.component == "softmax" else 1)
        yield Agreement(f"evaluations, {work.title}", work.evaluations, exact(Fraction(measured)), how)
    if report.sweep:
        yield _sweep_agreement(report)


def _apart(run: Measurement) -> bool:
    """Whether a softmax was seen, which a fused kernel keeps to itself."""
    return run.evaluations["softmax"] > 0


def _kept_flops(run: Measurement, kept: Fraction) -> Fraction:
    """Measured FLOPs of the model where attention counts only a part of the pairs that it runs."""
    attention = run.by_component["scores"] + run.by_component["mix"]
    return run.flops - attention + attention * kept


def _sweep_agreement(report: Flops) -> Agreement:
    """The lengths of the sweep, each measured with fused attention: FLOPs of the model, summed."""
    from tfinspect.measured.flops import causal_pairs, count, unmeasurable

    spec = report.subject.spec
    closed, measured, n_points = 0, Fraction(0), 0
    uncounted: dict[str, None] = {}
    for point in report.sweep:
        n = point.seq_len
        pairs = n * n if report.causal == "full" else causal_pairs(spec, n)
        if unmeasurable(spec, report.batch, n) or pairs is None:
            continue
        run = count(spec, batch=report.batch, seq_len=n, attention="fused", grad="no_grad", head=report.head)
        n_points += 1
        closed += 2 * point.multiplications
        measured += _kept_flops(run, Fraction(pairs, n * n))
        uncounted.update(dict.fromkeys(run.uncounted))
    quantity = f"FLOPs, sum over {n_points} of the sweep's {len(report.sweep)} lengths"
    how = "fused, no_grad, n_ctx extended where n is beyond it"
    if not n_points:
        return Agreement(quantity, closed, None, how, reason="torch can index none of them")
    return Agreement(quantity, closed, exact(measured), how, uncounted=tuple(uncounted))


def _how(report: Flops) -> str:
    how = "FlopCounterMode on the torch model, meta device"
    if report.beyond_context:
        how += ", n_ctx extended to n"
    if report.causal == "half":
        how += ", attention × the share of pairs that its mask keeps"
    return how


def _known(flag: str, given: str, known: tuple[str, ...]) -> str:
    if given not in known:
        raise InputError(f"unknown {flag} {given!r}", f"choose one of {', '.join(known)}")
    return given


def _length(what: str, given: object, *, least: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise InputError(f"{what} must be an integer, not {given!r}")
    if given < least:
        raise InputError(f"{what} must be at least {least}, not {given}" if given > -LONGEST else f"{what} is negative")
    if given > LONGEST:
        raise InputError(f"{what} is above 10^40", "give a smaller one")
    return given


def _check_sweep(first: int, last: int) -> None:
    _length("the sweep's first n (--sweep)", first, least=1)
    _length("the sweep's last n (--sweep)", last, least=1)
    if last < first:
        raise InputError(f"the sweep {first}:{last} runs backwards", f"try --sweep {last}:{first}")
    if last > first << MOST_DOUBLINGS:
        raise InputError(
            f"the sweep {first}:{last} doubles n more than {MOST_DOUBLINGS} times", "start it at a larger n"
        )
