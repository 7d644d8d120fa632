"""Greedy choice and sampling: each step is refuted by one that does it in another way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.verify.broken import failing
from tfinspect.measured.sampling import Chosen, choose
from tfinspect.results.generation import Sampling
from tfinspect.verify import choosing
from tfinspect.verify.choosing import Choose
from tfinspect.verify.propositions import Settings


def by_another_rule(change: Callable[[Sampling], Sampling]) -> Choose:
    return lambda logits, rule, draws: choose(logits, change(rule), draws)


def inverse_temperature(rule: Sampling) -> Sampling:
    return rule if rule.greedy else dataclasses.replace(rule, temperature=1 / rule.temperature)


def one_more(rule: Sampling) -> Sampling:
    return dataclasses.replace(rule, top_k=rule.top_k and rule.top_k + 1)


def without_top_k(rule: Sampling) -> Sampling:
    return dataclasses.replace(rule, top_k=None)


def larger_p(rule: Sampling) -> Sampling:
    return dataclasses.replace(rule, top_p=rule.top_p and 0.95)


def smaller_p(rule: Sampling) -> Sampling:
    return dataclasses.replace(rule, top_p=rule.top_p and 0.2)


def smallest_logit(logits: Tensor, rule: Sampling, draws: torch.Generator) -> Chosen:
    chosen = choose(logits, rule, draws)
    return chosen._replace(ids=logits.argmin(dim=-1)) if rule.greedy else chosen


def never_by_chance(logits: Tensor, rule: Sampling, draws: torch.Generator) -> Chosen:
    chosen = choose(logits, rule, draws)
    return chosen._replace(ids=logits.argmax(dim=-1))


def evenly(logits: Tensor, rule: Sampling, draws: torch.Generator) -> Chosen:
    chosen = choose(logits, rule, draws)
    even = torch.randint(logits.shape[-1], chosen.ids.shape, generator=draws)
    return chosen if rule.greedy else chosen._replace(ids=even)


@pytest.mark.breaks("B15.5.2")
@pytest.mark.parametrize(
    ("choose", "wrong"),
    [
        (smallest_logit, {"greedy ids below the largest logit"}),
        (by_another_rule(inverse_temperature), {"largest |chance − softmax(logits/T)|", "with a wrong top-p"}),
        (by_another_rule(one_more), {"rows with a wrong top-k"}),
        (by_another_rule(without_top_k), {"rows with a wrong top-k"}),
        (by_another_rule(larger_p), {"with a wrong top-p"}),
        (by_another_rule(smaller_p), {"with a wrong top-p"}),
        (never_by_chance, {"largest |frequency − chance|", "draws other than the largest logit"}),
        (evenly, {"largest |frequency − chance|", "draws of a token that was dropped"}),
    ],
)
def test_another_way_to_choose_is_named(choose: Choose, wrong: set[str]) -> None:
    assert set(failing(choosing.choosing(Settings(), choose))) == wrong
