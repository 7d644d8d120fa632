"""How the work of a block and of the model grows with n: its two parts, where they are equal, and what doubling costs.

A block does a·n multiplications in its matrices and c·n² in attention, where c = 2d, or 2·h·d_head. They are equal at

    n* = a/c            all n² pairs: 6d for a = 12d², and d + h_kv·d_head + 3·d_ff/2 with grouped keys and a gate
    n* = 2a/c − 1       the causal half, with n(n + 1)/2 pairs

Under a window of w the causal half has w·n − w(w − 1)/2 pairs from n = w on, which grow no faster than the matrices do:
the parts are equal at w(w − 1)·c/(2(c·w − a)), or nowhere.

Of several kinds of blocks the last is meant: the block with experts, and the decoder's in an encoder–decoder, where n²
is self-attention, and what hangs on the source is in neither part. Where some blocks have a window, one without.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from math import ceil, floor

from tfinspect.closed_form.flops import multiplications
from tfinspect.closed_form.formula import gathered, letters, ratio, value
from tfinspect.closed_form.products import Pass, products
from tfinspect.closed_form.structure import stacks
from tfinspect.results.growth import Growth, SweepPoint, whole
from tfinspect.results.work import Causal, Head
from tfinspect.spec import ModelSpec

__all__ = ["growth", "sweep"]


def growth(
    spec: ModelSpec,
    *,
    seq_len: int,
    batch: int = 1,
    causal: Causal = "full",
    head: Head = "all",
    source_len: int | None = None,
) -> Growth:
    """How a block's two parts compare at n, where they are equal, and what doubling n costs.

    Source:  chapter A, 6.1 (ratio n/6d, crossover 6d) and exercise 11.4 (doubling ratio), for d_ff = 4d and full
             attention.
    """
    m = seq_len if source_len is None else source_len
    block = _Block.of(spec, causal)
    bound = letters(spec, batch=batch, seq_len=seq_len, source_len=m)
    linear, quadratic, source = block.linear, block.quadratic(seq_len), block.source
    once, twice = (
        multiplications(spec, seq_len=length, batch=batch, causal=causal, head=head, source_len=m)
        for length in (seq_len, 2 * seq_len)
    )

    def cost(length: int) -> int:
        return value(_sum(linear, block.quadratic(length), source), {**bound, "n": length})

    at = block.crossover(bound)
    return Growth(
        block=block.title,
        linear=value(_batched(linear, batch), bound),
        quadratic=value(_batched(quadratic, batch), bound),
        source=value(_batched(source, batch), bound),
        window=block.window,
        block_formula=_batched(_sum(linear, quadratic, source), batch),
        linear_formula=_batched(linear, batch),
        quadratic_formula=_batched(quadratic, batch),
        source_formula=_batched(source, batch),
        ratio_formula=block.ratio_formula(seq_len),
        ratio=ratio(block.ratio_formula(seq_len), bound),
        crossover_formula=at or "",
        crossover=whole(ratio(at, bound)) if at else None,
        at_crossover=whole(ratio(at, bound) * batch * value(block.each, bound)) if at else None,
        doubling_formula=block.doubling_formula(seq_len),
        block_doubling=Fraction(cost(2 * seq_len), cost(seq_len)) if seq_len else None,
        model_doubling=Fraction(twice, once) if seq_len else None,
    )


def sweep(
    spec: ModelSpec,
    first: int,
    last: int,
    *,
    batch: int = 1,
    causal: Causal = "full",
    head: Head = "all",
    source_len: int | None = None,
) -> tuple[SweepPoint, ...]:
    """The work at n = first, 2·first, 4·first …, at last, and at the crossover where it lies between.

    A crossover that is no whole number stands between two that are, and both are there.
    """
    lengths = {last}
    length = first
    while length < last:
        lengths.add(length)
        length *= 2
    crossover = growth(spec, seq_len=first, causal=causal).crossover
    if crossover is not None:
        lengths |= {near for near in (floor(crossover), ceil(crossover)) if first <= near <= last}
    points = []
    for seq_len in sorted(lengths):
        at = growth(spec, seq_len=seq_len, batch=batch, causal=causal, source_len=source_len)
        work = multiplications(spec, seq_len=seq_len, batch=batch, causal=causal, head=head, source_len=source_len)
        points.append(SweepPoint(seq_len, at.linear, at.quadratic, work))
    return tuple(points)


@dataclasses.dataclass(frozen=True)
class _Block:
    """One block in letters, without the batch."""

    title: str
    each: str
    """a: multiplications of each position in the matrices."""
    linear: str
    """a·n."""
    width: str
    """All heads side by side: half of c."""
    source: str
    """What hangs on the length of a source; "0" for nothing."""
    half: bool
    """Whether attention counts what a mask lets through, and not all pairs."""
    window: int
    """The window, where half counts by one; 0 for none."""
    quotient: str
    """a/c as a sum, or "" where its letters do not cancel."""

    @classmethod
    def of(cls, spec: ModelSpec, causal: Causal) -> _Block:
        """The last kind of block of a model, and of those without a window one, where there is any."""
        last = stacks(spec)[-1]
        n_windowed = spec.n_windowed(last.layers)
        half = causal == "half" and last.mixing[0].causal
        mixed = half and 0 < n_windowed < last.copies
        window = spec.window if half and n_windowed == last.copies else 0
        inside = [p for p in products(spec, Pass()) if p.stack == last.title]
        one = [p.formula for p in products(spec, Pass(rows="1")) if p.stack == last.title and p.part == "linear"]
        width, each = last.mixing[0].width, gathered(" + ".join(one), spec)
        try:
            quotient = gathered(f"({each})/(2·{width})", spec)
        except ValueError:
            quotient = ""
        return cls(
            title=last.title + (" without a window" if mixed else ""),
            each=each,
            linear=gathered(" + ".join(p.formula for p in inside if p.part == "linear"), spec),
            width=width,
            source=gathered(" + ".join(["0", *(p.formula for p in inside if p.part == "source")])),
            half=half,
            window=window,
            quotient=quotient,
        )

    def quadratic(self, n: int) -> str:
        """Both products of attention."""
        if not self.half:
            return gathered(f"2·n²·{self.width}")
        return f"{self._twice_the_pairs(n)}·{self.width}"

    def _twice_the_pairs(self, n: int) -> str:
        return "(2·w·n − w(w − 1))" if self._sees_less_than(n) else "n(n + 1)"

    def _sees_less_than(self, n: int) -> bool:
        return 0 < self.window <= n

    def ratio_formula(self, n: int) -> str:
        """The quadratic part over the linear one."""
        if self._sees_less_than(n):
            return f"{self._twice_the_pairs(n)}·{self.width}/(n·({self.each}))"
        number = "(n + 1)" if self.half else "n"
        if self.quotient:
            return f"{number}/({self._times_two(self.quotient)})"
        return f"{number}·{self._twice(self.width)}/({self._times_two(self.each)})"

    def crossover(self, bound: dict[str, int]) -> str | None:
        """n at which the two parts are equal; None where they never are."""
        quotient = self._times_two(self.quotient or self.each)
        if not self.quotient:
            quotient = f"({quotient})/({self._twice(self.width)})"
        without = f"{quotient} − 1" if self.half else quotient
        if not self.window or ratio(without, bound) <= self.window:
            return without
        beyond = f"2·w·{self.width} − ({self.each})" if " " in self.each else f"2·w·{self.width} − {self.each}"
        return f"w(w − 1)·{self.width}/({beyond})" if value(beyond, bound) > 0 else None

    def doubling_formula(self, n: int) -> str:
        """T(2n)/T(n) of the block; empty where a window opens between n and 2n, or a source adds what does not grow."""
        if self.source != "0" or (0 < self.window <= 2 * n and not self._sees_less_than(n)):
            return ""
        if self._sees_less_than(n):
            attention = f"{self._twice_the_pairs(n)}·{self.width}"
            return f"2 + w(w − 1)·{self.width}/(n·({self.each}) + {attention})"
        if self.quotient == "6d" and not self.half:
            return "(12d + 4n)/(6d + n)"
        one_more = " + 1" if self.half else ""
        if self.quotient:
            return f"2 + 2n/({self._times_two(self.quotient)} + n{one_more})"
        width = self._twice(self.width)
        n_more = f"(n{one_more})" if self.half else "n"
        return f"2 + 2·n·{width}/({self._times_two(self.each)} + {n_more}·{width})"

    def _times_two(self, formula: str) -> str:
        """Twice as much where half of the pairs count."""
        return self._twice(formula) if self.half else formula

    @staticmethod
    def _twice(formula: str) -> str:
        return gathered(f"2·({formula})")


def _sum(*parts: str) -> str:
    return " + ".join(part for part in parts if part != "0")


def _batched(formula: str, batch: int) -> str:
    if batch == 1 or formula == "0":
        return formula
    one = " " not in formula or formula.startswith(("n(n + 1)·", "(2·w·n"))
    return f"B·{formula}" if one else f"B·({formula})"
