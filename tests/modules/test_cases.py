"""What people hit when they trace and count their own modules; each case names the thread that it comes from."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tfinspect
from tests.modules.gpt2 import GPT2
from tests.modules.zoo import floats
from tfinspect.errors import InputError


def hooks(module: nn.Module) -> int:
    """Hooks of every kind on a module and all inside it."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return sum(len(getattr(part, kind)) for part in module.modules() for kind in kinds)


# Shapes and traces


class CalledThrice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(8, 8)
        self.unused = nn.Linear(100, 100)

    def forward(self, x: Tensor) -> Tensor:
        return self.l(self.l(self.l(x)))


def test_a_layer_called_three_times_has_three_rows_and_one_never_called_is_said() -> None:
    # sksq96/pytorch-summary#201, TylerYep/torchinfo#243
    trace = tfinspect.trace(CalledThrice(), floats(2, 8))
    rows = [call for call in trace.calls if call.path == "l"]
    assert [row.nth for row in rows] == [1, 2, 3]
    assert [(row.inputs[0].sizes, row.outputs[0].sizes) for row in rows] == [((2, 8), (2, 8))] * 3
    assert trace.not_called == (("unused", "Linear", 100 * 100 + 100),)
    assert trace.total_params == 72 + 10_100
    assert trace.total_multiplications == 3 * 2 * 8 * 8


class SharesActivation(nn.Module):
    def __init__(self, act: nn.Module) -> None:
        super().__init__()
        self.fc = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.act = act

    def forward(self, x: Tensor) -> Tensor:
        for fc in self.fc:
            x = self.act(fc(x))
        return x


def test_a_shared_activation_is_listed_where_it_is_called() -> None:
    # TylerYep/torchinfo#262: its rows stood under the first block that holds it
    act = nn.ReLU()
    model = nn.Sequential(*(SharesActivation(act) for _ in range(3)))
    trace = tfinspect.trace(model, floats(2, 4))
    leaves = [call for call in trace.calls if call.kind in ("Linear", "ReLU")]
    expected = [f"{i}.{part}" for i in range(3) for part in ("fc.0", "act", "fc.1", "act")]
    assert [call.path for call in leaves] == expected
    for call in leaves:
        assert call.parent is not None
        assert trace.calls[call.parent].path == call.path[0]
    assert trace.total_params == 3 * 2 * (4 * 4 + 4)  # 120; counted per name it is 160 in some tools


class Nested(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Any]:
        return {"logits": x, "past": None, "aux": (x, [x, 3, "txt"]), "loss": 0.5}


def test_outputs_are_named_by_their_path_whatever_they_are() -> None:
    # sksq96/pytorch-summary#149, #110, #185, #138
    (call,) = tfinspect.trace(Nested(), floats(2, 3)).calls
    shown = {value.path: value.sizes or value.kind for value in call.outputs}
    assert shown == {
        "logits": (2, 3),
        "past": "NoneType",
        "aux[0]": (2, 3),
        "aux[1][0]": (2, 3),
        "aux[1][1]": "int",
        "aux[1][2]": "str",
        "loss": "float",
    }


@dataclasses.dataclass
class Answer:
    logits: Tensor
    hidden: tuple[Tensor, ...]


class Answers(nn.Module):
    def forward(self, x: Tensor) -> Answer:
        return Answer(x, (x, x.sum()))


def test_a_dataclass_is_walked_by_its_fields_and_a_scalar_tensor_has_no_axes() -> None:
    (call,) = tfinspect.trace(Answers(), floats(2, 3)).calls
    assert {value.path: value.sizes for value in call.outputs} == {
        "logits": (2, 3),
        "hidden[0]": (2, 3),
        "hidden[1]": (),
    }


class KeywordOnly(nn.Module):
    def forward(self, *, g: Tensor, x: Tensor) -> Tensor:
        return g + x


def test_keyword_inputs_are_shown_by_name() -> None:
    # graykode/modelsummary#1: a plain forward hook sees no positional input
    trace = tfinspect.trace(KeywordOnly(), kwargs={"g": floats(1, 4), "x": floats(1, 4)})
    assert {value.path: value.sizes for value in trace.calls[0].inputs} == {"g": (1, 4), "x": (1, 4)}


