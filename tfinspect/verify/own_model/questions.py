"""The questions in the order in which they are asked, and which failure explains which."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tfinspect.results.checks import Findings
from tfinspect.results.model_checks import ModelCheck
from tfinspect.verify.own_model.answers import determinism, finite
from tfinspect.verify.own_model.batch import batch
from tfinspect.verify.own_model.cache import cache
from tfinspect.verify.own_model.case import TRAINING, Case, NotApplicable
from tfinspect.verify.own_model.gradients import gradients
from tfinspect.verify.own_model.loss import loss
from tfinspect.verify.own_model.positions import causality, prefix
from tfinspect.verify.own_model.ties import ties

__all__ = ["QUESTIONS", "Question", "answer", "explained"]


@dataclasses.dataclass(frozen=True)
class Question:
    """What a right model does, what it means if this one does not, and how to ask."""

    id: str
    claim: str
    meaning: str
    ask: Callable[[Case], Findings]


def answer(question: Question, case: Case) -> ModelCheck:
    """One question put to a model.

    Raises:  InputError where the model raises on the inputs that every question uses.
    """
    begin = time.perf_counter()
    findings, reason = Findings(()), ""
    try:
        findings = question.ask(case)
    except NotApplicable as error:
        reason = str(error)
    seconds = time.perf_counter() - begin
    return ModelCheck(question.id, question.claim, question.meaning, findings, seconds, reason)


def explained(checks: Iterable[ModelCheck], case: Case) -> tuple[ModelCheck, ...]:
    """The checks, each failure that follows from another with the name of that one."""
    checks = tuple(checks)
    failed = {check.id for check in checks if check.verdict == "fail"}
    causes = _causes(case, failed)
    return tuple(
        dataclasses.replace(c, follows_from=next((x for x in causes.get(c.id, ()) if x in failed), None))
        if c.verdict == "fail"
        else c
        for c in checks
    )


def _causes(case: Case, failed: set[str]) -> Mapping[str, tuple[str, ...]]:
    """For each check, the failures that bring its own about."""
    random = ("determinism",) if case.draws else ()
    leaks, mixes = case.open_in.get("causality", set()), case.open_in.get("batch", set())
    seen = ("causality",) if leaks - {TRAINING} else ()
    # Statistics over the batch mix positions too: one cause, seen twice, where both show in training mode alone.
    mixed = ("batch",) if leaks == mixes == {TRAINING} else ()
    return {"prefix": (*random, *seen), "batch": random, "cache": (*random, *seen), "causality": mixed,
            "loss": ("finite",)}  # fmt: skip


QUESTIONS: Final = (
    Question(
        "finite",
        "gives numbers",
        "Look for a row of the mask that hides every key, a division by a sum or a variance of 0, and logarithms.",
        finite,
    ),
    Question(
        "determinism",
        "gives equal logits for equal tokens",
        "Look for dropout that does not ask whether the model trains, and for state kept on the module.",
        determinism,
    ),
    Question(
        "causality",
        "sees no later token",
        "Look at the mask: its diagonal, the axis of the softmax, its place before the softmax; then at whatever else "
        "mixes positions, such as a norm or a mean over them.",
        causality,
    ),
    Question(
        "prefix",
        "gives a prefix the same rows",
        "Look for what depends on the length: positions counted from the end, a mean over all positions, padding.",
        prefix,
    ),
    Question(
        "batch",
        "takes each row by itself",
        "Look for batch norm, a softmax or a mean over the first axis, and positions made from shape[0].",
        batch,
    ),
    Question(
        "cache",
        "decodes with a cache as without",
        "Look at the positions of new tokens, which go on from the past, at what is appended to it, and at the mask of "
        "new queries over old keys.",
        cache,
    ),
    Question(
        "gradients",
        "trains every parameter",
        "Look for detach, no_grad, .data or .item on the way to it, and for a part that is built and not called.",
        gradients,
    ),
    Question(
        "ties",
        "shares what it ties",
        "Assign the parameter itself, head.weight = embedding.weight; a copy or .data trains two tables.",
        ties,
    ),
    Question(
        "loss",
        "begins near ln V",
        "Look at the scale of the token table and the head: logits of standard deviation s add about s²/2 to ln V.",
        loss,
    ),
)  # fmt: skip
