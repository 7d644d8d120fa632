"""The work of one forward pass: multiplications by term, how they grow with n, and what each token costs.

Unit: scalar multiplications of matrix products (one multiply-add = 1 multiplication = 2 FLOPs). Embedding look-ups
count 0. Elementwise work is no matrix product: it is listed apart, in evaluated output elements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from tfinspect.results.agreement import Agreement
from tfinspect.results.growth import Growth, SweepPoint, exact, if_any, sweep_table
from tfinspect.results.report import Answer
from tfinspect.results.subject import Subject
from tfinspect.results.table import Cell, Column, Row, Table
from tfinspect.results.work import COMPONENTS, Causal, Elementwise, FlopTerm, Head, PerToken, by_component

if TYPE_CHECKING:
    from tfinspect.results.passes import Passes
    from tfinspect.results.rules import Rules

__all__ = ["Flops"]


@dataclasses.dataclass(frozen=True)
class Flops(Answer):
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
    n_matrix_params: int
    """Parameters of the blocks' matrices: N of Kaplan et al. 2020, without embeddings, biases and norms."""
    n_active_params: int | None = None
    """Parameters that take part in each token; None where all do."""
    n_active_matrix_params: int | None = None
    """Those in the blocks' matrices; None where all do."""
    source_len: int | None = None
    """m: positions that the encoder of an encoder–decoder reads; None for other models."""
    sweep: tuple[SweepPoint, ...] = ()
    """The work over a range of n, where it was asked for."""
    passes: Passes | None = None
    """The work of one pass of each kind, where it was asked for."""
    rules: Rules | None = None
    """Rules of thumb beside the exact figures, where they were asked for."""
    source_len_is_n: bool = False
    """Whether m was left out, and n stands for it."""
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
        """Multiplications of one block, of the last kind where there are several."""
        return self.growth.total

    @property
    def linear(self) -> int:
        """Multiplications of one block that grow with n."""
        return self.growth.linear

    @property
    def quadratic(self) -> int:
        """Multiplications of one block that grow with n²."""
        return self.growth.quadratic

    @property
    def by_component(self) -> dict[str, int]:
        """Multiplications of the whole model by component."""
        return by_component(self.terms)

    @property
    def flops_per_token(self) -> int | Fraction | None:
        """FLOPs of each token, with the head where it runs at all positions; None at n = 0."""
        return sum(part.flops for part in self.per_token if not part.source) if self.per_token else None

    @property
    def flops_per_source_token(self) -> int | None:
        """FLOPs of each token that an encoder reads before a decoder runs; None where there is none."""
        of_source = [int(part.flops) for part in self.per_token if part.source]
        return sum(of_source) if of_source else None

    @property
    def beyond_context(self) -> bool:
        """Whether a sequence is longer than the model allows."""
        return max(self.seq_len, self.source_len or 0) > self.subject.spec.n_ctx

    @property
    def conventions(self) -> str:
        """The spec, the run, and what counts as work."""
        spec = self.subject.spec
        pairs = "all n² pairs" if self.causal == "full" else "the n(n + 1)/2 pairs of the causal half"
        if self.causal == "half" and spec.window:
            pairs += ", in a window w·n − w(w − 1)/2"
        if not spec.causal:
            pairs = "all n² pairs, as an encoder has no mask"
        head = "head at all positions" if self.head == "all" else "head at the last position"
        if spec.head == "none":
            head = "no head"
        chosen = " (the model's n_ctx; --n changes it)" if self.seq_len_is_n_ctx else ""
        source = "" if self.source_len is None else f", after a source of m = {self.source_len:,}"
        if self.source_len is not None and self.source_len_is_n:
            source += " (as many; --source-len changes it)"
        return (
            f"{self.subject.opening()}. One forward pass of B = {self.batch:,}, n = {self.seq_len:,}{chosen}{source}; "
            f"one multiply-add = 1 multiplication = 2 FLOPs; attention over {pairs}, {head}, look-up 0."
        )

    def tables(self) -> tuple[Table, ...]:
        """Work by component, growth, cost of a token, elementwise work, and whatever else was asked for."""
        n_ctx = self.subject.spec.n_ctx
        per_token = (self._token_table(),) if self.per_token else ()
        sweep = (sweep_table(self.sweep, self.growth, n_ctx),) if self.sweep else ()
        passes = () if self.passes is None else self.passes.tables()
        rules = () if self.rules is None else self.rules.tables()
        growth = self.growth.table(self.seq_len, n_ctx)
        return (self._work_table(), growth, *per_token, self._elementwise_table(), *sweep, *passes, *rules)

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values: integers exact, fractions as the nearest number."""
        return {
            "conventions": self.conventions,
            "model": self.subject.to_dict(),
            "seq_len": self.seq_len,
            "source_len": self.source_len,
            "batch": self.batch,
            "causal": self.causal,
            "head": self.head,
            "beyond_n_ctx": self.beyond_context,
            "total_multiplications": self.multiplications,
            "total_flops": self.flops,
            "components": [term.to_dict(self._share(term.multiplications)) for term in self.terms],
            "block": self.growth.to_dict(),
            "model_doubling_ratio": if_any(self.growth.model_doubling),
            "tokens": self.batch * self.seq_len,
            "flops_per_token": if_any(self.flops_per_token),
            "flops_per_source_token": self.flops_per_source_token,
            "flops_per_token_parts": [
                {"part": part.title, "formula": part.formula, "flops": exact(part.flops), "source": part.source}
                for part in self.per_token
            ],
            "two_n_rule": {
                "n_params": self.n_params,
                "flops_per_token": 2 * self.n_params,
                "n_matrix_params": self.n_matrix_params,
                "matrix_flops_per_token": 2 * self.n_matrix_params,
                "n_active_params": self.n_active_params,
                "n_active_matrix_params": self.n_active_matrix_params,
            },
            "elementwise": [dataclasses.asdict(work) for work in self.elementwise],
            "sweep": [point.to_dict(self.subject.spec.n_ctx) for point in self.sweep],
            "passes": None if self.passes is None else self.passes.to_dict(),
            "rules": None if self.rules is None else self.rules.to_dict(),
        }

    def _share(self, multiplications: int) -> float | None:
        return multiplications / self.multiplications if self.multiplications else None

    def _work_table(self) -> Table:
        kinds = list(dict.fromkeys(term.stack for term in self.terms if term.stack))
        rows = [row for kind in kinds for row in self._rows_of(kind, alone=len(kinds) == 1)]
        rows += [self._row(term) for term in self.terms if not term.stack]
        share = self._share(self.multiplications)
        rows.append(Row({"part": "multiplications", "all": self.multiplications, "share": share}, "subtotal"))
        rows.append(Row({"part": "FLOPs", "formula": "2 × multiplications", "all": self.flops}, "total"))
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
        if self.causal == "half" and self.subject.spec.causal:
            notes.insert(0, "What runs is the full square: what the mask hides is computed, and thrown away.")
        elif self.subject.spec.window:
            notes.insert(0, "A window hides scores, and saves no work where attention runs in full; see --causal half.")
        if self.beyond_context:
            notes.insert(0, self._warning())
        return Table("Multiplications of one forward pass", columns, tuple(rows), tuple(notes))

    def _rows_of(self, kind: str, *, alone: bool) -> Iterator[Row]:
        """The work of one kind of block: under a heading where there are several kinds."""
        terms = [term for term in self.terms if term.stack == kind]
        copies = max(term.copies for term in terms)
        if not alone:
            yield Row({"part": f"{kind}, {copies:,} of them" if copies > 1 else f"the only {kind}"}, "group")
        for term in terms:
            yield self._row(term, indent=0 if alone else 1)
        all_of_them = sum(term.multiplications for term in terms)
        like = all(term.copies == copies for term in terms)
        short = (
            alone and self.subject.spec.d_ff == 4 * self.subject.spec.d_model and len(self.growth.block_formula) < 30
        )
        yield Row(
            {
                "part": f"all {copies:,} {kind.replace('block', 'blocks')}" if copies > 1 else f"the only {kind}",
                "formula": self.growth.block_formula if short else "their sum",
                "each": sum(term.each for term in terms) if like else None,
                "all": all_of_them,
                "share": self._share(all_of_them),
            },
            "subtotal",
        )

    def _row(self, term: FlopTerm, indent: int = 0) -> Row:
        cells: dict[str, Cell] = {
            "part": term.title,
            "formula": term.formula,
            "each": term.each if term.stack else None,
            "all": term.multiplications,
            "share": self._share(term.multiplications),
        }
        return Row(cells, indent=indent)

    def _warning(self) -> str:
        n_ctx, longest = self.subject.spec.n_ctx, max(self.seq_len, self.source_len or 0)
        letter = "n" if longest == self.seq_len else "m"
        return (
            f"{letter} = {longest:,} is beyond the model's n_ctx = {n_ctx:,}: the figures hold for the same model with "
            f"--ctx {longest}, and the check measures that one."
        )

    def _token_table(self) -> Table:
        n_tokens, cost = self.batch * self.seq_len, self.flops_per_token or 0
        no_head = self.head == "last" and self.subject.spec.head != "none"
        rows = [self._share_row(part) for part in self.per_token if not part.source]
        rows.append(Row({"part": f"FLOPs per token{', no head' * no_head}", "count": exact(cost)}, "total"))
        notes = [f"{n_tokens:,} {'token' if n_tokens == 1 else 'tokens'} in this forward pass (B·n)."]
        if self.source_len is None:
            rows += self._two_n_rows(cost)
            notes.append(
                "2N takes each parameter for one multiply-add per token and leaves attention over n out. Kaplan et al. "
                "(2020, 2.1) take N without embeddings: the matrices of the blocks."
            )
        else:
            of_source = self.flops_per_source_token
            rows += [self._share_row(part) for part in self.per_token if part.source]
            rows.append(Row({"part": "FLOPs per token of the source", "count": of_source}, "total"))
            notes.append(f"{self.batch * self.source_len:,} tokens of the source go through the encoder (B·m).")
        once = [t for t in self.terms if t.part == "head" and (t.component == "pooler" or self.head == "last")]
        for component, multiplications in by_component(once).items():
            what = COMPONENTS[component].removeprefix("output ")
            notes.insert(1, f"The {what} adds {2 * multiplications // self.batch:,} FLOPs once per sequence.")
        columns = (
            Column("part", "each token", "formula", keep=9),
            Column("formula", "formula", "formula", keep=4),
            Column("count", "FLOPs", "count", keep=9),
            Column("real", "cost / 2N", "real", keep=9),
        )
        return Table("Cost of a token", columns, tuple(rows), tuple(notes))

    @staticmethod
    def _share_row(part: PerToken) -> Row:
        return Row({"part": part.title, "formula": part.formula, "count": exact(part.flops)})

    def _two_n_rows(self, cost: int | Fraction) -> Iterator[Row]:
        matrices = "matrices of blocks" + ", active" * (self.n_active_matrix_params is not None)
        for title, n_params in (
            ("all parameters", self.n_params),
            ("active parameters", self.n_active_params),
            (matrices, self.n_active_matrix_params or self.n_matrix_params),
        ):
            if n_params is not None:
                part, formula, real = f"2N, N = {title}", f"2·{n_params:,}", float(cost / (2 * n_params))
                yield Row({"part": part, "formula": formula, "count": 2 * n_params, "real": real})

    def _elementwise_table(self) -> Table:
        rows = tuple(Row({"work": w.title, "formula": w.formula, "count": w.evaluations}) for w in self.elementwise)
        columns = (
            Column("work", "work", keep=9),
            Column("formula", "formula (whole model)", "formula", keep=4),
            Column("count", "evaluations", "count", keep=9),
        )
        experts = ", sums over experts" if self.subject.spec.n_experts else ""
        notes = (
            "An evaluation is one output element; none of this is in the totals above.",
            "Counted nowhere: bias additions, scaling and masking of scores, adding or rotating positions, dropout"
            f"{experts}.",
        )
        return Table("Elementwise work, counted apart", columns, rows, notes)
