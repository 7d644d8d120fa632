"""A call of a module at other sizes: names of axes, and values that stay valid."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tfinspect.errors import InputError
from tfinspect.measured.inputs import Inputs, named, resized

IDS = torch.arange(32).reshape(2, 16)


class Pair(NamedTuple):
    one: torch.Tensor
    other: str


@dataclasses.dataclass
class Batch:
    ids: torch.Tensor
    name: str = "train"


def axes_of(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return dict(named(Inputs(args, kwargs)).axes)


def test_a_path_says_where_a_tensor_stands() -> None:
    nest = {"ids": IDS, "more": [IDS, (IDS, 0.5)], "text": "x", "none": None}
    inputs = Inputs((IDS, nest), {"pair": Pair(IDS, "x"), "batch": Batch(IDS)})
    assert [path for path, _ in inputs.tensors()] == [
        "0", "1.ids", "1.more[0]", "1.more[1][0]", "pair[0]", "batch.ids",
    ]  # fmt: skip


def test_habits_name_ids_vectors_and_images_and_leave_widths_alone() -> None:
    assert axes_of(IDS) == {"0": ("B", "T")}
    assert axes_of(torch.zeros(2, 16, 768)) == {"0": ("B", "T", None)}
    assert axes_of(torch.zeros(2, 3, 32, 24)) == {"0": ("B", None, "H", "W")}
    assert axes_of(torch.zeros(5, 8)) == {"0": ("B", None)}
    assert axes_of(torch.zeros(7), torch.tensor(0.5)) == {"0": ("n0",), "1": ()}


def test_equal_sizes_share_a_name_and_others_get_one_of_their_own() -> None:
    square = torch.ones(16, 16, dtype=torch.bool)
    assert axes_of(IDS, mask=square, labels=torch.zeros(2, dtype=torch.int64)) == {
        "0": ("B", "T"),
        "mask": ("T", "T"),
        "labels": ("B",),
    }
    assert axes_of(IDS, other=torch.zeros(2, 9, dtype=torch.int64))["other"] == ("B", "n0")
    # source and target of an encoder-decoder
    assert axes_of(torch.zeros(2, 10, 8), torch.zeros(2, 7, 8))["1"] == ("B", "n0", None)


def test_an_axis_that_broadcasts_stays_one() -> None:
    mask = torch.ones(1, 1, 16, 16, dtype=torch.bool)
    assert axes_of(IDS, mask=mask)["mask"] == (None, None, "T", "T")
    assert axes_of(torch.zeros(1, 1, dtype=torch.int64)) == {"0": ("B", "T")}


def test_names_that_the_caller_gave_stay() -> None:
    inputs = named(Inputs((torch.zeros(3, 1, 5), IDS), {}, {"0": ("T", "B", None)}))
    assert inputs.axes == {"0": ("T", "B", None), "1": ("n0", "n1")}
    assert inputs.sizes == {"T": 3, "B": 1, "n0": 2, "n1": 16}


def test_a_name_has_one_size() -> None:
    with pytest.raises(InputError, match=r"T is 16 in 0 and 9 in mask; one name has one size"):
        Inputs((IDS,), {"mask": torch.ones(9)}, {"0": ("B", "T"), "mask": ("T",)})
    with pytest.raises(InputError, match="0 has 2 axes and 1 names"):
        Inputs((IDS,), {}, {"0": ("B",)})
    with pytest.raises(InputError, match="axes are named for 'mask', which is no tensor; tensors: 0"):
        Inputs((IDS,), {}, {"mask": ("B",)})


@given(st.integers(1, 40), st.integers(1, 40))
def test_resized_values_repeat_from_the_front(batch: int, length: int) -> None:
    inputs = named(Inputs((IDS,), {"nest": [{"mask": IDS > 3}, "text"]}))
    other = resized(inputs, {"B": batch, "T": length})
    assert other.args[0].shape == (batch, length)
    assert other.kwargs["nest"][1] == "text"
    for row in range(batch):
        assert other.args[0][row].tolist() == [int(IDS[row % 2, at % 16]) for at in range(length)]
    assert torch.equal(other.kwargs["nest"][0]["mask"], other.args[0] > 3)
    assert other.axes == inputs.axes


def test_containers_keep_their_kind_and_what_has_no_tensor_is_the_same_object() -> None:
    left = object()
    given_ = Inputs(
        (collections.defaultdict(list, ids=IDS), Pair(IDS, "x"), Batch(IDS), [left]),
        {},
        dict.fromkeys(("0.ids", "1[0]", "2.ids"), ("B", "T")),
    )
    other = resized(given_, {"T": 5})
    assert [type(value) for value in other.args] == [collections.defaultdict, Pair, Batch, list]
    assert other.args[2] == dataclasses.replace(other.args[2], name="train")
    assert other.args[3] is given_.args[3]
    assert {tensor.shape for _, tensor in other.tensors()} == {(2, 5)}


def test_a_tensor_keeps_device_and_its_wish_for_gradients() -> None:
    x = torch.zeros(2, 4, 8, device="meta", requires_grad=True)
    other = resized(named(Inputs((x,))), {"T": 6}).args[0]
    assert (other.device.type, other.shape, other.requires_grad) == ("meta", (2, 6, 8), True)


def test_sizes_that_cannot_be_are_refused() -> None:
    inputs = Inputs((torch.zeros(0, 4),), {}, {"0": ("B", "T")})
    assert resized(inputs, {"B": 0, "T": 0}).args[0].shape == (0, 0)
    with pytest.raises(InputError, match="no axis is named 'S'; named: B, T"):
        resized(inputs, {"S": 1})
    with pytest.raises(InputError, match="an axis B of size 0 cannot become 3"):
        resized(inputs, {"B": 3})
    with pytest.raises(InputError, match="an axis T of size 4 cannot become -1"):
        resized(inputs, {"T": -1})
