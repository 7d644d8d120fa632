"""What other counters and tracers get wrong, each by a model on which one of them did.

The figures are those of the thread or of the tool named beside them; what is right is written out by hand.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint

import tfinspect
from tests.modules.gpt2 import GPT2
from tests.modules.zoo import ZOO, OwnAttention, floats, seeded
from tfinspect.errors import InputError
from tfinspect.results.module_trace import ModuleTrace
from tfinspect.results.table import Table


def gpt2_work(n_layers: int, d: int, vocab_size: int, n: int) -> int:
    """L(12nd² + 2n²d) + ndV multiplications."""
    return n_layers * (12 * n * d * d + 2 * n * n * d) + n * d * vocab_size


def tokens(n: int, *, device: str = "cpu") -> Tensor:
    return torch.zeros(1, n, dtype=torch.long, device=device)


def small(**choices: Any) -> GPT2:
    """GPT-2 Small without memory."""
    with torch.device("meta"):
        return GPT2(**choices)


def tiny(**choices: Any) -> GPT2:
    return seeded(lambda: GPT2(2, 24, 3, vocab_size=50, n_ctx=40, **choices))  # type: ignore[return-value]


# Counting


@pytest.mark.parametrize("fused", [False, True], ids=["eager", "fused"])
def test_attention_missed_where_it_is_fused(fused: bool) -> None:
    # pytorch#195460: torch's counter, fvcore, ptflops and calflops give 126,496,800,768 multiplications
    work = tfinspect.flops(small(fused=fused), tokens(1_024, device="meta"))
    assert work.total_multiplications == 145_824_153_600 == gpt2_work(12, 768, 50_257, 1_024)
    assert work.total_flops == 291_648_307_200
    assert work.uncounted == ()


def test_attention_missed_on_the_cpu_is_there_too() -> None:
    for n in (5, 40):
        for fused in (False, True):
            assert tfinspect.flops(tiny(fused=fused), tokens(n)).total_multiplications == gpt2_work(2, 24, 50, n)


def test_twice_the_tokens_are_more_than_twice_the_work() -> None:
    # MrYxJ/calculate-flops.pytorch#48: a law linear in n has lost attention
    half, full = (tfinspect.flops(small(), tokens(n, device="meta")).total_multiplications for n in (512, 1_024))
    assert (half, full) == (68_080_238_592, 145_824_153_600)
    assert round(full / half, 5) == 2.14195


def test_fused_encoder_layers_reported_as_nothing() -> None:
    # allenai/olmoearth_pretrain PR #605: thop; torch's own counter says 0 for the whole layer in eval without gradients
    layer = nn.TransformerEncoderLayer(32, 8, 128, batch_first=True).eval()
    with torch.no_grad():
        assert tfinspect.flops(layer, floats(4, 6, 32)).total_flops == 608_256


@pytest.mark.parametrize("leading", [(4,), (2, 3), (2, 3, 5)])
def test_a_linear_layer_counted_per_batch_row_only(leading: tuple[int, ...]) -> None:
    # TylerYep/torchinfo#77
    work = tfinspect.flops(nn.Linear(8, 16), floats(*leading, 8))
    assert work.total_multiplications == torch.Size(leading).numel() * 8 * 16


def test_multiplications_taken_for_flops() -> None:
    # facebookresearch/fvcore#69, #108; sovrasov/flops-counter.pytorch#40
    work = tfinspect.flops(nn.Linear(8, 16), floats(4, 8))
    assert (work.total_multiplications, work.total_flops) == (512, 1_024)
    keys = work.to_dict()
    assert keys["total_multiplications"] == 512
    assert keys["total_flops"] == 1_024


@pytest.mark.parametrize("fused", [False, True])
def test_the_number_of_heads_changes_the_softmax_and_not_the_products(fused: bool) -> None:
    # facebookresearch/fvcore#153: "same FLOPs for 4 and 8 heads, is it broken?"
    few, many = (GPT2(1, 24, h, vocab_size=10, n_ctx=7, fused=fused) for h in (4, 8))
    assert tfinspect.flops(few, tokens(7)).total_flops == tfinspect.flops(many, tokens(7)).total_flops


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_multihead_attention_that_depends_on_gradients(mode: Callable[[], Any], requires_grad: bool) -> None:
    # sovrasov/flops-counter.pytorch#65, #77, #101; pytorch#126268: 0 under inference_mode
    module = nn.MultiheadAttention(16, 4, batch_first=True).requires_grad_(requires_grad)
    x = floats(2, 5, 16)
    with mode():
        for needs in (False, True):
            work = tfinspect.flops(module, x, x, x, kwargs={"need_weights": needs})
            assert work.total_multiplications == 2 * (4 * 5 * 16 * 16 + 2 * 5 * 5 * 16)


class Fused(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)


def test_heads_and_positions_swapped() -> None:
    # pytorch PR #184348: [B, h, T, d_head] = [2, 3, 5, 8] against seven keys
    q, k, v = floats(2, 3, 5, 8), floats(2, 3, 7, 8), floats(2, 3, 7, 6)
    assert tfinspect.flops(Fused(), q, k, v).total_multiplications == 2 * 3 * 5 * 7 * (8 + 6)


class Flexible(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(1, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it would rather be compiled
            return flex_attention(q, k, v)


def test_an_operator_above_operators_is_no_crash() -> None:
    # pytorch#134385: flex_attention fails; run without a compiler, it is two products like any other attention
    projections, attention = 5 * 8 * 24, 2 * 2 * 5 * 5 * 4
    work = tfinspect.flops(Flexible(), floats(1, 5, 8))
    if work.uncounted:
        assert any("flex_attention" in name for name in work.uncounted)
        assert work.total_multiplications == projections
    else:
        assert work.total_multiplications == projections + attention


class Unheard(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.linalg.inv(x)
        return x + x.det()


def test_what_nobody_counts_is_named_once_and_the_coverage_says_so() -> None:
    # facebookresearch/fvcore#129, #143: walls of "Unsupported operator"
    work = tfinspect.flops(Unheard(), torch.eye(4))
    assert work.uncounted
    assert len(set(work.uncounted)) == len(work.uncounted)
    assert any("inv" in name for name in work.uncounted)
    known, seen = work.coverage
    assert 0 <= known < seen
    total = work.tables()[1].rows[-1]
    assert total.cells["name"] == "at least"  # allenai/olmoearth_pretrain PR #605: a total that lacks products is none


def whole(model: nn.Sequential) -> nn.Module:
    return torch.compile(model, backend="eager")  # type: ignore[return-value]


def part(model: nn.Sequential) -> nn.Module:
    model[0] = torch.compile(model[0], backend="eager")  # type: ignore[assignment]
    return model


def in_place(model: nn.Sequential) -> nn.Module:
    model.compile(backend="eager")
    return model


@pytest.mark.parametrize("compiled", [whole, part, in_place])
def test_a_compiled_module(compiled: Callable[[nn.Sequential], nn.Module]) -> None:
    # pytorch#128199, #124196: the counter breaks; what is compiled is run eagerly, operator by operator
    model = compiled(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)))
    assert tfinspect.params(model).total == 8 * 4 + 4 + 4 * 2 + 2
    work = tfinspect.flops(model, floats(3, 8))
    assert work.total_multiplications == 3 * (8 * 4 + 4 * 2)
    assert work.uncounted == ()


def test_totals_that_grow_run_by_run() -> None:
    # deepspeedai/DeepSpeed#2292
    model, x = tiny(), tokens(5)
    works = {tfinspect.flops(model, x).total_flops for _ in range(3)}
    traced = {tfinspect.trace(model, x).total_flops for _ in range(3)}
    assert works == traced == {2 * gpt2_work(2, 24, 50, 5)}
    assert {tfinspect.params(model).total for _ in range(3)} == {sum(p.numel() for p in model.parameters())}


@pytest.mark.parametrize("spelling", ["matmul", "einsum", "bmm", "fused"])
def test_products_without_a_module_missed(spelling: str) -> None:
    # deepspeedai/DeepSpeed#1467, #4723; TylerYep/torchinfo#226: modules are counted, not operators
    module = OwnAttention(spelling)
    trace = tfinspect.trace(module, floats(2, 7, 12))
    inside = sum(call.flops for call in trace.calls if call.path)
    assert inside == 2 * (2 * 7 * 12 * 36 + 2 * 7 * 12 * 12)  # the two Linear layers
    assert trace.total_flops - inside == 2 * (2 * 2 * 2 * 7 * 7 * 6)  # Q·Kᵀ and weights·V, by no module


def test_shares_add_up_to_the_whole() -> None:
    # MrYxJ/calculate-flops.pytorch#24: the root row says 50 %
    for exhibit in ZOO.values():
        trace = tfinspect.trace(exhibit.make(), *exhibit.args())
        children: dict[int | None, int] = {}
        for call in trace.calls:
            children[call.parent] = children.get(call.parent, 0) + call.flops
        assert children[None] == trace.total_flops  # the model itself is all of it
        for i, call in enumerate(trace.calls):
            assert children.get(i, 0) + call.own_flops == call.flops


def test_shares_add_up_to_the_whole_as_they_are_printed() -> None:
    model = tiny()
    by_module, by_operator = tfinspect.flops(model, tokens(5), depth=1).tables()[-2:]
    assert by_module.rows[0].cells["share"] == 1.0  # the model itself
    own = [row.cells["share"] for row in by_operator.rows if row.role not in ("total", "fold")]
    assert sum(own) == pytest.approx(1.0, abs=1e-12)


def test_a_look_up_charged_as_a_product_and_a_tied_head_charged_nothing() -> None:
    # huggingface/trl#6708, tenstorrent/tt-metal PR #50114
    embedding = nn.Embedding(30, 8)
    assert tfinspect.flops(embedding, tokens(5)).total_flops == 0
    tied, untied = (tfinspect.flops(tiny(tied=tied), tokens(5)).total_flops for tied in (True, False))
    assert tied == untied == 2 * gpt2_work(2, 24, 50, 5)


def test_the_width_of_keys_taken_for_that_of_queries() -> None:
    # jax-ml/scaling-book PR #30, allenai/OLMo-core PR #478: six query heads, two of keys and values
    for name in ("grouped queries", "grouped queries, fused"):
        exhibit = ZOO[name]
        trace = tfinspect.trace(exhibit.make(), *exhibit.args())
        (kv,) = [call for call in trace.calls if call.path == "kv"]
        assert kv.flops == 2 * 2 * 7 * 18 * (2 * 2 * 5)


def test_dropout_that_is_off_charged_as_work() -> None:
    # torchlens 2.36 counts 2 FLOP an element
    assert tfinspect.flops(nn.Sequential(nn.Dropout(0.1), nn.Linear(3, 2)), floats(4, 3)).total_flops == 2 * 4 * 3 * 2


class Rechecked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.inner, x, use_reentrant=False)


class Recursive(nn.Module):
    """A module that calls itself, and what holds it from above."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor, depth: int = 2) -> Tensor:
        return self(self.inner(x), depth - 1) if depth else x


