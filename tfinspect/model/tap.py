"""What a tap is: the place where a tensor of the forward pass tells its name and its shape.

A line of the model that makes a named tensor passes it through a tap::

    scores = tap("scores", q @ k.mT / sqrt(d_head) + mask, "B h T S")

The string is at once the comment for the reader, the symbolic shape in a trace and the assertion that a recording tap
makes. A tap returns a tensor of the same shape, as a rule the one that it was given, so that the same call can record,
check or edit. `SILENT` listens to nothing and costs one function call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

__all__ = ["SILENT", "Renamed", "Tap"]


class Tap(Protocol):
    """Somebody who may listen to the forward pass."""

    sees_scores: bool
    """Whether scores and weights [B, h, T, S] have to exist as tensors; otherwise attention may be fused."""

    def __call__(self, name: str, tensor: Tensor, dims: str) -> Tensor:
        """The tensor that the pass goes on with; dims are the symbols of `tfinspect.dims`."""

    def within(self, place: str) -> Tap:
        """The same listener, for names inside a place: "blocks.3", "attn"."""


class _Silent:
    sees_scores = False

    def __call__(self, name: str, tensor: Tensor, dims: str) -> Tensor:
        return tensor

    def within(self, place: str) -> _Silent:
        return self


SILENT: Tap = _Silent()


class Renamed:
    """A listener who hears some axes by other symbols: an encoder's T and S are M to whoever reads both stacks."""

    def __init__(self, tap: Tap, names: Mapping[str, str]) -> None:
        self.tap, self.names, self.sees_scores = tap, names, tap.sees_scores

    def __call__(self, name: str, tensor: Tensor, dims: str) -> Tensor:
        return self.tap(name, tensor, " ".join(self.names.get(axis, axis) for axis in dims.split()))

    def within(self, place: str) -> Renamed:
        return Renamed(self.tap.within(place), self.names)
