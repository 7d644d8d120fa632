"""Modules that do what modules seldom do: each is inspected like any other, or refused in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.nn.utils.rnn import pack_padded_sequence

import tfinspect
from tests.modules.test_untouched import around, of
from tests.modules.zoo import floats
from tfinspect.errors import InputError
from tfinspect.results.module_trace import ModuleTrace


class Does(nn.Module):
    """Whatever a function does, with the modules and parameters that it is given."""

    def __init__(self, what: Callable[..., Any], **parts: nn.Module | nn.Parameter) -> None:
        super().__init__()
        self.what = what
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Any) -> Any:
        return self.what(self, x)


def nothing_left(module: nn.Module, *args: Any) -> ModuleTrace:
    """A trace with all that can be asked for, after which the module and torch are what they were."""
    before, surroundings = of(module), around()
    trace = tfinspect.trace(module, *args, ops=True, stats=True, memory=True)
    assert around() == surroundings
    assert of(module) == before
    return trace


# Inputs


def test_an_input_that_is_written_to_is_put_back() -> None:
    x = floats(2, 3)
    trace = nothing_left(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 3)), x)
    assert torch.equal(x, floats(2, 3))
    assert trace.calls[1].in_place


def test_an_input_without_elements_is_no_work() -> None:
    trace = nothing_left(nn.Linear(8, 2), floats(0, 8))
    assert trace.failure is None
    assert trace.total_flops == 0
    assert trace.calls[0].outputs[0].sizes == (0, 2)


def test_an_input_that_asks_for_gradients_gets_none() -> None:
    x = floats(2, 8).requires_grad_()
    assert nothing_left(nn.Linear(8, 2), x).failure is None
    assert x.requires_grad
    assert x.grad is None


def test_an_input_from_inference_mode() -> None:
    with torch.inference_mode():
        x = torch.ones(2, 8)
    assert nothing_left(nn.Linear(8, 2), x).total_multiplications == 2 * 8 * 2


def test_a_packed_sequence_is_walked_and_its_padding_is_no_work() -> None:
    module = nn.LSTM(4, 3)
    packed = pack_padded_sequence(floats(5, 2, 4), [5, 3])  # eight of ten positions
    trace = nothing_left(module, packed)
    assert trace.failure is None
    assert trace.total_multiplications == 8 * 4 * (4 * 3 + 3 * 3)
    assert (8, 4) in [value.sizes for value in trace.calls[0].inputs]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float64, torch.bfloat16])
def test_products_of_any_number_format(dtype: torch.dtype) -> None:
    x = floats(2, 8).to(dtype)
    assert nothing_left(Does(lambda self, x: x @ x.T), x).total_multiplications == 2 * 8 * 2


class Named(torch.Tensor):
    """A tensor with a class of its own."""


def test_a_tensor_with_a_class_of_its_own() -> None:
    trace = nothing_left(nn.Linear(8, 2), floats(2, 8).as_subclass(Named))
    assert trace.failure is None
    assert trace.total_multiplications == 2 * 8 * 2


# Outputs


def itself(self: Does, x: Tensor) -> list[Any]:
    nest: list[Any] = [x]
    nest.append(nest)
    return nest


@pytest.mark.parametrize(
    ("what", "n_most"),
    [
        (lambda self, x: None, 1),
        (lambda self, x: object(), 1),
        (lambda self, x: (i for i in range(3)), 1),
        (lambda self, x: {}, 0),
        (lambda self, x: dict.fromkeys(range(1000), x), 100),
        (itself, 100),
    ],
    ids=["nothing", "an object", "a generator", "an empty dict", "a thousand tensors", "a list that holds itself"],
)
def test_outputs_of_any_kind_are_listed_and_not_without_end(what: Callable[..., Any], n_most: int) -> None:
    (call,) = nothing_left(Does(what), floats(2, 3)).calls
    assert len(call.outputs) <= n_most


def test_names_of_any_characters() -> None:
    module = Does(lambda self, x: {"é[red]": x}, **{"数": nn.Linear(8, 2)})
    trace = nothing_left(module, floats(2, 8))
    assert trace.calls[0].outputs[0].path == "é[red]"
    assert trace.not_called == (("数", "Linear", 8 * 2 + 2),)


# What a forward does


def test_weights_that_are_made_anew_in_each_forward() -> None:
    for wrap in (weight_norm, spectral_norm):
        trace = nothing_left(nn.Sequential(wrap(nn.Linear(4, 3))), floats(2, 4))
        assert trace.failure is None
        (call,) = [call for call in trace.calls if call.path == "0"]
        assert call.own_flops == 2 * 2 * 4 * 3
        assert trace.not_called == ()


def test_a_layer_under_vmap() -> None:
    module = Does(lambda self, x: torch.vmap(self.layer)(x), layer=nn.Linear(8, 2))
    trace = nothing_left(module, floats(3, 8))
    assert trace.failure is None
    assert trace.total_multiplications == 3 * 8 * 2


def test_a_layer_with_other_weights() -> None:
    def what(self: Does, x: Tensor) -> Tensor:
        weights = {"weight": torch.ones(2, 8), "bias": torch.zeros(2)}
        return torch.func.functional_call(self.layer, weights, (x,))

    trace = nothing_left(Does(what, layer=nn.Linear(8, 2)), floats(3, 8))
    assert trace.failure is None
    assert trace.total_multiplications == 3 * 8 * 2
    assert [call.path for call in trace.calls] == ["", "layer"]


def test_a_forward_that_differentiates() -> None:
    # a force is the gradient of an energy: 5·8·2 forward, and back through the same matrix
    def what(self: Does, x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(self.energy(x).sum(), x)[0]

    trace = nothing_left(Does(what, energy=nn.Linear(8, 2)), floats(5, 8))
    assert trace.failure is None
    assert trace.total_multiplications == 2 * 5 * 8 * 2


def test_a_forward_that_takes_it_for_granted_that_gradients_are_on() -> None:
    def what(self: Does, x: Tensor) -> Tensor:
        return torch.autograd.grad(self.energy(x).sum(), x)[0]

    x = floats(5, 8).requires_grad_()
    module = Does(what, energy=nn.Linear(8, 2))
    trace = nothing_left(module, x)
    assert trace.failure is None
    assert trace.total_multiplications == 2 * 5 * 8 * 2
    assert tfinspect.flops(module, x).total_multiplications == 2 * 5 * 8 * 2
    assert tfinspect.trace(module, x, time=True).calls[0].seconds is not None
    assert x.grad is None
    assert "with gradients" in trace.notes[0]


def test_a_forward_that_trains() -> None:
    def what(self: Does, x: Tensor) -> Tensor:
        with torch.enable_grad():
            self.layer(x).sum().backward()
        return x

    module = Does(what, layer=nn.Linear(8, 2))
    assert nothing_left(module, floats(5, 8)).failure is None
    assert all(p.grad is None for p in module.parameters())


def test_a_forward_that_changes_the_mode_the_seed_or_itself() -> None:
    def mode(self: Does, x: Tensor) -> Tensor:
        self.layer.train()
        return self.layer(x)

    def seed(self: Does, x: Tensor) -> Tensor:
        torch.manual_seed(3)
        return x + torch.rand(8)

    def cache(self: Does, x: Tensor) -> Tensor:
        self.last = x
        return x

    def replaced(self: Does, x: Tensor) -> Tensor:
        self.w = nn.Parameter(torch.ones(3))
        return x

    for what in (mode, seed, cache, replaced):
        module = Does(what, layer=nn.Linear(8, 2), w=nn.Parameter(torch.zeros(3))).eval()
        assert nothing_left(module, floats(2, 8)).failure is None
        assert not hasattr(module, "last")


def test_a_forward_that_writes_to_its_weights() -> None:
    def what(self: Does, x: Tensor) -> Tensor:
        self.layer.weight.data.mul_(2)
        return self.layer(x)

    module = Does(what, layer=nn.Linear(8, 2))
    before = module.layer.weight.detach().clone()
    tfinspect.trace(module, floats(2, 8))
    assert torch.equal(module.layer.weight, before)


def test_a_module_made_on_the_way() -> None:
    trace = nothing_left(Does(lambda self, x: nn.Linear(8, 2)(x)), floats(3, 8))
    assert trace.total_multiplications == 3 * 8 * 2
    assert trace.total_params == 0
    assert trace.unregistered == 8 * 2 + 2


def test_a_forward_without_end() -> None:
    trace = tfinspect.trace(Does(lambda self, x: self(x)), floats(2))
    assert trace.failure is not None
    assert "recursion" in trace.failure.lower()
    with pytest.raises(InputError):
        tfinspect.flops(Does(lambda self, x: self(x)), floats(2))


def test_a_module_with_lazy_parameters_is_traced_and_stays_lazy() -> None:
    module = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(2))
    trace = tfinspect.trace(module, floats(1, 5))
    assert tfinspect.params(module).uninitialised == 4
    assert trace.failure is None
    assert trace.total_multiplications == 5 * 8 + 8 * 2
    assert trace.total_params == 66


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_a_scripted_module() -> None:
    module = torch.jit.script(nn.Sequential(nn.Linear(8, 2), nn.ReLU()))
    work = tfinspect.flops(module, floats(3, 8))
    assert work.total_multiplications == 3 * 8 * 2
    assert tfinspect.params(module).total == 8 * 2 + 2


def test_a_nest_of_a_hundred_modules() -> None:
    module: nn.Module = nn.Linear(4, 4)
    for _ in range(100):
        module = nn.Sequential(module)
    trace = nothing_left(module, floats(3, 4))
    assert trace.failure is None
    assert len(trace.calls) == 101
    assert trace.calls[-1].depth == 100
    assert trace.total_multiplications == 3 * 4 * 4


def test_padding_that_the_fast_path_leaves_out_is_still_work_that_runs() -> None:
    # torch packs a padded batch into a nested tensor; what is counted is the pass over every position
    layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True)
    module = nn.TransformerEncoder(layer, 2)
    padded = torch.tensor([[False] * 4 + [True], [False] * 2 + [True] * 3])
    work = tfinspect.flops(module, floats(2, 5, 16), kwargs={"src_key_padding_mask": padded})
    assert work.total_multiplications == 2 * 2 * (4 * 5 * 16 * 16 + 2 * 5 * 5 * 16 + 2 * 5 * 16 * 24)


# Refusals


def test_what_is_no_module_is_refused() -> None:
    for other in (len, "gpt2", None, nn.Linear, {"weight": floats(2, 2)}):
        with pytest.raises((InputError, TypeError)):
            tfinspect.flops(other, floats(2, 8))


def test_inputs_that_the_forward_does_not_take_are_refused() -> None:
    for args, kwargs in (((), {}), ((floats(2, 8), floats(2, 8)), {}), ((floats(2, 8),), {"mask": None})):
        with pytest.raises(InputError) as refused:
            tfinspect.flops(nn.Linear(8, 2), *args, kwargs=kwargs)
        assert "forward" in str(refused.value)


def test_widths_that_do_not_meet_are_named_with_both_and_the_module() -> None:
    module = nn.Sequential(nn.Linear(8, 3), nn.Linear(4, 2))
    trace = tfinspect.trace(module, floats(2, 8))
    assert trace.failure is not None
    for part in ("1", "[2, 3]", "[4, 2]"):
        assert part in trace.failure
    assert [(call.path, call.finished) for call in trace.calls] == [("", False), ("0", True), ("1", False)]


def test_an_operator_that_a_model_can_do_without_is_not_blamed() -> None:
    def what(self: Does, x: Tensor) -> Tensor:
        try:
            return x.view(7)
        except RuntimeError:
            raise ValueError("no seven") from None

    trace = nothing_left(Does(what), floats(2, 4))
    assert trace.failure is not None
    assert "no seven" in trace.failure
    assert "aten.view" not in trace.failure


def test_what_is_made_without_saying_where_is_made_without_memory_too() -> None:
    def what(self: Does, x: Tensor) -> Tensor:
        return self.layer(x) + torch.arange(2) * torch.ones(1)

    work = tfinspect.flops(Does(what, layer=nn.Linear(8, 2)), floats(3, 8), meta=True)
    assert work.total_multiplications == 3 * 8 * 2
    assert torch.ones(1).device.type == "cpu"


class Silent(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_without_words_is_named_by_its_class() -> None:
    def what(self: Does, x: Tensor) -> Tensor:
        raise Silent

    trace = nothing_left(Does(what), floats(2, 4))
    assert trace.failure is not None
    assert "Silent" in trace.failure


def test_products_in_place() -> None:
    trace = nothing_left(Does(lambda self, x: x.clone().addmm_(x, x)), floats(4, 4))
    assert trace.total_multiplications == 4 * 4 * 4
    assert trace.uncounted == ()


def test_a_lazy_module_that_fails_before_it_has_its_shapes() -> None:
    def what(self: Does, x: Tensor) -> Tensor:
        raise ValueError("too early")

    trace = tfinspect.trace(nn.Sequential(Does(what), nn.LazyLinear(3), nn.LazyConv2d(2, 1)), floats(2, 4))
    assert trace.failure is not None
    assert "too early" in trace.failure
    assert trace.total_params == 0
    assert [path for path, _, _ in trace.not_called] == ["1", "2"]


def test_a_lazy_module_with_all_that_can_be_asked_for() -> None:
    trace = tfinspect.trace(nn.LazyLinear(3), floats(2, 4), ops=True, stats=True, memory=True, time=True)
    assert trace.failure is None
    assert trace.total_multiplications == 2 * 4 * 3


def test_work_in_another_thread_is_not_passed_over_in_silence() -> None:
    # a dispatch mode is of one thread: what runs in another is named, and the work is at least what is counted
    def what(self: Does, x: Tensor) -> Tensor:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self.layer, x).result()

    trace = tfinspect.trace(Does(what, layer=nn.Linear(8, 2)), floats(3, 8))
    assert trace.uncounted == ("layer in another thread",)
    assert tfinspect.flops(Does(what, layer=nn.Linear(8, 2)), floats(3, 8)).uncounted == trace.uncounted


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_a_forward_that_records_itself() -> None:
    def what(self: Does, x: Tensor) -> Tensor:
        return torch.jit.trace(self.layer, (x,), check_trace=False)(x)

    trace = nothing_left(Does(what, layer=nn.Linear(8, 2)), floats(3, 8))
    assert trace.failure is None
    json.dumps(trace.to_dict())
