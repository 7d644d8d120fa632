"""Tokens one by one: what a model generates, held against a second path, and what it costs with a cache and without."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tfinspect import tokenizer
from tfinspect.closed_form import generation as closed_form
from tfinspect.errors import InputError
from tfinspect.inspectors import batch
from tfinspect.presets import Preset
from tfinspect.results.agreement import Agreement
from tfinspect.results.generation import Candidate, Choice, Continuation, Generation, Sampling, Step
from tfinspect.results.subject import Described, Subject
from tfinspect.results.texts import Text
from tfinspect.results.weights import Weights, require_dtype
from tfinspect.spec import ModelSpec

if TYPE_CHECKING:
    from tfinspect.measured.generation import Run

__all__ = ["generate"]


def generate(
    model: ModelSpec | Preset | Described,
    texts: Sequence[str | bytes] | str | bytes = (),
    *,
    ids: Sequence[Sequence[int]] = (),
    max_new: int = 20,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    dtype: str | None = None,
    cache: bool = True,
    show: bool = False,
    check: bool = True,
    every_step: bool = False,
    allow_special: bool = False,
    told: Callable[[str], None] = lambda progress: None,
) -> Generation:
    """Tokens that a model generates after some texts, each step with what it was chosen from.

    Several texts are one batch and need as many tokens each. A temperature of 0 is greedy; None means 0, or 1 where a
    filter is given. A model that comes with weights (`resolve` of a checkpoint) runs with them, in their own format or
    in dtype; others have random ones. The seed fills those, and seeds the one generator from which every draw comes,
    whether there is a cache or not. <|endoftext|> is a token like any other: max_new tokens follow. `told` hears of the
    progress.

    check goes through the run once more, by the other path; every_step counts the work of all steps, not of three.

    Raises:  InputError for a model that predicts no next token, no tokens, unequal lengths, an id outside the
             vocabulary, prompt + max_new > n_ctx, max_new < 1, temperature < 0, top_k < 1, top_p outside (0, 1], or too
             little memory.
    Agrees:  a run without the cache, id by id and logit by logit; closed_form.generation, exactly.

    >>> made = tfinspect.generate(tfinspect.preset("tiny-568"), ids=[[3, 1, 4]], max_new=5)
    >>> made.with_cache, made.without_cache
    (3384, 11960)
    """
    subject = Subject.of(model)
    spec = subject.spec
    batch.require_decoder(spec, "generate")
    require_dtype(dtype)
    sampling = _sampling(temperature, top_k, top_p)
    weights = Weights.of(model)
    rows = batch.rows(spec, texts, ids, allow_special, weights=weights)
    prompt_len = batch.seq_len(
        spec, rows, nothing="nothing to continue (0 tokens)", unequal="generate after each in a run of its own"
    )
    _whole("max_new (--max-new)", max_new, least=1)
    if prompt_len + max_new > spec.n_ctx:
        raise InputError(
            f"{prompt_len:,} {'token' if prompt_len == 1 else 'tokens'} and {max_new:,} new ones are "
            f"{prompt_len + max_new:,}, and the model's context is {spec.n_ctx:,}",
            f"give --max-new {spec.n_ctx - prompt_len}"
            if prompt_len < spec.n_ctx
            else f"shorten the text, or give --ctx {prompt_len + max_new}",
        )

    from tfinspect.measured import generation as measured

    ran = measured.run(
        spec,
        [row.ids for row in rows],
        n_new=max_new,
        sampling=sampling,
        seed=seed,
        given=weights,
        dtype=dtype,
        cached=cache,
        told=lambda done: told(f"token {done:,} of {max_new:,}"),
    )
    named = batch.knows_gpt2s_ids(spec, weights)
    sizes = {"prompt_len": prompt_len, "n_new": max_new, "batch": len(rows)}
    work = zip(closed_form.with_cache(spec, **sizes), closed_form.without_cache(spec, **sizes), strict=True)
    report = Generation(
        subject=subject,
        sampling=sampling,
        seed=seed,
        cached=cache,
        rows=tuple(_continued(row, new, named) for row, new in zip(rows, ran.new_ids, strict=True)),
        steps=tuple(
            Step(
                number=number,
                queries=seen.queries,
                keys=seen.keys,
                logits_sizes=seen.logits_sizes,
                ids_sizes=seen.ids_sizes,
                cache_sizes=seen.cache_sizes,
                cache_bytes=seen.cache_bytes,
                with_cache=kept,
                without_cache=again,
                choices=tuple(_named(choice) if named else choice for choice in seen.choices),
            )
            for number, (seen, (kept, again)) in enumerate(zip(ran.steps, work, strict=True), 1)
        ),
        step_formula=closed_form.step_formula(spec, len(rows)),
        cache_formula=closed_form.cache_formula(spec, ran.filled.number_bytes),
        steps_shown=show,
        filled=ran.filled,
    )
    if not check:
        return report
    told("checking")
    return dataclasses.replace(report, agreements=tuple(_agreements(report, ran, every_step)))


def _sampling(temperature: float | None, top_k: int | None, top_p: float | None) -> Sampling:
    filtered = top_k is not None or top_p is not None
    if temperature is None:
        temperature = 1.0 if filtered else 0.0
    _real("temperature (--temperature)", temperature)
    if not 0 <= temperature < math.inf:
        raise InputError(f"temperature (--temperature) must be at least 0 and finite, not {temperature}")
    if top_k is not None:
        _whole("top_k (--top-k)", top_k, least=1)
    if top_p is not None:
        _real("top_p (--top-p)", top_p)
        if not 0 < top_p <= 1:
            raise InputError(f"top_p (--top-p) must be above 0 and at most 1, not {top_p}")
    return Sampling(temperature, top_k, top_p)


def _whole(what: str, given: object, *, least: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int):
        raise InputError(f"{what} must be an integer, not {given!r}")
    if given < least:
        raise InputError(f"{what} must be at least {least}, not {given}")


def _real(what: str, given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise InputError(f"{what} must be a number, not {given!r}")


def _continued(row: Text, new_ids: Sequence[int], named: bool) -> Continuation:
    old, new = (_bytes(row.ids), _bytes(new_ids)) if named else (None, None)
    return Continuation(row.ids, tuple(new_ids), old, new)


def _named(choice: Choice) -> Choice:
    """The choice with the bytes of its tokens."""

    def named(candidate: Candidate) -> Candidate:
        return dataclasses.replace(candidate, data=_bytes([candidate.token_id]))

    return Choice(named(choice.chosen), tuple(map(named, choice.likeliest)), choice.n_kept)


def _bytes(ids: Sequence[int]) -> bytes | None:
    """What ids of GPT-2's vocabulary stand for, where its table has them all."""
    return tokenizer.decode(ids) if max(ids) < tokenizer.VOCAB_SIZE else None


