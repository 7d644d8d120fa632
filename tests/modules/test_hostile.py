"""Modules that change themselves or torch, or take tensors without plain sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tfinspect
from tests.modules.zoo import floats
from tfinspect.errors import InputError


class Does(nn.Module):
    """Whatever a function does, around a layer of 4 to 4."""

    def __init__(self, what: Callable[..., Any]) -> None:
        super().__init__()
        self.what, self.layer = what, nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.what(self, x)


def inspected(module: nn.Module, x: Tensor) -> None:
    """Run with all that can be asked for: 2 vectors through 4 x 4 weights are 32 MACs each time."""
    assert tfinspect.flops(module, x).total_multiplications == 32
    assert tfinspect.trace(module, x, ops=True, stats=True, memory=True).total_multiplications == 32
    assert tfinspect.trace(module, x, train=True, time=True).total_multiplications == 32


def test_hooks_that_a_forward_puts_on_are_taken_off() -> None:
    def what(self: Does, x: Tensor) -> Tensor:
        self.layer.register_forward_hook(lambda module, args, out: 2 * out)
        return self.layer(x)

    module = Does(what)
    inspected(module, floats(2, 4))
    assert not module.layer._forward_hooks


def test_weights_that_a_forward_replaces_are_put_back() -> None:
    def what(self: Does, x: Tensor) -> Tensor:
        self.layer.bias.data.mul_(2)
        self.layer.weight.data = torch.zeros(4, 4)
        self.double()
        return self.layer(x.double())

    module = Does(what)
    before = {name: (tensor.data_ptr(), tensor.clone()) for name, tensor in module.state_dict().items()}
    inspected(module, floats(2, 4))
    after = module.state_dict()
    assert all(after[name].data_ptr() == place for name, (place, _) in before.items())
    assert all(torch.equal(after[name], value) for name, (_, value) in before.items())


def test_weights_that_a_forward_freezes_want_gradients_again() -> None:
    def what(self: Does, x: Tensor) -> Tensor:
        self.layer.requires_grad_(False)
        return self.layer(x)

    module = Does(what)
    inspected(module, floats(2, 4))
    assert all(p.requires_grad for p in module.parameters())


def test_gradients_that_a_forward_clears_in_place_are_put_back() -> None:
    def what(self: Does, x: Tensor) -> Tensor:
        assert self.layer.weight.grad is not None
        self.layer.weight.grad.zero_()
        return self.layer(x)

    module = Does(what)
    module.layer.weight.grad = torch.ones(4, 4)
    inspected(module, floats(2, 4))
    assert torch.equal(module.layer.weight.grad, torch.ones(4, 4))


def test_the_default_dtype_that_a_forward_sets_is_put_back() -> None:
    def what(self: Does, x: Tensor) -> Tensor:
        torch.set_default_dtype(torch.float64)
        return self.layer(x)

    inspected(Does(what), floats(2, 4))
    assert torch.get_default_dtype() is torch.float32


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_inputs_are_run_and_their_products_said_to_be_uncounted(layout: torch.layout) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls nested tensors a prototype
        x = torch.nested.nested_tensor([floats(2, 4), floats(3, 4)], layout=layout)
        trace = tfinspect.trace(nn.Linear(4, 4), x)
        assert trace.failure is None
        assert trace.total_multiplications == 5 * 4 * 4 or trace.uncounted


def test_sparse_and_quantised_inputs_have_no_axes_to_change() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls the one a beta, the other old
        rows = floats(2, 4).to_sparse_csr()
        eighths = torch.quantize_per_tensor(floats(2, 4), 0.125, 0, torch.qint8)
        product = tfinspect.trace(Does(lambda self, x: x @ self.layer.weight), rows)
        whole = tfinspect.trace(Does(lambda self, x: self.layer(x.dequantize())), eighths)
        assert product.failure is None
        assert whole.failure is None
        assert whole.total_multiplications == 32
        with pytest.raises(InputError, match="meta"):
            tfinspect.flops(Does(lambda self, x: self.layer(x.dequantize())), eighths, meta=True)


def test_marks_for_a_profiler_are_no_work() -> None:
    def what(self: Does, x: Tensor) -> Tensor:
        with torch.profiler.record_function("layer"):
            return self.layer(x)

    found = tfinspect.flops(Does(what), floats(2, 4))
    assert (found.total_multiplications, found.uncounted) == (32, ())
