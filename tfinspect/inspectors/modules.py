"""Any `nn.Module`: its parameters, one forward pass of it call by call, and what the pass costs.

Each figure is held against a second path: the work of each product against the length that it sums over, that of each
layer of a known class against its attributes, parameters against attributes and against memory, fused attention against
its own steps.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from tfinspect.closed_form import axes as symbols
from tfinspect.closed_form import contractions, layers
from tfinspect.errors import InputError, described
from tfinspect.results.agreement import Agreement
from tfinspect.results.module_flops import ModuleFlops, ModuleWork
from tfinspect.results.module_params import ModuleParams
from tfinspect.results.module_trace import Inspected, ModuleCall, ModuleTrace, Opened, Value

if TYPE_CHECKING:
    from torch import nn

    from tfinspect.measured.inputs import Axes, Inputs
    from tfinspect.measured.modules import Frame, Pass

__all__ = ["flops", "is_module", "params", "trace"]

#: What a reader should know of a model that cannot run without gradients.
DIFFERENTIATES: Final = "The model differentiates in its forward: it ran with gradients."

#: Deepest level that tables show unless they are asked for more.
DEPTH: Final = 3


def is_module(value: object) -> bool:
    """Whether something is an `nn.Module`; torch is not imported to find out."""
    import sys

    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def params(
    module: nn.Module,
    *,
    name: str | None = None,
    depth: int | None = DEPTH,
    per_tensor: bool = False,
    expect: int | None = None,
    check: bool = True,
) -> ModuleParams:
    """The parameters of a module by module and by tensor, each once; buffers and shared tensors apart.

    Raises:  InputError for what is no module, a negative depth or a negative expectation.
    Agrees:  layers of known classes with the counts of their attributes, and the total with memory, where tensors that
             are shared stand in one place.
    """
    from tfinspect.measured import module_params as measured

    _require_module(module)
    _require_depth(depth)
    if expect is not None and (isinstance(expect, bool) or not isinstance(expect, int) or expect < 0):
        raise InputError(f"the expected number of parameters (--expect) is {expect!r}", "give an integer, 0 or more")
    parameters, buffers = measured.tensors(module)
    kind = type(module).__name__
    report = ModuleParams(
        name or kind,
        kind,
        parameters,
        buffers,
        measured.tree(module),
        listed=per_tensor,
        shown_depth=depth,
        expected=expect,
    )
    return dataclasses.replace(report, agreements=tuple(_param_agreements(module, report.total))) if check else report


def trace(
    module: nn.Module,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    axes: Mapping[str, Axes] | None = None,
    ops: bool = False,
    stats: bool = False,
    depth: int | None = None,
    unfold: bool = False,
    meta: bool = False,
    train: bool = False,
    time: bool = False,
    memory: bool = False,
    symbolic: bool = True,
    check: bool = True,
) -> ModuleTrace:
    """Each call of each module in one forward pass, with its inputs and outputs; with ops, each operator besides.

    The module runs in eval mode without gradients, or with train in training mode, and is given back as it was. Sizes
    that follow the inputs get symbols by a second pass at other sizes; axes names them ({"0": ("B", "T")}). time and
    memory measure each call; meta runs a copy without values. A pass that fails is told up to where it failed.

    Raises:  InputError for what is no module, inputs whose axes do not fit, or an operation that needs values on meta.
    Agrees:  products with the lengths that they sum over, layers with their attributes, fused attention with its steps.
    """
    from tfinspect.measured import modules as measured
    from tfinspect.measured.inputs import resized

    _require_module(module)
    _require_depth(depth)
    if meta and (stats or time):
        raise InputError(f"there are no {'statistics' if stats else 'times'} without values", "leave out --meta")
    ran, inputs, notes = _prepared(module, args, kwargs, axes, meta)
    keep = check and not train and measured.may_be_fused(ran)
    seen = measured.run(ran, measured.fresh(inputs), ops=ops, stats=stats, memory=memory, train=train, keep=keep)
    _require_no_values_needed(seen, meta)
    if seen.grad:
        notes.append(DIFFERENTIATES)
    bound: dict[str, int] = {}
    others: list[Frame] = []
    if symbolic and seen.error is None and inputs.sizes:
        bound, other_bound, again = _second_pass(ran, inputs, seen, resized, train)
        others = again.frames if again else []
        if not again:
            notes.append("No symbols: the model does not run at other sizes.")
    else:
        other_bound = {}
    calls = _calls(seen, others, bound, other_bound)
    overhead = None
    if time and seen.error is None:
        from tfinspect.measured.timing import seconds

        taken, overhead = seconds(
            ran, lambda: measured.fresh(inputs), train=train, written=seen.written, grad=seen.grad
        )
        calls = tuple(
            dataclasses.replace(call, seconds=second)
            for call, second in itertools.zip_longest(calls, taken[: len(calls)])
        )
    if memory:
        calls = tuple(
            dataclasses.replace(call, peak_bytes=frame.peak - frame.alive_before)
            for call, frame in zip(calls, seen.frames, strict=True)
        )
    agreements = tuple(_trace_agreements(ran, seen, inputs, train)) if check and seen.error is None else ()
    return ModuleTrace(
        model=_inspected(ran, name, train),
        inputs=_input_values(inputs, bound, other_bound),
        calls=calls,
        total_params=_unique(ran),
        total_flops=seen.flops,
        n_ops=seen.n_ops,
        uncounted=tuple(seen.uncounted),
        n_uncounted=seen.n_uncounted,
        not_called=_not_called(ran, seen),
        used_without_call=_used_without_call(ran, seen),
        unregistered=sum(seen.unregistered.values()),
        symbols=bound,
        failure=_failure(ran, seen) if seen.error is not None else None,
        notes=tuple(notes),
        agreements=agreements,
        unfold=unfold,
        shown_depth=depth,
        overhead_seconds=overhead,
    )


def flops(
    module: nn.Module,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    depth: int | None = DEPTH,
    meta: bool = False,
    train: bool = False,
    check: bool = True,
) -> ModuleFlops:
    """The work of one forward pass by module and by operator: torch's counter with its blind spots closed.

    The module runs without gradients and is given back as it was. With check it runs twice: as it is, fused layers
    and all, under the counter, and once more watched module by module.

    Raises:  InputError for what is no module, a forward pass that fails, or an operation that needs values on meta.
    Agrees:  products with the lengths that they sum over, layers with their attributes, and the two passes.
    """
    from tfinspect.measured import modules as measured

    _require_module(module)
    _require_depth(depth)
    ran, inputs, notes = _prepared(module, args, kwargs, None, meta)
    seen = measured.run(ran, measured.fresh(inputs), train=train)
    _require_no_values_needed(seen, meta)
    if seen.grad:
        notes.append(DIFFERENTIATES)
    if seen.error is not None:
        raise InputError(_failure(ran, seen))
    agreements = []
    if check:
        counted = measured.counted(ran, measured.fresh(inputs), train=train, like=seen)
        how = "the same pass as it is, fused layers and all, under torch's counter with what it misses added"
        if counted is not None:
            agreements.append(Agreement("MACs", seen.flops // 2, counted.flops // 2, how))
        agreements += _work_agreements(seen)
    return ModuleFlops(
        model=_inspected(ran, name, train),
        inputs=_input_values(inputs, {}, {}),
        total_flops=seen.flops,
        by_operator=seen.by_operator,
        modules=_work(seen),
        coverage=(seen.n_ops - seen.n_uncounted, seen.n_ops),
        uncounted=tuple(seen.uncounted),
        total_params=_unique(ran),
        shown_depth=depth,
        notes=tuple(notes),
        agreements=tuple(agreements),
    )


def _prepared(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    axes: Mapping[str, Axes] | None,
    meta: bool,
) -> tuple[nn.Module, Inputs, list[str]]:
    """(the model that runs, what it is called with, what a reader should know)."""
    from tfinspect.measured import modules as measured
    from tfinspect.measured.inputs import Inputs, named

    notes = []
    inputs = named(Inputs(args, dict(kwargs or {}), axes or {}))
    lazy = measured.has_lazy(module)
    if lazy:
        module = copy.deepcopy(module)
        notes.append("The model is lazy: a copy was run, and the model itself is as uninitialised as before.")
    if meta:
        module = measured.on_meta(module)
        try:
            inputs = inputs.mapped(lambda _, tensor: tensor.to("meta"))
        except RuntimeError as error:  # quantised, for one
            raise InputError(
                f"an input cannot be without values: {described(error)}", "leave out --meta (meta=True)"
            ) from None
    if lazy:
        measured.settle(module, measured.fresh(inputs))
    return module, inputs, notes


def _require_module(module: object) -> None:
    if not is_module(module):
        raise InputError(f"{type(module).__name__} is no torch.nn.Module", "give a model")


def _require_depth(depth: object) -> None:
    if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int) or depth < 0):
        raise InputError(f"the depth (--depth) is {depth!r}", "give an integer, 0 or more")


def _inspected(module: nn.Module, name: str | None, train: bool) -> Inspected:
    kind = type(module).__name__
    devices = {str(tensor.device) for tensor in (*module.parameters(), *module.buffers())} or {"cpu"}
    return Inspected(name or kind, kind, "train" if train else "eval", ", ".join(sorted(devices)))


def _unique(module: nn.Module) -> int:
    from tfinspect.measured.module_params import tensors

    return sum(tensor.params for tensor in tensors(module)[0])


def _input_values(inputs: Inputs, bound: Mapping[str, int], other_bound: Mapping[str, int]) -> tuple[Value, ...]:
    from tfinspect.measured.modules import values

    found = (*values(list(inputs.args)), *values(inputs.kwargs))
    return tuple(
        dataclasses.replace(
            value,
            dims=" ".join(
                axis if isinstance(axis, str) and axis in bound else str(size)
                for axis, size in zip(inputs.axes.get(value.path, ()) or value.sizes, value.sizes, strict=True)
            ),
        )
        if bound and value.sizes is not None
        else value
        for value in found
    )


def _second_pass(
    module: nn.Module, inputs: Inputs, seen: Pass, resized: Callable[[Inputs, Mapping[str, int]], Inputs], train: bool
) -> tuple[dict[str, int], dict[str, int], Pass | None]:
    """The same model at other sizes: (symbols, what they are worth there, the pass); no pass where none went well.

    All sizes change at once; where the model refuses that, one after the other, and only what may change is a symbol.
    """
    from tfinspect.measured import modules as measured

    bound = {name: size for name, size in inputs.sizes.items() if size}
    others = symbols.other_sizes(bound)
    attempts = [bound, *([{name: size} for name, size in bound.items()] if len(bound) > 1 else [])]
    for names in attempts:
        chosen = {name: others[name] for name in names}
        again = measured.run(module, measured.fresh(resized(inputs, chosen)), train=train, shapes_only=True)
        same = [(f.path, len(f.outputs)) for f in again.frames] == [(f.path, len(f.outputs)) for f in seen.frames]
        if again.error is None and same:
            return dict(names), chosen, again
    return {}, {}, None


def _calls(
    seen: Pass, others: list[Frame], bound: Mapping[str, int], other_bound: Mapping[str, int]
) -> tuple[ModuleCall, ...]:
    """The frames of a pass as a reader sees them."""
    from tfinspect.measured.module_params import elements

    within = [frame.flops for frame in seen.frames]
    for place in range(len(seen.frames) - 1, -1, -1):
        parent = seen.frames[place].parent
        if parent is not None:
            within[parent] += within[place]
    counted: set[int] = set()
    calls = []
    for place, frame in enumerate(seen.frames):
        other = others[place] if others else None
        mine = shared = 0
        for parameter in {id(p): p for p in frame.module._parameters.values() if p is not None}.values():
            if id(parameter) not in counted:
                counted.add(id(parameter))
                mine += elements(parameter)
            elif frame.nth == 1:
                shared += elements(parameter)
        calls.append(
            ModuleCall(
                path=frame.path,
                kind=type(frame.module).__name__,
                nth=frame.nth,
                parent=frame.parent,
                depth=frame.depth,
                inputs=_with_dims(frame.inputs, other.inputs if other else (), bound, other_bound),
                outputs=_with_dims(frame.outputs, other.outputs if other else (), bound, other_bound),
                params=mine,
                shared_params=shared,
                flops=within[place],
                own_flops=frame.flops,
                in_place=frame.in_place,
                finished=frame.finished,
                attention=_attention_with_dims(frame.attention, other, bound, other_bound),
                ops=tuple(frame.ops),
            )
        )
    return tuple(calls)


def _with_dims(
    values: tuple[Value, ...], others: tuple[Value, ...], bound: Mapping[str, int], other_bound: Mapping[str, int]
) -> tuple[Value, ...]:
    if len(values) != len(others):
        return values
    found = []
    for value, other in zip(values, others, strict=True):
        if value.sizes is not None and other.sizes is not None and len(value.sizes) == len(other.sizes):
            value = dataclasses.replace(value, dims=symbols.dims(value.sizes, other.sizes, bound, other_bound))
        found.append(value)
    return tuple(found)


def _attention_with_dims(
    attention: list[Opened], other: Frame | None, bound: Mapping[str, int], other_bound: Mapping[str, int]
) -> tuple[Opened, ...]:
    if other is None or len(other.attention) != len(attention):
        return tuple(attention)
    return tuple(
        dataclasses.replace(one, dims=symbols.dims(one.scores, two.scores, bound, other_bound))
        for one, two in zip(attention, other.attention, strict=True)
    )


def _not_called(module: nn.Module, seen: Pass) -> tuple[tuple[str, str, int], ...]:
    """(path, class, parameters within) of modules that never ran; what is inside of one is in its row."""
    from tfinspect.measured.module_params import elements

    called = {id(frame.module) for frame in seen.frames}
    used = _used_without_call(module, seen)
    above = {above for path in (*used, *(frame.path for frame in seen.frames)) for above in _prefixes(path)}
    found: list[tuple[str, str, int]] = []
    met: set[int] = set()
    for path, inner in module.named_modules():
        if id(inner) in called or path in used or path in above or id(inner) in met:
            continue
        met.update(map(id, inner.modules()))
        if any(id(deeper) in called for deeper in inner.modules()):  # run from elsewhere, under another name
            continue
        found.append((path, type(inner).__name__, sum({id(p): elements(p) for p in inner.parameters()}.values())))
    return tuple(found)


def _prefixes(path: str) -> Iterator[str]:
    words = path.split(".")
    return (".".join(words[:n]) for n in range(len(words)))


def _used_without_call(module: nn.Module, seen: Pass) -> tuple[str, ...]:
    """Modules that were not called and whose own parameters were used."""
    called = {id(frame.module) for frame in seen.frames}
    of_called = {id(p) for frame in seen.frames for p in frame.module._parameters.values() if p is not None}
    return tuple(
        path
        for path, inner in module.named_modules()
        if id(inner) not in called
        and any(id(p) in seen.used and id(p) not in of_called for p in inner._parameters.values() if p is not None)
    )


def _work(seen: Pass) -> tuple[ModuleWork, ...]:
    """The work of each module, all its calls together; a call of itself is in the call around it."""
    within = [frame.flops for frame in seen.frames]
    for place in range(len(seen.frames) - 1, -1, -1):
        parent = seen.frames[place].parent
        if parent is not None:
            within[parent] += within[place]
    found: dict[str, ModuleWork] = {}
    for frame, total in zip(seen.frames, within, strict=True):
        before = found.get(frame.path, ModuleWork(frame.path, type(frame.module).__name__, 0, 0, 0))
        found[frame.path] = dataclasses.replace(
            before,
            n_calls=before.n_calls + 1,
            flops=before.flops + (0 if _is_inside_itself(seen, frame) else total),
            own_flops=before.own_flops + frame.flops,
        )
    return tuple(found.values())


def _is_inside_itself(seen: Pass, frame: Frame) -> bool:
    """Whether a module made this call from within a call of its own."""
    above = frame.parent
    while above is not None:
        if seen.frames[above].path == frame.path:
            return True
        above = seen.frames[above].parent
    return False


def _failure(module: nn.Module, seen: Pass) -> str:
    """What stopped a pass: where, with which shapes, and why."""
    from tfinspect.measured.module_failures import explained

    assert seen.error is not None
    broken = [frame for frame in seen.frames if not frame.finished]
    inner = broken[-1] if broken else None
    kind = type(module).__name__
    if inner is None:
        return f"{kind} raised {described(seen.error)}"
    where = f"{inner.path} ({type(inner.module).__name__})" if inner.path else kind
    met = ", ".join(value.shape for value in inner.inputs if value.sizes is not None)
    reason = explained(inner)
    if reason:
        return f"{where} was given {met}: {reason} (torch: {described(seen.error)})"
    words = f"{where} raised {described(seen.error)}"
    if met:
        words += f"; it was given {met}"
    return f"{words}; {seen.failed_op}" if seen.failed_op else words


def _require_no_values_needed(seen: Pass, meta: bool) -> None:
    """Nothing, unless a pass on the meta device met an operation that needs values.

    Raises:  InputError naming the operation and the way out.
    """
    if meta and seen.error is not None and "meta" in str(seen.error).lower():
        broken = [frame.path for frame in seen.frames if not frame.finished]
        where = f" in {broken[-1]}" if broken and broken[-1] else ""
        what = seen.failed_op.partition(" of ")[0] or described(seen.error)
        raise InputError(
            f"{what}{where} does not run on the meta device, where tensors have no values",
            "leave out --meta (meta=True) to run it on the CPU",
        )


def _trace_agreements(module: nn.Module, seen: Pass, inputs: Inputs, train: bool) -> Iterator[Agreement]:
    from tfinspect.measured import modules as measured

    yield from _work_agreements(seen)
    yield from _param_agreements(module, _unique(module))
    fused = [opened for frame in seen.frames for opened in frame.attention if opened.difference is not None]
    if fused:
        worst = max(fused, key=lambda opened: (opened.difference or 0.0) / opened.tolerance)
        rows = min(opened.n_queries for opened in fused)
        yield Agreement(
            "fused attention step by step, largest difference from the kernel",
            0.0,
            worst.difference,
            f"{len(fused):,} calls, {rows:,} queries or more of each head, as a part of the largest output",
            tolerance=worst.tolerance,
        )
    if seen.error is None and seen.result is not None:
        found = measured.fast_path(module, measured.fresh(inputs), seen.result, written=seen.written)
        if found is not None:
            n_calls, worst_output = found
            yield Agreement(
                "output module by module, largest difference from torch's fused layers",
                0.0,
                worst_output,
                f"a pass that nobody watches, with {n_calls:,} fused calls, as a part of the largest output",
                tolerance=1e-3,
            )


def _work_agreements(seen: Pass) -> Iterator[Agreement]:
    """Products and layers held against their second paths."""
    ours = theirs = n_known = 0
    for product in seen.products:
        closed = contractions.multiplications(
            product.operator, product.inputs, product.output, transposed=product.transposed
        )
        if closed is not None:
            ours, theirs, n_known = ours + closed, theirs + product.flops // 2, n_known + 1
    yield Agreement(
        f"MACs of {n_known:,} of {len(seen.products):,} products, output elements times terms of each",
        ours,
        theirs,
        "torch's formula of each operator, and ours where torch has none",
    )
    from tfinspect.measured.module_params import attributes

    closed_total = measured_total = n_layers = 0
    for frame in seen.frames:
        given, made = (next((v.sizes for v in vs if v.sizes is not None), None) for vs in (frame.inputs, frame.outputs))
        if given is None or made is None or not frame.finished:
            continue
        closed = _quietly(layers.multiplications, type(frame.module).__name__, attributes(frame.module), given, made)
        if closed is not None:
            closed_total, measured_total, n_layers = (
                closed_total + closed,
                measured_total + frame.flops // 2,
                n_layers + 1,
            )
    if n_layers:
        how = "operators that ran inside these calls"
        yield Agreement(
            f"MACs of {n_layers:,} calls of layers, from their attributes", closed_total, measured_total, how
        )


def _param_agreements(module: nn.Module, total: int) -> Iterator[Agreement]:
    from tfinspect.measured.module_params import attributes, stored_elements
    from tfinspect.measured.modules import has_lazy

    stored = stored_elements(module)
    if stored is not None:
        yield Agreement("parameters, each tensor object once", total, stored, "each place in memory once")
    if has_lazy(module):
        return
    closed_total = measured_total = n_layers = 0
    counted: set[int] = set()
    for inner in module.modules():
        parameters = [p for p in inner._parameters.values() if p is not None]
        if counted.intersection(map(id, parameters)):
            continue  # tied to a layer before it, which has them already
        counted.update(map(id, parameters))
        closed = _quietly(layers.params, type(inner).__name__, attributes(inner))
        own = sum(p.numel() for p in parameters)
        if closed is not None and own:
            closed_total, measured_total, n_layers = closed_total + closed, measured_total + own, n_layers + 1
    if n_layers:
        how = "their own tensors; layers tied to one before them are left out"
        yield Agreement(f"parameters of {n_layers:,} layers, from their attributes", closed_total, measured_total, how)


def _quietly(formula: Callable[..., int | None], *arguments: Any) -> int | None:
    """What a formula gives; None for a class that has the name of a known one and other attributes."""
    try:
        return formula(*arguments)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
