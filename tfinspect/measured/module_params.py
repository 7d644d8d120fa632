"""Parameters and buffers of any `nn.Module`, each once, counted on the module itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from tfinspect.measured.untouched import storage_of
from tfinspect.results.module_params import ModuleNode, ModuleTensor

__all__ = ["attributes", "elements", "layers", "stored_elements", "tensors", "tree", "unique_elements"]


def tensors(module: nn.Module) -> tuple[tuple[ModuleTensor, ...], tuple[ModuleTensor, ...]]:
    """(parameters, buffers), each tensor once with every name that it has."""
    return (
        _once(module.named_parameters(remove_duplicate=False)),
        _once(module.named_buffers(remove_duplicate=False)),
    )


def unique_elements(module: nn.Module) -> int:
    """Elements of all parameters, each tensor once."""
    return sum(tensor.params for tensor in tensors(module)[0])


def _once(named: Iterable[tuple[str, Tensor]]) -> tuple[ModuleTensor, ...]:
    names: dict[int, list[str]] = {}
    found: dict[int, Tensor] = {}
    for name, tensor in named:
        found[id(tensor)] = tensor
        names.setdefault(id(tensor), []).append(name)
    return tuple(
        ModuleTensor(
            names[key][0],
            None if is_lazy(tensor) else tuple(tensor.shape),
            str(tensor.dtype).removeprefix("torch."),
            elements(tensor),
            tensor.requires_grad,
            tuple(names[key][1:]),
        )
        for key, tensor in found.items()
    )


def elements(tensor: Tensor) -> int:
    """Number of its elements; 0 for a lazy one, which has no shape yet."""
    return 0 if is_lazy(tensor) else tensor.numel()


def tree(module: nn.Module) -> tuple[ModuleNode, ...]:
    """Every module with the parameters of its own and of what is inside it, each counted where it comes first."""
    counted: set[int] = set()
    first_path: dict[int, str] = {}
    own: dict[str, int] = {}
    nodes = []
    for path, inner in module.named_modules(remove_duplicate=False):
        same_as = first_path.get(id(inner))
        first_path.setdefault(id(inner), path)
        mine = shared = 0
        for parameter in {id(p): p for p in inner._parameters.values() if p is not None}.values():
            if id(parameter) in counted:
                shared += elements(parameter)
            else:
                counted.add(id(parameter))
                mine += elements(parameter)
        own[path] = mine
        nodes.append((path, type(inner).__name__, mine, shared, same_as))
    within: dict[str, int] = dict.fromkeys(own, 0)
    for path, count in own.items():
        for above in _above(path):
            if above in within:
                within[above] += count
    return tuple(
        ModuleNode(path, kind, mine, shared, within[path], "" if same_as is None else same_as or "the model itself")
        for path, kind, mine, shared, same_as in nodes
    )


def _above(path: str) -> Iterable[str]:
    """A path and every path above it: "h.0.fc" gives "h.0.fc", "h.0", "h" and ""."""
    words = path.split(".") if path else []
    return (".".join(words[:n]) for n in range(len(words), -1, -1))


def stored_elements(module: nn.Module) -> int | None:
    """Elements of all parameters by where they are in memory: a second way to find what is shared.

    None on the meta device and for tensors without a plain storage, where memory tells nothing.
    """
    spans: dict[tuple[int, int, tuple[int, ...]], int] = {}
    for inner in module.modules():
        for parameter in inner._parameters.values():
            if parameter is None or is_lazy(parameter) or not parameter.numel():
                continue
            address = storage_of(parameter)
            if address is None:
                return None
            spans[address, int(parameter.storage_offset()), tuple(parameter.shape)] = parameter.numel()
    return sum(spans.values())


def layers(module: nn.Module) -> Mapping[str, nn.Module]:
    """Every module once, by its first path."""
    return dict(module.named_modules())


def attributes(module: nn.Module) -> dict[str, Any]:
    """The sizes that a layer keeps, and which of its tensors it has, as plain values."""
    plain = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, int | tuple) and not name.startswith("_")
    }
    plain.update({name: int(p is not None) for name, p in module._parameters.items() if name in ("weight", "bias")})
    plain.setdefault("bias", 0)
    plain.setdefault("weight", 0)
    return plain
