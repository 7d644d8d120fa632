"""Every named tensor of one forward pass, from token ids to logits.

Units:  parameters; multiplications of matrix products (1 multiply-add = 1 multiplication = 2 FLOPs); bytes of the
        tensor itself.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from tfinspect.dims import brackets
from tfinspect.results.agreement import Agreement
from tfinspect.results.report import Answer
from tfinspect.results.subject import Subject
from tfinspect.results.table import Cell, Column, Given, Row, Table
from tfinspect.results.texts import Text, one_line, text_table
from tfinspect.results.weights import Filled

__all__ = ["SHORT_DTYPES", "STEPS", "Candidate", "Op", "Stage", "Stats", "TensorRow", "Trace"]

Stage = Literal["", "encoder", "decoder"]
"""One of the two stacks of an encoder–decoder; empty in a model of one."""

#: The textbook's eight steps, as a causal decoder takes them.
STEPS: Final[Mapping[int, str]] = {
    1: "text becomes token ids",
    2: "each id picks a row of the token table",
    3: "positions are added",
    4: "attention: each position gathers from the ones before it",
    5: "first residual addition",
    6: "MLP, position by position, and second residual addition",
    7: "after the last block",
    8: "hidden states become logits",
}

#: How dtypes are written before sizes, as torch's own graphs do: f32[1, 16, 768].
SHORT_DTYPES: Final[Mapping[str, str]] = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "bool": "b8",
}

#: Short names where the last word of the path says too little.
_LABELS: Final[Mapping[str, str]] = {
    "embed.tokens": "tok_emb",
    "embed.positions": "pos_emb",
    "embed.types": "type_emb",
    "embed.sum": "emb_sum",
    "embed.norm": "emb_norm",
    "attn.out": "attn_out",
    "mlp.out": "mlp_out",
    "mlm.activated": "mlm_activated",
    "mlm.norm": "mlm_norm",
    "final_norm": "ln_f",
    "next.logits": "next",
    "next.ids": "next_ids",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Stats:
    """Values of a tensor in figures; None where no value is finite."""

    mean: float | None
    std: float | None
    """Population standard deviation."""
    minimum: float | None
    maximum: float | None
    non_finite: int
    """How many values are infinite or not a number, such as the −∞ of masked scores; left out of the others."""


@dataclasses.dataclass(frozen=True, slots=True)
class Op:
    """One operator that torch dispatched on the way to a tensor."""

    operator: str
    """Its name in torch, "aten.addmm"."""
    sizes: tuple[int, ...]
    """Shape of its first output."""
    multiplications: int
    """By its own formula from the shapes that it met; 0 for elementwise work and movement."""


@dataclasses.dataclass(frozen=True, slots=True)
class TensorRow:
    """One named tensor."""

    name: str
    """Path in the model: "blocks.3.attn.scores"; layers count from 0."""
    step: int
    """The textbook's step, 1 to 8."""
    heading: str
    """What its step does, in words."""
    stack: Stage
    """The stack that it is in."""
    block: int | None
    """Which block of the stack it is in, from 0; None outside the blocks."""
    equation: str
    """What makes it, in the textbook's letters."""
    dims: str
    """Its shape in symbols."""
    sizes: tuple[int, ...]
    """Its shape as it was measured."""
    dtype: str
    n_bytes: int
    params: int
    """Parameters that take part in making it and in no earlier row."""
    multiplications: int
    """Multiplications of the matrix product that makes it."""
    stats: Stats | None = None
    ops: tuple[Op, ...] = ()

    @property
    def label(self) -> str:
        """Its short name, which no other tensor of the same block has: "scores", "mlp_out", "cross_q"."""
        place = self.name.split(".")
        place = place[1:] if place[0] in ("encoder", "decoder") else place
        place = place[2:] if self.block is not None else place
        return "_".join(place) if place[0] == "cross" else _LABELS.get(".".join(place), place[-1])


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """One possible next token."""

    token_id: int
    probability: float
    """Softmax of the last position's logits, no temperature."""
    text: str | None = None
    """What the token says, where it is one of GPT-2's."""


