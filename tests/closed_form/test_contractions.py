"""Products from their shapes alone, each against a count by loops over what is multiplied."""

from __future__ import annotations

import itertools

import pytest

from tfinspect.closed_form.contractions import multiplications


def test_a_matrix_product_counts_every_pair_of_a_row_and_a_column() -> None:
    pairs = sum(1 for _ in itertools.product(range(3), range(4), range(5)))  # row, term, column
    assert multiplications("mm", [(3, 4), (4, 5)], (3, 5)) == pairs == 60
    assert multiplications("addmm", [(5,), (3, 4), (4, 5)], (3, 5)) == 60
    assert multiplications("bmm", [(2, 3, 4), (2, 4, 5)], (2, 3, 5)) == 120
    assert multiplications("baddbmm", [(2, 3, 5), (2, 3, 4), (2, 4, 5)], (2, 3, 5)) == 120


@pytest.mark.parametrize(
    ("operator", "inputs", "output", "wanted"),
    [
        ("dot", [(8,), (8,)], (), 8),  # deepspeedai/DeepSpeed pull request 8419: counted 0 by torch 2.13
        ("mv", [(4, 8), (8,)], (4,), 32),
        ("addmv", [(4,), (4, 8), (8,)], (4,), 32),
        ("addr", [(3, 4), (3,), (4,)], (3, 4), 12),
        ("addbmm", [(3, 5), (2, 3, 4), (2, 4, 5)], (3, 5), 120),
    ],
)
def test_products_with_vectors(
    operator: str, inputs: list[tuple[int, ...]], output: tuple[int, ...], wanted: int
) -> None:
    assert multiplications(operator, inputs, output) == wanted


def test_a_convolution_sums_over_its_window_and_its_group() -> None:
    # 16 outputs of 5·5 places, each over 8/2 channels and 3·3 places
    assert multiplications("convolution", [(1, 8, 7, 7), (16, 4, 3, 3)], (1, 16, 5, 5)) == 16 * 25 * 4 * 9
    # transposed: each of 8·7·7 inputs spreads over 16/2 channels and 3·3 places
    shapes = [(1, 8, 7, 7), (8, 8, 3, 3)]
    assert multiplications("convolution", shapes, (1, 16, 9, 9), transposed=True) == 8 * 49 * 8 * 9


def test_fused_attention_has_two_products_of_unlike_widths() -> None:
    # scores 2·3·5·7 over 4 features, then 2·3·5·6 outputs over 7 keys
    shapes = [(2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)]
    found = multiplications("_scaled_dot_product_flash_attention_for_cpu", shapes, (2, 3, 5, 6))
    assert found == 2 * 3 * 5 * 7 * 4 + 2 * 3 * 5 * 6 * 7


def test_what_is_no_product_has_no_figure() -> None:
    assert multiplications("relu", [(3, 4)], (3, 4)) is None
    assert multiplications("_scaled_dot_product_flash_attention_for_cpu_backward", [(1, 1, 2, 2)] * 4, (1,)) is None
