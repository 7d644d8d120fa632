"""Operators that torch's own counter does not know, and their work."""

from __future__ import annotations

import pytest
import torch

from tfinspect.measured.operators import tally


@pytest.mark.parametrize(
    ("a", "b", "multiplications"),
    [
        ((6, 8), (3, 8, 16), 6 * 8 * 16),  # each row by one of three matrices
        ((3, 6, 8), (8, 16), 6 * 8 * 16),  # each column by one of three
        ((6, 8), (8, 16), 6 * 8 * 16),  # what is summed over is in three groups
        ((3, 6, 8), (3, 8, 16), 3 * 6 * 8 * 16),  # three whole products
    ],
)
def test_products_by_groups(a: tuple[int, ...], b: tuple[int, ...], multiplications: int) -> None:
    # what transformers runs a mixture of experts by; torch's own counter gives 0
    x, y = (torch.ones(sizes, dtype=torch.bfloat16, device="meta") for sizes in (a, b))
    ends = None if len(a) == len(b) == 3 else torch.ones(3, dtype=torch.int32, device="meta")
    ran = tally(lambda: torch._grouped_mm(x, y, offs=ends))
    assert ran.flops == 2 * multiplications
    assert ran.uncounted == ()
