"""How far apart tensors are that have to be equal."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["largest"]


def largest(differences: Tensor | Iterable[Tensor]) -> float:
    """The largest absolute value in one tensor or in several; NaN where one is, so that nothing hides it."""
    several = [differences] if isinstance(differences, Tensor) else differences
    return float(torch.stack([one.detach().abs().max() for one in several]).max())