def test_an_activation_in_place_leaves_the_figures_of_the_layer_before_it() -> None:
    # johnmarktaylor91/torchlens PR #167: the stored output is overwritten
    linear, x = nn.Linear(3, 3), floats(50, 3)
    plain = tfinspect.trace(nn.Sequential(linear, nn.ReLU()), x, stats=True)
    in_place = tfinspect.trace(nn.Sequential(linear, nn.ReLU(inplace=True)), x, stats=True)
    assert [call.kind for call in in_place.calls] == ["Sequential", "Linear", "ReLU"]
    assert in_place.calls[1].outputs[0].stats == plain.calls[1].outputs[0].stats
    assert in_place.calls[2].outputs[0].stats == plain.calls[2].outputs[0].stats
    assert in_place.calls[1].outputs[0].stats != in_place.calls[2].outputs[0].stats


class Fails(nn.Module):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error
        self.failing = True

    def forward(self, x: Tensor) -> Tensor:
        if self.failing:
            raise self.error
        return x


def test_a_failure_is_named_with_its_module_and_the_trace_up_to_it_is_kept() -> None:
    # ultralytics/thop PR #140, #145; Lyken17/pytorch-OpCounter#142
    model = nn.Sequential(nn.Linear(3, 3), Fails(ValueError("two widths differ")), nn.Linear(3, 3))
    trace = tfinspect.trace(model, floats(2, 3))
    assert trace.failure is not None
    assert "two widths differ" in str(trace.failure)
    assert [call.path for call in trace.calls] == ["", "0", "1"]
    assert trace.calls[1].outputs[0].sizes == (2, 3)
    assert hooks(model) == 0
    with pytest.raises(InputError, match="two widths differ") as refused:
        tfinspect.flops(model, floats(2, 3))
    assert "1" in str(refused.value)
    assert hooks(model) == 0
    model[1].failing = False
    assert model(floats(2, 3)).shape == (2, 3)


@pytest.mark.parametrize("grad", [False, True])
def test_the_fused_encoder_layer_shows_its_parts_and_all_its_work(grad: bool) -> None:
    # pytorch#128413, #132700: the fast path is one operator, and no inner module runs.
    # 4·6·(4·32² + 2·32·128) + 4·2·6²·32 = 304,128 multiplications
    layer = nn.TransformerEncoderLayer(32, 8, 128, batch_first=True).eval()
    with torch.set_grad_enabled(grad):
        trace = tfinspect.trace(layer, floats(4, 6, 32))
    assert trace.total_multiplications == 304_128
    assert trace.total_flops == 608_256
    paths = {call.path for call in trace.calls}
    assert {"self_attn", "linear1", "linear2", "norm1", "norm2"} <= paths | set(trace.used_without_call)