def _agreements(report: Generation, ran: Run, every_step: bool) -> Iterator[Agreement]:
    from tfinspect.measured import generation as measured

    again = measured.replay(ran)
    other, how = (
        ("without the cache", "one pass over all positions, row by row")
        if report.cached
        else ("with the cache", "position by position through the cache")
    )
    ties = f"; {again.n_ties:,} hang on less than rounding" if again.n_ties else ""
    yield Agreement(f"same ids {other}", again.n_choices, again.n_same, how + ties, tolerance=again.n_ties)
    yield Agreement(
        f"largest difference of a logit, {again.dtype}", 0, again.difference, how, tolerance=again.tolerance
    )
    rule = "ids whose logit no other exceeds" if report.sampling.greedy else "draws that the filters allow"
    yield Agreement(rule, again.n_choices, again.n_allowed, "counting the likelier tokens of each choice")

    spec = report.subject.spec
    last = report.steps[-1].keys
    chosen = range(report.n_new) if every_step else sorted({0, min(1, report.n_new - 1), report.n_new - 1})
    steps = [report.steps[i] for i in chosen]
    numbers = ", ".join(f"{step.number:,}" for step in steps) if len(steps) <= 3 else f"1 to {report.n_new:,}"
    which = f"{'step' if len(steps) == 1 else 'steps'} {numbers}"
    for quantity, closed, shapes in (
        ("with a cache", sum(s.with_cache for s in steps), [(1 if s.number > 1 else s.keys, s.keys) for s in steps]),
        ("without", sum(s.without_cache for s in steps), [(s.keys, s.keys) for s in steps]),
    ):
        ran_work = measured.work(spec, shapes, batch=report.batch)
        yield Agreement(
            f"MACs {quantity}, {which}",
            closed,
            ran_work.flops // 2,
            "FlopCounterMode on the torch model, meta device",
            uncounted=ran_work.uncounted,
            coverage=ran_work.coverage,
        )
    yield Agreement(
        f"bytes of the cache, S = {last:,}",
        closed_form.cache_bytes(spec, keys=last, batch=report.batch, number_bytes=report.filled.number_bytes),
        again.cache_bytes,
        "storage of its tensors",
    )
