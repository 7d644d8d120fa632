"""The scalar multiplications of one forward pass, term by term, as formulas in n, d, d_ff, V, L and B.

    projections Q, K, V, O   4·n·d²      each block      scores QKᵀ     n²·d         each block
    MLP                      2·n·d·d_ff  each block      weights·V      n²·d         each block
    output head              n·d·V       once            look-up        0

    With d_ff = 4d a block has 12·n·d² + 2·n²·d. The causal half replaces n² by n(n + 1)/2, the pairs that the mask lets
    through; what runs is the full n². A batch multiplies everything by B. Kaplan et al. (2020), table 1, count per
    token, in FLOPs, and without the head; their context term 2·L·n·d is half of the full 4·L·n·d.

Source:  chapter A, 6.1 and exercise 11.4.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from tfinspect.closed_form.formula import letters, ratio, value
from tfinspect.results.flops import Causal, Elementwise, FlopTerm, Growth, Head, PerToken, SweepPoint
from tfinspect.spec import ModelSpec

__all__ = ["elementwise", "growth", "multiplications", "per_token", "sweep", "terms"]


def terms(
    spec: ModelSpec, *, seq_len: int, batch: int = 1, causal: Causal = "full", head: Head = "all"
) -> tuple[FlopTerm, ...]:
    """Every matrix product of one forward pass, in reading order, the head last.

    Units:   multiplications; FLOPs = 2 x.
    Agrees:  measured.flops.count, exactly, in total and by component.
    """
    bound = letters(spec, batch=batch, seq_len=seq_len)
    batched = "B·" if batch != 1 else ""

    def term(component: str, title: str, formula: str, part: Literal["linear", "quadratic", "head"]) -> FlopTerm:
        copies = 1 if part == "head" else spec.n_layers
        return FlopTerm(component, title, batched + formula, value(batched + formula, bound), copies, part)

    pairs = _pairs(causal)
    positions = "n·" if head == "all" or seq_len == 0 else ""  # no position is the last of none
    return (
        term("projections", "Q, K, V, O", "4·n·d²", "linear"),
        term("scores", "scores QKᵀ", f"{pairs}·d", "quadratic"),
        term("mix", "weights·V", f"{pairs}·d", "quadratic"),
        term("mlp", "MLP", "2·n·d·d_ff", "linear"),
        term("head", "output head", f"{positions}d·V", "head"),
    )


def multiplications(
    spec: ModelSpec, *, seq_len: int, batch: int = 1, causal: Causal = "full", head: Head = "all"
) -> int:
    """Multiplications of the whole model."""
    return sum(t.multiplications for t in terms(spec, seq_len=seq_len, batch=batch, causal=causal, head=head))


def elementwise(spec: ModelSpec, *, seq_len: int, batch: int = 1, causal: Causal = "full") -> tuple[Elementwise, ...]:
    """Output elements of everything that is no matrix product, in the whole model.

    Units:   evaluated output elements.
    Agrees:  measured.flops.count (eager attention), exactly.
    """
    bound = letters(spec, batch=batch, seq_len=seq_len)
    batched = "B·" if batch != 1 else ""

    def work(component: str, title: str, formula: str) -> Elementwise:
        return Elementwise(component, title, batched + formula, value(batched + formula, bound))

    n_norms = 2 * spec.n_layers + spec.final_norm
    return (
        work("norm", f"{n_norms:,} layer norms", "(2L + 1)·n·d" if spec.final_norm else "2L·n·d"),
        work("softmax", "softmax of the scores", f"L·h·{_pairs(causal)}"),
        work("activation", "activation of the MLP", "L·n·d_ff"),
        work("residual", "residual additions", "2L·n·d"),
    )


def growth(spec: ModelSpec, *, seq_len: int, batch: int = 1, causal: Causal = "full", head: Head = "all") -> Growth:
    """How a block's two parts compare at n, where they are equal, and what doubling n costs.

    Source:  chapter A, 6.1 (ratio n/6d, crossover 6d) and exercise 11.4 (doubling ratio), for d_ff = 4d and full
             attention. In the causal half n + 1 stands for 2n, so that the crossover is 4d + 2·d_ff − 1.
    """
    bound = letters(spec, batch=batch, seq_len=seq_len)
    batched = "B·" if batch != 1 else ""
    plain = spec.d_ff == 4 * spec.d_model
    if causal == "full":
        quadratic = "2·n²·d"
        quotient = "n/(6d)" if plain else "n/(2d + d_ff)"
        crossover = "6d" if plain else "2d + d_ff"
        doubling = "(12d + 4n)/(6d + n)" if plain else "2 + 2n/(2d + d_ff + n)"
    else:
        quadratic = "n(n + 1)·d"
        quotient = "(n + 1)/(12d)" if plain else "(n + 1)/(4d + 2·d_ff)"
        crossover = "12d − 1" if plain else "4d + 2·d_ff − 1"
        doubling = "2 + 2n/(12d + n + 1)" if plain else "2 + 2n/(4d + 2·d_ff + n + 1)"
    linear = "12·n·d²" if plain else "4·n·d² + 2·n·d·d_ff"
    meeting = value(crossover, bound)
    once, twice = (
        multiplications(spec, seq_len=length, batch=batch, causal=causal, head=head)
        for length in (seq_len, 2 * seq_len)
    )
    return Growth(
        block_formula=f"B·({linear} + {quadratic})" if batched else f"{linear} + {quadratic}",
        linear_formula=f"B·({linear})" if batched and not plain else batched + linear,
        quadratic_formula=batched + quadratic,
        ratio_formula=quotient,
        ratio=ratio(quotient, bound),
        crossover_formula=crossover,
        crossover=meeting,
        at_crossover=value(f"B·({linear})", {**bound, "n": meeting}),
        doubling_formula=doubling,
        block_doubling=ratio(doubling, bound) if seq_len else None,
        model_doubling=Fraction(twice, once) if seq_len else None,
    )


def per_token(spec: ModelSpec, *, seq_len: int, causal: Causal = "full", head: Head = "all") -> tuple[PerToken, ...]:
    """FLOPs of each token: matrices of the blocks, attention, and the head where it runs for each. Empty for n = 0.

    Source:  Kaplan et al. (2020), section 2.1: 2N for the matrices, and a context term that grows with n.
    """
    if seq_len == 0:
        return ()
    bound = letters(spec, seq_len=seq_len)
    matrices = "24·L·d²" if spec.d_ff == 4 * spec.d_model else "2·L·(4d² + 2·d·d_ff)"
    parts = [
        ("matrices of the blocks", matrices),
        ("attention, QKᵀ and weights·V", "4·L·n·d" if causal == "full" else "2·L·(n + 1)·d"),
    ]
    if head == "all":
        parts.append(("output head", "2·d·V"))
    return tuple(PerToken(title, formula, value(formula, bound)) for title, formula in parts)


def sweep(
    spec: ModelSpec, first: int, last: int, *, batch: int = 1, causal: Causal = "full", head: Head = "all"
) -> tuple[SweepPoint, ...]:
    """The work at n = first, 2·first, 4·first …, at last, and at the crossover where it lies between."""
    lengths = {last}
    length = first
    while length < last:
        lengths.add(length)
        length *= 2
    crossover = growth(spec, seq_len=first, causal=causal).crossover
    if first <= crossover <= last:
        lengths.add(crossover)
    points = []
    for seq_len in sorted(lengths):
        run = terms(spec, seq_len=seq_len, batch=batch, causal=causal, head=head)
        points.append(
            SweepPoint(
                seq_len,
                sum(t.each for t in run if t.part == "linear"),
                sum(t.each for t in run if t.part == "quadratic"),
                sum(t.multiplications for t in run),
            )
        )
    return tuple(points)


def _pairs(causal: Causal) -> str:
    """Pairs of positions that attention counts, in letters."""
    return "n²" if causal == "full" else "n(n + 1)/2"
