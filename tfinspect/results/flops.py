"""The work of one forward pass: multiplications by term, how they grow with n, and what each token costs.

Unit: scalar multiplications of matrix products (one multiply-add = 1 multiplication = 2 FLOPs). Embedding look-ups
count 0. Elementwise work is no matrix product: it is listed apart, in evaluated output elements.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any, ClassVar, Literal

from tfinspect.results.agreement import Agreement
from tfinspect.results.subject import Subject
from tfinspect.results.table import Column, Row, Table

__all__ = ["Causal", "Elementwise", "FlopTerm", "Flops", "Growth", "Head", "PerToken", "SweepPoint", "exact"]

Causal = Literal["full", "half"]
"""Pairs that attention counts: all n², which is what runs, or the n(n + 1)/2 that the mask lets through."""

Head = Literal["all", "last"]
"""Positions that get logits: all n, or the last one, as in generation."""


@dataclasses.dataclass(frozen=True)
class FlopTerm:
    """One kind of matrix product."""

    component: str
    """"projections", "scores", "mix" (weights·V), "mlp" or "head"."""
    title: str
    """What a reader calls it."""
    formula: str
    """Multiplications of one copy, in letters."""
    each: int
    """Multiplications of one copy."""
    copies: int
    """How many copies run: one per block, or 1."""
    part: Literal["linear", "quadratic", "head"]
    """How a block's term grows with n, or that it belongs to the head."""

    @property
    def multiplications(self) -> int:
        """Multiplications of all copies."""
        return self.each * self.copies


@dataclasses.dataclass(frozen=True)
class Elementwise:
    """Work that is no matrix product, in evaluated output elements."""

    component: str
    """"norm", "softmax", "activation" or "residual"."""
    title: str
    formula: str
    evaluations: int
    """Output elements in the whole model."""


@dataclasses.dataclass(frozen=True)
class Growth:
    """How the work of a block and of the model grows with n."""

    block_formula: str
    linear_formula: str
    quadratic_formula: str
    ratio_formula: str
    ratio: Fraction
    """Quadratic over linear part of a block."""
    crossover_formula: str
    crossover: int
    """n at which the two parts are equal."""
    at_crossover: int
    """Multiplications of either part of a block at the crossover."""
    doubling_formula: str
    block_doubling: Fraction | None
    """T(2n)/T(n) of a block; None at n = 0."""
    model_doubling: Fraction | None
    """T(2n)/T(n) of the model with its head; None at n = 0."""


@dataclasses.dataclass(frozen=True)
class PerToken:
    """One share of the FLOPs that each token costs."""

    title: str
    formula: str
    flops: int


@dataclasses.dataclass(frozen=True)
class SweepPoint:
    """The work at one n."""

    seq_len: int
    linear: int
    """Multiplications of one block that grow with n."""
    quadratic: int
    """Multiplications of one block that grow with n²."""
    multiplications: int
    """Multiplications of the whole model, head included."""


