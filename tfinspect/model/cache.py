"""Keys and values of past positions: what a decode step reads in place of computing them again.

    per layer   keys    [B, h_kv, S, d_head]      and in a layer with cross-attention    [B, h_kv, M, d_head]
                values  [B, h_kv, S, d_head]                                             [B, h_kv, M, d_head]

A cache is handed to a forward pass layer by layer, as a tap is. `NO_PAST` remembers nothing and costs one call.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from tfinspect.spec import ModelSpec

__all__ = ["NO_PAST", "Cache", "Past"]


class Past(Protocol):
    """The past of one layer."""

    @property
    def n_past(self) -> int:
        """Positions before the ones that are being computed."""

    def keys(self, new: Tensor) -> Tensor:
        """All keys, [B, h_kv, S, d_head]: those of the past and then the new ones, which are past from now on."""

    def values(self, new: Tensor) -> Tensor:
        """All values, likewise."""

    @property
    def source(self) -> Past:
        """The same of the source that cross-attention reads: all of it is new in the first pass, and nothing later."""


class Cache:
    """Keys and values of every layer, growing with each forward pass."""

    def __init__(self, n_layers: int) -> None:
        self.layers = tuple(LayerCache() for _ in range(n_layers))

    @property
    def n_past(self) -> int:
        """Positions that are in the cache."""
        return self.layers[0].n_past

    @property
    def n_source(self) -> int:
        """Positions of a source that are in the cache."""
        return self.layers[0].source.n_past

    @property
    def n_bytes(self) -> int:
        """Bytes of all keys and values: 2 · L · B · h_kv · (S + M) · d_head · bytes of one number."""
        parts = [part for layer in self.layers for part in (layer, layer.source)]
        return sum(t.nbytes for part in parts for t in (part.held_keys, part.held_values) if t is not None)

    @classmethod
    def blank(cls, spec: ModelSpec, *, batch: int, n_past: int, n_source: int = 0) -> Cache:
        """A cache that holds so many positions without their values, on the meta device."""
        cache = cls(spec.n_layers)
        for layer in cache.layers:
            for part, n in ((layer, n_past), (layer.source, n_source)):
                size = (batch, spec.n_kv_heads, n, spec.d_head)
                part.held_keys, part.held_values = (torch.empty(size, device="meta") for _ in range(2))
        return cache


class LayerCache:
    """Keys and values of one layer."""

    def __init__(self) -> None:
        self.held_keys: Tensor | None = None
        self.held_values: Tensor | None = None

    @cached_property
    def source(self) -> LayerCache:
        return LayerCache()

    @property
    def n_past(self) -> int:
        return 0 if self.held_values is None else self.held_values.shape[2]

    def keys(self, new: Tensor) -> Tensor:
        self.held_keys = new if self.held_keys is None else torch.cat((self.held_keys, new), dim=2)
        return self.held_keys

    def values(self, new: Tensor) -> Tensor:
        self.held_values = new if self.held_values is None else torch.cat((self.held_values, new), dim=2)
        return self.held_values


class _NoPast:
    n_past = 0

    def keys(self, new: Tensor) -> Tensor:
        return new

    def values(self, new: Tensor) -> Tensor:
        return new

    @property
    def source(self) -> Past:
        return self


NO_PAST: Past = _NoPast()
