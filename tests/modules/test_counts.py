"""Parameters and FLOPs of modules that are no description's: each figure is written out by hand here.

Products only: 2 FLOPs for each multiplication of a matrix product, a convolution or attention (causal or not, in full).
For each output position a convolution makes c_in/groups · kernel · c_out multiplications; a transposed one does so for
each input position.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import tfinspect
from tests.modules.zoo import ZOO


def mha_params(d: int) -> int:
    """nn.MultiheadAttention: one [3d, d] matrix, one [d, d], and their biases."""
    return 3 * d * d + 3 * d + d * d + d


def encoder_layer_params(d: int, d_ff: int) -> int:
    """Attention, two MLP matrices with biases, two layer norms."""
    return mha_params(d) + (d * d_ff + d_ff) + (d_ff * d + d) + 2 * 2 * d


def encoder_layer_work(B: int, n: int, d: int, d_ff: int) -> int:
    """Q, K, V and output, two attention products, two MLP products."""
    return B * (4 * n * d * d + 2 * n * n * d + 2 * n * d * d_ff)


# In the decoder of the translator: 4 target tokens attend to themselves and to 6 source tokens.
DECODER_LAYER_PARAMS = 2 * mha_params(12) + (12 * 20 + 20) + (20 * 12 + 12) + 3 * 2 * 12
DECODER_LAYER_WORK = 2 * (
    (4 * 4 * 12 * 12 + 2 * 4 * 4 * 12)  # own Q, K, V and output; own scores and mix
    + (2 * 4 * 12 * 12 + 2 * 6 * 12 * 12 + 2 * 4 * 6 * 12)  # Q and output, K and V of the source; scores and mix
    + 2 * 4 * 12 * 20
)
OWN_ATTENTION = (
    12 * 36 + 12 * 12,
    2 * 7 * 12 * 36 + 2 * (2 * 2 * 7 * 7 * 6) + 2 * 7 * 12 * 12,  # QKV; B·h·T·S·d_head twice; output
)
GROUPED = (
    18 * 30 + 18 * 20 + 30 * 18,
    2 * 7 * 18 * (30 + 20 + 30) + 2 * (2 * 6 * 7 * 7 * 5),  # six heads of work, two heads of keys and values
)
CROSS = (
    mha_params(16),
    2 * (2 * 5 * 16 * 16 + 2 * 9 * 16 * 16 + 2 * 5 * 9 * 16),  # Q and output; K and V; scores and mix
)
SELF = (mha_params(16), 2 * (4 * 5 * 16 * 16 + 2 * 5 * 5 * 16))

#: (parameters, multiplications) of one forward, by hand.
HAND: dict[str, tuple[int, int]] = {
    "convolutions": (
        3 * 8 * 25 + 2 * 8 + (2 * 16 * 9 + 16) + 1 * 16 * 9 + (16 * 10 + 10),
        2 * (36 * 3 * 25 * 8 + 9 * 2 * 9 * 16 + 9 * 1 * 9 * 16 + 16 * 10),
    ),
    "residual block": (
        4 * 6 * 9 + 2 * 6 + 6 * 6 * 9 + 2 * 6 + 4 * 6 + 2 * 6,
        2 * 25 * (4 * 9 * 6 + 6 * 9 * 6 + 4 * 6),
    ),
    "U-Net": (
        (1 * 4 * 9 + 4) + (4 * 6 * 4 + 6) + (6 * 4 * 4 + 4) + (8 * 2 * 9 + 2),
        2 * (100 * 9 * 4 + 25 * 4 * 4 * 6 + 25 * 6 * 4 * 4 + 100 * 8 * 9 * 2),
    ),
    "transposed convolution": (4 * 3 * 9 + 6, 2 * 25 * 4 * 3 * 9),
    # Four gates of x·W_ih and h·W_hh with two biases each.
    "LSTM": (4 * (5 * 5 + 5 * 5 + 5 + 5), 3 * 1 * 4 * (5 * 5 + 5 * 5)),
    "LSTM tagger": (
        50 * 6 + 2 * 4 * (6 * 7 + 7 * 7 + 2 * 7) + 2 * 4 * (14 * 7 + 7 * 7 + 2 * 7) + (14 * 5 + 5),
        2 * 9 * (2 * 4 * (6 * 7 + 7 * 7) + 2 * 4 * (14 * 7 + 7 * 7) + 14 * 5),
    ),
    "GRU": (3 * (5 * 7 + 7 * 7 + 2 * 7), 3 * 2 * 3 * (5 * 7 + 7 * 7)),
    "cell in a loop": (3 * (3 * 4 + 4 * 4 + 2 * 4), 5 * 2 * 3 * (3 * 4 + 4 * 4)),
    "attention by matmul": OWN_ATTENTION,
    "attention by einsum": OWN_ATTENTION,
    "attention by bmm": OWN_ATTENTION,
    "attention, fused": OWN_ATTENTION,
    "grouped queries": GROUPED,
    "grouped queries, fused": GROUPED,
    "cross attention": CROSS,
    "cross attention, weights": CROSS,
    "self attention": SELF,
    "self attention, weights": SELF,
    "encoder": (3 * encoder_layer_params(16, 40), 3 * encoder_layer_work(2, 5, 16, 40)),
    "translator": (
        11 * 12 + 13 * 12 + 2 * encoder_layer_params(12, 20) + 2 * 12  # a norm after the encoder, one after the decoder
        + DECODER_LAYER_PARAMS + 2 * 12 + (12 * 13 + 13),
        2 * encoder_layer_work(2, 6, 12, 20) + DECODER_LAYER_WORK + 2 * 4 * 12 * 13,
    ),
    "ViT": (
        (3 * 16 * 16 + 16) + 16 + 10 * 16 + 2 * encoder_layer_params(16, 40) + (16 * 7 + 7),
        2 * 9 * 3 * 16 * 16 + 2 * encoder_layer_work(2, 10, 16, 40) + 2 * 16 * 7,
    ),
    "tied autoencoder": (20 * 6 + 6 + 20, 3 * (20 * 6 + 6 * 20)),
    "tied head": (30 * 8 + (8 * 8 + 8), 2 * 5 * (8 * 8 + 8 * 30)),
    "shared block": (encoder_layer_params(16, 24), 3 * encoder_layer_work(2, 5, 16, 24)),
    # Expert 0 sees five rows, expert 1 four, expert 3 one, expert 2 none: two for each row.
    "experts": (6 * 4 + 4 * (6 * 10 + 10 + 10 * 6 + 6), 5 * 6 * 4 + (5 + 4 + 1) * (6 * 10 + 10 * 6)),
    "bags": (40 * 5 + 3 * 2 + (7 + 1), 3 * 7),  # look-ups are no products
    "bare products": (4 * 8 + 8, 8 + 4 * 8 + 4 * 8 * 4 + 2 * 3 * 8 * 4),
}  # fmt: skip

MODES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "grad": torch.enable_grad,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}


def unique_elements(module: nn.Module) -> int:
    """sum(p.numel()) over unique parameters, which is what `Module.parameters()` yields."""
    return sum(p.numel() for p in module.parameters())


def test_every_exhibit_is_counted_by_hand() -> None:
    assert HAND.keys() == ZOO.keys()
    assert len(HAND) >= 15


@pytest.mark.parametrize("name", ZOO)
def test_parameters_are_those_counted_by_hand(name: str) -> None:
    module = ZOO[name].make()
    by_hand, _ = HAND[name]
    ledger = tfinspect.params(module)
    assert ledger.total == by_hand
    assert ledger.total == unique_elements(module)
    assert ledger.total == sum(row.params for row in ledger.tensors)
    assert (ledger.trainable, ledger.frozen) == (by_hand, 0)


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("mode", MODES)
def test_work_is_that_counted_by_hand_whatever_the_mode(name: str, mode: str, train: bool) -> None:
    exhibit = ZOO[name]
    _, multiplications = HAND[name]
    with MODES[mode]():
        work = tfinspect.flops(exhibit.make(), *exhibit.args(), kwargs=dict(exhibit.kwargs()), train=train)
    assert work.total_multiplications == multiplications
    assert work.total_flops == 2 * multiplications
    assert work.uncounted == ()


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], ids=["eager", "fused"])
def test_work_does_not_depend_on_the_attention_kernel(name: str, backend: SDPBackend) -> None:
    exhibit = ZOO[name]
    with sdpa_kernel(backend):
        work = tfinspect.flops(exhibit.make(), *exhibit.args())
    assert work.total_multiplications == HAND[name][1]


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("fastpath", [False, True], ids=["slow", "fast"])
def test_work_does_not_depend_on_torchs_fast_path(name: str, fastpath: bool) -> None:
    exhibit = ZOO[name]
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fastpath)
    try:
        with torch.no_grad():
            work = tfinspect.flops(exhibit.make(), *exhibit.args())
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    assert work.total_multiplications == HAND[name][1]


@pytest.mark.parametrize("name", ZOO)
def test_a_trace_counts_what_flops_counts(name: str) -> None:
    exhibit = ZOO[name]
    trace = tfinspect.trace(exhibit.make(), *exhibit.args())
    params, multiplications = HAND[name]
    assert (trace.total_params, trace.total_multiplications) == (params, multiplications)
    assert trace.total_flops == 2 * multiplications
    assert trace.failure is None
    assert trace.calls[0].path == ""
    assert trace.calls[0].flops == trace.total_flops


@pytest.mark.parametrize("name", ZOO)
def test_the_work_of_the_parts_adds_up_to_the_total(name: str) -> None:
    exhibit = ZOO[name]
    work = tfinspect.flops(exhibit.make(), *exhibit.args())
    assert sum(work.by_operator.values()) == work.total_flops
