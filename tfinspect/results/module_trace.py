"""One forward pass of any module: each call of each module inside it, with what went in and what came out.

Units:  parameters, each once; multiplications of matrix products (1 multiply-add = 1 multiplication = 2 FLOPs).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from tfinspect.dims import brackets
from tfinspect.results.agreement import Agreement
from tfinspect.results.folding import first_to_last, patterns, repeats
from tfinspect.results.report import Answer
from tfinspect.results.table import Cell, Column, Row, Table
from tfinspect.results.trace import SHORT_DTYPES, Stats

__all__ = ["Inspected", "ModuleCall", "ModuleOp", "ModuleTrace", "Opened", "Value", "input_table", "value_dict"]


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """One thing that goes into a module or comes out of it."""

    path: str
    """Where it stands: "x", "logits", "aux[1][0]"; empty where there is only one."""
    kind: str
    """"tensor", or the name of its type."""
    sizes: tuple[int, ...] | None = None
    """Shape of a tensor."""
    dtype: str = ""
    """Number format of a tensor, "float32"."""
    n_bytes: int = 0
    """Bytes of a tensor's elements."""
    dims: str = ""
    """Its shape with symbols for the axes that follow the inputs: "B T 768"; empty where nothing was tried."""
    stats: Stats | None = None
    """Statistics of its values as they came out, where they were asked for."""

    @property
    def shape(self) -> str:
        """[B, T, 768] where symbols are known, [2, 16, 768] otherwise, the type's name for what is no tensor."""
        if self.sizes is None:
            return self.kind
        return brackets(self.dims) if self.dims else brackets(self.sizes)


@dataclasses.dataclass(frozen=True, slots=True)
class ModuleOp:
    """One operator that torch dispatched."""

    operator: str
    """Its name in torch, "aten.addmm"."""
    inputs: tuple[tuple[int, ...], ...]
    """Shapes of its tensors, in their order."""
    output: tuple[int, ...]
    """Shape of its first result."""
    flops: int
    """FLOPs by torch's formula, or by ours where torch has none; 0 for elementwise work and movement."""


@dataclasses.dataclass(frozen=True, slots=True)
class Opened:
    """A fused attention call in the steps that its kernel does not show."""

    operator: str
    """The fused operator."""
    scores: tuple[int, ...]
    """Shape of scores and of weights, [B, h, T, S], which the kernel never makes as tensors."""
    causal: bool
    masked: bool
    """Whether it was given a mask."""
    difference: float | None
    """Largest difference between the expanded computation and the kernel, as a part of the largest output."""
    tolerance: float
    """Largest difference that counts as agreement in its number format."""
    n_queries: int
    """How many queries of each head were compared."""
    dims: str = ""
    """The shape of the scores in symbols, where they were tried."""


@dataclasses.dataclass(frozen=True, slots=True)
class ModuleCall:
    """One call of one module."""

    path: str
    """Where the module stands in the model, "encoder.0.fc"; empty for the model itself."""
    kind: str
    """Name of its class."""
    nth: int
    """Which call of this module it is, from 1."""
    parent: int | None
    """Place in `ModuleTrace.calls` of the call that made it; None for the model itself."""
    depth: int
    """How many calls it is inside of."""
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    params: int
    """Elements of its own parameters, those of modules inside it left out; 0 where an earlier call has them."""
    shared_params: int
    """Elements of its own parameters that an earlier row has already."""
    flops: int
    """FLOPs of everything that ran in it, modules inside it included."""
    own_flops: int
    """FLOPs of what ran in it outside the modules inside it."""
    in_place: bool = False
    """Whether it wrote into a tensor that it was given."""
    finished: bool = True
    """False where it raised."""
    attention: tuple[Opened, ...] = ()
    """Its own fused attention calls."""
    ops: tuple[ModuleOp, ...] = ()
    """The operators that ran in it outside the modules inside it, where they were asked for."""
    seconds: float | None = None
    """Wall time, the cost of listening taken off; None where it was not asked for."""
    peak_bytes: int | None = None
    """Most bytes of tensors alive in it beyond those alive when it began; None where it was not asked for."""

    @property
    def multiplications(self) -> int:
        """Half of its FLOPs."""
        return self.flops // 2


