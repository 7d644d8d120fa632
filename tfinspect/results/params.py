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
from tfinspect.results.subject import Subject
from tfinspect.results.table import Column, Row, Table

__all__ = ["BYTES_EACH", "COMPONENTS", "NamedCount", "ParamTensor", "ParamTerm", "Params"]

#: Components in reading order: key, and what a reader calls it.
COMPONENTS: Final[Mapping[str, str]] = {
    "tokens": "token table E",
    "positions": "position table P",
    "attention": "attention",
    "mlp": "MLP",
    "norms": "layer norms",
    "head": "output head",
}

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
    """Whether there is one copy in each block."""

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
    """A second name of the same tensor: the tied head."""


@dataclasses.dataclass(frozen=True)
class NamedCount:
    """A count of parameters under a label that says what is in it."""

    label: str
    formula: str
    params: int


@dataclasses.dataclass(frozen=True)
class Params:
    """How many parameters a model has, by component, per block and, on request, per tensor."""

    schema: ClassVar[str] = "tfinspect.params/1"

    subject: Subject
    terms: tuple[ParamTerm, ...]
    block_formula: str
    """Parameters of one block, simplified: 12d² + 13d where d_ff = 4d."""
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
        """Parameters by component: all of `COMPONENTS`, zeros included."""
        return {key: sum(t.params for t in self.terms if t.component == key) for key in COMPONENTS}

    @property
    def block(self) -> int:
        """Parameters of one block."""
        return sum(term.each for term in self.terms if term.per_block)

    @property
    def surplus(self) -> int | None:
        """Total minus expected total; None where nothing is expected."""
        return None if self.expected is None else self.total - self.expected

    @property
    def conventions(self) -> str:
        """The spec, and what counts as a parameter."""
        head = "the tied head is E and counts 0" if self.subject.spec.tied_head else "the untied head has its own table"
        return f"{self.subject.opening()}. Parameters, each counted once: {head}; buffers count 0."

    def formula(self, component: str) -> str:
        """A component's formula in letters, put together from its terms."""
        terms = [term for term in self.terms if term.component == component]
        block = " + ".join(term.formula for term in terms if term.per_block)
        inside = (f"L·({block})" if " " in block else f"L·{block}",) if block else ()
        return " + ".join((*inside, *(term.formula for term in terms if not term.per_block)))

    def tables(self) -> tuple[Table, ...]:
        """The ledger, one block, the other counts, bytes, and the tensors where they were asked for."""
        tensors = () if self.tensors is None else (self._tensor_table(self.tensors),)
        return (self._ledger(), self._block_table(), self._count_table(), self._byte_table(), *tensors)

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
            "block": {"formula": self.block_formula, "params": self.block, "copies": self.subject.spec.n_layers},
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
                    "component": COMPONENTS[key],
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
        if self.subject.remark:
            notes.append(self.subject.remark)
        columns = (
            Column("component", "component", keep=9),
            Column("formula", "formula", "formula", keep=5),
            Column("params", "parameters", "count", keep=9),
            Column("share", "share", "share", keep=7),
        )
        return Table("Parameters by component", columns, (*rows, total), tuple(notes))

    def _absent(self, component: str) -> str:
        if component == "head":
            return "shared with E"
        return f"no table ({self.subject.spec.positions})"

    def _block_table(self) -> Table:
        n_layers = self.subject.spec.n_layers
        rows = [
            Row({"part": term.title, "formula": term.formula, "params": term.each})
            for term in self.terms
            if term.per_block
        ]
        one = Row({"part": "one block", "formula": self.block_formula, "params": self.block}, "subtotal")
        all_of_them = Row(
            {
                "part": f"all {n_layers:,} blocks" if n_layers > 1 else "the only block",
                "formula": f"L·({self.block_formula})",
                "params": self.block * n_layers,
            },
            "total",
        )
        columns = (
            Column("part", "part", keep=9),
            Column("formula", "formula", "formula", keep=5),
            Column("params", "parameters", "count", keep=9),
        )
        return Table("One block", columns, (*rows, one, all_of_them))

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
