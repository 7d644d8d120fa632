"""From the logits of the last position to the next token.

    logits [B, V]  ──temperature, softmax──>  top-k  ──>  top-p  ──draw──>  ids [B]

Each filter takes a distribution and gives one: what it drops has probability exactly 0, and the rest is scaled back to
1. The order is the one above, so that top-p measures what top-k has left. Of equally likely tokens the lower id comes
first, in the filters as in the argmax of greedy choice. All of it is float64, whatever the model is.

Source:  Ackley et al. 1985 (temperature); Fan et al. 2018, section 5 (top-k); Holtzman et al. 2020, section 3.1
         (top-p: the smallest set of likeliest tokens whose probabilities reach p).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from tfinspect.results.generation import Sampling

__all__ = ["Chosen", "allowed", "choose", "generator", "race", "tempered", "top_k", "top_p"]


class Chosen(NamedTuple):
    """What became of the logits [B, V] of one step."""

    ids: Tensor
    """The chosen tokens, [B]."""
    before: Tensor
    """softmax(logits / T) before any filter, [B, V]; T = 1 where the choice is greedy."""
    after: Tensor
    """What the choice was made from, [B, V]: filtered; for greedy choice all on one token."""
    margin: Tensor
    """How much a logit would have to change for another choice, [B]: the lead of the winner, or top-k's border."""


def choose(logits: Tensor, sampling: Sampling, draws: torch.Generator) -> Chosen:
    """The next token of each row; draws give one number for every token of every row, and none to greedy choice."""
    logits = logits.double()
    before = tempered(logits, sampling.temperature or 1.0)
    if sampling.greedy:
        ids = logits.argmax(dim=-1)  # the first of equals
        after = torch.zeros_like(before).scatter(-1, ids[:, None], 1.0)
        return Chosen(ids, before, after, _lead(logits))
    after, margin = before, torch.full_like(logits[:, 0], math.inf)
    if sampling.top_k is not None and sampling.top_k < logits.shape[-1]:
        after = top_k(after, sampling.top_k)
        inside, outside = logits.topk(sampling.top_k + 1, dim=-1).values[:, -2:].T
        margin = inside - outside
    if sampling.top_p is not None:
        after = top_p(after, sampling.top_p)
    arrivals = race(after, draws)
    lead = _lead(arrivals.log()) * sampling.temperature
    return Chosen(arrivals.argmax(dim=-1), before, after, torch.minimum(margin, lead))


def generator(seed: int) -> torch.Generator:
    """The one source of a run's draws; any integer seeds it, and no global random state is touched."""
    return torch.Generator().manual_seed(seed & (2**63 - 1))


def tempered(logits: Tensor, temperature: float) -> Tensor:
    """softmax(logits / T), [B, V]: sharper below T = 1, flatter above."""
    below_top = logits.double() - logits.double().amax(dim=-1, keepdim=True)  # so that no T, however small, overflows
    return (below_top / temperature).softmax(dim=-1)


def top_k(chances: Tensor, k: int) -> Tensor:
    """The k likeliest tokens, [B, V]; of equals at the border the lower ids. All of them where k ≥ V."""
    if k >= chances.shape[-1]:
        return chances
    ranked = chances.sort(dim=-1, descending=True, stable=True)
    return _scaled(torch.zeros_like(chances).scatter(-1, ranked.indices[:, :k], ranked.values[:, :k]))


def top_p(chances: Tensor, p: float) -> Tensor:
    """The likeliest tokens up to the one with which they reach p, [B, V]; at least one, and all where p = 1."""
    if p == 1:
        return chances
    ranked = chances.sort(dim=-1, descending=True, stable=True)
    likelier = ranked.values.cumsum(dim=-1).roll(1, dims=-1)  # probability of all that stand before a token
    likelier[:, 0] = 0.0
    kept = ranked.values.masked_fill(likelier >= p, 0.0)
    return _scaled(torch.zeros_like(chances).scatter(-1, ranked.indices, kept))


def race(chances: Tensor, draws: torch.Generator) -> Tensor:
    """A number for each token, [B, V], the largest of which belongs to each token with its own probability.

    Each token waits for an exponential time of rate p, and the first to arrive wins: P(i first) = p_i / Σ p. Unlike a
    search in cumulated probabilities, the winner hangs on rounding only where the two best nearly tie.
    """
    waiting = torch.empty_like(chances).exponential_(generator=draws)
    return chances / waiting


def allowed(logits: Tensor, ids: Tensor, sampling: Sampling) -> Tensor:
    """Whether each chosen id may be chosen, [B], by counting the likelier tokens and not by sorting them."""
    if sampling.greedy:
        return ~(logits > logits.gather(-1, ids[:, None])).any(dim=-1)
    n_vocab = logits.shape[-1]
    k, p = min(sampling.top_k or n_vocab, n_vocab), sampling.top_p or 1.0
    weights = tempered(logits, sampling.temperature)
    likelier = weights > weights.gather(-1, ids[:, None])
    pool = weights.topk(k, dim=-1).values.sum(dim=-1)
    mass = (weights * likelier).sum(dim=-1)
    return (likelier.sum(dim=-1) < k) & (mass < p * pool * (1 + 1e-12))


def _scaled(chances: Tensor) -> Tensor:
    return chances / chances.sum(dim=-1, keepdim=True)


def _lead(scores: Tensor) -> Tensor:
    """By how much the best score of each row leads, [B]; infinite where nothing else can win."""
    if scores.shape[-1] == 1:
        return torch.full_like(scores[:, 0], math.inf)
    best, second = scores.topk(2, dim=-1).values.T
    return best - second
