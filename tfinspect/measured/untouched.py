"""A user's model is run and given back as it was, however the run ends.

What is kept: the mode of each module and what hangs on it, hooks included, where its tensors are and what they hold,
whether they want gradients, gradients, torch's default dtype, and the state of every random generator that a forward
pass may draw from. A list or a table that a module appends to is the
module's own business.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Keeper", "as_it_was"]


class Keeper:
    """Copies of the tensors of a model that are written to, taken before they are."""

    def __init__(self, module: nn.Module) -> None:
        self._by_storage: dict[int, list[Tensor]] = {}
        gradients = (p.grad for p in module.parameters() if p.grad is not None)
        for tensor in (*module.parameters(), *module.buffers(), *gradients):
            if (address := storage_of(tensor)) is not None:
                self._by_storage.setdefault(address, []).append(tensor)
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def written(self) -> tuple[Tensor, ...]:
        """The tensors that were kept so far."""
        return tuple(own for own, _ in self._copies.values())

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


def _is_plain(tensor: Tensor) -> bool:
    """Whether it stands in a storage of its own kind, and not in a class or a format that keeps its data elsewhere."""
    return type(tensor) in (Tensor, nn.Parameter, nn.Buffer) and tensor.layout == torch.strided and not tensor.is_nested


def _place(tensor: Tensor) -> tuple[Any, ...]:
    """Where a plain tensor's elements are and how they are read."""
    storage = tensor.untyped_storage()._cdata
    return storage, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype


@contextlib.contextmanager
def as_it_was(module: nn.Module, *, train: bool, written: Iterable[Tensor] = ()) -> Iterator[Keeper]:
    """Inside, there are no gradients and the model is in one mode; then all that it is and draws is what it was.

    The keeper is told of writing to tensors by whoever watches the operators; where nobody does, `written` are those
    that a pass before this one wrote to.
    """
    inside = list(module.modules())
    modes = [(inner, inner.training) for inner in inside]
    gradients = [(p, p.grad) for p in module.parameters()]
    shelves = [shelf for inner in inside for shelf in (inner._parameters, inner._buffers, inner._modules, vars(inner))]
    shelves += [hooks for inner in inside for name, hooks in vars(inner).items() if "hooks" in name]
    contents = [(shelf, dict(shelf)) for shelf in shelves if isinstance(shelf, dict)]
    own = [(t, t.data, t.requires_grad) for t in (*module.parameters(), *module.buffers()) if _is_plain(t)]
    default_dtype = torch.get_default_dtype()
    keeper = Keeper(module)
    for tensor in written:
        keeper.before_writing(tensor)
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    drawn = random.getstate()
    numpy: Any = sys.modules.get("numpy")
    drawn_numpy = numpy.random.get_state() if numpy is not None else None
    with torch.random.fork_rng(devices=devices):
        try:
            for inner, _ in modes:
                inner.training = train
            with torch.no_grad():
                yield keeper
        finally:
            for inner, mode in modes:
                inner.training = mode
            for tensor, data, wants in own:
                if _place(tensor) != _place(data):
                    tensor.data = data
                if tensor.requires_grad != wants and tensor.is_leaf:
                    tensor.requires_grad_(wants)
            keeper.restore()
            for shelf, before in contents:
                if shelf.keys() != before.keys() or any(shelf[name] is not value for name, value in before.items()):
                    shelf.clear()
                    shelf.update(before)
            for parameter, gradient in gradients:
                if parameter.grad is not gradient:
                    parameter.grad = gradient
            torch.set_default_dtype(default_dtype)
            random.setstate(drawn)
            if drawn_numpy is not None:
                numpy.random.set_state(drawn_numpy)
