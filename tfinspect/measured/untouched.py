"""A user's model is run and given back as it was, however the run ends.

What is kept: the mode of each module, buffers that a pass writes to, gradients, and the state of every random generator
that a forward pass may draw from. Parameters are written to by no forward pass; one that writes to them all the same
finds them restored too, if torch sees the writing.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Keeper", "as_it_was"]


class Keeper:
    """Copies of the tensors of a model that are written to, taken before they are."""

    def __init__(self, module: nn.Module) -> None:
        self._by_storage: dict[int, list[Tensor]] = {}
        for tensor in (*module.parameters(), *module.buffers()):
            if (address := storage_of(tensor)) is not None:
                self._by_storage.setdefault(address, []).append(tensor)
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}

    def before_writing(self, tensor: Tensor) -> None:
        """Keep what is about to be overwritten, if it is the model's."""
        for own in self._by_storage.get(storage_of(tensor) or 0, ()):
            if id(own) not in self._copies:
                self._copies[id(own)] = (own, own.detach().clone())

    def restore(self) -> None:
        """Write the copies back."""
        with torch.no_grad():
            for own, copy in self._copies.values():
                own.copy_(copy)
        self._copies.clear()


def storage_of(tensor: Tensor) -> int | None:
    """Where a tensor's elements are; None where it has none, as on the meta device."""
    if type(tensor).__name__.startswith("Uninitialized") or tensor.device.type == "meta":
        return None
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (RuntimeError, NotImplementedError):  # sparse, nested, or a subclass without storage
        return None


@contextlib.contextmanager
def as_it_was(module: nn.Module, *, train: bool) -> Iterator[Keeper]:
    """Inside, the model is in one mode; then modes, buffers, gradients and random states are what they were.

    The keeper is told of writing to tensors by whoever watches the operators.
    """
    modes = [(inner, inner.training) for inner in module.modules()]
    gradients = [(p, p.grad) for p in module.parameters()]
    buffers = [(inner, name, tensor) for inner in module.modules() for name, tensor in inner._buffers.items()]
    keeper = Keeper(module)
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    drawn = random.getstate()
    numpy: Any = sys.modules.get("numpy")
    drawn_numpy = numpy.random.get_state() if numpy is not None else None
    with torch.random.fork_rng(devices=devices):
        try:
            for inner, _ in modes:
                inner.training = train
            yield keeper
        finally:
            for inner, mode in modes:
                inner.training = mode
            keeper.restore()
            for inner, name, tensor in buffers:  # one that was replaced rather than written to
                if inner._buffers.get(name) is not tensor:
                    inner._buffers[name] = tensor
            for parameter, gradient in gradients:
                if parameter.grad is not gradient:
                    parameter.grad = gradient
            random.setstate(drawn)
            if drawn_numpy is not None:
                numpy.random.set_state(drawn_numpy)
