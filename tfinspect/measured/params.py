"""Parameters as the torch model has them: counted on a module, each storage once, never from a formula."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

from torch import nn

from tfinspect.measured.surroundings import plain_torch
from tfinspect.model.build import build
from tfinspect.spec import ModelSpec

__all__ = ["Count", "component", "count", "counted"]

#: Which component of the ledger a parameter belongs to, by the part of its name that says so.
_COMPONENT_OF = {
    "embed.tokens": "tokens",
    "embed.positions": "positions",
    "embed.types": "types",
    "relative": "relative",
    "attn": "attention",
    "cross": "cross",
    "router": "router",
    "experts": "experts",
    "shared": "shared",
    "mlp": "mlp",
    "head": "head",
    "mlm.dense": "head",
    "pooler": "pooler",
    **dict.fromkeys(("norm", "norm1", "norm2", "norm3", "norm1_out", "norm2_out", "final_norm"), "norms"),
}


@dataclasses.dataclass(frozen=True)
class Count:
    """Unique parameters of a module."""

    total: int
    """Elements of all parameters, a shared one once."""
    by_component: Mapping[str, int]
    """The total by key of the ledger: "tokens", "attention" ...; a tied head counts 0."""
    tensors: tuple[tuple[str, tuple[int, ...], int], ...]
    """(name, shape, elements) of each parameter, in module order."""
    ties: tuple[tuple[str, str], ...]
    """(name, the name under which the same parameter was counted)."""


@plain_torch()
def count(spec: ModelSpec) -> Count:
    """Parameters of the torch model of a spec, built on the meta device without memory."""
    return counted(build(spec, device="meta"))


def counted(model: nn.Module) -> Count:
    """Parameters of a module whose names are the project's own."""
    first_name = {id(p): name for name, p in model.named_parameters()}
    tensors = tuple((name, tuple(p.shape), p.numel()) for name, p in model.named_parameters())
    components: Counter[str] = Counter(dict.fromkeys(_COMPONENT_OF.values(), 0))
    for name, _, numel in tensors:
        components[component(name)] += numel
    ties = tuple(
        (name, first_name[id(p)])
        for name, p in model.named_parameters(remove_duplicate=False)
        if first_name[id(p)] != name
    )
    return Count(sum(numel for _, _, numel in tensors), dict(components), tensors, ties)


def component(name: str) -> str:
    """Key of the ledger: "blocks.3.attn.q.weight" is "attention"."""
    return next(key for part, key in _COMPONENT_OF.items() if f".{part}." in f".{name}")