def test_a_hierarchy_that_is_messed_up() -> None:
    # pytorch#134242: "module hierarchy may be messed up, please file a bug"
    assert tfinspect.flops(Rechecked(), floats(3, 4)).total_multiplications == 3 * 4 * 4
    trace = tfinspect.trace(Recursive(), floats(3, 4))
    assert trace.total_multiplications == 2 * 3 * 4 * 4
    assert [(call.kind, call.depth) for call in trace.calls] == [
        ("Recursive", 0), ("Linear", 1), ("Recursive", 1), ("Linear", 2), ("Recursive", 2),
    ]  # fmt: skip
    by_path = {work.path: work for work in tfinspect.flops(Recursive(), floats(3, 4)).modules}
    assert by_path[""].multiplications == by_path["inner"].multiplications == 2 * 3 * 4 * 4  # and not once per level
    assert (by_path[""].n_calls, by_path["inner"].n_calls) == (3, 2)


# Parameters


def test_a_tied_head_counted_twice() -> None:
    # TylerYep/torchinfo#377, #322: 163,037,184, up to 2.37 times the truth
    found = tfinspect.params(small())
    assert found.total == 124_439_808 == sum(p.numel() for p in small().parameters())
    assert any("lm_head.weight" in row.aliases for row in found.tensors)


