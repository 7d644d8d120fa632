"""What a module is called with: draws that repeat, names of axes, and what is said where nothing is given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st
from torch import nn

from tfinspect.errors import InputError
from tfinspect.measured.inputs import named, resized
from tfinspect.sources.input_spec import BYTES
from tfinspect.sources.module_inputs import advice, example, given, initialise, require_inputs

OWN = """
import torch

def one():
    return torch.rand(2, 3)

def arguments():
    return torch.zeros(1), "text"

def keywords():
    return {"ids": torch.zeros(2, 3)}

def both():
    return (torch.zeros(1),), {"mask": torch.zeros(2)}

def wrong():
    return 3

def fails():
    raise ValueError("no data")

def needs(path):
    return path

width = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module `own_inputs` in the current folder, forgotten afterwards."""
    (tmp_path / "own_inputs.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    sys.modules.pop("own_inputs", None)


def test_arguments_stand_in_order_and_named_ones_are_keywords() -> None:
    inputs, remarks = given(
        ["int64[2,16]<50257", "mask=bool[2,16]", "f32[2,3]", "flag=True", "nest={x: [f64[], None]}"]
    )
    assert [(tensor.dtype, tensor.shape) for tensor in inputs.args] == [
        (torch.int64, (2, 16)), (torch.float32, (2, 3)),
    ]  # fmt: skip
    assert list(inputs.kwargs) == ["mask", "flag", "nest"]
    assert inputs.kwargs["flag"] is True
    assert inputs.kwargs["nest"]["x"][1] is None
    assert inputs.kwargs["nest"]["x"][0].shape == ()
    assert remarks == ()


@hypothesis_given(st.sampled_from(sorted(BYTES)), st.integers(-(2**70), 2**70))
def test_draws_repeat_by_their_seed_and_leave_the_global_one_alone(dtype: str, seed: int) -> None:
    before = torch.random.get_rng_state()
    first, second = (given([f"{dtype}[5,7]"], seed=seed).inputs.args[0] for _ in range(2))
    assert torch.equal(first.to(torch.complex128), second.to(torch.complex128))
    assert first.dtype is getattr(torch, dtype)
    assert torch.equal(torch.random.get_rng_state(), before)
    meta = given([f"{dtype}[5,7]"], seed=seed, meta=True).inputs.args[0]
    assert (meta.device.type, meta.dtype, meta.shape) == ("meta", first.dtype, first.shape)


@hypothesis_given(st.integers(1, 128), st.integers(0, 9))
def test_ids_stay_below_their_bound(bound: int, seed: int) -> None:
    ids = given([f"int8[64]<{bound}"], seed=seed).inputs.args[0]
    assert 0 <= int(ids.min()) <= int(ids.max()) < bound


def test_every_id_below_the_bound_comes() -> None:
    assert given(["int64[1000]<7"]).inputs.args[0].unique().tolist() == list(range(7))


def test_integers_without_a_bound_are_0_and_1_and_that_is_said() -> None:
    inputs, remarks = given(["int64[100]", "x=uint8[3]", "y=int64[3]<9", "bool[3]"])
    assert inputs.args[0].unique().tolist() == [0, 1]
    assert remarks == ("int64[100], uint8[3] has no bound: only 0 and 1 are drawn; int64[100]<100 draws below 100",)


def test_names_of_axes_reach_the_call_and_resize_it() -> None:
    inputs = given(["int64[B=2,T=16]<9", "x={mask: bool[T=16,T=16], bias: f32[4]}"]).inputs
    assert inputs.axes == {"0": ("B", "T"), "x.mask": ("T", "T")}
    other = resized(inputs, {"T": 5})
    assert (other.args[0].shape, other.kwargs["x"]["mask"].shape) == ((2, 5), (5, 5))
    assert named(inputs).axes["x.bias"] == ("n0",)


def test_a_name_with_two_sizes_is_refused_before_anything_is_drawn() -> None:
    with pytest.raises(InputError, match=r"T is 16 in input 0 and 1000000000000000 in input mask"):
        given(["int64[B=2,T=16]<9", "mask=bool[B=2,T=1000000000000000]"])


def test_what_does_not_fit_is_refused_and_the_meta_device_takes_it() -> None:
    text = "f32[1000000,1000000,1000]"
    with pytest.raises(InputError, match=r"the input needs about 3,725,290.3 GiB and .* GiB are free; .*--meta"):
        given([text])
    assert given([text], meta=True).inputs.args[0].shape == (10**6, 10**6, 1000)


def test_a_file_comes_first_and_the_rest_goes_with_it(tmp_path: Path) -> None:
    path = str(tmp_path / "x.npz")
    np.savez(path, np.zeros((2, 3)), mask=np.ones(3, bool))
    inputs = given(["f32[T=4]", "flag=True"], file=path).inputs
    assert [tuple(value.shape) for value in inputs.args] == [(2, 3), (4,)]
    assert list(inputs.kwargs) == ["mask", "flag"]
    assert inputs.axes == {"1": ("T",)}
    with pytest.raises(InputError, match="the input 'mask' is given twice"):
        given(["mask=True"], file=path)
    assert {tensor.device.type for _, tensor in given([], file=path, meta=True).inputs.tensors()} == {"meta"}


@pytest.mark.usefixtures("own")
def test_a_function_makes_arguments_keywords_or_both() -> None:
    before = torch.random.get_rng_state()
    calls = [given(function=f"own_inputs:{name}").inputs for name in ("one", "arguments", "keywords", "both")]
    assert [(len(call.args), list(call.kwargs)) for call in calls] == [(1, []), (2, []), (0, ["ids"]), (1, ["mask"])]
    assert torch.equal(calls[0].args[0], given(function="own_inputs:one").inputs.args[0])
    assert not torch.equal(calls[0].args[0], given(function="own_inputs:one", seed=1).inputs.args[0])
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"function": "own_inputs:wrong"}, "'own_inputs:wrong' returned int, not inputs; it has to return a tuple"),
        ({"function": "own_inputs:fails"}, "'own_inputs:fails' raised ValueError: no data (own_inputs.py:20)"),
        ({"function": "own_inputs:needs"}, "'own_inputs:needs' needs arguments: path; name a function"),
        ({"function": "own_inputs:width"}, "'own_inputs:width' is an int, not a function"),
        ({"function": "own_inputs"}, "--inputs takes package.module:name, not 'own_inputs'"),
        ({"function": "own_inputs.py:one"}, "--inputs takes a module's name, not the path 'own_inputs.py'"),
        ({"function": "own_inputs:one", "texts": ["f32[1]"]}, "--inputs makes all inputs, and stands alone"),
        ({"function": "own_inputs:one", "file": "x.npz"}, "--inputs makes all inputs, and stands alone"),
        ({"texts": ["x=1", "x=2"]}, "the input 'x' is given twice"),
    ],
)
def test_what_gives_no_inputs_is_named(how: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        given(**how)
    assert said in str(caught.value)


class Takes(nn.Module):
    """A module with one layer, whose forward has the signature of the test."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer


