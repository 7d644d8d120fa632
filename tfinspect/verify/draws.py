"""Random inputs of a check: the same for the same seed, whatever ran before."""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import Tensor, nn

from tfinspect.verify.propositions import Settings

__all__ = ["Draws"]

Module = TypeVar("Module", bound=nn.Module)


class Draws:
    """Tensors of the dtype of the settings, drawn in float64, so that both dtypes see the same inputs."""

    def __init__(self, settings: Settings) -> None:
        self.dtype: torch.dtype = getattr(torch, settings.dtype)
        self._generator = torch.Generator().manual_seed(settings.seed & (2**63 - 1))

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers."""
        return torch.randn(shape, dtype=torch.float64, generator=self._generator).to(self.dtype)

    def between(self, low: float, high: float) -> float:
        """One number, uniform between the two."""
        return low + (high - low) * float(torch.rand((), dtype=torch.float64, generator=self._generator))

    def ids(self, vocab_size: int, *shape: int) -> Tensor:
        """Token ids, int64."""
        return torch.randint(vocab_size, shape, generator=self._generator)

    def filled(self, module: Module) -> Module:
        """The module in eval mode, every parameter drawn: matrices with variance 1/d_in, gains near 1, biases near 0.

        Nothing is 0 or 1 by construction, so that no term of an equation drops out unseen.
        """
        module = module.to(self.dtype).eval()
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                drawn = self.normal(*parameter.shape)
                if parameter.ndim > 1:
                    parameter.copy_(drawn / math.sqrt(parameter.shape[-1]))
                else:
                    parameter.copy_(0.1 * drawn + (1.0 if name.endswith("weight") else 0.0))
        return module
