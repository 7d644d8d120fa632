"""How many parameters a model has: the ledger, and whether the torch model has as many."""

from __future__ import annotations

import dataclasses
from typing import Final

from tfinspect.closed_form import params as closed_form
from tfinspect.errors import CheckFailed, InputError
from tfinspect.presets import Preset
from tfinspect.results import agreement
from tfinspect.results.agreement import Agreement
from tfinspect.results.params import COMPONENTS, Params
from tfinspect.results.subject import Described, Subject
from tfinspect.spec import ModelSpec

__all__ = ["checked", "params", "require"]

#: Most tensors that are listed one by one, or built one by one for the check: GPT-3 175B has 1,540.
MOST_TENSORS: Final = 100_000

_HOW: Final = "torch model on the meta device, unique parameters"


def params(
    model: ModelSpec | Preset | Described, *, check: bool = True, expect: int | None = None, per_tensor: bool = False
) -> Params:
    """The parameters of a model by component, per block and, on request, per tensor.

    check=False stops at the closed form, which needs no torch. expect is compared in `Params.surplus`.

    Raises:  InputError for a negative expectation, or for more than 100,000 tensors to list.
    Agrees:  measured.params.count, exactly, in total, by component, and in each tensor's name and shape.

    >>> ledger = tfinspect.params(tfinspect.ModelSpec())
    >>> ledger.total, ledger.block_formula, ledger.agreements[0].verdict
    (124439808, '12d² + 13d', 'agree')
    """
    subject = Subject.of(model)
    spec = subject.spec
    if expect is not None and (isinstance(expect, bool) or not isinstance(expect, int) or expect < 0):
        raise InputError(f"the expected number of parameters (--expect) is {expect!r}", "give an integer, 0 or more")
    if per_tensor and closed_form.n_tensors(spec) > MOST_TENSORS:
        raise InputError(
            f"--per-tensor would list {closed_form.n_tensors(spec):,} tensors, and the most is {MOST_TENSORS:,}",
            "give fewer --layers; all blocks are alike",
        )
    report = Params(
        subject=subject,
        terms=closed_form.ledger(spec),
        blocks=closed_form.blocks(spec),
        model_formula=closed_form.model_formula(spec),
        other_counts=closed_form.other_counts(spec),
        tensors=tuple(closed_form.tensors(spec)) if per_tensor else None,
        expected=expect,
    )
    return checked(report) if check else report


def checked(report: Params) -> Params:
    """The same report with the torch model of its spec counted beside it."""
    return dataclasses.replace(report, agreements=_agreements(report))


def require(report: Params) -> None:
    """Nothing, where the total is the expected one and every measured figure agrees.

    Raises:  CheckFailed naming both figures.
    """
    if report.expected is not None and report.surplus:
        more = "more" if report.surplus > 0 else "fewer"
        raise CheckFailed(
            f"the model has {report.total:,} parameters, {abs(report.surplus):,} {more} than "
            f"the expected {report.expected:,}"
        )
    agreement.require(report.agreements)


def _agreements(report: Params) -> tuple[Agreement, ...]:
    spec = report.subject.spec
    reason = _unmeasurable(spec)
    if reason:
        return (Agreement("parameters", report.total, None, _HOW, reason=reason),)
    from tfinspect.measured.params import count

    measured = count(spec)
    expected_tensors = {(t.name, t.shape, t.params) for t in closed_form.tensors(spec)}
    return (
        Agreement("parameters", report.total, measured.total, _HOW),
        *(
            Agreement(f"parameters, {COMPONENTS[key]}", closed, measured.by_component.get(key, 0), _HOW)
            for key, closed in report.by_component.items()
        ),
        Agreement(
            "tensors of the expected name and shape",
            len(expected_tensors),
            len(expected_tensors.intersection(measured.tensors)),
            _HOW,
        ),
    )


def _unmeasurable(spec: ModelSpec) -> str:
    """Why torch cannot build this model even without memory; empty where it can."""
    if closed_form.n_tensors(spec) > MOST_TENSORS:
        return f"the check would build {closed_form.n_tensors(spec):,} tensors one by one"
    return closed_form.unindexable(spec)
