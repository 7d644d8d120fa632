"""Which rows a token touches, and whether a row knows how many come after it."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from tfinspect.results.checks import Findings, Matrix
from tfinspect.verify.difference import largest
from tfinspect.verify.own_model.case import (
    EVALUATION,
    NOISE,
    Case,
    Gap,
    NotApplicable,
    apart,
    rounding,
    with_and_without_noise,
)
from tfinspect.verify.own_model.subject import ForwardRaised, Subject

__all__ = ["causality", "prefix"]

#: Prefixes that are tried of a long sequence.
MOST_PREFIXES: Final = 16


def causality(case: Case) -> Findings:
    """For each position, the rows that change when its token does, and by how much."""
    if case.seq_len < 2:
        raise NotApplicable("one position has no later one; a longer --n shows it")
    case.require_comparable()
    reached: list[Tensor] = []  # [T tokens, T rows], one for each way

    def leak(subject: Subject, training: bool) -> Gap:
        seen, tolerance = torch.zeros(case.seq_len, case.seq_len, dtype=torch.float64), 0.0
        for tokens, others in zip(case.batches, case.others, strict=True):
            base = subject.logits(tokens, training=training)
            tolerance = max(tolerance, subject.tolerance(base))
            seen = seen.maximum(_reach(subject, tokens, others, base, training))
        reached.append(seen)
        return Gap(largest(seen.tril(-1)), tolerance)

    ways, notes = case.each_way(leak)
    matrices = dict(zip(ways, reached, strict=True))
    case.open_in["causality"] = {way for way, gap in ways.items() if not gap.closed}
    shown = next((way for way, gap in ways.items() if not gap.closed), EVALUATION)
    leaks = (_leaks(matrices[shown], ways[shown], shown),) if case.open_in["causality"] else ()
    idle = () if leaks else _idle(matrices[NOISE])
    return Findings(
        tuple(gap.figure(way) for way, gap in ways.items()),
        (Matrix(f"Largest change of a logit in each row, by the token that changes ({shown})",
                tuple(tuple(row) for row in matrices[shown].tolist())),),
        (*leaks, *idle, *rounding(ways.values()), *notes),
    )  # fmt: skip


def _reach(subject: Subject, tokens: Tensor, others: Tensor, base: Tensor, training: bool) -> Tensor:
    """Largest change of a logit in each row (across) when one token changes (down), [T, T]."""
    rows = []
    for position in range(tokens.shape[1]):
        changed = tokens.clone()
        changed[:, position] = others[:, position]
        rows.append(apart(subject.logits(changed, training=training), base).amax(dim=(0, 2)))
    return torch.stack(rows)


def _leaks(seen: Tensor, gap: Gap, way: str) -> str:
    """The leaks in one sentence: how many, the largest, and how far ahead rows look."""
    pairs = [(row, token) for token, row in (seen.tril(-1) > gap.tolerance).nonzero().tolist()]
    row, token = max(pairs, key=lambda pair: float(seen[pair[1], pair[0]]))
    ahead, n = max(j - i for i, j in pairs), seen.shape[0]
    return (
        f"{way.capitalize()}: {len(pairs)} of {n * (n - 1) // 2} pairs of a row and a later token leak; token {token} "
        f"changes row {row} most, by {gap.size:.1e}; rows look up to {ahead} position{'s' * (ahead > 1)} ahead."
    )


def _idle(seen: Tensor) -> tuple[str, ...]:
    """What the model does not look at, which makes it causal for free."""
    notes = []
    if not seen.triu(1).any():
        notes.append("No row depends on an earlier token either: nothing is mixed between positions.")
    if not seen.diagonal().any():
        notes.append("No row depends on its own token.")
    return tuple(notes)


def prefix(case: Case) -> Findings:
    """How far the rows of a prefix, passed alone, are from the same rows of the whole."""
    if case.seq_len < 2:
        raise NotApplicable("one position has no shorter prefix")
    case.require_comparable()
    lengths = _spread(case.seq_len - 1)
    first: list[str] = []

    def shorter(subject: Subject) -> Gap:
        worst, tolerance = 0.0, 0.0
        for tokens in case.batches:
            whole = subject.logits(tokens)
            tolerance = max(tolerance, subject.tolerance(whole))
            for length in lengths:
                rows = apart(subject.logits(tokens[:, :length]), whole[:, :length]).amax(dim=(0, 2))
                if float(rows.max()) > tolerance and not first:
                    row = int((rows > tolerance).nonzero()[0])
                    first.append(f"The first {length} of {case.seq_len} tokens, alone, give row {row} other logits.")
                worst = max(worst, float(rows.max()))
        return Gap(worst, tolerance)

    try:
        ways = with_and_without_noise(case, shorter)
    except ForwardRaised as error:
        raise NotApplicable(f"it takes no shorter sequence: {error.message}") from None
    return Findings(tuple(gap.figure(way) for way, gap in ways.items()), notes=tuple(first))


def _spread(longest: int) -> list[int]:
    """Lengths from 1 to the longest: all of them, or an even selection with both ends."""
    if longest <= MOST_PREFIXES:
        return list(range(1, longest + 1))
    return sorted({1 + round(k * (longest - 1) / (MOST_PREFIXES - 1)) for k in range(MOST_PREFIXES)})
