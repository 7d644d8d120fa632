"""Operators that torch's own counter does not know, and their work."""

from __future__ import annotations

import pytest
import torch

from tfinspect.measured.operators import FORMULAS, tally


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


@pytest.mark.parametrize(
    ("name", "sizes", "multiplications"),
    [
        ("addmm_", ((3, 5), (3, 7), (7, 5)), 3 * 7 * 5),
        ("addmv_", ((3,), (3, 7), (7,)), 3 * 7),
        ("addr_", ((3, 5), (3,), (5,)), 3 * 5),
        ("baddbmm_", ((2, 3, 5), (2, 3, 7), (2, 7, 5)), 2 * 3 * 7 * 5),
        ("addbmm_", ((3, 5), (2, 3, 7), (2, 7, 5)), 2 * 3 * 7 * 5),
    ],
)
def test_products_in_place(name: str, sizes: tuple[tuple[int, ...], ...], multiplications: int) -> None:
    first, *others = (torch.ones(shape) for shape in sizes)
    ran = tally(lambda: getattr(first, name)(*others))
    assert ran.flops == 2 * multiplications
    assert ran.uncounted == ()


def test_products_of_integers() -> None:
    x = torch.ones(32, 16, dtype=torch.int8)
    assert tally(lambda: torch._int_mm(x, x.T.contiguous())).flops == 2 * 32 * 16 * 32


def test_a_recurrent_network_in_one_call_on_a_gpu() -> None:
    # two directions of an LSTM of width 7 on [5, 2, 4]: four gates of each, from 4 numbers and from 7
    formula = FORMULAS[torch.ops.aten._cudnn_rnn]
    weights = [(4 * 7, 4), (4 * 7, 7), (4 * 7,), (4 * 7,)] * 2
    assert formula((5, 2, 4), weights) == 2 * 5 * 2 * 2 * 4 * 7 * (4 + 7)
