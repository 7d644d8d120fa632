"""What a module was given that it cannot work with, in words that say what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from tfinspect.measured.modules import Frame

__all__ = ["explained"]


def explained(frame: Frame) -> str:
    """Why a call failed, where its class and its inputs tell; empty where they do not."""
    module = frame.module
    tensors = [value for value in frame.inputs if value.sizes is not None]
    if not tensors:
        return ""
    first = tensors[0]
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        if first.dtype.startswith(("float", "bfloat")):
            return f"it looks up ids, integers from 0 to {module.num_embeddings - 1:,}, and was given {first.dtype}"
        if frame.outside is not None:
            wrong, place = frame.outside
            return f"id {wrong:,} at {list(place)} is outside of its table, 0 to {module.num_embeddings - 1:,}"
    weight = getattr(module, "weight", None)
    if weight is not None and first.dtype and hasattr(weight, "dtype"):
        own = str(weight.dtype).removeprefix("torch.")
        if (
            own != first.dtype
            and first.dtype.startswith(("float", "bfloat", "int"))
            and own.startswith(("float", "bf"))
        ):
            return f"its weights are {own} and its input is {first.dtype}"
    return ""
