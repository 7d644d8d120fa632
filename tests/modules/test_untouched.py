"""A module that was inspected is the module that it was: nothing is left on it, in torch, or in a random generator."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

import tfinspect
from tests.modules.zoo import ZOO, floats
from tfinspect.errors import InputError

Inspect = Callable[..., Any]

INSPECTIONS: dict[str, Inspect] = {
    "params": lambda module, *args: tfinspect.params(module),
    "flops": tfinspect.flops,
    "flops of training": lambda module, *args: tfinspect.flops(module, *args, train=True),
    "flops on meta": lambda module, *args: tfinspect.flops(module, *args, meta=True),
    "trace": tfinspect.trace,
    "trace with operators and statistics": lambda module, *args: tfinspect.trace(module, *args, ops=True, stats=True),
    "trace of training": lambda module, *args: tfinspect.trace(module, *args, train=True),
    "trace on meta": lambda module, *args: tfinspect.trace(module, *args, meta=True),
    "trace with time and memory": lambda module, *args: tfinspect.trace(module, *args, time=True, memory=True),
}

#: What a tool may put in the place of torch's own.
PATCHABLE = (
    (F, "scaled_dot_product_attention"),
    (F, "linear"),
    (F, "multi_head_attention_forward"),
    (torch, "matmul"),
    (torch, "einsum"),
    (torch, "_transformer_encoder_layer_fwd"),
    (torch, "_native_multi_head_attention"),
    (torch.Tensor, "__matmul__"),
    (nn.Module, "__call__"),
    (nn.Module, "_call_impl"),
    (nn.Module, "forward"),
    (nn.Module, "__setattr__"),
    (nn.Linear, "forward"),
    (nn.MultiheadAttention, "forward"),
    (nn.TransformerEncoderLayer, "forward"),
)


def around() -> dict[str, Any]:
    """What belongs to the process and not to a module."""
    return {
        "functions": [getattr(owner, name) for owner, name in PATCHABLE],
        "global hooks": {
            name: list(value.items())
            for name, value in vars(torch_module).items()
            if name.startswith("_global_") and isinstance(value, dict)
        },
        "fast path": torch.backends.mha.get_fastpath_enabled(),
        "kernels": (
            torch.backends.cuda.flash_sdp_enabled(),
            torch.backends.cuda.math_sdp_enabled(),
            torch.backends.cuda.mem_efficient_sdp_enabled(),
            torch.backends.mkldnn.enabled,
        ),
        "modes": (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch._C._len_torch_dispatch_stack(),
            torch._C._len_torch_function_stack(),
            torch.get_num_threads(),
            torch.are_deterministic_algorithms_enabled(),
        ),
        "torch's generator": torch.get_rng_state().tolist(),
        "python's generator": random.getstate(),
        "numpy's generator": str(np.random.get_state()),
    }


def of(module: nn.Module) -> dict[str, Any]:
    """All there is to a module: what is registered, what hangs on it, and every value."""
    parts = dict(module.named_modules(remove_duplicate=False))
    tensors = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return {
        "parts": {path: id(part) for path, part in parts.items()},
        "classes": {path: type(part) for path, part in parts.items()},
        "attributes": {path: sorted(vars(part)) for path, part in parts.items()},
        "class attributes": {path: sorted(vars(type(part))) for path, part in parts.items()},
        "training": {path: part.training for path, part in parts.items()},
        "hooks": {
            path: {name: len(value) for name, value in vars(part).items() if name.endswith("hooks")}
            for path, part in parts.items()
        },
        "keys": list(module.state_dict()),
        "tensors": {
            name: (id(t), type(t), t.data_ptr(), t.dtype, t.device, t.requires_grad, t.grad, t.tolist())
            for name, t in tensors
        },
    }


@pytest.mark.parametrize("inspection", INSPECTIONS)
@settings(max_examples=12)
@given(name=st.sampled_from(sorted(ZOO)), training=st.booleans(), grad=st.booleans(), frozen=st.booleans())
def test_nothing_is_left_behind(inspection: str, name: str, training: bool, grad: bool, frozen: bool) -> None:
    # Lyken17/pytorch-OpCounter#82, #168, #142; TylerYep/torchinfo#121, #331, #371
    exhibit = ZOO[name]
    module = exhibit.make().train(training)
    if frozen:
        next(module.parameters()).requires_grad_(False)
    args = exhibit.args()
    values = [arg.clone() for arg in args]
    before = of(module)
    with torch.set_grad_enabled(grad):
        surroundings = around()
        try:
            INSPECTIONS[inspection](module, *args)
        except InputError:
            assert "meta" in inspection  # routing that reads its values has none to read
        assert around() == surroundings
    assert of(module) == before
    for arg, value in zip(args, values, strict=True):
        assert torch.equal(arg, value)
        assert arg.device.type == "cpu"
        assert arg.grad is None
        assert not arg.requires_grad


class Breaks(nn.Module):
    """Fails in the middle of its forward, after having drawn random numbers of three kinds."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
        self.second = nn.Linear(4, 4)
        self.error = error

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(self.first(x)) + torch.rand(4)
        random.random()
        np.random.rand()
        raise self.error


