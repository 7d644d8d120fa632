"""Modules whose reports have every key that the JSON reference names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Attends", "Fails", "Lazy", "Many"]


class Many(nn.Module):
    """Tied, frozen, unused, unregistered and called-around layers, buffers, and outputs that are no tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.around, self.unused = (nn.Linear(4, 4) for _ in range(4))
        self.again.weight = self.first.weight
        self.unused.requires_grad_(False)
        self.act = self.same_act = nn.ReLU(inplace=True)
        self.plain = [nn.Linear(4, 4)]
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: Tensor, *, scale: float = 1.0) -> dict[str, Any]:
        x = self.act(self.again(self.first(x))) + self.shift
        x = self.plain[0](self.around.forward(x)) * scale
        return {"hidden": x, "spectrum": torch.fft.fft(x).abs(), "loss": 0.5}


class Attends(nn.Module):
    """Fused attention under a causal mask."""

    def forward(self, x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


class Fails(nn.Module):
    """Two layers that do not fit."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Linear(4, 3), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        return self.wide(self.narrow(x))


class Lazy(nn.Sequential):
    """A layer without shapes."""

    def __init__(self) -> None:
        super().__init__(nn.LazyLinear(3), nn.ReLU())
