"""A model whose every parameter is drawn, and a tap that keeps every named tensor of its pass."""

from __future__ import annotations

from torch import Tensor

from tfinspect.model.transformer import Transformer
from tfinspect.spec import ModelSpec
from tfinspect.verify.draws import Draws

__all__ = ["Kept", "transformer"]


class Kept:
    """What a pass named, by name: "blocks.0.attn.scores"; scores and weights too, so attention is not fused."""

    sees_scores = True

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._prefix = ""

    def __call__(self, name: str, tensor: Tensor, dims: str) -> Tensor:
        self.tensors[self._prefix + name] = tensor
        return tensor

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def within(self, place: str) -> Kept:
        """The same record, for names inside a place."""
        inner = Kept()
        inner.tensors, inner._prefix = self.tensors, f"{self._prefix}{place}."
        return inner


def transformer(spec: ModelSpec, draws: Draws) -> Transformer:
    """The torch model of a spec, drawn."""
    return draws.filled(Transformer(spec))