@pytest.mark.parametrize(
    "view",
    [{"ops": True}, {"stats": True}, {"check": False}, {"train": True}, {"meta": True}, {"time": True}],
    ids=str,
)
def test_a_view_that_changes_the_totals(view: dict[str, bool]) -> None:
    # TylerYep/torchinfo#52: depth changed them
    model = tiny()
    plain, viewed = tfinspect.trace(model, tokens(5)), tfinspect.trace(model, tokens(5), **view)
    assert viewed.total_params == plain.total_params == tfinspect.params(model).total
    assert viewed.total_flops == plain.total_flops == 2 * gpt2_work(2, 24, 50, 5)
    assert [call.path for call in viewed.calls] == [call.path for call in plain.calls]


def test_experts_that_do_not_run_have_parameters_and_no_work() -> None:
    # AlexsJones/llmfit#230: active and total confused
    exhibit = ZOO["experts"]
    trace = tfinspect.trace(exhibit.make(), *exhibit.args())
    assert trace.not_called == (("experts.2", "Sequential", 6 * 10 + 10 + 10 * 6 + 6),)
    assert trace.total_params == 6 * 4 + 4 * (6 * 10 + 10 + 10 * 6 + 6)


# Inputs and robustness


class Nests(nn.Module):
    """Lists, dicts, numbers, nothing, and a tensor without axes, in and out."""

    def forward(self, pair: list[Tensor], named: dict[str, Tensor], scale: Tensor, *, shift: float = 0.0) -> Any:
        x = pair[0] @ named["w"] * scale + shift
        return [x, {"sum": x.sum(), "nothing": None}]


