"""Any `nn.Module`: its parameters, one forward pass of it call by call, and what the pass costs.

Each figure is held against a second path: the work of each product against the length that it sums over, that of each
layer of a known class against its attributes, parameters against attributes and against memory, fused attention against
its own steps.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tfinspect.closed_form import axes as symbols
from tfinspect.errors import InputError, described
from tfinspect.inspectors import module_agreements, module_calls
from tfinspect.results.agreement import Agreement
from tfinspect.results.module_flops import ModuleFlops
from tfinspect.results.module_params import ModuleParams
from tfinspect.results.module_trace import Inspected, ModuleTrace, Value

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
    return (
        dataclasses.replace(report, agreements=tuple(module_agreements.of_params(module, report.total)))
        if check
        else report
    )


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
    from tfinspect.measured.module_params import unique_elements

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
    calls = module_calls.calls(seen, others, bound, other_bound)
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
    agreements = tuple(module_agreements.of_trace(ran, seen, inputs, train)) if check and seen.error is None else ()
    return ModuleTrace(
        model=_inspected(ran, name, train),
        inputs=_input_values(inputs, bound, other_bound),
        calls=calls,
        total_params=unique_elements(ran),
        total_flops=seen.flops,
        n_ops=seen.n_ops,
        uncounted=tuple(seen.uncounted),
        n_uncounted=seen.n_uncounted,
        not_called=module_calls.not_called(ran, seen),
        used_without_call=module_calls.used_without_call(ran, seen),
        unregistered=sum(seen.unregistered.values()),
        symbols=bound,
        failure=module_calls.failure(ran, seen) if seen.error is not None else None,
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
    from tfinspect.measured.module_params import unique_elements

    _require_module(module)
    _require_depth(depth)
    ran, inputs, notes = _prepared(module, args, kwargs, None, meta)
    seen = measured.run(ran, measured.fresh(inputs), train=train)
    _require_no_values_needed(seen, meta)
    if seen.grad:
        notes.append(DIFFERENTIATES)
    if seen.error is not None:
        raise InputError(module_calls.failure(ran, seen))
    agreements = []
    if check:
        counted = measured.counted(ran, measured.fresh(inputs), train=train, like=seen)
        how = "the same pass as it is, fused layers and all, under torch's counter with what it misses added"
        if counted is not None:
            agreements.append(Agreement("MACs", seen.flops // 2, counted.flops // 2, how))
        agreements += module_agreements.of_work(seen)
    return ModuleFlops(
        model=_inspected(ran, name, train),
        inputs=_input_values(inputs, {}, {}),
        total_flops=seen.flops,
        by_operator=seen.by_operator,
        modules=module_calls.work(seen),
        coverage=(seen.n_ops - seen.n_uncounted, seen.n_ops),
        uncounted=tuple(seen.uncounted),
        total_params=unique_elements(ran),
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
