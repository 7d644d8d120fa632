"""Decoding with a model's own cache, against the whole pass.

A model offers a cache in one of two ways: its forward takes ``past_key_values`` (and ``use_cache``) and returns them,
as transformers do; or it has a method ``tfinspect_cache_step(tokens [B, T], past)`` that returns the logits of these
tokens and the past with them, where past is None to begin with.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from tfinspect.errors import InputError
from tfinspect.results.checks import Findings
from tfinspect.verify.difference import largest
from tfinspect.verify.own_model.case import Case, Gap, NotApplicable, apart, with_and_without_noise
from tfinspect.verify.own_model.subject import ForwardRaised, Subject

__all__ = ["cache"]

Step = Callable[[Tensor, Any], tuple[Tensor, Any]]


def cache(case: Case) -> Findings:
    """How far decoding with a cache, in pieces of several sizes, is from the whole pass."""
    if _step(case.subject) is None:
        raise NotApplicable("no past_key_values, no tfinspect_cache_step")
    if case.seq_len < 2:
        raise NotApplicable("one position has no past")
    case.require_comparable()
    half = case.seq_len // 2
    plans = {
        "token by token": [1] * case.seq_len,
        "after a prompt": [half] + [1] * (case.seq_len - half),
        "in two pieces": [half, case.seq_len - half],
    }
    figures, notes = [], []
    for name, pieces in plans.items():
        where: dict[str, int] = {}
        try:
            ways = with_and_without_noise(case, functools.partial(_decoded, case, pieces, where))
        except ForwardRaised as error:
            if name != "in two pieces":
                raise
            notes.append(f"Several tokens after a past were not tried: {error.message}.")
            continue
        figures += [gap.figure(f"{name}, {way}") for way, gap in ways.items()]
        if where and not notes:
            notes.append(f"Decoded {name}, the logits first differ at position {min(where.values())}.")
    left = max(_left_behind(case), key=lambda gap: gap.size - gap.tolerance)
    if not left.closed:
        notes.append("A plain pass after decoding gives other logits than before: the cache stays in the model.")
    return Findings((*figures, left.figure("a plain pass afterwards")), notes=tuple(notes))


def _step(subject: Subject) -> Step | None:
    """Logits of new tokens and the past with them, from the tokens and the past before them; None to begin with."""
    own = getattr(subject.module, "tfinspect_cache_step", None)
    if callable(own):
        return lambda tokens, past: _pair(subject.run(own, tokens.to(subject.device), past))
    if "past_key_values" not in subject.takes:
        return None
    asks = {"use_cache": True} if "use_cache" in subject.takes else {}

    def step(tokens: Tensor, past: Any) -> tuple[Tensor, Any]:
        logits, answered = subject.call(tokens, past_key_values=past, **asks)
        past = _past_of(answered)
        if past is None:
            raise NotApplicable("forward takes past_key_values and returns none")
        return logits, past

    return step


def _pair(answered: Any) -> tuple[Tensor, Any]:
    if not isinstance(answered, tuple) or len(answered) != 2 or not isinstance(answered[0], Tensor):
        raise InputError(
            "tfinspect_cache_step has to return a pair", "logits [B, T, V] and the past with the new tokens"
        )
    return answered


def _past_of(answered: Any) -> Any:
    if isinstance(answered, Mapping):
        return answered.get("past_key_values")
    if hasattr(answered, "past_key_values"):
        return answered.past_key_values
    return answered[1] if isinstance(answered, tuple) and len(answered) > 1 else None


def _decoded(case: Case, pieces: list[int], where: dict[str, int], subject: Subject) -> Gap:
    worst, tolerance = 0.0, 0.0
    for tokens in case.batches:
        whole = subject.logits(tokens)
        tolerance = max(tolerance, subject.tolerance(whole))
        for start, logits in _pieces(subject, tokens, pieces):
            wanted = whole[:, start : start + logits.shape[1]]
            if logits.shape != wanted.shape:
                raise InputError(
                    f"with a cache the model returned logits {list(logits.shape)}, not {list(wanted.shape)}",
                    "a cached step returns the logits of the new tokens",
                )
            rows = apart(logits, wanted).amax(dim=(0, 2))
            if float(rows.max()) > tolerance:
                first = start + int((rows > tolerance).nonzero()[0])
                where["first"] = min(first, where.get("first", first))
            worst = max(worst, float(rows.max()))
    return Gap(worst, tolerance)


@torch.no_grad()
def _pieces(subject: Subject, tokens: Tensor, pieces: list[int]) -> list[tuple[int, Tensor]]:
    """Position and logits, in float64, of each piece of a sequence that is decoded with a cache."""
    step = _step(subject)
    assert step is not None
    subject.begin()
    past, decoded = None, []
    for start, new in zip(itertools.accumulate([0, *pieces]), tokens.split(pieces, dim=1), strict=False):
        logits, past = step(new, past)
        decoded.append((start, logits.double().cpu()))
    return decoded


def _left_behind(case: Case) -> Iterator[Gap]:
    """How far a plain pass after decoding is from one before."""
    for tokens in case.batches:
        base = case.subject.logits(tokens)
        _pieces(case.subject, tokens, [1] * case.seq_len)
        after = case.subject.logits(tokens, as_left=True, seed=case.subject.seed)
        yield Gap(largest(apart(after, base)), case.subject.tolerance(base))
