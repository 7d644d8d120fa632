"""Where position enters a Transformer: pure functions of sizes.

learned      a table of parameters, added to the token vectors (in `transformer.py`)
sinusoidal   a fixed table, added to the token vectors                        Vaswani et al. 2017, section 3.5
rope         queries and keys turned by an angle proportional to position     Su et al. 2021, section 3.2.2
alibi        scores lowered in proportion to distance                         Press et al. 2022, section 3
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["alibi_slopes", "causal_mask", "rotate", "sinusoidal_table"]


def sinusoidal_table(n_positions: int, d_model: int, like: Tensor, first: int = 0) -> Tensor:
    """sin and cos of position / 10000^(2i/d) in turn, [n_positions, d_model], from position `first` on."""
    angles = _angles(n_positions, d_model, like, first)  # [n_positions, d_model/2]
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).to(like.dtype)


def rotate(x: Tensor, first: int = 0) -> Tensor:
    """Rotary positions: features (i, i + d_head/2) of x [B, h, T, d_head] turned by position / 10000^(2i/d_head).

    The T positions begin at `first`.
    """
    n_positions, d_head = x.shape[-2:]
    angles = _angles(n_positions, d_head, x, first)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


def alibi_slopes(n_heads: int) -> list[float]:
    """The slope of each head: 2^(−8i/h) for h a power of two; between two powers, those of the lower one and every
    second of the higher one, as the authors do."""
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    return slopes + [2 ** (-4 * i / power) for i in range(1, 2 * (n_heads - power), 2)]


def causal_mask(n_queries: int, n_keys: int, like: Tensor, slopes: list[float] | None = None) -> Tensor:
    """What is added to the scores: 0 for keys up to the query's own position, −∞ after it, [T, S].

    The queries are the last n_queries of the n_keys positions. With ALiBi's slopes, −slope·distance in place of 0,
    [h, T, S].
    """
    position = torch.arange(n_keys, device=like.device)
    distance = position[n_keys - n_queries :, None] - position  # [T, S], negative in the future
    mask = torch.zeros((n_queries, n_keys), dtype=like.dtype, device=like.device)
    if slopes is not None:
        mask = -torch.tensor(slopes, dtype=like.dtype, device=like.device)[:, None, None] * distance
    return mask.masked_fill(distance < 0, -math.inf)


def _angles(n_positions: int, width: int, like: Tensor, first: int) -> Tensor:
    """position / 10000^(2i/width), [n_positions, width/2], in float64 so that far positions keep their angle."""
    position = torch.arange(first, first + n_positions, dtype=torch.float64, device=like.device)
    frequency = 10_000 ** (-torch.arange(0, width, 2, dtype=torch.float64, device=like.device) / width)
    return position[:, None] * frequency
