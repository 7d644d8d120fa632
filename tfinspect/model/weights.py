"""From the names of a published checkpoint to the core's own: which of their tensors each of ours is, and how.

    ours                      theirs (GPT-2)                     how
    blocks.3.attn.q.weight    transformer.h.3.attn.c_attn.weight  transposed, the first third
    blocks.3.mlp.up.weight    transformer.h.3.mlp.c_fc.weight     transposed

The names are those of `naming`. Nothing is copied that need not be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from tfinspect import naming
from tfinspect.dims import brackets
from tfinspect.errors import InputError
from tfinspect.model.build import Model, build
from tfinspect.model.encoder_decoder import EncoderDecoder
from tfinspect.naming import NAMED_ONLY, SAME_NAMES, Place, find, is_no_weight, second_names
from tfinspect.spec import ModelSpec

__all__ = ["FAMILIES", "converted", "load"]

#: Families whose weights the core can take.
FAMILIES: Final = tuple(family for family in naming.FAMILIES if family not in NAMED_ONLY)

#: Names that an error shows.
SHOWN: Final = 4


def load(family: str, tensors: Mapping[str, Tensor], spec: ModelSpec) -> Model:
    """The core in eval mode with a checkpoint's weights, in the checkpoint's number format.

    Raises:  InputError as `converted` does.
    """
    model = build(spec, device="meta")
    model.load_state_dict(converted(family, tensors, spec), assign=True, strict=False)
    if model.head is not None and spec.tied_head:
        stack = model.encoder if isinstance(model, EncoderDecoder) else model
        model.head.weight = stack.embed.tokens.weight
    return model.eval()


def converted(family: str, tensors: Mapping[str, Tensor], spec: ModelSpec) -> dict[str, Tensor]:
    """A checkpoint's tensors by the core's names, tied ones once.

    Shapes:  linear weights [out, in], as in the core.
    Raises:  InputError for an unknown family, and naming tensors that are missing, of another shape, or left over.
    """
    if family in NAMED_ONLY:
        raise InputError(f"no weights of {family!r} can be read: {NAMED_ONLY[family]}", f"known: {', '.join(FAMILIES)}")
    if family not in FAMILIES and family not in SAME_NAMES:
        raise InputError(f"no weights of {family!r} can be read", f"known: {', '.join(FAMILIES)}")
    found: dict[str, Tensor] = {}
    used: dict[str, Tensor] = {}
    missing, misshapen = [], []
    for name, parameter in build(spec, device="meta").named_parameters():
        place = find(family, name, tensors)
        if place is None:
            missing.append(name)
            continue
        used[place.name] = theirs = tensors[place.name]
        try:
            found[name] = _taken(theirs, place, spec)
        except (RuntimeError, IndexError):  # it cannot be split into the parts that the spec has
            found[name] = theirs
        if found[name].shape != parameter.shape:
            misshapen.append(f"{place.name} {brackets(theirs.shape)} ({name} is {brackets(parameter.shape)})")
    twice = second_names(family)
    left = [name for name in tensors if name not in used and not _is_nothing_new(name, tensors, used, twice)]
    for names, what in ((missing, "has nothing for"), (misshapen, "does not fit:"), (left, "has unknown tensors:")):
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            raise InputError(f"the checkpoint {what} {', '.join(names[:SHOWN])}{more}", "is it of this model?")
    return found


def _taken(tensor: Tensor, place: Place, spec: ModelSpec) -> Tensor:
    """Ours out of the tensor that holds it."""
    origin = place.origin
    if origin.stacked:
        tensor = tensor[place.numbers[-1]]
    if origin.how in ("transposed", "flipped qkv") and tensor.ndim == 2:
        tensor = tensor.mT
    if origin.how in ("qkv", "flipped qkv"):
        return tensor.split((spec.d_attn, spec.d_kv, spec.d_kv))[origin.part]
    if origin.how == "groups":
        n_queries = spec.n_heads // spec.n_kv_heads
        groups = tensor.unflatten(0, (spec.n_kv_heads, n_queries + 2, spec.d_head))
        return groups.split((n_queries, 1, 1), dim=1)[origin.part].flatten(0, 2)
    if origin.how == "halves":
        return tensor.chunk(2)[origin.part]
    if origin.how == "plus one":
        return tensor + 1
    if origin.how == "over root d" and spec.tied_head:
        return tensor / math.sqrt(spec.d_model)
    return tensor


def _is_nothing_new(
    name: str, tensors: Mapping[str, Tensor], used: Mapping[str, Tensor], second_names: frozenset[str]
) -> bool:
    """Whether a tensor that is left over says nothing: a mask, a bias of zeros, a second name of one that is used."""
    tensor = tensors[name]
    if name in second_names:
        return any(other.shape == tensor.shape and torch.equal(other, tensor) for other in used.values())
    return is_no_weight(name) or (name.endswith("final_logits_bias") and not tensor.any())
