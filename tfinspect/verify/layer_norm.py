"""Claims about layer norm, on the torch core's own and, beside it, on NumPy by definition; ε = 0 throughout."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from tfinspect.model.transformer import LayerNorm
from tfinspect.results.checks import Figure, Findings
from tfinspect.verify.draws import Draws
from tfinspect.verify.propositions import Settings

__all__ = ["Norm", "by_definition", "core", "invariance"]

Norm: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""x [..., d], γ [d], β [d] to γ·(x − mean)/σ + β [..., d]."""

#: Widths that checks go through in turn; the narrowest on which layer norm says anything is 2.
WIDTHS = (2, 4, 64, 768)


def core(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    """The layer norm of the torch core."""
    norm = LayerNorm(x.shape[-1], eps=0.0, bias=True)
    norm.weight, norm.bias = nn.Parameter(gain), nn.Parameter(shift)
    return norm(x)


def by_definition(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    """The definition in NumPy: mean and biased variance over the features."""
    vector, g, b = (t.detach().numpy() for t in (x, gain, shift))
    deviation = vector - vector.mean(axis=-1, keepdims=True)
    sigma = np.sqrt((deviation**2).mean(axis=-1, keepdims=True))
    return torch.from_numpy(g * deviation / sigma + b)


def invariance(settings: Settings, norm: Norm = core) -> Findings:
    """A3.1.1 and the second half of exercise A11.2, for random a, b, γ and β at several widths."""
    draws, tolerance = Draws(settings), settings.tolerance(1e-11)
    moved = flipped = apart = 0.0
    for _ in range(settings.trials):
        for d in WIDTHS:
            x, gain, shift = spread(draws, d), draws.normal(d), draws.normal(d)
            a, b = 10.0 ** draws.between(-1, 1), draws.between(-5, 5)
            y = norm(x, gain, shift)
            moved = max(moved, largest(norm(a * x + b, gain, shift) - y))
            flipped = max(flipped, largest(norm(-a * x + b, gain, shift) - y))
            apart = max(apart, largest(y - by_definition(x, gain, shift)))
    return Findings(
        (
            Figure("largest |LN(ax + b1) − LN(x)|", moved, 0.0, tolerance),
            Figure("largest |torch core − NumPy by definition|", apart, 0.0, tolerance, detail=True),
            Figure("largest |LN(−ax + b1) − LN(x)|: a > 0 is needed", flipped, 0.0, 1e-3, differs=True, detail=True),
        ),
        notes=(f"Widths d = {', '.join(map(str, WIDTHS))}; a from 0.1 to 10, b from −5 to 5.",),
    )


def spread(draws: Draws, d: int) -> Tensor:
    """A random vector whose components differ by an amount that rounding does not reach."""
    x = draws.normal(d)
    return x + torch.linspace(-1, 1, d, dtype=x.dtype)


def largest(difference: Tensor) -> float:
    """The largest absolute value; NaN where one is."""
    return float(difference.detach().abs().max())