class ThroughForward(nn.Module):
    """A layer used without being called, and a bias of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 5, bias=False)
        self.bias = nn.Parameter(torch.zeros(5))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner.forward(x) + self.bias


def test_a_layer_used_without_a_call_is_said_to_be_so() -> None:
    # TylerYep/torchinfo#366; a sum over leaves gives 45
    model = nn.Sequential(ThroughForward(), nn.Linear(5, 5))
    trace = tfinspect.trace(model, floats(2, 3))
    assert trace.used_without_call == ("0.inner",)
    assert trace.not_called == ()
    assert trace.total_params == tfinspect.params(model).total == 15 + 5 + 30
    assert trace.total_multiplications == 2 * (3 * 5 + 5 * 5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_traced_and_shown(dtype: torch.dtype) -> None:
    # pytorch#52291: LayerNorm, GELU and attention exist in half precision on the CPU
    model = GPT2(1, 12, 2, vocab_size=20, n_ctx=9).to(dtype)
    trace = tfinspect.trace(model, torch.zeros(1, 5, dtype=torch.long))
    assert trace.failure is None
    assert trace.calls[0].outputs[0].dtype == str(dtype).removeprefix("torch.")
    assert trace.calls[0].inputs[0].dtype == "int64"


def test_precisions_that_do_not_meet_are_both_named() -> None:
    # huggingface/transformers#21989
    model = nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 3).half())
    trace = tfinspect.trace(model, floats(2, 3))
    assert trace.failure is not None
    assert "1" in str(trace.failure)
    for dtype in ("float16", "float32"):
        assert dtype in str(trace.failure)


@pytest.mark.parametrize("bad", [-1, 50_257])
def test_an_id_outside_the_table_is_named_with_its_place_and_the_range(bad: int) -> None:
    # meta-llama/llama#294; torch says "index out of range in self"
    model = GPT2(1, 4, 2, n_ctx=8)
    tokens = torch.zeros(1, 5, dtype=torch.long)
    tokens[0, 3] = bad
    trace = tfinspect.trace(model, tokens)
    assert trace.failure is not None
    for part in ("wte", f"{bad:,}", "[0, 3]", "50,256"):
        assert part in str(trace.failure)


def test_ids_that_are_no_integers_are_said_to_be_so() -> None:
    trace = tfinspect.trace(GPT2(1, 4, 2, vocab_size=20, n_ctx=8), torch.tensor([[1.0, 2.0]]))
    assert trace.failure is not None
    assert "float32" in str(trace.failure)
    assert "int" in str(trace.failure)


def test_ids_of_32_bits_are_ids() -> None:
    trace = tfinspect.trace(GPT2(1, 4, 2, vocab_size=20, n_ctx=8), torch.tensor([[1, 2]], dtype=torch.int32))
    assert trace.failure is None
    assert trace.calls[0].inputs[0].dtype == "int32"


def test_an_lstm_gives_its_states_beside_its_output() -> None:
    # sksq96/pytorch-summary#143, #130
    model = nn.LSTM(5, 5)
    (call,) = tfinspect.trace(model, floats(3, 1, 5)).calls
    assert [(value.path, value.sizes) for value in call.outputs] == [
        ("0", (3, 1, 5)),
        ("1[0]", (1, 1, 5)),
        ("1[1]", (1, 1, 5)),
    ]
    assert tfinspect.params(model).total == 4 * (5 * 5 + 5 * 5 + 5 + 5)


class PlainList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ls = [nn.Linear(3, 3)]

    def forward(self, x: Tensor) -> Tensor:
        return self.ls[0](x)


def test_layers_in_a_plain_list_are_not_registered_and_that_is_said() -> None:
    # TylerYep/torchinfo#190
    model = PlainList()
    trace = tfinspect.trace(model, floats(2, 3))
    assert tfinspect.params(model).total == 0
    assert trace.total_params == 0
    assert trace.unregistered == 3 * 3 + 3
    assert trace.total_multiplications == 2 * 3 * 3


@pytest.mark.parametrize("training", [False, True])
def test_dropout_is_off_unless_asked_for_and_the_mode_is_put_back(training: bool) -> None:
    # TylerYep/torchinfo#121
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1)).train(training)
    x = floats(50, 4)
    still = [tfinspect.trace(model, x, stats=True).calls[2].outputs[0] for _ in range(2)]
    random = tfinspect.trace(model, x, stats=True, train=True).calls[2].outputs[0]
    assert model.training is model[1].training is training
    assert still[0] == still[1]
    assert still[0].sizes == random.sizes
    assert still[0].stats != random.stats


# Parameters


def test_a_tied_matrix_counts_once_under_both_its_names() -> None:
    # karpathy/nanoGPT PR #21, TylerYep/torchinfo PR #397
    tied, untied = (tfinspect.params(on_meta(tied=tied)) for tied in (True, False))
    assert tied.total == 124_439_808
    assert untied.total == 163_037_184 == tied.total + 50_257 * 768
    (row,) = [row for row in tied.tensors if row.aliases]
    assert (row.name, row.sizes, tuple(row.aliases)) == ("wte.weight", (50_257, 768), ("lm_head.weight",))
    assert not any(row.aliases for row in untied.tensors)


def on_meta(*sizes: int, **choices: Any) -> GPT2:
    """A GPT-2 of any size, without memory."""
    with torch.device("meta"):
        return GPT2(*sizes, **choices)


def test_the_counts_that_go_by_other_names_are_sums_of_rows() -> None:
    # karpathy/nanoGPT PR #209: 123.65M is without positions; TransformerLens#903: 85M is the blocks' matrices
    rows = tfinspect.params(on_meta()).tensors
    positions = sum(row.params for row in rows if row.name == "wpe.weight")
    tokens = sum(row.params for row in rows if row.name == "wte.weight")
    matrices = sum(row.params for row in rows if row.name.startswith("h.") and len(row.sizes) == 2)
    assert 124_439_808 - positions == 123_653_376
    assert 124_439_808 - positions - tokens == 85_056_000
    assert matrices == 12 * 12 * 768**2 == 84_934_656
    assert 85_056_000 - matrices == 121_344


@pytest.mark.parametrize(
    ("n_layers", "d", "n_heads", "total"),
    [
        (12, 768, 12, 124_439_808),
        (24, 1_024, 16, 354_823_168),
        (36, 1_280, 20, 774_030_080),
        (48, 1_600, 25, 1_557_611_200),
    ],
)
def test_the_sizes_of_gpt2_are_not_the_papers_round_numbers(n_layers: int, d: int, n_heads: int, total: int) -> None:
    # GPT-2 paper, table 2, says 117M, 345M, 762M and 1542M; openai/gpt-2#102
    assert tfinspect.params(on_meta(n_layers, d, n_heads)).total == total


def test_masks_kept_as_buffers_are_no_parameters() -> None:
    # lopuhin/transformer-lm#20: GPT-2 is listed with 137M, of which 12·1,048,576 are masks
    found = tfinspect.params(on_meta(mask_buffers=True))
    assert found.total == 124_439_808
    assert found.buffer_elements == 12 * 1_024 * 1_024
    assert found.total + found.buffer_elements == 137_022_720


def test_tensors_without_a_shape_yet_are_counted_as_such() -> None:
    # TylerYep/torchinfo#117: numel() of a lazy parameter raises ValueError
    model = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(2))
    before = tfinspect.params(model)
    assert (before.total, before.uninitialised) == (0, 4)
    model(floats(1, 5))
    after = tfinspect.params(model)
    assert (after.total, after.uninitialised) == ((5 * 8 + 8) + (8 * 2 + 2), 0)


def test_frozen_and_trainable_add_up_to_the_total() -> None:
    # bitsandbytes#834
    model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 1))
    model[0].requires_grad_(False)
    found = tfinspect.params(model)
    assert (found.total, found.trainable, found.frozen) == (121, 11, 110)


class Wraps(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


class ThreeParents(nn.Module):
    def __init__(self, *, shared: bool) -> None:
        super().__init__()
        layers = [nn.Linear(100, 100)] * 3 if shared else [nn.Linear(100, 100) for _ in range(3)]
        self.parents = nn.ModuleList(Wraps(layer) for layer in layers)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([parent(part) for parent, part in zip(self.parents, x.split(100, dim=1), strict=True)], dim=1)


@pytest.mark.parametrize(("shared", "params"), [(True, 10_100), (False, 30_300)])
def test_one_layer_under_three_parents_has_its_parameters_once_and_its_work_per_call(shared: bool, params: int) -> None:
    # deepspeedai/DeepSpeed#7256: 180,000 FLOPs were reported
    model = ThreeParents(shared=shared)
    assert tfinspect.params(model).total == params
    work = tfinspect.flops(model, floats(1, 300))
    assert work.total_flops == 60_000
    trace = tfinspect.trace(model, floats(1, 300))
    inner = [call for call in trace.calls if call.kind == "Linear"]
    assert [call.path for call in inner] == [f"parents.{i}.inner" for i in range(3)]
    assert [call.flops for call in inner] == [20_000] * 3


def test_buffers_are_listed_apart() -> None:
    # Lyken17/pytorch-OpCounter#82: mean, variance and one counter
    found = tfinspect.params(nn.BatchNorm1d(64))
    assert (found.total, found.buffer_elements) == (128, 64 + 64 + 1)


class TwoNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.zeros(7))
        self.b = self.a


def test_a_parameter_under_two_names_of_one_module_counts_once() -> None:
    # TylerYep/torchinfo#322
    found = tfinspect.params(TwoNames())
    assert found.total == 7
    (row,) = found.tensors
    assert (row.name, tuple(row.aliases)) == ("a", ("b",))


# Work


class Bare(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a @ b


@pytest.mark.parametrize(
    ("a", "b", "multiplications"), [((8,), (8,), 8), ((4, 8), (8,), 32), ((2, 1, 4, 8), (3, 8, 5), 960)]
)
def test_products_with_vectors_and_broadcast_products_are_counted(
    a: tuple[int, ...], b: tuple[int, ...], multiplications: int
) -> None:
    # deepspeedai/DeepSpeed PR #8419; torch 2.13's counter gives 0, 0, 960
    work = tfinspect.flops(Bare(), floats(*a), floats(*b))
    assert (work.total_multiplications, work.total_flops) == (multiplications, 2 * multiplications)
    assert work.uncounted == ()
