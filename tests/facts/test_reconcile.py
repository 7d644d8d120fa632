"""Figures that tools and people give, and the convention that each comes from.

The tools' figures were measured on GPT-2 Small at n = 1,024 and on a small LLaMA with fvcore, ptflops, torchprofile,
torchinfo, thop, llm-analysis, llm-flops and EleutherAI's calculators; the others are from the threads that are named.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.specs import specs
from tfinspect.closed_form import param_conventions, work_conventions
from tfinspect.closed_form.formula import letters, value
from tfinspect.closed_form.params import ledger
from tfinspect.closed_form.readings import Ground, search, within
from tfinspect.errors import CheckFailed, InputError
from tfinspect.inspectors.reconcile import read, reconcile, require
from tfinspect.presets import PRESETS
from tfinspect.results.reconcile import Number
from tfinspect.spec import ModelSpec

GPT2 = PRESETS["gpt2"]

#: A LLaMA of d = 256 and 4 blocks with 8 heads on 2 of keys, untied: 3,283,200 parameters, 420,741,120 MACs at n = 128.
LLAMA_LIKE = ModelSpec(
    vocab_size=1_000, n_ctx=128, d_model=256, n_layers=4, n_heads=8, n_kv_heads=2, d_ff=688, norm="rmsnorm",
    activation="swiglu", positions="rope", tied_head=False, bias=False,
)  # fmt: skip

QWEN3_06B = ModelSpec(
    vocab_size=151_936, n_ctx=40_960, d_model=1_024, n_layers=28, n_heads=16, n_kv_heads=8, d_head=128, d_ff=3_072,
    norm="rmsnorm", activation="swiglu", positions="rope", qk_norm=True, bias=False,
)  # fmt: skip
LLAMA2_70B = ModelSpec(
    vocab_size=32_000, n_ctx=4_096, d_model=8_192, n_layers=80, n_heads=64, n_kv_heads=8, d_ff=28_672, norm="rmsnorm",
    activation="swiglu", positions="rope", tied_head=False, bias=False,
)  # fmt: skip
QWEN2_7B = ModelSpec(
    vocab_size=152_064, n_ctx=32_768, d_model=3_584, n_layers=28, n_heads=28, n_kv_heads=4, d_ff=18_944, norm="rmsnorm",
    activation="swiglu", positions="rope", tied_head=False, bias=False, qkv_bias=True,
)  # fmt: skip
LLAMA32_1B = ModelSpec(
    vocab_size=128_256, n_ctx=131_072, d_model=2_048, n_layers=16, n_heads=32, n_kv_heads=8, d_ff=8_192, norm="rmsnorm",
    activation="swiglu", positions="rope", bias=False,
)  # fmt: skip
LLAMA2_7B = ModelSpec(
    vocab_size=32_000, n_ctx=4_096, d_model=4_096, n_layers=32, n_heads=32, d_ff=11_008, norm="rmsnorm",
    activation="swiglu", positions="rope", tied_head=False, bias=False,
)  # fmt: skip

#: Parameters of GPT-2 Small as others give them, and what that takes.
PARAMETERS = (
    (163_037_184, {"tied-head-twice"}),  # torchinfo 1.8.0
    (38_635_776, {"thop"}),  # thop: Conv1D and both tables are unknown to it
    (123_551_232, {"no-positions", "no-biases"}),  # llm-analysis
    (124_393_728, {"no-linear-biases", "norms-twice"}),  # EleutherAI's calc_transformer_params prints 124.39 M
    (123_653_376, {"no-positions"}),  # nanoGPT prints 123.65M: karpathy/nanoGPT #209
    (85_056_000, {"no-tables"}),  # TransformerLensOrg/TransformerLens #903
    (84_934_656, {"only-matrices"}),  # 12·L·d²
    (137_022_720, {"masks"}),  # hub cards that show 137M
    (124_475_904, {"padded-64"}),  # 50,304 rows: NVIDIA/Megatron-LM #51, nanoGPT
    (7_087_872, {"one-block"}),  # 12d² + 13d
    (497_759_232, {"bytes-4"}),
    (548_090_880, {"masks", "bytes-4"}),  # the file's data bytes
    (248_879_616, {"bytes-2"}),
)

#: Work of GPT-2 Small at n = 1,024 as others give it, and what that takes.
WORK = (
    (126_496_800_768, {"no-attention-products"}),  # FlopCounterMode and calflops on fused attention, CPU
    (202_828_777_728, {"torchinfo"}),  # torchinfo, unreleased
    (163_343_662_080, {"torchinfo-1.8.0"}),
    (39_602_356_224, {"thop"}),
    (145_922_457_600, {"norm-5"}),  # fvcore, eager attention
    (126_595_104_768, {"no-attention-products", "norm-5"}),  # fvcore, fused attention
    (185_347_866_624, {"lookup"}),  # huggingface/trl #6709
    (106_300_440_576, {"no-head"}),
    (136_169_914_368, {"causal-half"}),  # AI-Hypercomputer/maxtext #1988
    (874_944_921_600, {"backward"}),  # pytorch #95751
    (142_406_400, {"decode"}),
    (284_812_800, {"per-token"}),
    (207_618_048, {"no-head", "per-token"}),
    (188_743_680, {"rule Kaplan, with context"}),  # 2N + 2·L·n·d
    (875_690_459_136, {"rule nanoGPT"}),  # estimate_mfu: karpathy/nanoGPT #456
    (855_166_464, {"rule nanoGPT", "per-token"}),
    (113_246_208, {"only-attention-products", "backward", "per-token"}),  # 12·L·d·n
    (68_080_238_592, {"n-512"}),  # MrYxJ/calculate-flops.pytorch #48
    (248_879_616, {"2N"}),
    (583_296_614_400, {"doubled"}),  # facebookresearch/fvcore #108
)


def explanations(number: int | str, model: object = GPT2, **more: object) -> list[set[str]]:
    """The conventions of each reading that gives the number."""
    return [set(reading.keys) for reading in reconcile(number, model, **more).readings]  # type: ignore[arg-type]


@pytest.mark.parametrize(("number", "conventions"), PARAMETERS)
def test_parameters_that_others_give_come_from_conventions(number: int, conventions: set[str]) -> None:
    assert conventions in explanations(number)


@pytest.mark.parametrize(("number", "conventions"), WORK)
def test_work_that_others_give_comes_from_conventions(number: int, conventions: set[str]) -> None:
    assert conventions in explanations(number)


@pytest.mark.parametrize(
    ("ratio", "conventions"),
    [
        ("0.8675x", {"no-attention-products"}),  # FlopCounterMode, calflops: fused attention
        ("1.0007x", {"norm-5"}),  # fvcore
        ("0.8681x", {"no-attention-products", "norm-5"}),
        ("1.0006x", {"bias-additions"}),  # ptflops by operators
        ("0.8680x", {"no-attention-products", "bias-additions"}),
        ("1.0012x", {"ptflops"}),  # ptflops by modules
        ("1.0022x", {"torchprofile"}),
        ("1.0012x", {"torchprofile-fused"}),
        ("1.1201x", {"torchinfo-1.8.0"}),
        ("1.3909x", {"torchinfo"}),
        ("0.2716x", {"thop"}),
        ("1.0033x", {"llm-flops"}),
        ("86.75 %", {"no-attention-products"}),
    ],
)
def test_a_share_of_the_right_figure_is_explained_to_the_digits_it_has(ratio: str, conventions: set[str]) -> None:
    assert conventions in explanations(ratio)


@pytest.mark.parametrize(
    ("number", "conventions"),
    [
        ("3024896", {"linear-layers"}),  # thop
        ("0.9202x", {"no-attention-products"}),  # fused attention; thop
        ("0.9209x", {"torchinfo"}),
        ("0.0078x", {"torchinfo-1.8.0"}),  # each weight once: TylerYep/torchinfo #77
    ],
)
def test_a_small_llama_as_tools_count_it(number: str, conventions: set[str]) -> None:
    assert conventions in explanations(number, LLAMA_LIKE)


@pytest.mark.parametrize(
    ("number", "spec", "conventions"),
    [
        (507_965_952, QWEN3_06B, {"d-head-by-rule"}),  # EleutherAI/gpt-neox #1434
        (78_371_889_152, LLAMA2_70B, {"full-kv"}),  # meta-llama/llama #1111: "78B"
        (7_615_487_488, QWEN2_7B, {"no-qkv-biases"}),  # huggingface_hub #4221
        (1_498_482_688, LLAMA32_1B, {"tied-head-twice"}),  # pytorch/torchtitan #1040
    ],
)
def test_parameters_of_other_families(number: int, spec: ModelSpec, conventions: set[str]) -> None:
    assert conventions in explanations(number, spec)


def test_the_attention_products_of_llama_2_at_128_tokens() -> None:
    # MrYxJ/calculate-flops.pytorch #64: 850 G multiplications, and 845.7 G without the products of attention
    assert reconcile(850_000_871_424, LLAMA2_7B, seq_len=128).confirmed
    assert {"no-attention-products"} in explanations(845_705_904_128, LLAMA2_7B, seq_len=128)


def test_a_batch_that_is_counted_as_one_sequence_is_told() -> None:
    assert {"one-sequence"} in explanations(145_824_153_600, seq_len=128, batch=8)
    assert {"per-sequence"} in explanations(16_114_089_984, seq_len=128, batch=8)


def test_six_n_d_with_exact_parameters_has_no_float_in_it() -> None:
    gpt3 = PRESETS["gpt3-175b"]
    assert {"6ND-all"} in explanations("314,287,666,790,400,000,000,000", gpt3, tokens="300B")
    assert {"6ND-all"} in explanations("3.14e23", gpt3, tokens=300_000_000_000)
    assert not reconcile("314,287,666,790,400,000,000,001", gpt3, tokens="300B").explained


@pytest.mark.parametrize("number", [124_439_808, 145_824_153_600, "291,648,307,200", "124M", "145.8G", "0.2916 TFLOPs"])
def test_the_models_own_figures_are_confirmed(number: int | str) -> None:
    report = reconcile(number, GPT2)
    assert report.confirmed
    assert report.verdict == "own"
    require(report)


def test_an_unexplained_number_is_said_to_be_so_with_what_the_difference_is() -> None:
    report = reconcile(124_439_808 + 5 * 768, GPT2)
    assert report.verdict == "unexplained"
    own = next(near for near in report.nearest if not near.reading.steps)
    assert own.difference == 5 * 768
    assert own.multiple is not None
    assert (own.multiple.times, own.multiple.formula, own.multiple.quantity) == (5, "d", 768)
    with pytest.raises(CheckFailed, match="no known convention gives 124,443,648 for gpt2"):
        require(report)


def test_a_difference_in_each_block_is_named_so() -> None:
    report = reconcile(124_439_808 - 12 * 3_072 * 768, GPT2, seq_len=64)  # a third of each MLP's matrices
    own = next(near for near in report.nearest if not near.reading.steps)
    assert own.multiple is not None
    assert own.multiple.words == "12 × 2,359,296 (d·d_ff, once in each block)"


@pytest.mark.parametrize("name", ["117M", "345M", "762M", "1542M"])
def test_the_papers_round_numbers_are_no_count_of_parameters(name: str) -> None:
    # Radford et al. 2019, table 2; openai/gpt-2 #102: the models have 124M, 355M, 774M and 1,558M
    model = {"117M": "gpt2", "345M": "gpt2-medium", "762M": "gpt2-large", "1542M": "gpt2-xl"}[name]
    assert "parameters" not in {reading.unit for reading in reconcile(name, PRESETS[model]).readings}


@pytest.mark.parametrize(("text", "farthest"), [("117M", 1), ("3.14e23", 1), ("0.8681x", 2), ("38597376", 3)])
def test_the_fewer_digits_the_fewer_conventions_are_combined(text: str, farthest: int) -> None:
    assert read(text).farthest == farthest
    assert all(len(reading.steps) <= farthest for reading in reconcile(text, GPT2).readings)


@pytest.mark.parametrize(
    ("text", "low", "high", "units"),
    [
        ("124,439,808", 124_439_808, 124_439_808, 4),
        ("124_439_808", 124_439_808, 124_439_808, 4),
        ("124M", 123_500_000, 124_500_000, 4),
        ("1.5B", 1_450_000_000, 1_550_000_000, 4),
        ("1.5 billion params", 1_450_000_000, 1_550_000_000, 1),
        ("291.6 GFLOPs", 291_550_000_000, 291_650_000_000, 1),
        ("0.29T", 285_000_000_000, 295_000_000_000, 4),
        ("3.14e23", 3_135 * 10**20, 3_145 * 10**20, 4),
        ("548MB", 547_500_000, 548_500_000, 1),
        ("1 KiB", 512, 1_536, 1),
        ("146 GMACs", 145_500_000_000, 146_500_000_000, 1),
    ],
)
def test_numbers_are_read_as_people_write_them(text: str, low: int, high: int, units: int) -> None:
    number = read(text)
    assert (number.low, number.high, len(number.units)) == (low, high, units)


@pytest.mark.parametrize(
    "text",
    ["", "abc", "-5", "0", "0.5", "12,34", "1e999", "9" * 200, "124Q", "1.5.2", "nan", "inf", "0x10", "٣", "5 apples"],
)
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        read(text)


@pytest.mark.parametrize("number", [True, None, 1.5, 0, -1])
def test_python_values_that_are_no_number_are_refused(number: object) -> None:
    with pytest.raises(InputError):
        reconcile(number, GPT2)  # type: ignore[arg-type]


@pytest.mark.parametrize("sizes", [{"seq_len": 0}, {"seq_len": True}, {"batch": 0}, {"tokens": "x"}, {"tokens": "2x"}])
def test_sizes_that_no_pass_has_are_refused(sizes: dict[str, object]) -> None:
    with pytest.raises(InputError):
        reconcile(1, GPT2, **sizes)  # type: ignore[arg-type]


def all_grounds(spec: ModelSpec) -> list[Ground]:
    return [
        *param_conventions.grounds(spec, batch_tokens=6, tokens=100),
        *work_conventions.grounds(spec, seq_len=3, batch=2, tokens=100, other_lengths=False),
    ]


@given(specs())
def test_the_pieces_of_the_parameters_are_all_of_them(spec: ModelSpec) -> None:
    bound = letters(spec)
    pieces = param_conventions.pieces(spec)
    assert sum(value(formula, bound) for formula in pieces.values()) == sum(term.params for term in ledger(spec))


@settings(max_examples=25)
@given(specs())
def test_what_a_change_adds_is_what_its_formula_says(spec: ModelSpec) -> None:
    bound = letters(spec, batch=2, seq_len=3, source_len=3)
    grounds = [ground for ground in all_grounds(spec) if not ground.made_by]
    changes = [change for ground in grounds for change in ground.changes if change.formula]
    assert changes
    for change in changes:
        assert value(change.formula, bound) == abs(change.by), change.convention.key


@settings(max_examples=25)
@given(specs(), st.data())
def test_the_number_of_each_convention_is_explained_by_it(spec: ModelSpec, data: st.DataObject) -> None:
    grounds = all_grounds(spec)
    followed = [r for r in within(grounds, 1) if r.steps and r.figure > 0 and r.figure == math.floor(r.figure)]
    reading = data.draw(st.sampled_from(followed))
    number = Number("it", Fraction(reading.figure), Fraction(reading.figure), (reading.unit,))
    found = list(search(grounds, number))
    assert {other.figure for other in found} == {reading.figure}
    assert any(set(other.keys) <= set(reading.keys) for other in found), reading.keys