@dataclasses.dataclass(frozen=True)
class Flops:
    """The multiplications of one forward pass by component, their growth with n, and the cost of a token."""

    schema: ClassVar[str] = "tfinspect.flops/1"

    subject: Subject
    seq_len: int
    """n: positions of each sequence."""
    batch: int
    """B: sequences."""
    causal: Causal
    head: Head
    terms: tuple[FlopTerm, ...]
    elementwise: tuple[Elementwise, ...]
    growth: Growth
    per_token: tuple[PerToken, ...]
    """What each token costs, in FLOPs; empty at n = 0. A head at the last position alone is no token's cost."""
    n_params: int
    """N of the 2N rule: all parameters."""
    sweep: tuple[SweepPoint, ...] = ()
    """The work over a range of n, where it was asked for."""
    seq_len_is_n_ctx: bool = False
    """Whether n was left out, and the model's n_ctx stands for it."""
    agreements: tuple[Agreement, ...] = ()

    @property
    def multiplications(self) -> int:
        """Multiplications of the whole model."""
        return sum(term.multiplications for term in self.terms)

    @property
    def flops(self) -> int:
        """FLOPs of the whole model: a multiply-add is two."""
        return 2 * self.multiplications

    @property
    def block(self) -> int:
        """Multiplications of one block."""
        return self.linear + self.quadratic

    @property
    def linear(self) -> int:
        """Multiplications of one block that grow with n."""
        return sum(term.each for term in self.terms if term.part == "linear")

    @property
    def quadratic(self) -> int:
        """Multiplications of one block that grow with n²."""
        return sum(term.each for term in self.terms if term.part == "quadratic")

    @property
    def by_component(self) -> dict[str, int]:
        """Multiplications of the whole model by component."""
        return {term.component: term.multiplications for term in self.terms}

    @property
    def n_matrix_params(self) -> int:
        """Parameters of the blocks' matrices: N of Kaplan et al. 2020, without embeddings, biases and norms."""
        spec = self.subject.spec
        return spec.n_layers * (4 * spec.d_model**2 + 2 * spec.d_model * spec.d_ff)

    @property
    def flops_per_token(self) -> int | None:
        """FLOPs of each token, with the head where it runs at all positions; None at n = 0."""
        return sum(part.flops for part in self.per_token) if self.per_token else None

    @property
    def beyond_context(self) -> bool:
        """Whether n is longer than the model allows."""
        return self.seq_len > self.subject.spec.n_ctx

    @property
    def conventions(self) -> str:
        """The spec, the run, and what counts as work."""
        pairs = "all n² pairs" if self.causal == "full" else "the n(n + 1)/2 pairs of the causal half"
        head = "head at all positions" if self.head == "all" else "head at the last position"
        chosen = " (the model's n_ctx; --n changes it)" if self.seq_len_is_n_ctx else ""
        return (
            f"{self.subject.opening()}. One forward pass of B = {self.batch:,}, n = {self.seq_len:,}{chosen}; "
            f"one multiply-add = 1 multiplication = 2 FLOPs; attention over {pairs}, {head}, look-up 0."
        )

    def tables(self) -> tuple[Table, ...]:
        """Work by component, growth, cost of a token, elementwise work, and the sweep where it was asked for."""
        per_token = (self._token_table(),) if self.per_token else ()
        sweep = (self._sweep_table(),) if self.sweep else ()
        return (self._work_table(), self._growth_table(), *per_token, self._elementwise_table(), *sweep)

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values: integers exact, fractions as the nearest number."""
        growth = self.growth
        return {
            "conventions": self.conventions,
            "model": self.subject.to_dict(),
            "seq_len": self.seq_len,
            "batch": self.batch,
            "causal": self.causal,
            "head": self.head,
            "beyond_n_ctx": self.beyond_context,
            "total_multiplications": self.multiplications,
            "total_flops": self.flops,
            "components": [
                {
                    "component": term.component,
                    "formula": term.formula,
                    "part": term.part,
                    "copies": term.copies,
                    "multiplications_each": term.each,
                    "multiplications": term.multiplications,
                    "share": self._share(term.multiplications),
                }
                for term in self.terms
            ],
            "block": {
                "multiplications": self.block,
                "formula": growth.block_formula,
                "linear_formula": growth.linear_formula,
                "linear_multiplications": self.linear,
                "quadratic_formula": growth.quadratic_formula,
                "quadratic_multiplications": self.quadratic,
                "quadratic_over_linear": exact(growth.ratio),
                "crossover_formula": growth.crossover_formula,
                "crossover_seq_len": growth.crossover,
                "multiplications_at_crossover": growth.at_crossover,
                "doubling_ratio": _if_any(growth.block_doubling),
            },
            "model_doubling_ratio": _if_any(growth.model_doubling),
            "tokens": self.batch * self.seq_len,
            "flops_per_token": self.flops_per_token,
            "flops_per_token_parts": [
                {"part": part.title, "formula": part.formula, "flops": part.flops} for part in self.per_token
            ],
            "two_n_rule": {
                "n_params": self.n_params,
                "flops_per_token": 2 * self.n_params,
                "n_matrix_params": self.n_matrix_params,
                "matrix_flops_per_token": 2 * self.n_matrix_params,
            },
            "elementwise": [dataclasses.asdict(work) for work in self.elementwise],
            "sweep": [
                {
                    "seq_len": point.seq_len,
                    "block_linear_multiplications": point.linear,
                    "block_quadratic_multiplications": point.quadratic,
                    "multiplications": point.multiplications,
                    "flops": 2 * point.multiplications,
                    "beyond_n_ctx": point.seq_len > self.subject.spec.n_ctx,
                }
                for point in self.sweep
            ],
        }

    def _share(self, multiplications: int) -> float | None:
        return multiplications / self.multiplications if self.multiplications else None

    def _work_table(self) -> Table:
        rows = [
            Row(
                {
                    "part": term.title,
                    "formula": term.formula,
                    "each": None if term.part == "head" else term.each,
                    "all": term.multiplications,
                    "share": self._share(term.multiplications),
                }
            )
            for term in self.terms
        ]
        spec, n_layers = self.subject.spec, self.subject.spec.n_layers
        blocks = Row(
            {
                "part": f"all {n_layers:,} blocks" if n_layers > 1 else "the only block",
                "formula": self.growth.block_formula if spec.d_ff == 4 * spec.d_model else "their sum",
                "each": self.block,
                "all": self.block * n_layers,
                "share": self._share(self.block * n_layers),
            },
            "subtotal",
        )
        total = Row(
            {"part": "multiplications", "all": self.multiplications, "share": self._share(self.multiplications)}
        )
        flops = Row({"part": "FLOPs", "formula": "2 × multiplications", "all": self.flops}, "total")
        columns = (
            Column("part", "part", "formula", keep=9),
            Column("formula", "formula (one block)", "formula", keep=4),
            Column("each", "one block", "count", keep=5),
            Column("all", "whole model", "count", keep=9),
            Column("share", "share", "share", keep=3),
        )
        notes = [
            "FLOPs are twice the multiplications: each multiplication comes with one addition.",
            "Shares are rounded for print; unrounded they sum to exactly 100 %.",
            *self.subject.notes(),
        ]
        if self.beyond_context:
            notes.insert(0, self._warning())
        ordered = (*rows[:-1], blocks, rows[-1], dataclasses.replace(total, role="subtotal"), flops)
        return Table("Multiplications of one forward pass", columns, ordered, tuple(notes))

    def _warning(self) -> str:
        n_ctx = self.subject.spec.n_ctx
        return (
            f"n = {self.seq_len:,} is beyond the model's n_ctx = {n_ctx:,}: the figures hold for the same model with "
            f"--ctx {self.seq_len}, and the check measures that one."
        )

    def _growth_table(self) -> Table:
        growth = self.growth
        either = f"either part at n* = {growth.crossover:,}"
        rows = (
            Row({"what": "linear part", "formula": growth.linear_formula, "count": self.linear}),
            Row({"what": "quadratic part", "formula": growth.quadratic_formula, "count": self.quadratic}),
            Row({"what": "quadratic / linear", "formula": growth.ratio_formula, "real": exact(growth.ratio)}),
            Row({"what": "quadratic part of a block", "real": self.quadratic / self.block if self.block else None}),
            Row({"what": "crossover n*, parts equal", "formula": growth.crossover_formula, "count": growth.crossover}),
            Row({"what": either, "count": growth.at_crossover}),
            Row(
                {
                    "what": "T(2n)/T(n), block",
                    "formula": growth.doubling_formula,
                    "real": _if_any(growth.block_doubling),
                }
            ),
            Row({"what": "T(2n)/T(n), model", "real": _if_any(growth.model_doubling)}),
        )
        columns = (
            Column("what", "one block", keep=9),
            Column("formula", "formula", "formula", keep=4),
            Column("count", "count", "count", keep=9),
            Column("real", "ratio", "real", keep=9),
        )
        return Table("Growth with n", columns, rows, self._where_n_stands())

    def _where_n_stands(self) -> tuple[str, ...]:
        crossover, n_ctx = self.growth.crossover, self.subject.spec.n_ctx
        lead = self.linear - self.quadratic
        if lead == 0:
            place = f"n = {self.seq_len:,}: both parts are equal."
        else:
            side, part = ("below", "linear") if lead > 0 else ("above", "quadratic")
            place = f"n = {self.seq_len:,} is {side} n*: the {part} part leads by {abs(lead):,} in each block."
        beyond = (f"n* = {crossover:,} is beyond the model's n_ctx = {n_ctx:,}.",) if crossover > n_ctx else ()
        return (place, *beyond)

    def _token_table(self) -> Table:
        n_tokens = self.batch * self.seq_len
        cost, rule, matrices = self.flops_per_token or 0, 2 * self.n_params, self.n_matrix_params
        total = "FLOPs per token" if self.head == "all" else "FLOPs per token, no head"
        rows = (
            *(Row({"part": part.title, "formula": part.formula, "count": part.flops}) for part in self.per_token),
            Row({"part": total, "count": cost}, "total"),
            Row(
                {
                    "part": "2N, N = all parameters",
                    "formula": f"2·{self.n_params:,}",
                    "count": rule,
                    "real": cost / rule,
                }
            ),
            Row(
                {
                    "part": "2N, N = matrices of blocks",
                    "formula": f"2·{matrices:,}",
                    "count": 2 * matrices,
                    "real": cost / (2 * matrices),
                }
            ),
        )
        columns = (
            Column("part", "each token", "formula", keep=9),
            Column("formula", "formula", "formula", keep=4),
            Column("count", "FLOPs", "count", keep=9),
            Column("real", "cost / 2N", "real", keep=9),
        )
        notes = [
            f"{n_tokens:,} {'token' if n_tokens == 1 else 'tokens'} in this forward pass (B·n).",
            "2N takes each parameter for one multiply-add per token and leaves attention over n out. Kaplan et al. "
            "(2020, 2.1) take N without embeddings: the matrices of the blocks.",
        ]
        if self.head == "last":
            once = 2 * self.by_component["head"] // self.batch
            notes.insert(1, f"The head adds {once:,} FLOPs once per sequence.")
        return Table("Cost of a token", columns, rows, tuple(notes))

    def _elementwise_table(self) -> Table:
        rows = tuple(Row({"work": w.title, "formula": w.formula, "count": w.evaluations}) for w in self.elementwise)
        columns = (
            Column("work", "work", keep=9),
            Column("formula", "formula (whole model)", "formula", keep=4),
            Column("count", "evaluations", "count", keep=9),
        )
        notes = (
            "An evaluation is one output element; none of this is in the totals above.",
            "Counted nowhere: bias additions, scaling and masking of scores, adding or rotating positions, dropout.",
        )
        return Table("Elementwise work, counted apart", columns, rows, notes)

    def _sweep_table(self) -> Table:
        rows = tuple(self._sweep_row(point) for point in self.sweep)
        columns = (
            Column("n", "n", "count", keep=9),
            Column("linear", "linear", "count", keep=6),
            Column("quadratic", "quadratic", "count", keep=6),
            Column("ratio", "ratio", "real", keep=7),
            Column("bar", "linear | quadratic", "bar", keep=4),
            Column("mark", "", keep=9),
        )
        notes = (
            "Multiplications of one block; ratio = quadratic / linear.",
            f"The crossover n* = {self.growth.crossover:,} is marked n*; + marks n beyond the model's n_ctx.",
        )
        return Table("Linear against quadratic over n", columns, rows, notes)

    def _sweep_row(self, point: SweepPoint) -> Row:
        mark = "n*" if point.seq_len == self.growth.crossover else ""
        beyond = "+" if point.seq_len > self.subject.spec.n_ctx else ""
        return Row(
            {
                "n": point.seq_len,
                "linear": point.linear,
                "quadratic": point.quadratic,
                "ratio": point.quadratic / point.linear,
                "bar": (("linear", point.linear), ("quadratic", point.quadratic)),
                "mark": mark + beyond,
            }
        )


def exact(number: Fraction) -> int | float:
    """An integer where the fraction is one, else the nearest float."""
    return number.numerator if number.denominator == 1 else float(number)


def _if_any(number: Fraction | None) -> int | float | None:
    return None if number is None else exact(number)