@dataclasses.dataclass(frozen=True)
class Trace(Answer):
    """Every named tensor of one forward pass, with the steps of the textbook as headings."""

    schema: ClassVar[str] = "tfinspect.trace/1"
    main_table: ClassVar[str] = "Tensors"

    subject: Subject
    texts: tuple[Text, ...]
    seq_len: int
    """T: positions of each row, padding included."""
    device: Literal["cpu", "meta"]
    seed: int
    """Seed of the weights, where they are random."""
    tensors: tuple[TensorRow, ...]
    """All tensors, whatever is shown."""
    shown_blocks: tuple[int, ...]
    """Blocks that the tables show in full; the others are folded."""
    candidates: tuple[tuple[Candidate, ...], ...] = ()
    """Likeliest next tokens after each text, where the generation step was asked for."""
    sources: tuple[Text, ...] = ()
    """What the encoder of an encoder–decoder read; empty in a model of one stack."""
    source_len: int = 0
    """M: positions of each source, padding included."""
    source_given: bool = False
    """Whether sources were given; otherwise the encoder read what the decoder reads."""
    tokenizer_note: str = ""
    """What to know of the ids where the model's tokenizer is another than the one that split the texts."""
    filled: Filled = dataclasses.field(default_factory=Filled)
    """Where the numbers of the parameters come from, and their format."""
    agreements: tuple[Agreement, ...] = ()

    @property
    def batch(self) -> int:
        """B: number of texts."""
        return len(self.texts)

    @property
    def params(self) -> int:
        """Parameters of the whole model: the sum over all rows."""
        return sum(row.params for row in self.tensors)

    @property
    def active_params(self) -> int | None:
        """Parameters that take part in each token; None where all do."""
        spec = self.subject.spec
        if not spec.n_experts:
            return None
        return spec.active(self.params, sum(row.params for row in self.tensors if row.name.endswith(".mlp.experts")))

    @property
    def multiplications(self) -> int:
        """Multiplications of the whole pass: the sum over all rows."""
        return sum(row.multiplications for row in self.tensors)

    @property
    def padded(self) -> bool:
        """Whether some text is shorter than the batch."""
        return any(len(text.ids) < self.seq_len for text in self.texts)

    @property
    def conventions(self) -> str:
        """The spec, the run, and what is counted."""
        meta = self.device == "meta"
        run = f"{self.filled.dtype}, on the meta device, no values" if meta else self.filled.words(self.seed)
        source = f"[B, M] = {brackets((self.batch, self.source_len))} source ids and " if self.sources else ""
        return (
            f"{self.subject.opening()}. One forward pass over {source}[B, T] = {brackets((self.batch, self.seq_len))}, "
            f"{run}. MACs: multiplications of matrix products, 1 multiply-add = 1 multiplication = 2 FLOPs; "
            f"{', '.join(self._counted())}."
        )

    def _counted(self) -> Iterator[str]:
        """What is counted how, where a reader may count otherwise."""
        spec = self.subject.spec
        yield "causal attention in full" if spec.architecture == "decoder" else "attention in full"
        if spec.window:
            yield "n² under a window too"
        if spec.n_experts:
            yield f"each token through {spec.n_experts_per_token} of {spec.n_experts} experts"
        if spec.head != "none":
            yield "head at all positions"
        yield "look-ups 0"
        if spec.head != "none":
            yield "tied head counted once"

    def unfolded(self) -> Trace:
        """The same trace with every block in full."""
        blocks = dict.fromkeys(row.block for row in self.tensors if row.block is not None)
        return dataclasses.replace(self, shown_blocks=tuple(blocks))

    def tables(self) -> tuple[Table, ...]:
        """Texts, tensors, and where they were asked for, statistics and next tokens."""
        stats = (self._stats_table(),) if any(row.stats for row in self.tensors) else ()
        candidates = (self._candidate_table(),) if self.candidates else ()
        return (*self._text_tables(), self._tensor_table(), *stats, *candidates)

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values: every tensor of every block, whatever the tables fold."""
        return {
            "conventions": self.conventions,
            "model": self.subject.to_dict(),
            "batch": self.batch,
            "seq_len": self.seq_len,
            "device": self.device,
            "seed": self.seed if self.device == "cpu" and self.filled.random else None,
            "weights": self.filled.to_dict(),
            "texts": [text.to_dict(self.seq_len) for text in self.texts],
            "source_len": self.source_len or None,
            "sources": [text.to_dict(self.source_len) for text in self.sources] or None,
            "source_given": self.source_given if self.sources else None,
            "tokenizer_note": self.tokenizer_note or None,
            "tensors": [_row_dict(row) for row in self.tensors],
            "total_params": self.params,
            "active_params": self.active_params,
            "total_multiplications": self.multiplications,
            "total_flops": 2 * self.multiplications,
            "next": [[dataclasses.asdict(c) for c in row] for row in self.candidates] or None,
        }

    def _text_tables(self) -> Iterator[Table]:
        """What the model reads: one table, or one for each stack."""
        notes = [self.tokenizer_note] if self.tokenizer_note else []
        counted = self.device == "meta" and bool(notes)  # ids of another vocabulary, of which the number counts alone

        def table(title: str, texts: Sequence[Text], length: int, causal: bool, notes: Sequence[str]) -> Table:
            shown = not (counted and any(text.text is not None for text in texts))
            return text_table(title, texts, length, causal=causal, show_ids=shown, notes=notes)

        if not self.sources:
            yield table("Input", self.texts, self.seq_len, self.subject.spec.causal, notes)
            return
        same = () if self.source_given else ("No source is given (--source), so the encoder reads the same texts.",)
        yield table("Source: what the encoder reads", self.sources, self.source_len, False, same)
        yield table("Input: what the decoder reads", self.texts, self.seq_len, True, notes)

    def _tensor_table(self) -> Table:
        columns = (
            Column("name", "tensor", keep=9),
            Column("dims", "shape", "shape", keep=9),
            Column("sizes", "dtype and sizes", "shape", keep=9),
            Column("bytes", "bytes", "binary", keep=3),
            Column("params", "parameters", "count", keep=5),
            Column("multiplications", "MACs", "count", keep=6),
            Column("equation", "made by", "formula", keep=1),
        )
        rows = tuple(self._tensor_rows())
        total = Row({"name": "total", "params": self.params, "multiplications": self.multiplications}, "total")
        return Table("Tensors", columns, (*rows, total), tuple(self._tensor_notes()))

    def _tensor_notes(self) -> Iterator[str]:
        spec, active = self.subject.spec, self.active_params
        if self.subject.incomplete:
            yield self.subject.notes()[0]
        if active is not None:
            yield (
                f"Of {self.params:,} parameters in total, {active:,} are active in each token "
                f"({active / self.params:.1%}): it goes through {spec.n_experts_per_token} of {spec.n_experts} experts."
            )
        if spec.n_kv_heads != spec.n_heads:
            yield f"Each of {spec.n_kv_heads} key heads serves {spec.n_heads // spec.n_kv_heads} query heads."
        if spec.positions == "relative":
            yield "The relative bias of a stack stands on the scores of its first block, and serves all."
        if self.candidates and self.filled.random:
            yield "The weights are random, so the values mean nothing; shapes, parameters and work are exact."

    def _tensor_rows(self) -> Iterator[Row]:
        for (heading, _), rows in itertools.groupby(self.tensors, self._place):
            if heading is None:
                yield from _fold(list(rows))
                continue
            yield Row({"name": heading}, "group")
            for row in rows:
                yield Row(_cells(row))
                yield from (_op(op) for op in row.ops)

    def _place(self, row: TensorRow) -> tuple[str | None, Stage]:
        """The heading that a tensor stands under, and its stack; no heading for blocks that are folded."""
        if row.block is not None and row.block not in self.shown_blocks:
            return None, row.stack
        where = " ".join((*([row.stack] if row.stack else []), *([] if row.block is None else [f"block {row.block}"])))
        return f"Step {row.step}: {row.heading}" + (f" ({where})" if where else ""), row.stack

    def _stats_table(self) -> Table:
        columns = (
            Column("name", "tensor", keep=9),
            Column("mean", "mean", "real", keep=8),
            Column("std", "std", "real", keep=8),
            Column("minimum", "minimum", "real", keep=7),
            Column("maximum", "maximum", "real", keep=7),
            Column("non_finite", "non-finite", "count", keep=6),
        )
        rows = tuple(
            Row({"name": row.name, **dataclasses.asdict(row.stats)}) for row in self.tensors if row.stats is not None
        )
        notes = (
            "Over finite values, in float64; std is the population's. Non-finite scores are the −∞ of the causal mask.",
        )
        return Table("Statistics", columns, rows, notes)

    def _candidate_table(self) -> Table:
        columns = (
            Column("rank", "rank", "count", keep=9),
            Column("token_id", "id", keep=9),
            Column("text", "token", keep=9),
            Column("probability", "probability", "real", keep=9),
        )
        rows = []
        for text, candidates in zip(self.texts, self.candidates, strict=True):
            if self.batch > 1:
                rows.append(Row({"rank": Given(f"after {one_line(text.text) or 'the ids'}")}, "group"))
            for rank, c in enumerate(candidates, 1):
                token = None if c.text is None else f'"{one_line(c.text)}"'
                cells: dict[str, Cell] = {"rank": rank, "token_id": str(c.token_id), "text": token}
                rows.append(Row({**cells, "probability": c.probability}))
        return Table("Candidates for the next token", columns, tuple(rows))


def _cells(row: TensorRow) -> dict[str, Cell]:
    return {
        "name": row.label,
        "dims": brackets(row.dims),
        "sizes": SHORT_DTYPES.get(row.dtype, row.dtype) + brackets(row.sizes),
        "bytes": row.n_bytes,
        "params": row.params or None,
        "multiplications": row.multiplications or None,
        "equation": row.equation,
    }


def _op(op: Op) -> Row:
    name = op.operator.removeprefix("aten.")
    return Row({"name": name, "sizes": brackets(op.sizes), "multiplications": op.multiplications or None}, "fold", 1)


def _fold(rows: list[TensorRow]) -> Iterator[Row]:
    """Whole blocks as one row: which they are, how many tensors each has, and the sums of their figures."""
    sizes = Counter(row.block for row in rows)
    first, last = rows[0].block, rows[-1].block
    least, most = min(sizes.values()), max(sizes.values())
    stack = f"{rows[0].stack} " if rows[0].stack else ""
    one = len(sizes) == 1
    which = f"{stack}block {first}, {most} tensors" if one else f"{stack}blocks {first} to {last}"
    each = "" if one else f", {most} tensors each" if least == most else f", {least} to {most} tensors each"
    yield Row({"name": f"Steps 4 to 6, folded ({which}{each})"}, "group")
    cells: dict[str, Cell] = {
        "name": "1 block" if one else f"{len(sizes)} blocks",
        "bytes": sum(row.n_bytes for row in rows),
        "params": sum(row.params for row in rows),
        "multiplications": sum(row.multiplications for row in rows),
    }
    yield Row(cells, "fold")


def _row_dict(row: TensorRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "step": row.step,
        "heading": row.heading,
        "stack": row.stack or None,
        "block": row.block,
        "equation": row.equation,
        "shape": list(row.dims.split()),
        "sizes": list(row.sizes),
        "dtype": row.dtype,
        "bytes": row.n_bytes,
        "params": row.params,
        "multiplications": row.multiplications,
        "stats": None if row.stats is None else dataclasses.asdict(row.stats),
        "ops": [
            {"operator": op.operator, "sizes": list(op.sizes), "multiplications": op.multiplications} for op in row.ops
        ]
        or None,
    }