class Nothing(Takes):
    def forward(self) -> torch.Tensor:
        return torch.zeros(1)


class Two(Takes):
    def forward(self, *, g: Any, x: Any, scale: float = 1.0) -> Any:
        return self.layer(g) + x


@pytest.mark.parametrize(
    "layer",
    [
        nn.Embedding(50257, 8), nn.EmbeddingBag(10, 3), nn.Linear(5, 3), nn.Linear(5, 3, dtype=torch.bfloat16),
        nn.Conv1d(3, 4, 3), nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 16), nn.Conv3d(1, 2, 3), nn.LSTM(5, 6),
        nn.GRU(5, 6, batch_first=True), nn.Sequential(nn.Dropout(), nn.Linear(4, 4)),
        nn.TransformerEncoderLayer(8, 2, 16), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    ],
    ids=lambda layer: str(layer)[:40],
)  # fmt: skip
def test_the_input_that_is_proposed_runs(layer: nn.Module) -> None:
    with pytest.raises(InputError) as caught:
        require_inputs(layer, given().inputs)
    proposed = caught.value.hint.partition('--input "')[2].partition('"')[0]
    layer.eval()(*given([proposed]).inputs.args)


def test_the_hint_names_the_layer_and_what_forward_needs() -> None:
    with pytest.raises(InputError) as caught:
        require_inputs(nn.Sequential(nn.Embedding(50257, 768)), given().inputs)
    assert str(caught.value) == (
        'no input is given; the first layer is Embedding(50257, 768): try --input "int64[1,16]<50257"'
    )
    assert example(Two(nn.Linear(4, 2))) == (
        'the first layer is Linear(4, 2): try --input "g=float32[1,4]"; forward needs g, x'
    )
    assert example(nn.ReLU()) == 'say its number format and sizes: --input "float32[1,16]"'


def test_advice_is_for_the_first_layer_alone() -> None:
    module = nn.Sequential(nn.Dropout(), nn.Embedding(9, 4), nn.Linear(5, 5))
    assert advice(module, "1") == 'the first layer is Embedding(9, 4): try --input "int64[1,16]<9"'
    assert advice(module, "2") == advice(module, "") == advice(nn.ReLU(), "") == ""


def test_a_module_that_takes_nothing_needs_no_input() -> None:
    require_inputs(Nothing(nn.Linear(1, 1)), given().inputs)
    with pytest.raises(InputError, match="no input is given"):
        require_inputs(Two(nn.Linear(1, 1)), given().inputs)
    require_inputs(Two(nn.Linear(1, 1)), given(["x=None"]).inputs)


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_lazy_parameters_get_their_shapes_and_other_modules_are_not_run() -> None:
    lazy = nn.Sequential(nn.LazyLinear(3), nn.Dropout(), nn.LazyLinear(2))
    initialise(lazy, given(["f32[2,5]"]).inputs)
    assert [tuple(tensor.shape) for tensor in lazy.parameters()] == [(3, 5), (3,), (2, 3), (2,)]
    assert all(part.training for part in lazy.modules())
    initialise(nn.Linear(1, 1), given(["f32[2,5]"]).inputs)  # a pass would fail
    with pytest.raises(InputError, match="the forward pass raised RuntimeError"):
        initialise(nn.Sequential(nn.LazyLinear(3), nn.Linear(4, 4)), given(["f32[2,5]"]).inputs)
