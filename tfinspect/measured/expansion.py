"""Attention step by step, in the place of a fused kernel: what it would have made, and whether it gives the same.

    scores = scale·q·kᵀ + mask      weights = softmax(scores)      output = weights·v

A kernel keeps neither scores nor weights. Here a part of the queries is computed in the open, over all their keys, and
compared with what the kernel gave for them.

Shapes:  q [..., h, T, d_head], k [..., h_kv, S, d_head], v [..., h_kv, S, d_v]; output [..., h, T, d_v].
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from tfinspect.measured.operators import Shape, first_shape

__all__ = ["TOLERANCE", "Attention", "attention", "difference"]

#: Most scores that are computed in the open for one call.
MOST_SCORES: Final = 2**17

#: Largest difference from the kernel, as a part of the largest output, by number format: rounding in another order.
TOLERANCE: Final = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


class Attention(NamedTuple):
    """One fused call, as its operator was called."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    causal: bool
    dropout: float
    scale: float
    output: Tensor

    @property
    def scores_shape(self) -> Shape:
        """[..., h, T, S]."""
        return (*self.query.shape[:-1], self.key.shape[-2])


def attention(
    operator: str, schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> Attention | None:
    """What a fused kernel was called with; None for any other operator.

    Args:  operator, its name without "aten."; schema, torch's own, which names the arguments.
    """
    if not operator.startswith("_scaled_dot_product") or operator.endswith("backward") or len(first_shape(result)) < 3:
        return None
    given = dict(zip((argument.name for argument in schema.arguments), args, strict=False)) | kwargs
    query = given.get("query")
    if not isinstance(query, Tensor) or not isinstance(given.get("key"), Tensor):
        return None
    mask = given.get("attn_mask")
    scale = given.get("scale")
    return Attention(
        query,
        given["key"],
        given["value"],
        given.get("attn_bias") if mask is None else mask,
        bool(given.get("is_causal", False)),
        float(given.get("dropout_p", 0.0)),
        1 / math.sqrt(query.shape[-1]) if scale is None else float(scale),
        result[0] if isinstance(result, tuple | list) else result,
    )


@torch.no_grad()
def difference(call: Attention) -> tuple[float, int] | None:
    """(largest difference from the kernel as a part of the largest output, queries compared); None where there is none.

    A call with dropout drew its own zeros, one without values has nothing to compare, and so has one of no positions.
    """
    output = call.output
    if call.dropout or output.device.type == "meta" or not output.numel() or type(output) is not Tensor:
        return None
    per_query = math.prod(call.query.shape[:-2]) * call.key.shape[-2]
    n_queries = call.query.shape[-2]
    kept = max(1, min(n_queries, MOST_SCORES // max(1, per_query)))
    rows = torch.linspace(0, n_queries - 1, kept, device=output.device).round().long()  # the first and the last too
    wide = torch.float64 if output.dtype == torch.float64 else torch.float32
    query, key, value = (t.to(wide) for t in (call.query[..., rows, :], call.key, call.value))
    groups = query.shape[-3] // key.shape[-3]
    if groups > 1:
        key, value = (t.repeat_interleave(groups, dim=-3) for t in (key, value))
    scores = call.scale * (query @ key.transpose(-2, -1))
    if call.mask is not None:
        mask = call.mask if call.mask.shape[-2] == 1 else call.mask[..., rows, :]
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask.to(wide)
    if call.causal:
        places = torch.arange(key.shape[-2], device=output.device)
        scores = scores.masked_fill(places > rows[:, None], -math.inf)
    expanded = scores.softmax(dim=-1).nan_to_num(0.0) @ value  # a query that sees no key gives zeros
    given = output[..., rows, :].to(wide)
    largest = given.abs().max().item()
    return ((expanded - given).abs().max().item() / largest if largest else 0.0), kept
