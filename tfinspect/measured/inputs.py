"""What a module is called with, and the names of its axes: the same call can be made at other sizes.

A tensor is named by its path: ``0`` is the first argument, ``mask`` a keyword, ``batch.ids`` stands in a mapping, and
``x[1]`` in a list or a tuple. An axis that has a name has the same size wherever the name stands.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Final

import torch
from torch import Tensor

from tfinspect.errors import InputError

__all__ = ["Axes", "Inputs", "named", "resized"]

#: The names of a tensor's axes, from the first one on; None for an axis that is only its size.
Axes = tuple[str | None, ...]

#: Deepest nest of mappings and lists that is walked.
DEEPEST: Final = 64


@dataclasses.dataclass(frozen=True, eq=False)
class Inputs:
    """One call of a module: its positional arguments, its keywords, and the names of axes.

    Raises:  InputError for axes of a tensor that is not there, for more or fewer names than axes, and for a name with
             two sizes.
    """

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    axes: Mapping[str, Axes] = dataclasses.field(default_factory=dict)
    """By the path of a tensor; a tensor that is left out has no names."""

    def __post_init__(self) -> None:
        _require_sizes(dict(self.tensors()), self.axes)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor with its path, arguments first."""
        for path, value in self._roots():
            yield from _walk(path, value, 0)

    @property
    def sizes(self) -> dict[str, int]:
        """What each name is worth, in the order in which the names first stand."""
        found: dict[str, int] = {}
        for path, tensor in self.tensors():
            for name, size in zip(self.axes.get(path, ()), _sizes(tensor), strict=False):
                if name is not None:
                    found.setdefault(name, size)
        return found

    def mapped(self, change: Callable[[str, Tensor], Tensor]) -> Inputs:
        """The same call with every tensor changed; all that is no tensor stays as it is, and so do the names."""
        args = tuple(_changed(str(place), value, change, 0) for place, value in enumerate(self.args))
        kwargs = {name: _changed(name, value, change, 0) for name, value in self.kwargs.items()}
        return Inputs(args, kwargs, self.axes)

    def _roots(self) -> Iterator[tuple[str, Any]]:
        yield from ((str(place), value) for place, value in enumerate(self.args))
        yield from self.kwargs.items()


def resized(inputs: Inputs, sizes: Mapping[str, int]) -> Inputs:
    """The same call at other sizes of named axes: ``resized(inputs, {"T": 7})``.

    Along a named axis the values repeat from the front, so that ids stay valid ids; names without a size stay.

    Raises:  InputError for a name that no axis has, a size below 0, and a size where the axis has nothing to repeat.
    """
    known = inputs.sizes
    for name, size in sizes.items():
        if name not in known:
            raise InputError(f"no axis is named {name!r}", f"named: {', '.join(known) or 'none'}")
        if size < 0 or (size and not known[name]):
            raise InputError(f"an axis {name} of size {known[name]} cannot become {size}")

    def along(path: str, tensor: Tensor) -> Tensor:
        given = tensor
        with torch.no_grad():
            for axis, name in enumerate(inputs.axes.get(path, ())):
                if name is not None and sizes.get(name, tensor.shape[axis]) != tensor.shape[axis]:
                    place = torch.arange(sizes[name], device=tensor.device)
                    tensor = tensor.index_select(axis, place % max(tensor.shape[axis], 1))
        return tensor if tensor is given else tensor.requires_grad_(given.requires_grad)

    return inputs.mapped(along)


def named(inputs: Inputs) -> Inputs:
    """The same call with names for the axes whose size is free: B, T, H, W where that is the habit, else n0, n1, ...

    Token ids [B, T], vectors [B, T, 768], images [B, 3, H, W]: what a weight fixes stays a number. Equal sizes at one
    place of several tensors get one name; names that the caller gave stay as they are.
    """
    names = _Names(inputs)
    axes: dict[str, Axes] = {}
    for path, tensor in inputs.tensors():
        if tensor.ndim and not _sizes(tensor):
            continue
        given = inputs.axes.get(path, (None,) * tensor.ndim)
        wanted = _habit(tensor)
        axes[path] = tuple(
            name or (names.one(place, size, habit) if habit else None)
            for place, (name, size, habit) in enumerate(zip(given, tensor.shape, wanted, strict=True))
        )
    return dataclasses.replace(inputs, axes=axes)


