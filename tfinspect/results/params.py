"""The parameters of a model: a ledger of terms, the counts that are also called its size, and bytes.

Unit: parameters, that is, numbers that training changes. Each is counted once, however many names it has. Buffers
(masks, the sinusoidal table) hold no parameters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from tfinspect.dims import brackets
from tfinspect.results.agreement import Agreement
from tfinspect.results.report import Answer
from tfinspect.results.subject import Subject
from tfinspect.results.table import Column, Row, Table

__all__ = ["BYTES_EACH", "COMPONENTS", "BlockKind", "NamedCount", "ParamTensor", "ParamTerm", "Params"]

#: Components in reading order: key, and what a reader calls it.
COMPONENTS: Final[Mapping[str, str]] = {
    "tokens": "token table E",
    "positions": "position table P",
    "types": "token-type table",
    "relative": "relative bias",
    "attention": "attention",
    "cross": "cross-attention",
    "mlp": "MLP",
    "router": "router",
    "experts": "experts",
    "shared": "shared expert",
    "norms": "layer norms",
    "head": "output head",
    "pooler": "pooler",
}

#: Components that every report lists, with 0 where a model has none.
_ALWAYS: Final = ("tokens", "positions", "attention", "mlp", "norms", "head")

#: Bytes of one parameter, by number format.
BYTES_EACH: Final[Mapping[str, int]] = {"fp32": 4, "bf16 or fp16": 2, "int8": 1}


@dataclasses.dataclass(frozen=True)
class ParamTerm:
    """One term of the ledger."""

    component: str
    """Key of `COMPONENTS`."""
    title: str
    """What the term counts: "weights of Q, K, V and O"."""
    formula: str
    """Parameters of one copy, in letters."""
    each: int
    """Parameters of one copy."""
    copies: int = 1
    """How many copies the model has."""
    per_block: bool = False
    """Whether there is one copy in each block of its kind."""
    block: str = ""
    """Which kind of block it belongs to, "block" or "encoder block"; empty outside all."""
    letter: str = ""
    """How many blocks of this kind there are, in letters."""

    @property
    def params(self) -> int:
        """Parameters of all copies."""
        return self.each * self.copies


@dataclasses.dataclass(frozen=True)
class ParamTensor:
    """One parameter tensor of the model."""

    name: str
    """Its path in the torch model; weights of linear maps are [out, in]."""
    dims: str
    """Its shape in symbols."""
    shape: tuple[int, ...]
    params: int
    """Number of elements."""
    alias: str = ""
    """Further names of the same tensor, such as the tied head, with " = " between them."""


@dataclasses.dataclass(frozen=True)
class BlockKind:
    """Blocks that are alike."""

    title: str
    """"block"; where there are several kinds, such as "dense block" or "encoder block"."""
    letter: str
    """How many there are, in letters."""
    formula: str
    """Parameters of one, like terms gathered."""
    params: int
    """Parameters of one."""
    copies: int
    """How many there are."""


@dataclasses.dataclass(frozen=True)
class NamedCount:
    """A count of parameters under a label that says what is in it."""

    label: str
    formula: str
    params: int


@dataclasses.dataclass(frozen=True)
class Params(Answer):
    """How many parameters a model has, by component, per block and, on request, per tensor."""

    schema: ClassVar[str] = "tfinspect.params/1"

    subject: Subject
    terms: tuple[ParamTerm, ...]
    blocks: tuple[BlockKind, ...]
    """Every kind of block; a decoder has one."""
    model_formula: str
    """Parameters of the model, simplified."""
    other_counts: tuple[NamedCount, ...]
    """Counts that leave something out and are also called the model's size."""
    tensors: tuple[ParamTensor, ...] | None = None
    """Every tensor, where it was asked for."""
    expected: int | None = None
    """The total that the user expects."""
    agreements: tuple[Agreement, ...] = ()

    @property
    def total(self) -> int:
        """Parameters of the whole model."""
        return sum(term.params for term in self.terms)

    @property
    def by_component(self) -> dict[str, int]:
        """Parameters by component: those of GPT-2, zeros included, and whatever else the model has; experts for MLP."""
        present = {*_ALWAYS, *(term.component for term in self.terms)}
        if "experts" in present and not any(term.component == "mlp" for term in self.terms):
            present.remove("mlp")
        return {key: sum(t.params for t in self.terms if t.component == key) for key in COMPONENTS if key in present}

    @property
    def block(self) -> int:
        """Parameters of one block, of the last kind where there are several."""
        return self.blocks[-1].params

    @property
    def block_formula(self) -> str:
        """Parameters of one block, simplified: 12d² + 13d where d_ff = 4d."""
        return self.blocks[-1].formula

    @property
    def active(self) -> int | None:
        """Parameters that take part in each token; None where all do."""
        spec = self.subject.spec
        if not spec.n_experts:
            return None
        return spec.active(self.total, self.by_component["experts"])

    @property
    def surplus(self) -> int | None:
        """Total minus expected total; None where nothing is expected."""
        return None if self.expected is None else self.total - self.expected

    @property
    def conventions(self) -> str:
        """The spec, and what counts as a parameter."""
        spec = self.subject.spec
        head = "the tied head is E and counts 0" if spec.tied_head else "the untied head has its own table"
        if spec.head == "none":
            head = "there is no head"
        return f"{self.subject.opening()}. Parameters, each counted once: {head}; buffers count 0."

    def formula(self, component: str) -> str:
        """A component's formula in letters, put together from its terms."""
        terms = [term for term in self.terms if term.component == component]
        inside = []
        for kind in self.blocks:
            block = " + ".join(term.formula for term in terms if term.block == kind.title)
            if block:
                inside.append(f"{kind.letter}·({block})" if " " in block else f"{kind.letter}·{block}")
        return " + ".join((*inside, *(term.formula for term in terms if not term.per_block)))

    def tables(self) -> tuple[Table, ...]:
        """The ledger, one block, the other counts, bytes, and the tensors where they were asked for."""
        tensors = () if self.tensors is None else (self._tensor_table(self.tensors),)
        return (self._ledger(), *map(self._block_table, self.blocks), self._count_table(), self._byte_table(), *tensors)

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values."""
        return {
            "conventions": self.conventions,
            "model": self.subject.to_dict(),
            "remark": self.subject.remark or None,
            "total_params": self.total,
            "total_formula": self.model_formula,
            "components": [
                {
                    "component": key,
                    "formula": self.formula(key) or "0",
                    "params": params,
                    "share": params / self.total,
                }
                for key, params in self.by_component.items()
            ],
            "block": {"formula": self.block_formula, "params": self.block, "copies": self.blocks[-1].copies},
            "blocks": [dataclasses.asdict(kind) for kind in self.blocks],
            "active_params": self.active,
            "terms": [{**dataclasses.asdict(term), "params": term.params} for term in self.terms],
            "other_counts": [dataclasses.asdict(count) for count in self.other_counts],
            "weight_bytes": {name: size * self.total for name, size in BYTES_EACH.items()},
            "tensors": None
            if self.tensors is None
            else [
                {
                    "name": t.name,
                    "alias": t.alias or None,
                    "shape": list(t.dims.split()),
                    "sizes": list(t.shape),
                    "params": t.params,
                }
                for t in self.tensors
            ],
            "expected": None if self.expected is None else {"params": self.expected, "surplus": self.surplus},
        }

    def _ledger(self) -> Table:
        rows = [
            Row(
                {
                    "component": self._title(key),
                    "formula": self.formula(key) or self._absent(key),
                    "params": params,
                    "share": params / self.total,
                }
            )
            for key, params in self.by_component.items()
        ]
        total = Row({"component": "total", "params": self.total, "share": 1.0}, "total")
        notes = [
            f"total = {self.model_formula}",
            "Shares are rounded for print; unrounded they sum to exactly 100 %.",
            *self.subject.notes(),
        ]
        if self.active is not None:
            active, spec = self.active, self.subject.spec
            notes.insert(
                1,
                f"active = {active:,}: each token goes through {spec.n_experts_per_token} of {spec.n_experts} experts "
                f"({100 * active / self.total:.1f} % of the total).",
            )
        if self.subject.remark:
            notes.append(self.subject.remark)
        columns = (
            Column("component", "component", keep=9),
            Column("formula", "formula", "formula", keep=5),
            Column("params", "parameters", "count", keep=9),
            Column("share", "share", "share", keep=7),
        )
        return Table("Parameters by component", columns, (*rows, total), tuple(notes))

    def _title(self, component: str) -> str:
        return "RMS norms" if component == "norms" and self.subject.spec.norm == "rmsnorm" else COMPONENTS[component]

    def _absent(self, component: str) -> str:
        spec = self.subject.spec
        if component == "head":
            return "none" if spec.head == "none" else "shared with E"
        if component == "positions":
            return f"no table ({spec.positions})"
        return "none"

    def _block_table(self, kind: BlockKind) -> Table:
        rows = [
            Row({"part": term.title, "formula": term.formula, "params": term.each})
            for term in self.terms
            if term.block == kind.title
        ]
        one = Row({"part": f"one {kind.title}", "formula": kind.formula, "params": kind.params}, "subtotal")
        plural = kind.title.replace("block", "blocks")
        all_of_them = Row(
            {
                "part": f"all {kind.copies:,} {plural}" if kind.copies > 1 else f"the only {kind.title}",
                "formula": f"{kind.letter}·({kind.formula})",
                "params": kind.params * kind.copies,
            },
            "total",
        )
        columns = (
            Column("part", "part", keep=9),
            Column("formula", "formula", "formula", keep=5),
            Column("params", "parameters", "count", keep=9),
        )
        return Table(f"One {kind.title}", columns, (*rows, one, all_of_them))

    def _count_table(self) -> Table:
        rows = tuple(Row({"label": c.label, "formula": c.formula, "params": c.params}) for c in self.other_counts)
        columns = (
            Column("label", "what is left", keep=9),
            Column("formula", "formula", "formula", keep=5),
            Column("params", "parameters", "count", keep=9),
        )
        return Table("Other counts in use for the same model", columns, rows)

    def _byte_table(self) -> Table:
        rows = tuple(
            Row({"format": name, "each": size, "bytes": size * self.total, "short": size * self.total})
            for name, size in BYTES_EACH.items()
        )
        columns = (
            Column("format", "number format", keep=9),
            Column("each", "bytes each", "bytes", keep=5),
            Column("bytes", "bytes", "bytes", keep=9),
            Column("short", "in binary units", "binary", keep=5),
        )
        note = "Weights alone: no gradients, optimiser, activations, KV cache or scales of a quantised format."
        return Table("Bytes of the parameters", columns, rows, (note,))

    def _tensor_table(self, tensors: tuple[ParamTensor, ...]) -> Table:
        rows = tuple(
            Row(
                {
                    "name": f"{t.name} = {t.alias}" if t.alias else t.name,
                    "dims": brackets(t.dims),
                    "shape": brackets(t.shape),
                    "params": t.params,
                }
            )
            for t in tensors
        )
        total = Row({"name": f"{len(rows):,} tensors", "params": sum(t.params for t in tensors)}, "total")
        columns = (
            Column("name", "tensor", keep=9),
            Column("dims", "shape", "shape", keep=5),
            Column("shape", "sizes", "shape", keep=7),
            Column("params", "parameters", "count", keep=9),
        )
        return Table("Every tensor", columns, (*rows, total), ("Weights of linear maps are [out, in].",))
