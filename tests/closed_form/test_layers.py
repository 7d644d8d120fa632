"""Layers from their attributes: torch's own classes have as many parameters, and count as many products."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tfinspect.closed_form import layers
from tfinspect.measured.inputs import Inputs
from tfinspect.measured.module_params import attributes
from tfinspect.measured.modules import run

#: A layer of each class, with sizes that no two of its attributes share, and what it is called with.
CASES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "linear": (nn.Linear(7, 11), (2, 3, 7)),
    "linear without bias": (nn.Linear(7, 11, bias=False), (5, 7)),
    "conv1d": (nn.Conv1d(6, 9, 4, stride=2, groups=3), (2, 6, 13)),
    "conv2d": (nn.Conv2d(6, 10, (3, 5), padding=1, dilation=2, groups=2, bias=False), (2, 6, 13, 17)),
    "conv3d": (nn.Conv3d(2, 3, 2), (1, 2, 4, 5, 6)),
    "transposed conv1d": (nn.ConvTranspose1d(6, 9, 4, stride=2, groups=3), (2, 6, 5)),
    "transposed conv2d": (nn.ConvTranspose2d(6, 10, (3, 5), stride=2, groups=2, bias=False), (2, 6, 4, 3)),
    "layer norm": (nn.LayerNorm((3, 7)), (2, 3, 7)),
    "layer norm without bias": (nn.LayerNorm(7, bias=False), (2, 3, 7)),
    "layer norm without parameters": (nn.LayerNorm(7, elementwise_affine=False), (2, 3, 7)),
    "rms norm": (nn.RMSNorm(7), (2, 3, 7)),
    "batch norm": (nn.BatchNorm2d(6), (2, 6, 3, 4)),
    "batch norm without parameters": (nn.BatchNorm1d(6, affine=False), (2, 6)),
    "group norm": (nn.GroupNorm(3, 6), (2, 6, 5)),
    "instance norm": (nn.InstanceNorm1d(6, affine=True), (2, 6, 5)),
    "prelu": (nn.PReLU(6), (2, 6)),
    "lstm": (nn.LSTM(5, 7), (3, 2, 5)),
    "lstm of two layers, both ways": (nn.LSTM(5, 7, num_layers=2, bidirectional=True), (3, 2, 5)),
    "lstm without bias, batch first": (nn.LSTM(5, 7, bias=False, batch_first=True), (3, 2, 5)),
    "lstm with a projection": (nn.LSTM(5, 7, num_layers=2, proj_size=3), (3, 2, 5)),
    "gru": (nn.GRU(5, 7, num_layers=2), (3, 2, 5)),
    "rnn": (nn.RNN(5, 7, bidirectional=True), (3, 2, 5)),
    "lstm cell": (nn.LSTMCell(5, 7), (2, 5)),
    "gru cell": (nn.GRUCell(5, 7), (2, 5)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_attributes_say_what_the_layer_has_and_does(case: str) -> None:
    module, shape = CASES[case]
    kind = type(module).__name__
    assert layers.params(kind, attributes(module)) == sum(p.numel() for p in module.parameters())
    seen = run(module, Inputs((torch.randn(shape),)))
    assert seen.error is None
    made = seen.frames[0].outputs[0].sizes
    assert made is not None
    closed = layers.multiplications(kind, attributes(module), shape, made)
    assert closed == seen.flops // 2 if closed is not None else seen.flops == 0


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_a_table_of_vectors_multiplies_nothing(kind: Any) -> None:
    module = kind(13, 5)
    assert layers.params(kind.__name__, attributes(module)) == 65
    seen = run(module, Inputs((torch.tensor([[3, 12]]),)))
    assert (seen.error, seen.flops, dict(seen.uncounted)) == (None, 0, {})


def test_a_bilinear_layer_has_a_matrix_for_each_output() -> None:
    module = nn.Bilinear(3, 4, 5)
    assert layers.params("Bilinear", attributes(module)) == sum(p.numel() for p in module.parameters()) == 65


def test_a_class_that_is_not_known_has_no_formula() -> None:
    assert layers.params("Fancy", {"in_features": 3}) is None
    assert layers.multiplications("Fancy", {}, (1,), (1,)) is None
