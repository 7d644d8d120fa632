"""Watching what torch really runs, operator by operator, without slowing its start.

The first operator under any dispatch mode, the first elementwise operator on the meta device, and the first optimizer
make torch import its compiler (`torch._dynamo`, 340 modules, over half a second) for the sole purpose of telling that
compiler to stay out. `without_compiler` answers these calls itself while nothing is being compiled, and takes every
trace of its answers back afterwards.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Watcher", "without_compiler"]


class Watcher(TorchDispatchMode):
    """A dispatch mode that calls `seen(operator, args, kwargs, result)` after each operator that runs."""

    def __init__(self, seen: Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own has no types
        self.seen = seen

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled while a watcher is on, so there is nothing to keep the compiler out of.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self.seen(func, args, kwargs, result)
        return result


@contextlib.contextmanager
def without_compiler() -> Iterator[None]:
    """Eager work inside does not make torch import its compiler.

    Does nothing where the compiler is loaded already. Everything is undone on the way out: the stand-in module leaves
    `sys.modules`, and the functions that it was asked about forget the answer.
    """
    name = "torch._dynamo"
    if name in sys.modules:
        yield
        return
    asked: list[Any] = []

    def disable(fn: Any, recursive: bool = True, wrapping: bool = True) -> Any:
        asked.append(fn)
        return fn

    def graph_break() -> None:
        """What an optimizer's step tells the compiler: there is no graph to break."""

    def real(attribute: str) -> Any:
        """Anything else of the compiler: work that needs it, such as flex attention, gets the real one."""
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
        compiler = importlib.import_module(name)
        torch.__dict__["_dynamo"] = compiler
        return getattr(compiler, attribute)

    stand_in = types.ModuleType(name)
    stand_in.__dict__.update(disable=disable, graph_break=graph_break, __getattr__=real)
    sys.modules[name] = stand_in
    import torch

    torch.__dict__["_dynamo"] = stand_in
    try:
        yield
    finally:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
        if torch.__dict__.get("_dynamo") is stand_in:
            del torch.__dict__["_dynamo"]
        for fn in asked:
            with contextlib.suppress(AttributeError):
                delattr(fn, "__dynamo_disable")
