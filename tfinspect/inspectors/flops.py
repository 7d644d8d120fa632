"""What one forward pass costs: multiplications by term, and whether the torch model does as many."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, cast, get_args

from tfinspect.closed_form import flops as closed_form
from tfinspect.closed_form import growth
from tfinspect.closed_form import params as param_formulas
from tfinspect.closed_form.elementwise import elementwise
from tfinspect.errors import InputError
from tfinspect.inspectors.work_agreements import agreements
from tfinspect.presets import Preset
from tfinspect.results import agreement
from tfinspect.results.flops import Flops
from tfinspect.results.subject import Described, Subject
from tfinspect.results.work import Causal, Head
from tfinspect.spec import ModelSpec

if TYPE_CHECKING:
    from tfinspect.results.passes import Passes
    from tfinspect.results.rules import Rules

__all__ = ["checked", "flops", "require"]

#: Longest sequence, and largest batch, that the closed form is asked for: its figures then have under 200 digits.
LONGEST: Final = 10**40

#: Most doublings in a sweep.
MOST_DOUBLINGS: Final = 60


def flops(
    model: ModelSpec | Preset | Described,
    *,
    seq_len: int | None = None,
    batch: int = 1,
    source_len: int | None = None,
    causal: str = "full",
    head: str = "all",
    sweep: tuple[int, int] | None = None,
    passes: bool = False,
    rules: bool = False,
    check: bool = True,
    every_mode: bool = False,
) -> Flops:
    """The multiplications of one forward pass by component, their growth with n, and the cost of a token.

    seq_len None means the model's n_ctx; 0 gives zeros; beyond n_ctx the figures are arithmetic, and marked so. An
    encoder–decoder reads source_len positions besides, by default as many. passes adds the work of a prompt, of a
    decode step and of training, and what a cache holds; rules adds rules of thumb, each with its error.
    check=False stops at the closed form, which needs no torch; every_mode checks each kind of attention in each grad
    mode, six runs in the place of two.

    Raises:  InputError for a negative n, a batch below 1, an unknown convention, a sweep that runs backwards, a source
             for a model that reads none, or passes and rules of no token.
    Agrees:  measured.flops.count, decode_step and backward, exactly, for eager and fused attention, with and without
             gradients.

    >>> work = tfinspect.flops(tfinspect.ModelSpec(), seq_len=1024, check=False)
    >>> work.multiplications, work.growth.crossover
    (145824153600, 4608)
    """
    subject = Subject.of(model)
    spec = subject.spec
    n = spec.n_ctx if seq_len is None else _length("n (--n)", seq_len, least=0)
    m = _source_len(spec, n, source_len)
    _length("batch (--batch)", batch, least=1)
    pairs = cast("Causal", _known("--causal", causal, get_args(Causal)))
    positions = cast("Head", _known("--head", head, get_args(Head)))
    if sweep is not None:
        if not isinstance(sweep, tuple | list) or len(sweep) != 2:
            raise InputError(f"the sweep is {sweep!r}", "give its first and its last n, such as (128, 65536)")
        _check_sweep(*sweep)
    if n == 0 and (passes or rules):
        raise InputError(f"there is no {'pass' if passes else 'rule'} over no token", "give --n of at least 1")
    report = Flops(
        subject=subject,
        seq_len=n,
        batch=batch,
        causal=pairs,
        head=positions,
        terms=closed_form.terms(spec, seq_len=n, batch=batch, causal=pairs, head=positions, source_len=m),
        elementwise=elementwise(spec, seq_len=n, batch=batch, causal=pairs, head=positions, source_len=m),
        growth=growth.growth(spec, seq_len=n, batch=batch, causal=pairs, head=positions, source_len=m),
        per_token=closed_form.per_token(spec, seq_len=n, causal=pairs, head=positions, source_len=m),
        n_params=sum(term.params for term in param_formulas.ledger(spec)),
        n_matrix_params=closed_form.matrix_params(spec),
        n_active_params=closed_form.active_params(spec) if spec.n_experts else None,
        n_active_matrix_params=closed_form.matrix_params(spec, active=True) if spec.n_experts else None,
        source_len=m,
        sweep=()
        if sweep is None
        else growth.sweep(spec, *sweep, batch=batch, causal=pairs, head=positions, source_len=source_len),
        passes=_passes(spec, n, batch, m) if passes else None,
        rules=_rules(spec, n, batch, m) if rules else None,
        source_len_is_n=source_len is None,
        seq_len_is_n_ctx=seq_len is None,
    )
    return checked(report, every_mode=every_mode) if check else report


def _passes(spec: ModelSpec, n: int, batch: int, m: int | None) -> Passes:
    from tfinspect.closed_form.passes import passes

    return passes(spec, seq_len=n, batch=batch, source_len=m)


def _rules(spec: ModelSpec, n: int, batch: int, m: int | None) -> Rules:
    from tfinspect.closed_form.rules import rules

    return rules(spec, seq_len=n, batch=batch, source_len=m)


def checked(report: Flops, *, every_mode: bool = False) -> Flops:
    """The same report with the torch model's own count beside it."""
    return dataclasses.replace(report, agreements=tuple(agreements(report, every_mode=every_mode)))


def require(report: Flops) -> None:
    """Nothing, where every measured figure agrees.

    Raises:  CheckFailed naming both figures of the first that does not.
    """
    agreement.require(report.agreements)


def _source_len(spec: ModelSpec, n: int, given: int | None) -> int | None:
    """Positions of the source: as many as n unless told otherwise; None for a model that reads none."""
    if spec.architecture != "encoder_decoder":
        if given is not None:
            raise InputError(
                f"{given!r} positions of a source are given, and the model reads none", "leave out --source-len"
            )
        return None
    return n if given is None else _length("the source's length (--source-len)", given, least=0)


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