def _sizes(tensor: Tensor) -> tuple[int, ...]:
    """The sizes of its axes; none where they cannot be chosen: nested, sparse or quantised."""
    plain = tensor.layout == torch.strided and not (tensor.is_nested or tensor.is_quantized)
    return tuple(tensor.shape) if plain else ()


#: Stands in a habit for an axis that is free and has no name of its own.
_FREE: Final = "n"


def _habit(tensor: Tensor) -> Axes:
    """What the axes of such a tensor mean by habit."""
    n = tensor.ndim
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return ("B", "T") if n == 2 else ("B", *(_FREE,) * (n - 1)) if n > 2 else (_FREE,) * n
    common: dict[int, Axes] = {0: (), 1: (_FREE,), 2: ("B", None), 3: ("B", "T", None), 4: ("B", None, "H", "W")}
    return common[n] if n in common else ("B", None, *(_FREE,) * (n - 2))


class _Names:
    """The names that are given, so that one name keeps one size."""

    def __init__(self, inputs: Inputs) -> None:
        self.sizes = inputs.sizes
        self.at: dict[tuple[int, int], str] = {}
        for path, tensor in inputs.tensors():
            for place, (name, size) in enumerate(zip(inputs.axes.get(path, ()), _sizes(tensor), strict=False)):
                if name is not None:
                    self.at.setdefault((place, size), name)

    def one(self, place: int, size: int, habit: str) -> str | None:
        """The name of an axis: of an equal one at its place, by habit, of any of its size, or a new one.

        An axis of 1 whose habit does not hold is one that broadcasts: it stays a number.
        """
        if habit != _FREE and self.sizes.get(habit, size) == size:
            name = self.at.get((place, size), habit)
        elif size == 1:
            return None
        else:
            equal = next((known for known, worth in self.sizes.items() if worth == size), None)
            name = self.at.get((place, size)) or equal or self._new()
        self.sizes.setdefault(name, size)
        self.at.setdefault((place, size), name)
        return name

    def _new(self) -> str:
        number = 0
        while f"{_FREE}{number}" in self.sizes:
            number += 1
        return f"{_FREE}{number}"


def _require_sizes(tensors: Mapping[str, Tensor], axes: Mapping[str, Axes]) -> None:
    """Nothing where each name has one size.

    Raises:  InputError naming both places and both sizes.
    """
    seen: dict[str, tuple[str, int]] = {}
    for path, names in axes.items():
        if path not in tensors:
            raise InputError(f"axes are named for {path!r}, which is no tensor", f"tensors: {', '.join(tensors)}")
        shape = tensors[path].shape
        if len(names) != len(shape):
            raise InputError(f"{path} has {len(shape)} axes and {len(names)} names", "give one per axis, or None")
        for name, size in zip(names, shape, strict=True):
            if name is None:
                continue
            where, first = seen.setdefault(name, (path, size))
            if first != size:
                raise InputError(f"{name} is {first} in {where} and {size} in {path}", "one name has one size")


def _walk(path: str, value: Any, depth: int) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield path, value
    elif depth < DEEPEST:
        for inner, item in _items(path, value):
            yield from _walk(inner, item, depth + 1)


def _items(path: str, value: Any) -> list[tuple[str, Any]]:
    """What stands in a container, by path; nothing for anything else."""
    if isinstance(value, Mapping):
        return [(f"{path}.{key}", item) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [(f"{path}[{place}]", item) for place, item in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f"{path}.{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value)]
    return []


def _changed(path: str, value: Any, change: Callable[[str, Tensor], Tensor], depth: int) -> Any:
    """A value of the same kind with its tensors changed; itself, where it holds none."""
    if isinstance(value, Tensor):
        return change(path, value)
    if next(_walk(path, value, depth), None) is None:
        return value
    items = [_changed(inner, item, change, depth + 1) for inner, item in _items(path, value)]
    if isinstance(value, MutableMapping):
        value = copy.copy(value)  # a mapping of any kind, with its default factory or its methods
        value.update(zip(list(value), items, strict=True))
        return value
    if isinstance(value, Mapping):
        return dict(zip(value, items, strict=True))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*items)
    if isinstance(value, list | tuple):
        return type(value)(items)
    fields = [field.name for field in dataclasses.fields(value)]
    return dataclasses.replace(value, **dict(zip(fields, items, strict=True)))