@dataclasses.dataclass(frozen=True)
class Inspected:
    """The module that a report is about."""

    name: str
    """As it was typed, "my_model:build", or its class."""
    kind: str
    """Name of its class."""
    mode: str
    """"eval" or "train": the mode that it ran in."""
    device: str
    """"cpu", "meta", "cuda:0"."""


@dataclasses.dataclass(frozen=True)
class ModuleTrace(Answer):
    """Every call of every module in one forward pass, in the order in which they began."""

    schema: ClassVar[str] = "tfinspect.module_trace/1"
    main_table: ClassVar[str] = "Modules"

    model: Inspected
    inputs: tuple[Value, ...]
    """What the model was called with."""
    calls: tuple[ModuleCall, ...]
    total_params: int
    """Elements of all parameters, each once."""
    total_flops: int
    """FLOPs of all matrix products that were counted."""
    n_ops: int
    """How many operators ran."""
    uncounted: tuple[str, ...]
    """Operators that nobody counted: with any, the figures of work are "at least"."""
    n_uncounted: int
    """How many of the calls were of such operators."""
    not_called: tuple[tuple[str, str, int], ...]
    """(path, class, own parameters) of each module that never ran, the inner ones of one that did not left out."""
    used_without_call: tuple[str, ...]
    """Modules whose parameters were used although the module itself was not called."""
    unregistered: int
    """Elements of parameters that were used and that the model does not register."""
    symbols: Mapping[str, int]
    """Size of each symbol in the shapes; empty where none was found."""
    failure: str | None = None
    """What stopped the pass and where; None where nothing did."""
    notes: tuple[str, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    unfold: bool = False
    """Whether tables list repeated modules one by one."""
    shown_depth: int | None = None
    """Deepest level of the tables; None for all."""
    overhead_seconds: float | None = None
    """What listening to one call costs, as it was taken off; None where no time was asked for."""

    @property
    def total_multiplications(self) -> int:
        """Half of the FLOPs."""
        return self.total_flops // 2

    @property
    def coverage(self) -> tuple[int, int]:
        """(operators accounted for, operators that ran)."""
        return self.n_ops - self.n_uncounted, self.n_ops

    @property
    def opened(self) -> tuple[tuple[str, Opened], ...]:
        """(path, call) of each fused attention call."""
        return tuple((call.path, fused) for call in self.calls for fused in call.attention)

    @property
    def conventions(self) -> str:
        """The model, how it ran, and what counts."""
        model = self.model
        where = "on the meta device, without values" if model.device == "meta" else f"on {model.device}"
        ran = f"one forward pass in {model.mode} mode {where}"
        return (
            f"{model.name} ({model.kind}), {ran}. Parameters, each once; MACs of matrix products, 1 MAC = 2 FLOPs, "
            f"causal attention in full."
        )

    def unfolded(self) -> ModuleTrace:
        """The same trace with every call in its tables."""
        return dataclasses.replace(self, unfold=True, shown_depth=None)

    def tables(self) -> tuple[Table, ...]:
        """Inputs, the tree of calls, statistics where they were asked for, and what did not run."""
        tables = [input_table(self.inputs, self.symbols), self._tree_table()]
        if any(value.stats for call in self.calls for value in call.outputs):
            tables.append(self._stats_table())
        if self.not_called:
            tables.append(self._idle_table())
        return tuple(tables)

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values."""
        return {
            "conventions": self.conventions,
            "model": dataclasses.asdict(self.model),
            "inputs": [value_dict(value) for value in self.inputs],
            "symbols": dict(self.symbols),
            "calls": [_call_dict(call) for call in self.calls],
            "total_params": self.total_params,
            "total_multiplications": self.total_multiplications,
            "total_flops": self.total_flops,
            "coverage": dict(zip(("counted", "seen"), self.coverage, strict=True)),
            "uncounted": list(self.uncounted),
            "not_called": [dict(zip(("path", "class", "params"), idle, strict=True)) for idle in self.not_called],
            "used_without_call": list(self.used_without_call),
            "unregistered_params": self.unregistered,
            "overhead_seconds": self.overhead_seconds,
            "failure": self.failure,
            "notes": list(self.notes),
        }

    def _tree_table(self) -> Table:
        timed = any(call.seconds is not None for call in self.calls)
        weighed = any(call.peak_bytes is not None for call in self.calls)
        columns = (
            Column("name", "module", keep=9),
            Column("path", "path", data_only=True),
            Column("nth", "which call of the module", "count", data_only=True),
            Column("class", "class", keep=5),
            Column("shape", "shape, in → out", "shape", keep=9),
            Column("params", "parameters", "count", keep=9 if not (timed or weighed) else 4),
            Column("multiplications", "MACs", "count", keep=9 if not (timed or weighed) else 6),
            *([Column("ms", "ms", "real", keep=9)] if timed else []),
            *([Column("peak", "peak", "binary", keep=9)] if weighed else []),
        )
        rows = tuple(_Tree(self).rows())
        whole = self.calls[0] if self.calls else None
        total = {
            "name": "total" if self.failure is None else "total so far",
            "params": self.total_params,
            "multiplications": self.total_multiplications,
            "ms": None if whole is None or whole.seconds is None else 1e3 * whole.seconds,
            "peak": None if whole is None else whole.peak_bytes,
        }
        return Table("Modules", columns, (*rows, Row(total, "total")), tuple(self._tree_notes(timed, weighed)))

    def _tree_notes(self, timed: bool, weighed: bool) -> Iterator[str]:
        if self.failure is not None:
            yield f"INCOMPLETE: the pass stopped. {self.failure}"
        counted, seen = self.coverage
        if self.uncounted:
            yield (
                f"{counted:,} of {seen:,} operations accounted for; uncounted: {', '.join(self.uncounted)}. The MACs "
                f"are at least so many."
            )
        else:
            yield f"{counted:,} of {seen:,} operations accounted for."
        if self.opened:
            yield (
                "Rows in brackets are steps of fused attention: the kernel never makes these tensors. Their MACs are "
                "in the row above them."
            )
        if self.used_without_call:
            names = [_times(shared, paths) for shared, paths in patterns(self.used_without_call).items()]
            yield f"Not seen as a call, though their parameters are used: {_listed(names)}."
        if self.unregistered:
            yield (
                f"{self.unregistered:,} elements of parameters are used that the model does not register (a plain "
                "list of layers?): no optimiser would see them."
            )
        if timed and self.overhead_seconds is not None:
            yield (
                f"Times are medians of wall time; {1e6 * self.overhead_seconds:.1f} microseconds of listening are "
                "taken off for each call inside."
            )
        if weighed:
            yield (
                "peak: most bytes of tensors alive at once beyond those alive at the start of the call; scratch space "
                "inside a kernel is not seen."
            )
        yield from self.notes

    def _stats_table(self) -> Table:
        columns = (
            Column("name", "output of", keep=9),
            Column("mean", "mean", "real", keep=8),
            Column("std", "std", "real", keep=8),
            Column("minimum", "minimum", "real", keep=7),
            Column("maximum", "maximum", "real", keep=7),
            Column("non_finite", "non-finite", "count", keep=6),
        )
        rows = tuple(
            Row({"name": _labelled(call, value), **dataclasses.asdict(value.stats)})
            for call in self.calls
            for value in call.outputs
            if value.stats is not None
        )
        return Table("Statistics", columns, rows, ("Over finite values, in float64; std is the population's.",))

    def _idle_table(self) -> Table:
        columns = (
            Column("name", "module", keep=9),
            Column("class", "class", keep=8),
            Column("params", "parameters", "count", keep=9),
        )
        idle = {path: (kind, params) for path, kind, params in self.not_called}
        folds = {path: [path] for path in idle} if self.unfold else patterns(list(idle))
        rows = tuple(
            Row(
                {
                    "name": _times(shared, paths),
                    "class": ", ".join(dict.fromkeys(idle[path][0] for path in paths)),
                    "params": sum(idle[path][1] for path in paths),
                }
            )
            for shared, paths in folds.items()
        )
        return Table("Not called", columns, rows, ("Their parameters count in the total.",))


def input_table(inputs: Sequence[Value], symbols: Mapping[str, int]) -> Table:
    """What a model was called with."""
    columns = (
        Column("path", "input", keep=9),
        Column("dims", "shape", "shape", keep=8),
        Column("sizes", "dtype and sizes", "shape", keep=9),
        Column("bytes", "bytes", "binary", keep=3),
    )
    rows = tuple(
        Row(
            {
                "path": value.path or "input",
                "dims": brackets(value.dims) if value.dims else None,
                "sizes": _sized(value),
                "bytes": value.n_bytes if value.sizes is not None else None,
            }
        )
        for value in inputs
    )
    bound = ", ".join(f"{name} = {size:,}" for name, size in symbols.items())
    return Table("Input", columns, rows, (f"Symbols: {bound}.",) if bound else ())


class _Tree:
    """The calls as a tree, in which siblings that are alike stand once."""

    def __init__(self, trace: ModuleTrace) -> None:
        self.trace = trace
        self.children: dict[int | None, list[int]] = {}
        for place, call in enumerate(trace.calls):
            self.children.setdefault(call.parent, []).append(place)
        self.signature = functools.cache(self._signature)

    def _signature(self, place: int) -> tuple[Any, ...]:
        """What two subtrees have to share to be alike."""
        call = self.trace.calls[place]
        stem = re.sub(r"\d+", "*", call.path)
        return (
            stem, call.kind, tuple((v.path, v.shape, v.dtype) for v in call.inputs),
            tuple((v.path, v.shape, v.dtype) for v in call.outputs),
            call.params, call.shared_params > 0, call.flops, call.finished, tuple(o.scores for o in call.attention),
            tuple(self.signature(child) for child in self.children.get(place, ())),
        )  # fmt: skip

    def rows(self) -> Iterator[Row]:
        for root in self.children.get(None, ()):
            yield from self._call(root)

    def _call(self, place: int) -> Iterator[Row]:
        call = self.trace.calls[place]
        yield Row(self._cells(call), indent=call.depth)
        for op in call.ops:
            yield _op_row(op, call.depth + 1)
        for fused in call.attention:
            yield from _opened_rows(fused, call.depth + 1)
        if self.trace.shown_depth is not None and call.depth >= self.trace.shown_depth:
            return
        yield from self._siblings(self.children.get(place, []))

    def _siblings(self, places: Sequence[int]) -> Iterator[Row]:
        signatures = [place if self.trace.unfold else self.signature(place) for place in places]
        for at, length, times in repeats(signatures):
            for place in places[at : at + length]:
                yield from self._call(place)
            if times > 1:
                yield self._fold(places[at + length : at + length * times], length)

    def _fold(self, places: Sequence[int], length: int) -> Row:
        calls = [self.trace.calls[place] for place in places]
        first, last = calls[0], calls[-1]
        again = len(places) // length
        which = first_to_last(_leaf(first), _leaf(last))
        seconds = [call.seconds for call in calls if call.seconds is not None]
        cells: dict[str, Cell] = {
            "name": f"{which}: {again:,} more alike" if length == 1 else f"{which}: {again:,} more times",
            "params": sum(self._params_within(place) for place in places) or None,
            "multiplications": sum(call.multiplications for call in calls) or None,
            "ms": 1e3 * sum(seconds) if seconds else None,
        }
        return Row(cells, "fold", first.depth)

    def _params_within(self, place: int) -> int:
        """Parameters of a call and of all calls inside it."""
        inside = sum(self._params_within(child) for child in self.children.get(place, ()))
        return self.trace.calls[place].params + inside

    def _cells(self, call: ModuleCall) -> dict[str, Cell]:
        name = _leaf(call) if call.path else self.trace.model.kind
        if call.nth > 1:
            name += f" (call {call.nth})"
        if not call.finished:
            name += " (raised)"
        if call.in_place:
            name += " (in place)"
        params: Cell = call.params or None
        if call.shared_params and not call.params:
            params = "shared"
        return {
            "name": name,
            "path": call.path,
            "nth": call.nth,
            "class": call.kind,
            "shape": _through(call),
            "params": params,
            "multiplications": call.multiplications or None,
            "ms": None if call.seconds is None else 1e3 * call.seconds,
            "peak": call.peak_bytes,
        }


#: Most values of one call that a cell lists.
_MOST: Final = 4


def _shapes(values: Sequence[Value]) -> str | None:
    """The tensors of a call in one cell; what is no tensor is listed where there is nothing else."""
    told = [value for value in values if value.sizes is not None] or list(values)
    words = []
    for (shape, name), alike in itertools.groupby(told, lambda v: (v.shape, "" if v.path.isdecimal() else v.path)):
        times = len(list(alike))
        words.append(f"{name}:{shape}" if name and len(told) > 1 else f"{times}×{shape}" if times > 1 else shape)
    more = f", {len(words) - _MOST} more" if len(words) > _MOST else ""
    return ", ".join(words[:_MOST]) + more or None


def _through(call: ModuleCall) -> str | None:
    """What went in and what came out; one shape where both are the same."""
    given, made = _shapes(call.inputs), _shapes(call.outputs)
    if given is None or made is None or given == made:
        return given or made
    return f"{given} → {made}" if call.finished else f"{given} →"


def _sized(value: Value) -> str:
    if value.sizes is None:
        return value.kind
    return SHORT_DTYPES.get(value.dtype, value.dtype) + brackets(value.sizes)


def _leaf(call: ModuleCall) -> str:
    """The last word of a path; a number takes the word before it along: "h.0"."""
    words = call.path.split(".")
    return ".".join(words[-2:]) if words[-1].isdecimal() and len(words) > 1 else words[-1]


def _labelled(call: ModuleCall, value: Value) -> str:
    name = call.path or "the model"
    again = f" (call {call.nth})" if call.nth > 1 else ""
    return f"{name}{again}" + (f": {value.path}" if value.path else "")


def _times(shared: str, paths: Sequence[str]) -> str:
    """A pattern of paths and how many they are, "h.*.mlp × 12"; the path itself where it is the only one."""
    return shared if len(paths) == 1 else f"{shared} × {len(paths):,}"


def _listed(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _op_row(op: ModuleOp, indent: int) -> Row:
    cells: dict[str, Cell] = {
        "name": op.operator.removeprefix("aten."),
        "shape": f"{', '.join(brackets(shape) for shape in op.inputs[:3])} → {brackets(op.output)}",
        "multiplications": op.flops // 2 or None,
    }
    return Row(cells, "fold", indent)


def _opened_rows(fused: Opened, indent: int) -> Iterator[Row]:
    shape = brackets(fused.dims) if fused.dims else brackets(fused.scores)
    for step in ("scores", "weights"):
        yield Row({"name": f"({step})", "class": "not materialised", "shape": shape}, "fold", indent)


def value_dict(value: Value) -> dict[str, Any]:
    """A value in JSON."""
    return {
        "path": value.path,
        "kind": value.kind,
        "sizes": None if value.sizes is None else list(value.sizes),
        "shape": value.dims.split() or None,
        "dtype": value.dtype or None,
        "bytes": value.n_bytes,
        "stats": None if value.stats is None else dataclasses.asdict(value.stats),
    }


def _call_dict(call: ModuleCall) -> dict[str, Any]:
    return {
        "path": call.path,
        "class": call.kind,
        "nth": call.nth,
        "parent": call.parent,
        "depth": call.depth,
        "inputs": [value_dict(value) for value in call.inputs],
        "outputs": [value_dict(value) for value in call.outputs],
        "params": call.params,
        "shared_params": call.shared_params,
        "multiplications": call.multiplications,
        "flops": call.flops,
        "own_flops": call.own_flops,
        "in_place": call.in_place,
        "finished": call.finished,
        "seconds": call.seconds,
        "peak_bytes": call.peak_bytes,
        "attention": [
            {
                "operator": fused.operator,
                "sizes": list(fused.scores),
                "shape": fused.dims.split() or None,
                "causal": fused.causal,
                "masked": fused.masked,
                "materialised": False,
                "difference": fused.difference,
                "tolerance": fused.tolerance,
                "queries_compared": fused.n_queries,
            }
            for fused in call.attention
        ],
        "ops": [
            {
                "operator": op.operator,
                "inputs": [list(shape) for shape in op.inputs],
                "sizes": list(op.output),
                "flops": op.flops,
            }
            for op in call.ops
        ]
        or None,
    }
