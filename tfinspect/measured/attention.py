"""What one attention head of the torch model does on each text: products, mask, scores and weights."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from numpy.typing import NDArray
from torch import Tensor

from tfinspect.measured import weights
from tfinspect.measured.dispatch import without_compiler
from tfinspect.measured.surroundings import plain_torch
from tfinspect.model.positions import causal_mask
from tfinspect.model.transformer import Block, Transformer
from tfinspect.results.attention import Matrix
from tfinspect.results.weights import Filled, Weights
from tfinspect.spec import ModelSpec

__all__ = ["Head", "Ran", "run"]


@dataclasses.dataclass(frozen=True)
class Head:
    """One head on one text, each matrix [T, T]."""

    products: Matrix
    """Q·Kᵀ/√d_head, from the head's own Q and the K that it reads."""
    mask: Matrix
    """Whatever is added to them: 0 and −∞, slopes, the relative bias."""
    scores: Matrix
    """As the forward pass made them, mask included."""
    weights: Matrix


@dataclasses.dataclass(frozen=True)
class Ran:
    """The heads, and the parameters that made them."""

    heads: tuple[Head, ...]
    """One per text."""
    weights: Mapping[str, NDArray[Any]]
    """The model's parameters by name."""
    filled: Filled
    """Where their numbers come from, and their format."""


class _InNumPy(Mapping[str, "NDArray[Any]"]):
    """A model's parameters as NumPy has them: as they are, and half precision, which it may not know, as float32."""

    def __init__(self, model: Transformer) -> None:
        self.state = model.state_dict()

    def __getitem__(self, name: str) -> NDArray[Any]:
        tensor = self.state[name]
        return (tensor.float() if tensor.dtype.itemsize < 4 else tensor).numpy()

    def __contains__(self, name: object) -> bool:
        return name in self.state

    def __iter__(self) -> Iterator[str]:
        return iter(self.state)

    def __len__(self) -> int:
        return len(self.state)


class _Listener:
    """A tap that keeps the tensors of one place, and lets attention be fused everywhere else."""

    def __init__(self, wanted: str, kept: dict[str, Tensor], at: str = "") -> None:
        self.wanted, self.kept, self.at = wanted, kept, at
        self.sees_scores = at == wanted

    def __call__(self, name: str, tensor: Tensor, dims: str) -> Tensor:
        if self.at == self.wanted:
            self.kept[name] = tensor
        return tensor

    def within(self, place: str) -> _Listener:
        return _Listener(self.wanted, self.kept, f"{self.at}{place}.")


@plain_torch()
@torch.no_grad()
def run(
    spec: ModelSpec,
    texts: Sequence[Sequence[int]],
    *,
    layer: int,
    head: int,
    seed: int = 0,
    given: Weights | None = None,
    dtype: str | None = None,
) -> Ran:
    """One head of a model, on each text by itself.

    Raises:  InputError as `weights.model` does.
    """
    found = weights.model(spec, given, batch=1, seq_len=max(map(len, texts)), seed=seed, dtype=dtype)
    model = weights.of_one_stack(found)
    with without_compiler():
        heads = tuple(_head(model, ids, layer, head) for ids in texts)
    return Ran(heads, _InNumPy(model), weights.filled(given, model))


def _head(model: Transformer, ids: Sequence[int], layer: int, head: int) -> Head:
    kept: dict[str, Tensor] = {}
    model(torch.tensor([ids]), _Listener(f"blocks.{layer}.attn.", kept), last_only=True)
    q, scores, weights = (kept[name][0, head] for name in ("q", "scores", "weights"))  # [T, d_head], [T, T]
    k = kept["k"][0, head * model.spec.n_kv_heads // model.spec.n_heads]
    products = q @ k.mT
    if model.spec.scale_scores:
        products = products / math.sqrt(q.shape[1])
    return Head(_rows(products), _rows(_mask(model, q, layer, head)), _rows(scores), _rows(weights))


def _mask(model: Transformer, q: Tensor, layer: int, head: int) -> Tensor:
    """What one head of one layer adds to its products, [T, T]."""
    n, attn = len(q), cast("Block", model.blocks[layer]).attn
    mask = causal_mask(n, n, q, attn.slopes, attn.window) if attn.causal else q.new_zeros((n, n))
    mask = mask[head] if mask.ndim == 3 else mask
    if model.relative is not None:
        mask = mask + model.relative(n, 0)[head]
    return mask + 0.0  # no cell is −0


def _rows(matrix: Tensor) -> Matrix:
    return tuple(map(tuple, matrix.double().tolist()))
