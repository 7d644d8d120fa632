"""What one forward pass of any module costs, by operator and by module.

Unit: multiplications of matrix products (1 multiply-add = 1 multiplication = 2 FLOPs); causal attention in full.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Mapping
from typing import Any, ClassVar

from tfinspect.results.agreement import Agreement
from tfinspect.results.folding import first_to_last, repeats, stem
from tfinspect.results.module_trace import Inspected, Value, input_table, value_dict
from tfinspect.results.report import Answer
from tfinspect.results.table import Cell, Column, Role, Row, Table

__all__ = ["ModuleFlops", "ModuleWork"]


@dataclasses.dataclass(frozen=True, slots=True)
class ModuleWork:
    """The work of one module, all its calls together."""

    path: str
    """Its path; empty for the model itself."""
    kind: str
    """Name of its class."""
    n_calls: int
    flops: int
    """FLOPs of everything that ran in it, modules inside it included."""
    own_flops: int
    """FLOPs of what ran in it outside the modules inside it."""

    @property
    def multiplications(self) -> int:
        """Half of its FLOPs."""
        return self.flops // 2


@dataclasses.dataclass(frozen=True)
class ModuleFlops(Answer):
    """The work of one forward pass."""

    schema: ClassVar[str] = "tfinspect.module_flops/1"
    main_table: ClassVar[str] = "Work by module"

    model: Inspected
    inputs: tuple[Value, ...]
    total_flops: int
    """FLOPs of all matrix products that were counted."""
    by_operator: Mapping[str, int]
    """FLOPs by operator, "aten.addmm", as torch's counter has them with what it misses added."""
    modules: tuple[ModuleWork, ...]
    """Each module that ran, in the order in which they first did."""
    coverage: tuple[int, int]
    """(operators accounted for, operators that ran)."""
    uncounted: tuple[str, ...]
    """Operators that nobody counted: with any, the figures are "at least"."""
    total_params: int
    """Elements of all parameters, each once."""
    shown_depth: int | None = 3
    """Deepest level of the tables; None for all."""
    notes: tuple[str, ...] = ()
    agreements: tuple[Agreement, ...] = ()

    @property
    def total_multiplications(self) -> int:
        """Half of the FLOPs."""
        return self.total_flops // 2

    @property
    def by_module(self) -> dict[str, int]:
        """FLOPs by path of the module, those of modules inside it included."""
        return {work.path: work.flops for work in self.modules}

    @property
    def conventions(self) -> str:
        """The model, how it ran, and what counts."""
        model = self.model
        where = "the meta device, without values" if model.device == "meta" else model.device
        return (
            f"{model.name} ({model.kind}), one forward pass in {model.mode} mode on {where}. MACs of matrix products, "
            f"1 MAC = 2 FLOPs; causal attention in full; look-ups and elementwise work count 0."
        )

    def unfolded(self) -> ModuleFlops:
        """The same answer with every module in its tables."""
        return dataclasses.replace(self, shown_depth=None)

    def tables(self) -> tuple[Table, ...]:
        """Inputs, work by module, work by operator."""
        return (input_table(self.inputs, {}), self._module_table(), self._operator_table())

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values."""
        return {
            "conventions": self.conventions,
            "model": dataclasses.asdict(self.model),
            "inputs": [value_dict(value) for value in self.inputs],
            "total_multiplications": self.total_multiplications,
            "total_flops": self.total_flops,
            "total_params": self.total_params,
            "operators": [
                {"operator": name, "flops": flops, "multiplications": flops // 2}
                for name, flops in self.by_operator.items()
            ],
            "modules": [
                {
                    "path": work.path,
                    "class": work.kind,
                    "calls": work.n_calls,
                    "flops": work.flops,
                    "multiplications": work.multiplications,
                    "own_flops": work.own_flops,
                }
                for work in self.modules
            ],
            "coverage": dict(zip(("counted", "seen"), self.coverage, strict=True)),
            "uncounted": list(self.uncounted),
            "notes": list(self.notes),
        }

    def _module_table(self) -> Table:
        columns = (
            Column("name", "module", keep=9),
            Column("path", "path", data_only=True),
            Column("class", "class", keep=6),
            Column("calls", "calls", "count", keep=4),
            Column("multiplications", "MACs", "count", keep=9),
            Column("share", "share", "share", keep=8),
        )
        rows = list(self._work_rows())
        word = "at least" if self.uncounted else "total"
        total = Row({"name": word, "multiplications": self.total_multiplications}, "total")
        return Table("Work by module", columns, (*rows, total), tuple(self._notes()))

    def _work_rows(self) -> Iterator[Row]:
        """The modules that do work as a tree, alike siblings once."""
        shown = [work for work in self.modules if work.flops]
        children: dict[str, list[ModuleWork]] = {}
        paths = {work.path for work in shown}
        for work in shown:
            if work.path:
                children.setdefault(_parent(work.path, paths), []).append(work)

        def signature(work: ModuleWork) -> tuple[object, ...]:
            inside = tuple(signature(child) for child in children.get(work.path, ()))
            return stem(work.path), work.kind, work.n_calls, work.flops, inside

        def rows(work: ModuleWork, depth: int) -> Iterator[Row]:
            above = _parent(work.path, paths) if work.path else ""
            name = work.path[len(above) + 1 if above else 0 :] or self.model.kind
            yield self._row(name, work.kind, work.n_calls, work.flops, "row", depth, work.path)
            if self.shown_depth is not None and depth >= self.shown_depth:
                return
            inside = children.get(work.path, [])
            for at, length, times in repeats([w.path if self.shown_depth is None else signature(w) for w in inside]):
                for child in inside[at : at + length]:
                    yield from rows(child, depth + 1)
                if times > 1:
                    alike = inside[at + length : at + length * times]
                    which = first_to_last(alike[0].path.rpartition(".")[2], alike[-1].path.rpartition(".")[2])
                    name = f"{which}: {times - 1:,} more {'alike' if length == 1 else 'times'}"
                    n_calls, flops = sum(w.n_calls for w in alike), sum(w.flops for w in alike)
                    yield self._row(name, "", n_calls, flops, "fold", depth + 1)

        for work in shown:
            if not work.path:
                yield from rows(work, 0)

    def _row(
        self, name: str, kind: str, n_calls: int, flops: int, role: Role, depth: int, path: str | None = None
    ) -> Row:
        share = flops / self.total_flops if self.total_flops else None
        cells: dict[str, Cell] = {"name": name, "path": path, "class": kind, "calls": n_calls}
        return Row({**cells, "multiplications": flops // 2, "share": share}, role, depth)

    def _notes(self) -> Iterator[str]:
        yield "Each row holds the rows inside it; modules without matrix products are left out."
        hidden = self.shown_depth is not None and any(
            _depth(w.path) > self.shown_depth for w in self.modules if w.flops
        )
        if hidden:
            yield f"Deeper modules are in the rows above them; --depth goes further than {self.shown_depth}."
        counted, seen = self.coverage
        words = f"{counted:,} of {seen:,} operations accounted for"
        yield f"{words}; uncounted: {', '.join(self.uncounted)}." if self.uncounted else f"{words}."
        yield f"{self.total_flops:,} FLOPs."
        yield from self.notes

    def _operator_table(self) -> Table:
        columns = (
            Column("operator", "operator", keep=9),
            Column("multiplications", "MACs", "count", keep=9),
            Column("share", "share", "share", keep=8),
        )
        rows = tuple(
            Row(
                {
                    "operator": name.removeprefix("aten."),
                    "multiplications": flops // 2,
                    "share": flops / self.total_flops if self.total_flops else None,
                }
            )
            for name, flops in self.by_operator.items()
        )
        return Table("Work by operator", columns, rows)


def _parent(path: str, paths: Container[str]) -> str:
    """The nearest path above that is there."""
    above = path.rpartition(".")[0]
    while above and above not in paths:
        above = above.rpartition(".")[0]
    return above


def _depth(path: str) -> int:
    return len(path.split(".")) if path else 0
