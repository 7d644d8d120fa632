"""Figures of a module held against a second path: products, layers, parameters, and fused attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tfinspect.closed_form import contractions, layers
from tfinspect.results.agreement import Agreement

if TYPE_CHECKING:
    from torch import nn

    from tfinspect.measured.inputs import Inputs
    from tfinspect.measured.modules import Pass

__all__ = ["of_params", "of_trace", "of_work"]


def of_trace(module: nn.Module, seen: Pass, inputs: Inputs, train: bool) -> Iterator[Agreement]:
    from tfinspect.measured import modules as measured
    from tfinspect.measured.module_params import unique_elements

    yield from of_work(seen)
    yield from of_params(module, unique_elements(module))
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


def of_work(seen: Pass) -> Iterator[Agreement]:
    """Products and layers held against their second paths."""
    ours = theirs = n_known = 0
    for product in seen.products:
        closed = contractions.multiplications(
            product.operator, product.inputs, product.output, transposed=product.transposed
        )
        if closed is not None:
            ours, theirs, n_known = ours + closed, theirs + product.flops // 2, n_known + 1
    if n_known:
        what = f"MACs of {n_known:,} of {len(seen.products):,} products, output elements times terms of each"
        yield Agreement(what, ours, theirs, "torch's formula of each operator, and ours where torch has none")
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


def of_params(module: nn.Module, total: int) -> Iterator[Agreement]:
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
