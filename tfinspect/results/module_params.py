"""The parameters of any module: each once, with every name that it has, and what else the module keeps.

Unit: parameters, that is, elements of tensors that training may change. Buffers hold none.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from tfinspect.dims import brackets
from tfinspect.errors import CheckFailed
from tfinspect.results.agreement import Agreement
from tfinspect.results.folding import first_to_last, repeats
from tfinspect.results.report import Answer
from tfinspect.results.table import Cell, Column, Row, Table

__all__ = ["ModuleNode", "ModuleParams", "ModuleTensor", "require"]


@dataclasses.dataclass(frozen=True, slots=True)
class ModuleTensor:
    """One parameter or buffer."""

    name: str
    """Its first path in the model."""
    sizes: tuple[int, ...] | None
    """Its shape; None for a lazy one that has none yet."""
    dtype: str
    params: int
    """Number of elements; 0 where it has no shape yet."""
    trainable: bool
    aliases: tuple[str, ...] = ()
    """Further names of the same tensor, such as a tied head."""


@dataclasses.dataclass(frozen=True, slots=True)
class ModuleNode:
    """One module in the tree."""

    path: str
    """Its path; empty for the model itself."""
    kind: str
    """Name of its class."""
    own: int
    """Elements of its own parameters, those that an earlier module has left out."""
    shared: int
    """Elements of its own parameters that an earlier module has."""
    within: int
    """Elements of its own parameters and of all modules inside it, each once in the whole model."""
    same_as: str = ""
    """The earlier path of the same module; empty where there is none."""


@dataclasses.dataclass(frozen=True)
class ModuleParams(Answer):
    """How many parameters a module has."""

    schema: ClassVar[str] = "tfinspect.module_params/1"
    main_table: ClassVar[str] = "Parameters by module"

    name: str
    """As it was typed, or its class."""
    kind: str
    """Name of its class."""
    tensors: tuple[ModuleTensor, ...]
    """Every parameter, once."""
    buffers: tuple[ModuleTensor, ...]
    """Every buffer, once."""
    modules: tuple[ModuleNode, ...]
    """The tree, in the order of `named_modules`."""
    listed: bool = False
    """Whether the tables list every tensor."""
    shown_depth: int | None = 3
    """Deepest level of the tree that the tables show; None for all."""
    expected: int | None = None
    """The total that the user expects."""
    notes: tuple[str, ...] = ()
    agreements: tuple[Agreement, ...] = ()

    @property
    def total(self) -> int:
        """Elements of all parameters, each once."""
        return sum(tensor.params for tensor in self.tensors)

    @property
    def trainable(self) -> int:
        """Elements of those that require gradients."""
        return sum(tensor.params for tensor in self.tensors if tensor.trainable)

    @property
    def frozen(self) -> int:
        """Elements of those that do not."""
        return self.total - self.trainable

    @property
    def buffer_elements(self) -> int:
        """Elements of all buffers, each once."""
        return sum(tensor.params for tensor in self.buffers)

    @property
    def uninitialised(self) -> int:
        """How many tensors have no shape yet."""
        return sum(tensor.sizes is None for tensor in (*self.tensors, *self.buffers))

    @property
    def surplus(self) -> int | None:
        """Total minus expected total; None where nothing is expected."""
        return None if self.expected is None else self.total - self.expected

    @property
    def conventions(self) -> str:
        """The model, and what counts as a parameter."""
        return f"{self.name} ({self.kind}). Parameters, each tensor once however many names it has; buffers apart."

    def unfolded(self) -> ModuleParams:
        """The same answer with every module and tensor in its tables."""
        return dataclasses.replace(self, listed=True, shown_depth=None)

    def tables(self) -> tuple[Table, ...]:
        """The totals, the tree, what is shared, and every tensor where they were asked for."""
        tables = [self._totals(), self._tree()]
        if any(tensor.aliases for tensor in self.tensors):
            tables.append(self._shared())
        if self.listed:
            tables.append(self._list("Tensors", self.tensors))
            if self.buffers:
                tables.append(self._list("Buffers", self.buffers))
        return tuple(tables)

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values."""
        return {
            "conventions": self.conventions,
            "model": {"name": self.name, "kind": self.kind},
            "total_params": self.total,
            "trainable_params": self.trainable,
            "frozen_params": self.frozen,
            "buffer_elements": self.buffer_elements,
            "uninitialised_tensors": self.uninitialised,
            "modules": [_node_dict(node) for node in self.modules],
            "tensors": [_tensor_dict(tensor) for tensor in self.tensors],
            "buffers": [_tensor_dict(tensor) for tensor in self.buffers],
            "expected": None if self.expected is None else {"params": self.expected, "surplus": self.surplus},
            "notes": list(self.notes),
        }

    def _totals(self) -> Table:
        columns = (Column("what", "what", keep=9), Column("params", "parameters", "count", keep=9))
        rows = [
            Row({"what": "trainable", "params": self.trainable}),
            Row({"what": "frozen", "params": self.frozen}),
            Row({"what": "total", "params": self.total}, "total"),
        ]
        notes = [f"Buffers hold {self.buffer_elements:,} elements besides, which are no parameters."]
        if self.uninitialised:
            notes.insert(
                0,
                f"INCOMPLETE: uninitialised: {self.uninitialised:,} tensors; the first pass decides their shapes.",
            )
        return Table("Parameters", columns, tuple(rows), (*notes, *self.notes))

    def _tree(self) -> Table:
        columns = (
            Column("name", "module", keep=9),
            Column("path", "path", data_only=True),
            Column("class", "class", keep=7),
            Column("own", "its own", "count", keep=5),
            Column("within", "all within", "count", keep=9),
            Column("share", "share", "share", keep=6),
        )
        return Table("Parameters by module", columns, tuple(_TreeRows(self).rows()))

    def _shared(self) -> Table:
        columns = (
            Column("name", "tensor", keep=9),
            Column("aliases", "is also", keep=9),
            Column("params", "parameters", "count", keep=8),
        )
        rows = tuple(
            Row({"name": tensor.name, "aliases": ", ".join(tensor.aliases), "params": tensor.params})
            for tensor in self.tensors
            if tensor.aliases
        )
        return Table("Shared parameters", columns, rows, ("Each counts once.",))

    def _list(self, title: str, tensors: Sequence[ModuleTensor]) -> Table:
        columns = (
            Column("name", "tensor", keep=9),
            Column("sizes", "shape", "shape", keep=9),
            Column("dtype", "dtype", keep=6),
            Column("params", "elements", "count", keep=8),
            Column("trainable", "trainable", keep=5),
        )
        rows = tuple(
            Row(
                {
                    "name": tensor.name,
                    "sizes": "uninitialised" if tensor.sizes is None else brackets(tensor.sizes),
                    "dtype": tensor.dtype,
                    "params": tensor.params,
                    "trainable": "yes" if tensor.trainable else "no",
                }
            )
            for tensor in tensors
        )
        return Table(title, columns, rows)