@pytest.mark.parametrize("inspection", [name for name in INSPECTIONS if name != "params"])
@pytest.mark.parametrize("error", [ValueError("wrong"), RuntimeError("wrong"), MemoryError(), KeyError("x")], ids=repr)
def test_nothing_is_left_behind_by_a_failure(inspection: str, error: Exception) -> None:
    # ultralytics/thop PR #140, #145
    module, x = Breaks(error), floats(3, 4)
    before, surroundings = of(module), around()
    try:
        result = INSPECTIONS[inspection](module, x)
    except InputError:
        assert inspection.startswith("flops") or "meta" in inspection
    else:
        assert result.failure is not None
    assert of(module) == before
    assert around() == surroundings


@pytest.mark.parametrize("inspection", [name for name in INSPECTIONS if name != "params"])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_nothing_is_left_behind_by_a_user_who_stops_it(inspection: str, stop: type[BaseException]) -> None:
    module, x = Breaks(stop()), floats(3, 4)
    before, surroundings = of(module), around()
    with pytest.raises(stop):
        INSPECTIONS[inspection](module, x)
    assert of(module) == before
    assert around() == surroundings


class Draws(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand(3) + random.random() + float(np.random.rand())


@pytest.mark.parametrize("inspection", [name for name in INSPECTIONS if "meta" not in name])
def test_numbers_drawn_afterwards_are_those_drawn_without_it(inspection: str) -> None:
    surroundings = around()
    INSPECTIONS[inspection](Draws(), floats(2, 3))
    assert around() == surroundings


class Remembers(nn.Module):
    """Writes to a buffer, as batch norm and caches do, and keeps a tensor that it saw."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        self.seen += x.sum(0)
        return self.norm(x)


@pytest.mark.parametrize("inspection", INSPECTIONS)
def test_buffers_that_the_forward_writes_to_are_put_back(inspection: str) -> None:
    # TylerYep/torchinfo#331: running statistics moved
    module = Remembers().train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    INSPECTIONS[inspection](module, floats(5, 3))
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])


def test_gradients_that_were_there_stay() -> None:
    module, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1)), floats(5, 3)
    module(x).sum().backward()
    grads = {name: (id(p.grad), p.grad.clone()) for name, p in module.named_parameters()}
    for inspect in INSPECTIONS.values():
        inspect(module, x)
    for name, p in module.named_parameters():
        assert id(p.grad) == grads[name][0]
        assert torch.equal(p.grad, grads[name][1])


def test_a_module_works_on_as_before() -> None:
    for exhibit in ZOO.values():
        module = exhibit.make().eval()
        before = module(*exhibit.args())
        for inspection in ("params", "flops", "trace of training"):
            INSPECTIONS[inspection](module, *exhibit.args())
        after = module(*exhibit.args())
        torch.testing.assert_close(after, before, rtol=0, atol=0)
