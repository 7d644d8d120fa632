"""Where position enters, against the papers' own statements."""

from __future__ import annotations

import math

import pytest
import torch

from tfinspect.model.positions import alibi_slopes, causal_mask, rotate, sinusoidal_table

LIKE = torch.empty(0, dtype=torch.float64)


def test_the_sinusoidal_table_is_the_papers_formula() -> None:
    # Vaswani et al. 2017, 3.5: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same.
    table = sinusoidal_table(50, 6, LIKE)
    for position in (0, 1, 49):
        for i in range(3):
            angle = position / 10_000 ** (2 * i / 6)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-12)


def test_rotated_products_depend_on_the_distance_alone() -> None:
    # Su et al. 2021, 3.4.1: <R_m q, R_n k> is a function of m − n.
    q, k = torch.randn(2, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    n = 12
    rows = rotate(q.expand(1, 1, n, 8)) @ rotate(k.expand(1, 1, n, 8)).mT
    for distance in range(-n + 1, n):
        products = rows[0, 0].diagonal(distance)
        torch.testing.assert_close(products, products[:1].expand_as(products), rtol=0, atol=1e-12)
    assert not torch.allclose(rows[0, 0, 0, 0], rows[0, 0, 1, 0])


def test_rotation_keeps_lengths_and_leaves_position_0_alone() -> None:
    x = torch.randn(1, 2, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turned = rotate(x)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1), rtol=0, atol=1e-12)
    assert torch.equal(turned[:, :, 0], x[:, :, 0])
    assert not torch.allclose(turned[:, :, 1], x[:, :, 1])


def test_slopes_of_8_heads_halve_from_a_half() -> None:
    # Press et al. 2022, 3: for 8 heads the slopes are 1/2, 1/4, ..., 1/256.
    assert alibi_slopes(8) == [2**-i for i in range(1, 9)]


def test_slopes_between_powers_of_two_interleave() -> None:
    # The authors' code for 12 heads: the 8 slopes of 8 heads, then every second of 16 heads' slopes.
    of_16 = [2 ** (-i / 2) for i in range(1, 17)]
    assert alibi_slopes(12) == pytest.approx([2**-i for i in range(1, 9)] + of_16[::2][:4], abs=1e-15)


def test_the_mask_lets_each_query_see_itself_and_the_past() -> None:
    visible = causal_mask(4, 4, LIKE) == 0
    assert torch.equal(visible, torch.ones(4, 4, dtype=torch.bool).tril())


def test_queries_are_the_last_of_the_keys() -> None:
    assert torch.equal(causal_mask(2, 5, LIKE), causal_mask(5, 5, LIKE)[3:])


def test_alibi_lowers_scores_by_slope_times_distance() -> None:
    mask = causal_mask(3, 3, LIKE, [0.5, 0.25])
    assert mask.shape == (2, 3, 3)
    assert mask[0, 2].tolist() == [-1.0, -0.5, 0.0]
    assert mask[1, 1].tolist() == [-0.25, 0.0, -math.inf]
