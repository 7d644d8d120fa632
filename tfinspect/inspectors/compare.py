"""Two or more models side by side: structure, parameters, work, memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tfinspect.closed_form import flops as work
from tfinspect.closed_form.passes import passes
from tfinspect.closed_form.structure import Stack, stacks
from tfinspect.errors import InputError
from tfinspect.inspectors.params import checked as params_checked
from tfinspect.inspectors.params import params
from tfinspect.presets import PRESETS, Preset
from tfinspect.results import agreement
from tfinspect.results.agreement import Agreement
from tfinspect.results.comparison import Compared, Comparison, Layer
from tfinspect.results.subject import Described, Subject
from tfinspect.spec import ModelSpec

__all__ = ["MOST_MODELS", "checked", "compare", "require"]

#: Most models in one comparison.
MOST_MODELS = 16

_BF16_BYTES = 2


def compare(
    models: Sequence[ModelSpec | Preset | Described], *, seq_len: int | None = None, check: bool = True
) -> Comparison:
    """What differs between models, and what it costs.

    seq_len None means the shortest context among them. check=False stops at the closed forms, which need no torch.

    Raises:  InputError for fewer than two models or more than 16, or n below 1.
    Agrees:  for each model: measured.params.count and measured.flops.count, exactly.

    >>> both = tfinspect.compare([tfinspect.preset("gpt2"), tfinspect.preset("distilgpt2")], check=False)
    >>> both.differing, [model.params.total for model in both.models]
    (('n_layers',), [124439808, 81912576])
    """
    if not 2 <= len(models) <= MOST_MODELS:
        raise InputError(f"{len(models)} models were given", f"a comparison takes from 2 to {MOST_MODELS}")
    if seq_len is not None and (isinstance(seq_len, bool) or not isinstance(seq_len, int) or seq_len < 1):
        raise InputError(f"n (--n) must be an integer of at least 1, not {seq_len!r}")
    subjects = _told_apart([Subject.of(model) for model in models])
    n = min(subject.spec.n_ctx for subject in subjects) if seq_len is None else seq_len
    report = Comparison(
        models=tuple(_compared(subject, model, n) for subject, model in zip(subjects, models, strict=True)),
        seq_len=n,
        seq_len_is_shortest=seq_len is None,
    )
    return checked(report) if check else report


def checked(report: Comparison) -> Comparison:
    """The same report with the torch model of each spec counted beside it."""
    found = tuple(a for model in report.models for a in _agreements(model, report.seq_len))
    return dataclasses.replace(report, agreements=found)


def require(report: Comparison) -> None:
    """Nothing, where every measured figure agrees.

    Raises:  CheckFailed naming both figures of the first that does not.
    """
    agreement.require(report.agreements)


def _told_apart(subjects: Sequence[Subject]) -> list[Subject]:
    """The subjects, with their places after names that more than one of them has."""
    names = [subject.name for subject in subjects]
    return [
        dataclasses.replace(subject, name=f"{subject.name} ({place})") if names.count(subject.name) > 1 else subject
        for place, subject in enumerate(subjects, start=1)
    ]


def _compared(subject: Subject, model: ModelSpec | Preset | Described, n: int) -> Compared:
    spec = subject.spec
    kinds_of_pass = passes(spec, seq_len=n)
    decodes = spec.causal and spec.head != "none"
    decode = kinds_of_pass.work("decode") if decodes else None
    held = [size for size in kinds_of_pass.caches if size.title in ("all positions", "the source")]
    counted, preset = params(model, check=False), PRESETS.get(subject.name)
    kinds = {kind.title: kind for kind in counted.blocks}
    return Compared(
        subject=subject,
        params=counted,
        layers=tuple(
            Layer(
                title=stack.title,
                mask=_mask(spec, stack),
                cross_attention=len(stack.mixing) > 1,
                parts=len(stack.mixing) + 1,
                copies=stack.copies,
                params=kinds[stack.title].params,
            )
            for stack in stacks(spec)
        ),
        forward=work.multiplications(spec, seq_len=n),
        decode_step=None if decode is None else decode.multiplications,
        initialisation=preset.initialisation if preset is not None and preset.spec == spec else "",
        cache_bytes=_BF16_BYTES * sum(size.numbers for size in held) if decodes else None,
    )


def _mask(spec: ModelSpec, stack: Stack) -> str:
    """What a position sees, in words."""
    if not stack.mixing[0].causal:
        return "none"
    n_windowed = spec.n_windowed(stack.layers)
    if not n_windowed:
        return "causal"
    share = "" if n_windowed == stack.copies else f" in {n_windowed} of {stack.copies} blocks"
    return f"causal, window {spec.window:,}{share}"


def _agreements(model: Compared, n: int) -> Iterator[Agreement]:
    counted = params_checked(model.params).agreements[0]
    yield dataclasses.replace(counted, quantity=f"{model.name}: parameters")
    from tfinspect.measured.flops import count, unmeasurable

    spec, quantity = model.subject.spec, f"{model.name}: FLOPs of the forward pass"
    how = "FlopCounterMode on the torch model, meta device, fused attention"
    if reason := unmeasurable(spec, 1, n):
        yield Agreement(quantity, 2 * model.forward, None, how, reason=reason)
        return
    run = count(spec, seq_len=n, attention="fused", grad="no_grad")
    yield Agreement(quantity, 2 * model.forward, run.flops, how, uncounted=run.uncounted, coverage=run.coverage)
