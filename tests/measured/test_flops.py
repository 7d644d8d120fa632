"""Counting by the dispatcher: what torch's counter misses is counted here, and what nobody counts is named."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tfinspect.measured import flops as measured
from tfinspect.measured.dispatch import without_compiler
from tfinspect.measured.operators import tally
from tfinspect.model.build import build
from tfinspect.presets import PRESETS
from tfinspect.spec import ModelSpec

GRAD_MODES = (torch.enable_grad, torch.no_grad, torch.inference_mode)
GPT2 = PRESETS["gpt2"].spec


@pytest.mark.parametrize("grad", GRAD_MODES)
@pytest.mark.parametrize("is_causal", [False, True])
def test_fused_attention_on_the_cpu_counts_its_two_products(grad: Callable[[], Any], is_causal: bool) -> None:
    # 2·(2·12·64·64·64) FLOPs; torch 2.13's own counter says 0 here (pytorch#195460).
    q = torch.zeros(1, 12, 64, 64)
    with grad():
        ran = tally(lambda: F.scaled_dot_product_attention(q, q, q, is_causal=is_causal))
    assert ran.flops == 12_582_912
    assert ran.uncounted == ()


def test_fused_attention_counts_queries_keys_and_widths_each_on_their_own() -> None:
    # Q·Kᵀ: B·h·T·S·d_k, weights·V: B·h·T·S·d_v multiplications.
    q, k, v = torch.zeros(2, 3, 5, 8), torch.zeros(2, 3, 7, 8), torch.zeros(2, 3, 7, 8)
    assert tally(lambda: F.scaled_dot_product_attention(q, k, v)).flops == 2 * (2 * 3 * 5 * 7 * (8 + 8))


def test_backward_through_fused_attention_counts_five_products() -> None:
    q, k, v = (torch.zeros(2, 3, 5, 8, requires_grad=True) for _ in range(3))
    ran = tally(lambda: F.scaled_dot_product_attention(q, k, v).sum().backward())
    product = 2 * 2 * 3 * 5 * 5 * 8
    assert ran.flops == 2 * product + 5 * product


@pytest.mark.parametrize("grad", GRAD_MODES)
def test_the_fused_encoder_layer_counts_all_its_work(grad: Callable[[], Any]) -> None:
    # B·n·(4d² + 2·d·d_ff) + B·2·n²·d = 4·6·(4·32² + 2·32·128) + 4·2·36·32 = 304,128 multiplications.
    layer = nn.TransformerEncoderLayer(32, 8, 128, batch_first=True).eval()
    x = torch.zeros(4, 6, 32)
    with grad():
        assert tally(lambda: layer(x)).flops == 608_256


def test_fused_multi_head_attention_counts_all_its_work() -> None:
    # B·(4·n·d² + 2·n²·d) multiplications with d 16, n 5, B 2.
    attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    x = torch.zeros(2, 5, 16)
    with torch.no_grad():
        assert tally(lambda: attention(x, x, x, need_weights=False)).flops == 2 * 2 * (4 * 5 * 256 + 2 * 25 * 16)


@pytest.mark.parametrize(
    ("a", "b", "multiplications"),
    [((8,), (8,), 8), ((4, 8), (8,), 32), ((2, 1, 4, 8), (3, 8, 5), 960)],
    ids=["dot", "matrix-vector", "broadcast"],
)
def test_products_with_vectors_and_broadcast_products(a: Any, b: Any, multiplications: int) -> None:
    # torch 2.13's own counter gives 0, 0 and 960 multiplications.
    left, right = torch.zeros(a), torch.zeros(b)
    ran = tally(lambda: left @ right)
    assert ran.flops == 2 * multiplications
    assert ran.uncounted == ()


def test_a_linear_map_on_four_rows() -> None:
    layer, x = nn.Linear(8, 16), torch.zeros(4, 8)
    assert tally(lambda: layer(x)).flops == 1_024


def test_an_operator_that_nobody_counts_is_named() -> None:
    matrix = torch.eye(3)
    ran = tally(lambda: torch.linalg.inv_ex(matrix @ matrix))
    assert ran.uncounted == ("aten.linalg_inv_ex",)
    assert ran.coverage[0] == ran.coverage[1] - 1
    assert ran.flops == 2 * 27


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_eager_and_fused_attention_give_one_integer_in_every_grad_mode(device: str) -> None:
    spec = ModelSpec(vocab_size=101, n_ctx=32, d_model=24, n_layers=2, n_heads=3, d_ff=56)
    model = build(spec, device=device)
    found = {
        measured.count_model(model, batch=2, seq_len=17, attention=attention, grad=grad).flops
        for attention, grad in itertools.product(("eager", "fused"), ("grad", "no_grad", "inference_mode"))
    }
    n, d = 17, 24
    layer = 4 * n * d * d + 2 * n * n * d + 2 * n * d * 56
    assert found == {2 * 2 * (2 * layer + n * d * 101)}


def test_gpt2_small_at_1024_positions() -> None:
    # 12·(12nd² + 2n²d) + ndV = 145,824,153,600 multiplications; nanoGPT's notebook prints 291,648,307,200 FLOPs.
    run = measured.count(GPT2, seq_len=1_024, attention="eager")
    assert run.flops == 291_648_307_200
    assert run.uncounted == ()
    assert run.coverage[0] == run.coverage[1] > 0
    assert run.by_component["scores"] == run.by_component["mix"] == 12 * 2 * 1_024**2 * 768
    assert sum(run.by_component.values()) == run.flops


def test_the_flops_of_each_call_add_up_to_the_counters_total() -> None:
    model = build(ModelSpec(vocab_size=101, n_ctx=32, d_model=24, n_layers=2, n_heads=3, d_ff=56))
    tokens = torch.zeros(2, 9, dtype=torch.long)
    ran = tally(lambda: model(tokens).sum().backward())
    assert sum(call.flops for call in ran.calls) == ran.flops > 0


def test_nothing_is_carried_from_one_count_to_the_next() -> None:
    model = build(ModelSpec(vocab_size=101, n_ctx=32, d_model=24, n_layers=2, n_heads=3, d_ff=56))
    runs = [measured.count_model(model, seq_len=9) for _ in range(3)]
    assert runs[0] == runs[1] == runs[2]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_the_mask_lets_half_of_the_pairs_and_the_diagonal_through() -> None:
    assert measured.causal_pairs(GPT2, 1_024) == 1_024 * 1_025 // 2
    assert measured.causal_pairs(GPT2, 0) == 0
    assert measured.causal_pairs(GPT2, 1_000_000) is None


def test_sizes_that_torch_cannot_index_are_said_and_not_tried() -> None:
    assert measured.unmeasurable(GPT2, 1, 1_024) is None
    assert measured.unmeasurable(GPT2, 1, 22_366_271) is None
    assert "scores" in (measured.unmeasurable(GPT2, 1, 10**12) or "")
    assert "layers" in (measured.unmeasurable(GPT2.replace(n_layers=10**6), 1, 16) or "")


def test_keeping_the_compiler_out_leaves_no_trace() -> None:
    # In a process of its own, because the compiler, once loaded, stays.
    probe = """
import sys, torch
from tfinspect.measured.operators import tally
x = torch.zeros(2, 3, device="meta")
tally(lambda: torch.nn.functional.gelu(x @ x.mT) + 1)
print("torch._dynamo" in sys.modules, "_dynamo" in vars(torch))
f = torch.compile(lambda t: t.sin() + 1, backend="eager")
t = torch.ones(2)
print(bool(torch.equal(f(t), t.sin() + 1)), sys.modules["torch._dynamo"].__file__ is not None)
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "False", "True", "True"], done.stderr


def test_an_error_inside_leaves_no_trace_either() -> None:
    before = sys.modules.get("torch._dynamo")
    with pytest.raises(ZeroDivisionError), without_compiler():
        raise ZeroDivisionError
    assert sys.modules.get("torch._dynamo") is before
