"""How long each call of each module takes, and what listening to it costs.

A pass is heard through hooks alone, several times after some that warm up; each call's time is the median. Every hooked
call inside a call makes it longer by what the hooks cost, which is measured on an empty module and taken off.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from tfinspect.measured.inputs import Inputs
from tfinspect.measured.modules import eager, slow_path
from tfinspect.measured.untouched import as_it_was

__all__ = ["REPEATS", "seconds"]

#: Passes that are timed, and most that are not: torch makes ready over the first few.
REPEATS: Final = 5
WARM_UP: Final = 5
#: Beyond so many seconds a warm-up is long enough.
LONG_SECONDS: Final = 1.0


def seconds(
    module: nn.Module, fresh: Callable[[], Inputs], *, train: bool, written: Iterable[Tensor] = (), grad: bool = False
) -> tuple[list[float], float]:
    """(time of each call in the order in which they began, cost of listening to one), in seconds.

    fresh() gives the `Inputs` of one pass; `written` are the model's own tensors that an earlier pass wrote to. A
    call's own listening is in its time as well as that of the calls inside, and all of it is taken off.
    """
    cost = _cost_of_listening()
    kept = tuple(written)
    since = time.perf_counter()
    for _ in range(WARM_UP):
        _timed(module, fresh(), train, kept, grad)
        if time.perf_counter() - since > LONG_SECONDS:
            break
    runs = [_timed(module, fresh(), train, kept, grad) for _ in range(REPEATS)]
    n_calls = min(map(len, runs))
    inside = [(ended - begun - 1) // 2 for begun, ended, _ in runs[0]]  # each call inside has a begin and an end
    medians = [statistics.median(run[place][2] for run in runs) for place in range(n_calls)]
    return [max(0.0, taken - cost * n) for taken, n in zip(medians, inside, strict=False)], cost


def _timed(
    module: nn.Module, inputs: Inputs, train: bool, written: tuple[Tensor, ...], grad: bool
) -> list[tuple[int, int, float]]:
    """(number of the event that began it, of the one that ended it, seconds) of each call, in order."""
    events = 0
    open_calls: list[tuple[int, nn.Module, float]] = []
    begun: dict[int, tuple[int, int, float]] = {}
    on_cuda = torch.cuda.is_initialized()

    def begins(inner: nn.Module, args: Any) -> None:
        nonlocal events
        events += 1
        begun[events] = (events, events, 0.0)
        if on_cuda:
            torch.cuda.synchronize()
        open_calls.append((events, inner, time.perf_counter()))

    def ends(inner: nn.Module, args: Any, result: Any) -> None:
        nonlocal events
        if on_cuda:
            torch.cuda.synchronize()
        now = time.perf_counter()
        events += 1
        while open_calls:
            number, opened, since = open_calls.pop()
            if opened is inner:
                begun[number] = (number, events, now - since)
                return

    before, after = register_module_forward_pre_hook(begins), register_module_forward_hook(ends)
    try:
        with (
            as_it_was(module, train=train, written=written),
            slow_path(),
            eager(),
            torch.set_grad_enabled(grad),
        ):
            module(*inputs.args, **inputs.kwargs)
    finally:
        before.remove()
        after.remove()
    return [begun[number] for number in sorted(begun)]


def _cost_of_listening() -> float:
    """Seconds that hooks add to one call, from many calls of a module that does nothing."""
    empty, nothing = nn.Identity(), torch.zeros(())
    n_calls = 300

    def once() -> float:
        since = time.perf_counter()
        for _ in range(n_calls):
            empty(nothing)
        return (time.perf_counter() - since) / n_calls

    once()
    plain = min(once() for _ in range(5))
    stack: list[tuple[int, nn.Module, float]] = []
    seen: dict[int, tuple[int, int, float]] = {}

    def begins(inner: nn.Module, args: Any) -> None:
        seen[0] = (0, 0, 0.0)
        stack.append((0, inner, time.perf_counter()))

    def ends(inner: nn.Module, args: Any, result: Any) -> None:
        _, _, since = stack.pop()
        seen[0] = (0, 0, time.perf_counter() - since)

    before, after = register_module_forward_pre_hook(begins), register_module_forward_hook(ends)
    try:
        heard = min(once() for _ in range(5))
    finally:
        before.remove()
        after.remove()
    return max(0.0, heard - plain)