class _TreeRows:
    """The tree of modules, in which siblings that are alike stand once."""

    def __init__(self, report: ModuleParams) -> None:
        self.report = report
        self.nodes = {node.path: node for node in report.modules}
        self.children: dict[str, list[str]] = {}
        for path in self.nodes:
            if path:
                self.children.setdefault(self._parent(path), []).append(path)
        self.signatures: dict[str, tuple[Any, ...]] = {}

    def _parent(self, path: str) -> str:
        """The nearest module above; a name may itself hold a dot in no module."""
        above = path.rpartition(".")[0]
        while above and above not in self.nodes:
            above = above.rpartition(".")[0]
        return above

    def _signature(self, path: str) -> tuple[Any, ...]:
        if path not in self.signatures:
            node = self.nodes[path]
            inside = tuple(self._signature(child) for child in self.children.get(path, ()))
            leaf = re.sub(r"\d+", "*", path.rpartition(".")[2])
            self.signatures[path] = (leaf, node.kind, node.own, node.shared, node.within, bool(node.same_as), inside)
        return self.signatures[path]

    def rows(self) -> Iterator[Row]:
        if "" in self.nodes:
            yield from self._module("", 0)

    def _module(self, path: str, depth: int) -> Iterator[Row]:
        node, total = self.nodes[path], self.report.total
        name = path.rpartition(".")[2] or self.report.kind
        if node.same_as:
            name += f" (is {node.same_as})"
        elif node.shared and not node.own:
            name += " (shared)"
        cells: dict[str, Cell] = {
            "name": name,
            "path": path,
            "class": node.kind,
            "own": node.own or None,
            "within": node.within,
            "share": node.within / total if total else None,
        }
        yield Row(cells, indent=depth)
        shown = self.report.shown_depth
        if shown is not None and depth >= shown:
            return
        children = self.children.get(path, [])
        everything = self.report.shown_depth is None
        for at, length, times in repeats([child if everything else self._signature(child) for child in children]):
            for child in children[at : at + length]:
                yield from self._module(child, depth + 1)
            if times > 1:
                yield self._fold(children[at + length : at + length * times], length, depth + 1)

    def _fold(self, paths: Sequence[str], length: int, depth: int) -> Row:
        first, last = (path.rpartition(".")[2] for path in (paths[0], paths[-1]))
        within = sum(self.nodes[path].within for path in paths)
        again = len(paths) // length
        name = f"{first_to_last(first, last)}: {again:,} more {'alike' if length == 1 else 'times'}"
        share = within / self.report.total if self.report.total else None
        return Row({"name": name, "within": within, "share": share}, "fold", depth)


def require(report: ModuleParams) -> None:
    """Nothing, where the total is the expected one.

    Raises:  CheckFailed naming both figures.
    """
    if report.expected is not None and report.surplus:
        more = "more" if report.surplus > 0 else "fewer"
        raise CheckFailed(
            f"the model has {report.total:,} parameters, {abs(report.surplus):,} {more} than "
            f"the expected {report.expected:,}"
        )


def _node_dict(node: ModuleNode) -> dict[str, Any]:
    return {
        "path": node.path,
        "class": node.kind,
        "own_params": node.own,
        "shared_params": node.shared,
        "params": node.within,
        "same_as": node.same_as or None,
    }


def _tensor_dict(tensor: ModuleTensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "aliases": list(tensor.aliases),
        "sizes": None if tensor.sizes is None else list(tensor.sizes),
        "dtype": tensor.dtype,
        "params": tensor.params,
        "trainable": tensor.trainable,
    }