def test_lists_dicts_and_tensors_without_axes() -> None:
    # TylerYep/torchinfo#329, #311; mert-kurttutan/torchview#90
    inputs = ([floats(2, 3), floats(1)], {"w": floats(3, 5)}, torch.tensor(2.0))
    trace = tfinspect.trace(Nests(), *inputs, kwargs={"shift": 0.5})
    assert trace.failure is None
    (call,) = trace.calls
    assert {value.path: value.sizes or value.kind for value in call.inputs} == {
        "0[0]": (2, 3),
        "0[1]": (1,),
        "1.w": (3, 5),
        "2": "tensor",  # without axes
        "shift": "float",
    }
    assert [(value.path, value.sizes) for value in call.outputs] == [
        ("0", (2, 5)),
        ("1.sum", ()),
        ("1.nothing", None),
    ]
    assert trace.total_multiplications == 2 * 3 * 5


class Wide(nn.Module):
    """Its output depends on a keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Linear(3, 2), nn.Linear(3, 200)

    def forward(self, x: Tensor, wide: bool = False) -> Tensor:
        return self.wide(x) if wide else self.narrow(x)


def test_keyword_arguments_that_are_ignored() -> None:
    # MrYxJ/calculate-flops.pytorch#53, #63
    assert tfinspect.flops(Wide(), floats(4, 3)).total_multiplications == 4 * 3 * 2
    assert tfinspect.flops(Wide(), floats(4, 3), kwargs={"wide": True}).total_multiplications == 4 * 3 * 200
    assert tfinspect.trace(Wide(), floats(4, 3), kwargs={"wide": True}).not_called == (("narrow", "Linear", 3 * 2 + 2),)


def test_a_token_model_that_is_fed_with_numbers() -> None:
    # sksq96/pytorch-summary#42; TylerYep/torchinfo#229: torch says what an "indices" tensor may be, and not whose
    with pytest.raises(InputError) as refused:
        tfinspect.flops(tiny(), torch.rand(1, 5))
    assert "wte" in str(refused.value)
    assert "float32" in str(refused.value)


class ReadsANumber(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * x.abs().max().item()


def test_the_meta_device_stopped_by_one_operator() -> None:
    # mert-kurttutan/torchview#107: torch's message, "Tensor.item() cannot be called on meta tensors", does not help
    model = ReadsANumber()
    with pytest.raises(InputError) as refused:
        tfinspect.flops(model, floats(2, 4), meta=True)
    message = str(refused.value)
    assert "item" in message or "_local_scalar_dense" in message
    assert "meta" in message
    with pytest.raises(InputError, match="meta"):
        tfinspect.trace(model, floats(2, 4), meta=True)
    assert next(model.parameters()).device.type == "cpu"
    assert tfinspect.flops(model, floats(2, 4)).total_multiplications == 2 * 4 * 4


@pytest.mark.parametrize("name", [name for name in ZOO if name != "experts"])  # whose routing reads its values
def test_a_run_without_memory_counts_the_same(name: str) -> None:
    # TylerYep/torchinfo#197, mert-kurttutan/torchview#37: the summary itself ran out of memory
    exhibit = ZOO[name]
    module = exhibit.make()
    plain = tfinspect.flops(module, *exhibit.args())
    meta = tfinspect.flops(module, *exhibit.args(), meta=True)
    assert meta.total_flops == plain.total_flops
    assert all(p.device.type == "cpu" for p in module.parameters())


def test_a_model_without_memory_needs_no_flag() -> None:
    trace = tfinspect.trace(small(), tokens(9, device="meta"))
    assert trace.failure is None
    assert trace.total_multiplications == gpt2_work(12, 768, 50_257, 9)
    assert trace.calls[0].outputs[0].sizes == (1, 9, 50_257)


def test_scores_that_a_fused_kernel_hides_are_shown() -> None:
    # torchlens 2.36 has one row for the fused call: the [B, h, T, T] scores and weights do not appear
    trace = tfinspect.trace(tiny(fused=True), tokens(5))
    assert len(trace.opened) == 2
    for i, (path, opened) in enumerate(trace.opened):
        assert path == f"h.{i}.attn"
        assert opened.scores == (1, 3, 5, 5)
        assert opened.difference is not None
        assert opened.difference < 1e-5


def test_scores_are_shown_also_of_the_fused_encoder_layer() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True).eval()
    with torch.no_grad():
        trace = tfinspect.trace(layer, floats(2, 5, 16))
    ((path, opened),) = trace.opened
    assert path == "self_attn"
    assert opened.scores == (2, 4, 5, 5)
    assert opened.difference is not None
    assert opened.difference < 1e-5


def test_twelve_blocks_that_are_alike_stand_once() -> None:
    # mert-kurttutan/torchview#118, sachinhosmani/torchvista#4
    trace = tfinspect.trace(small(), tokens(9, device="meta"))
    by_class = [row.cells.get("class") for row in tree(trace).rows]
    assert by_class.count("Block") == 1
    (folded,) = [row for row in tree(trace).rows if "11 more alike" in str(row.cells["name"])]
    assert folded.cells["params"] == 11 * 7_087_872
    assert [row.cells.get("class") for row in tree(trace.unfolded()).rows].count("Block") == 12
    assert tree(trace).rows[-1].cells == tree(trace.unfolded()).rows[-1].cells  # the total


def tree(trace: ModuleTrace) -> Table:
    """The table of calls."""
    (found,) = [table for table in trace.tables() if table.title == "Modules"]
    return found


def test_hooks_of_the_user_run_and_stay() -> None:
    model, seen = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), []
    handle = model[0].register_forward_hook(lambda module, args, output: seen.append(tuple(output.shape)))
    tfinspect.flops(model, floats(2, 3))
    assert seen
    assert set(seen) == {(2, 3)}
    assert len(model[0]._forward_hooks) == 1
    handle.remove()
