"""The parts that work on each position by itself: linear maps, norms, tables, activations, MLPs.

Weights of linear maps are [d_out, d_in]. Every part reads and writes the last axis and leaves the others alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfinspect.model.tap import Tap
from tfinspect.spec import GATES, ModelSpec

__all__ = ["ACTIVATIONS", "MLP", "GatedMLP", "LayerNorm", "Linear", "RMSNorm", "Table", "mlp", "norm"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,  # t·Φ(t)
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,  # t·σ(t)
}


class Linear(nn.Module):
    """x·Wᵀ + b over the last axis, with W [d_out, d_in]; given a weight, it uses that one (a tied head)."""

    def __init__(self, d_in: int, d_out: int, *, bias: bool, weight: nn.Parameter | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_out, d_in)) if weight is None else weight
        self.bias = nn.Parameter(torch.empty(d_out)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class LayerNorm(nn.Module):
    """γ·(x − mean)/√(variance + ε) + β over the last axis, with the biased variance."""

    def __init__(self, d_model: int, *, eps: float, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_model))
        self.bias = nn.Parameter(torch.empty(d_model)) if bias else None
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """γ·x/√(mean of x² + ε) over the last axis."""

    def __init__(self, d_model: int, *, eps: float, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layernorm": LayerNorm, "rmsnorm": RMSNorm}


def norm(spec: ModelSpec, width: int | None = None) -> LayerNorm | RMSNorm:
    """The model's kind of norm, over d_model features or over a width."""
    return NORMS[spec.norm](width or spec.d_model, eps=spec.norm_eps, bias=spec.norm_bias)


class Table(nn.Module):
    """A table of n_rows vectors of width d_model, looked up by row number."""

    def __init__(self, n_rows: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_rows, d_model))

    def forward(self, rows: Tensor) -> Tensor:
        return F.embedding(rows, self.weight)


class MLP(nn.Module):
    """Step 6: the same two-layer network at every position."""

    def __init__(self, spec: ModelSpec, d_ff: int | None = None) -> None:
        super().__init__()
        width = d_ff or spec.d_ff
        self.up = Linear(spec.d_model, width, bias=spec.mlp_bias)
        self.activation = ACTIVATIONS[spec.activation]
        self.down = Linear(width, spec.d_model, bias=spec.mlp_bias)

    def forward(self, x: Tensor, tap: Tap) -> Tensor:
        hidden = tap("hidden", self.up(x), "B T d_ff")
        activated = tap("activated", self.activation(hidden), "B T d_ff")
        return tap("out", self.down(activated), "B T d_model")


class GatedMLP(nn.Module):
    """Step 6 with a gate: what goes up is multiplied by the activation of a second map (SwiGLU, GeGLU)."""

    def __init__(self, spec: ModelSpec, d_ff: int | None = None) -> None:
        super().__init__()
        width = d_ff or spec.d_ff
        self.gate = Linear(spec.d_model, width, bias=spec.mlp_bias)
        self.up = Linear(spec.d_model, width, bias=spec.mlp_bias)
        self.activation = ACTIVATIONS[GATES[spec.activation]]
        self.down = Linear(width, spec.d_model, bias=spec.mlp_bias)

    def forward(self, x: Tensor, tap: Tap) -> Tensor:
        gate = tap("gate", self.gate(x), "B T d_ff")
        hidden = tap("hidden", self.up(x), "B T d_ff")
        activated = tap("activated", self.activation(gate) * hidden, "B T d_ff")
        return tap("out", self.down(activated), "B T d_model")


def mlp(spec: ModelSpec, d_ff: int | None = None) -> MLP | GatedMLP:
    """The model's kind of MLP, of width d_ff or of another."""
    return GatedMLP(spec, d_ff) if spec.gated else MLP(spec, d_ff)
