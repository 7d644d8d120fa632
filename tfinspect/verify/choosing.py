"""From the logits of the last position to the next token: greedy choice, and the steps of sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import torch
from torch import Tensor

from tfinspect.measured import sampling
from tfinspect.measured.sampling import Chosen
from tfinspect.results.checks import Figure, Findings, Matrix
from tfinspect.results.generation import Sampling
from tfinspect.verify.difference import largest
from tfinspect.verify.draws import Draws
from tfinspect.verify.propositions import Settings

__all__ = ["Choose", "choosing"]

Choose: TypeAlias = Callable[[Tensor, Sampling, torch.Generator], Chosen]

V: Final = 31
TEMPERATURE: Final = 0.7
K: Final = 8
P: Final = 0.6
#: Draws whose frequencies are compared with probabilities: five standard deviations are below 0.02.
N_DRAWS: Final = 20_000


def choosing(settings: Settings, choose: Choose = sampling.choose) -> Findings:
    """B15.5.2: greedy takes the largest logit; sampling divides by the temperature, filters, and draws by chance."""
    logits = Draws(settings).normal(settings.trials, V)
    source = sampling.generator(settings.seed)

    def chosen(rule: Sampling, of: Tensor = logits) -> Chosen:
        return choose(of, rule, source)

    greedy = chosen(Sampling())
    tempered = chosen(Sampling(TEMPERATURE)).after
    by_definition = (logits.double() / TEMPERATURE).exp()
    by_definition /= by_definition.sum(dim=-1, keepdim=True)
    cut, nucleus = chosen(Sampling(TEMPERATURE, top_k=K)).after, chosen(Sampling(TEMPERATURE, top_p=P)).after
    many = logits[:1].expand(N_DRAWS, V)
    drawn, filtered = chosen(Sampling(TEMPERATURE), many).ids, chosen(Sampling(TEMPERATURE, K, P), many)
    frequency = torch.bincount(drawn, minlength=V) / N_DRAWS
    figures = (
        Figure("greedy ids below the largest logit", _not_largest(logits, greedy.ids), 0),
        Figure("largest |chance − softmax(logits/T)|", largest(tempered - by_definition), 0.0, 1e-12),
        Figure("rows with a wrong top-k", _wrong_top_k(by_definition, cut), 0),
        Figure("with a wrong top-p", _wrong_top_p(by_definition, nucleus), 0),
        Figure("largest |frequency − chance|", largest(frequency - tempered[0]), 0.0, 0.02),
        Figure("draws of a token that was dropped", int((filtered.after[0, filtered.ids] == 0).sum()), 0, detail=True),
        Figure("draws other than the largest logit", int((drawn != logits[0].argmax()).sum()), 0, differs=True),
    )
    shown = logits[0].argsort(descending=True)[:K].tolist()
    columns = (logits, by_definition, cut, nucleus)
    rows = tuple((*(float(column[0, i]) for column in columns), float(frequency[i])) for i in shown)
    labels = ("logit", f"T = {TEMPERATURE}", f"top-k {K}", f"top-p {P}", "drawn")
    notes = (f"T = {TEMPERATURE}, k = {K}, p = {P}; frequencies over {N_DRAWS:,} draws.",)
    return Findings(figures, (Matrix("The likeliest tokens of one row", rows, tuple(map(str, shown)), labels),), notes)


def _not_largest(logits: Tensor, ids: Tensor) -> int:
    """Rows in which some logit is larger than that of the chosen id."""
    return int((logits > logits.gather(-1, ids[:, None])).any(dim=-1).sum())


def _wrong_top_k(chances: Tensor, kept: Tensor) -> int:
    """Rows in which the kept tokens are not K, or one that was dropped is likelier than one that was kept."""
    wrong = [
        int((row > 0).sum()) != K or bool((all_of * (row == 0)).max() > all_of[row > 0].min())
        for all_of, row in zip(chances, kept, strict=True)
    ]
    return sum(wrong)


def _wrong_top_p(chances: Tensor, kept: Tensor) -> int:
    """Rows in which the kept tokens do not reach P, still reach it without their least likely, or are not the top."""
    wrong = []
    for all_of, row in zip(chances, kept, strict=True):
        inside = all_of[row > 0]
        reaches, spare = float(inside.sum()) >= P, float(inside.sum() - inside.min()) >= P
        wrong.append(not reaches or spare or bool((all_of * (row == 0)).max() > inside.min()))
    return sum(wrong)
