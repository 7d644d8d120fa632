"""What a watched pass says of modules: their calls, their work, which of them never ran, and what stopped it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tfinspect.closed_form import axes as symbols
from tfinspect.errors import described
from tfinspect.results.module_flops import ModuleWork
from tfinspect.results.module_trace import ModuleCall, Opened, Value

if TYPE_CHECKING:
    from torch import nn

    from tfinspect.measured.modules import Frame, Pass

__all__ = ["calls", "failure", "not_called", "used_without_call", "work"]


def calls(
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


def not_called(module: nn.Module, seen: Pass) -> tuple[tuple[str, str, int], ...]:
    """(path, class, parameters within) of modules that never ran; what is inside of one is in its row."""
    from tfinspect.measured.module_params import elements

    called = {id(frame.module) for frame in seen.frames}
    used = used_without_call(module, seen)
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


def used_without_call(module: nn.Module, seen: Pass) -> tuple[str, ...]:
    """Modules that were not called and whose own parameters were used."""
    called = {id(frame.module) for frame in seen.frames}
    of_called = {id(p) for frame in seen.frames for p in frame.module._parameters.values() if p is not None}
    return tuple(
        path
        for path, inner in module.named_modules()
        if id(inner) not in called
        and any(id(p) in seen.used and id(p) not in of_called for p in inner._parameters.values() if p is not None)
    )


def work(seen: Pass) -> tuple[ModuleWork, ...]:
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


def failure(module: nn.Module, seen: Pass) -> str:
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
