"""Where position enters a Transformer: pure functions of sizes.

learned      a table of parameters, added to the token vectors (in `transformer.py`)
sinusoidal   a fixed table, added to the token vectors                        Vaswani et al. 2017, section 3.5
rope         queries and keys turned by an angle proportional to position     Su et al. 2021, section 3.2.2
alibi        scores lowered in proportion to distance                         Press et al. 2022, section 3
relative     scores raised by a learned number for each bucket of distances   Raffel et al. 2020, section 2.1
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["alibi_slopes", "causal_mask", "relative_buckets", "rotate", "sinusoidal_table"]


def sinusoidal_table(n_positions: int, d_model: int, like: Tensor, first: int = 0) -> Tensor:
    """sin and cos of position / 10000^(2i/d) in turn, [n_positions, d_model], from position `first` on."""
    angles = _angles(n_positions, d_model, like, first)  # [n_positions, d_model/2]
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).to(like.dtype)


def rotate(x: Tensor, first: int = 0, *, width: int | None = None, base: float = 10_000.0) -> Tensor:
    """Rotary positions: features (i, i + width/2) of x [B, h, T, d_head] turned by position / base^(2i/width).

    The T positions begin at `first`; features beyond the width, by default all of d_head, stay as they are.
    """
    width = x.shape[-1] if width is None else width
    angles = _angles(x.shape[-2], width, x, first, base)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x[..., :width].chunk(2, dim=-1)
    turned = (left * cos - right * sin, right * cos + left * sin)
    return torch.cat(turned if width == x.shape[-1] else (*turned, x[..., width:]), dim=-1)


def alibi_slopes(n_heads: int) -> list[float]:
    """The slope of each head: 2^(−8i/h) for h a power of two; between two powers, those of the lower one and every
    second of the higher one, as the authors do."""
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    return slopes + [2 ** (-4 * i / power) for i in range(1, 2 * (n_heads - power), 2)]


def causal_mask(
    n_queries: int, n_keys: int, like: Tensor, slopes: list[float] | None = None, window: int = 0
) -> Tensor:
    """What is added to the scores: 0 for keys up to the query's own position, −∞ after it, [T, S].

    The queries are the last n_queries of the n_keys positions. With a window, −∞ also for keys so far back or farther.
    With ALiBi's slopes, −slope·distance in place of 0, [h, T, S].
    """
    position = torch.arange(n_keys, device=like.device)
    distance = position[n_keys - n_queries :, None] - position  # [T, S], negative in the future
    mask = torch.zeros((n_queries, n_keys), dtype=like.dtype, device=like.device)
    if slopes is not None:
        mask = -torch.tensor(slopes, dtype=like.dtype, device=like.device)[:, None, None] * distance
    mask = mask.masked_fill(distance < 0, -math.inf)
    return mask.masked_fill(distance >= window, -math.inf) if window else mask


def relative_buckets(
    n_queries: int, n_keys: int, n_buckets: int, max_distance: int, causal: bool, device: torch.device | None = None
) -> Tensor:
    """The bucket of each pair of positions, [T, S]; the queries are the last n_queries of the n_keys.

    Half of the buckets stand for single distances, the others for ranges that grow geometrically up to max_distance.
    Without a causal mask, keys after the query have the upper half of all buckets.
    """
    per_side = n_buckets if causal else n_buckets // 2
    exact = per_side // 2
    distance = torch.arange(n_keys - 1, -n_keys, -1, device=device)  # of a key before the query; negative after it
    away = distance.clamp(min=0) if causal else distance.abs()
    share = (away.clamp(min=exact).double() / exact).log() / math.log(max_distance / exact)
    steps = share * (per_side - exact) + 1e-9  # rounding must not hold back a range that begins at a whole number
    far = (exact + steps.long()).clamp(max=per_side - 1)
    of_distance = torch.where(away < exact, away, far)
    if not causal:
        of_distance = of_distance + per_side * (distance < 0)
    position = torch.arange(n_keys, device=device)
    return of_distance[n_keys - 1 - position[n_keys - n_queries :, None] + position]


def _angles(n_positions: int, width: int, like: Tensor, first: int, base: float = 10_000.0) -> Tensor:
    """position / base^(2i/width), [n_positions, width/2], in float64 so that far positions keep their angle."""
    position = torch.arange(first, first + n_positions, dtype=torch.float64, device=like.device)
    frequencies = [base ** (-i / width) for i in range(0, width, 2)]
    return position[:, None] * torch.tensor(frequencies, dtype=torch.float64, device=like.device)
