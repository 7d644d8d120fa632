"""Fused attention step by step: it gives what the kernel gives, and what is wrong does not pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tfinspect.measured.dispatch import Watcher
from tfinspect.measured.expansion import TOLERANCE, Attention, attention, difference


def fused(query: Tensor, key: Tensor, value: Tensor, **how: Any) -> Attention:
    """The fused call that torch makes of this attention."""
    found: list[Attention] = []

    def watch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        name = str(func._overloadpacket).removeprefix("aten.")
        call = attention(name, func._schema, args, kwargs, result)
        if call is not None:
            found.append(call)

    with torch.no_grad(), Watcher(watch):
        F.scaled_dot_product_attention(query, key, value, **how)
    (call,) = found
    return call


def drawn(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape).to(dtype) for shape in shapes]


SHAPES = [(2, 3, 11, 8), (2, 3, 13, 8), (2, 3, 13, 8)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_steps_give_what_the_kernel_gives(dtype: torch.dtype) -> None:
    call = fused(*drawn(*SHAPES, dtype=dtype))
    assert call.scores_shape == (2, 3, 11, 13)
    found = difference(call)
    assert found is not None
    assert found[0] <= TOLERANCE[dtype]
    assert found[1] == 11


@pytest.mark.parametrize(
    "how",
    [
        {"is_causal": True},
        {"scale": 0.3},
        {"attn_mask": torch.ones(11, 13, dtype=torch.bool).triu(-3)},
        {"attn_mask": torch.randn(2, 1, 11, 13)},
        {"attn_mask": torch.randn(1, 13)},
    ],
    ids=["causal", "scale", "mask", "bias", "bias for all queries"],
)
def test_masks_and_scales_are_taken_in(how: dict[str, Any]) -> None:
    query, key, value = drawn(*SHAPES)
    call = fused(query, key, value, **how)
    found = difference(call)
    assert found is not None
    assert found[0] <= 1e-4
    # one thing wrong, and the two differ
    for wrong in (
        {"scale": 2 * call.scale},
        {"causal": not call.causal},
        {"value": call.value.flip(-2)},
    ):
        other = difference(call._replace(**wrong))
        assert other is not None
        assert other[0] > 1e-3


def test_groups_of_query_heads_share_a_key_head() -> None:
    query, key, value = drawn((1, 6, 5, 8), (1, 2, 5, 8), (1, 2, 5, 8))
    expanded = fused(query, key.repeat_interleave(3, 1), value.repeat_interleave(3, 1))
    found = difference(expanded._replace(key=key, value=value))
    assert found is not None
    assert found[0] <= 1e-4
    wrong = difference(expanded._replace(key=key.flip(1), value=value))
    assert wrong is not None
    assert wrong[0] > 1e-3


def test_a_long_sequence_is_compared_in_part() -> None:
    query, key, value = drawn((1, 4, 512, 8), (1, 4, 512, 8), (1, 4, 512, 8))
    call = fused(query, key, value, is_causal=True)
    found = difference(call)
    assert found is not None
    assert found[0] <= 1e-4
    assert 1 < found[1] < 512


def test_dropout_draws_zeros_of_its_own() -> None:
    query, key, value = drawn(*SHAPES)
    assert difference(fused(query, key, value)._replace(dropout=0.1)) is None


def test_a_call_is_told_from_other_operators() -> None:
    schema = torch.ops.aten.mm.default._schema
    assert attention("mm", schema, (torch.ones(2, 2), torch.ones(2, 2)), {}, torch.ones(2, 2)) is None
