"""How many multiplications known models do."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tfinspect.inspectors.flops import Flops, flops
from tfinspect.inspectors.params import params
from tfinspect.presets import PRESETS
from tfinspect.spec import ModelSpec

GPT2 = ModelSpec()


def counted(spec: ModelSpec, n: int, **conventions: Any) -> Flops:
    return flops(spec, seq_len=n, check=False, **conventions)


@pytest.mark.parametrize(
    ("name", "at_1", "at_4", "at_1024"),
    [
        # 12nd² + 2n²d per layer + n·d·V; the same with an operator counter on a hand-written GPT-2
        ("gpt2", 123_550_464, 494_423_040, 145_824_153_600),
        ("gpt2-medium", 353_502_208, 1_414_598_656, 413_475_536_896),
        ("gpt2-large", 772_209_920, 3_089_945_600, 887_285_350_400),
        ("gpt2-xl", 1_555_124_800, 6_222_342_400, 1_753_351_782_400),
    ],
)
def test_the_gpt2_family(name: str, at_1: int, at_4: int, at_1024: int) -> None:
    spec = PRESETS[name].spec
    assert [counted(spec, n).multiplications for n in (1, 4, 1_024)] == [at_1, at_4, at_1024]


@pytest.mark.parametrize(
    ("sizes", "n", "multiplications"),
    [
        ((65, 256, 6, 384, 6), 16, 171_448_320),
        ((50_257, 1_024, 2, 64, 4), 5, 16_580_160),
        ((11, 8, 1, 4, 2), 3, 780),
    ],
)
def test_toy_models(sizes: tuple[int, ...], n: int, multiplications: int) -> None:
    vocab_size, n_ctx, n_layers, d_model, n_heads = sizes
    spec = ModelSpec(
        vocab_size=vocab_size, n_ctx=n_ctx, n_layers=n_layers, d_model=d_model, n_heads=n_heads, d_ff=4 * d_model
    )
    assert counted(spec, n).multiplications == multiplications


def test_gpt2_small_at_1024_by_part() -> None:
    report = counted(GPT2, 1_024)
    assert (report.linear, report.quadratic, report.block) == (7_247_757_312, 1_610_612_736, 8_858_370_048)
    assert report.block * 12 == 106_300_440_576
    assert report.by_component["head"] == 39_523_713_024
    assert report.flops == 291_648_307_200
    assert report.growth.ratio == Fraction(1_024, 6 * 768)  # n/6d, 0.222


def test_the_crossover_of_gpt2_small_is_at_4608() -> None:
    assert counted(GPT2, 1_024).growth.crossover == 6 * 768 == 4_608
    at = counted(GPT2, 4_608)
    assert at.linear == at.quadratic == at.growth.at_crossover == 32_614_907_904
    before, after = counted(GPT2, 4_607), counted(GPT2, 4_609)
    assert before.linear - before.quadratic == 7_076_352
    assert after.linear - after.quadratic == -7_079_424


def test_the_crossover_of_gpt3_is_at_73728() -> None:
    gpt3 = ModelSpec(d_model=12_288, n_heads=96, d_ff=49_152, n_layers=96)
    assert counted(gpt3, 2_048).growth.crossover == 73_728


def test_the_crossover_at_any_width_of_the_mlp_is_2d_plus_d_ff() -> None:
    narrow = GPT2.replace(d_ff=1_000)
    n = counted(narrow, 1).growth.crossover
    assert n == 2 * 768 + 1_000
    assert counted(narrow, n).linear == counted(narrow, n).quadratic


@pytest.mark.parametrize("d_ff", [3_072, 1_000])
def test_the_causal_half_crosses_over_at_twice_the_length_less_one(d_ff: int) -> None:
    spec = GPT2.replace(d_ff=d_ff)
    n = counted(spec, 1, causal="half").growth.crossover
    assert n == 2 * (2 * 768 + d_ff) - 1
    assert counted(spec, n, causal="half").linear == counted(spec, n, causal="half").quadratic


@pytest.mark.parametrize(
    ("n", "ratio"),
    [
        # (12d + 4n)/(6d + n)
        (768, Fraction(16, 7)),
        (6 * 768, Fraction(3)),
        (60 * 768, Fraction(252, 66)),
    ],
)
def test_doubling_n_multiplies_the_work_of_a_block(n: int, ratio: Fraction) -> None:
    assert counted(GPT2, n).growth.block_doubling == ratio
    assert Fraction(counted(GPT2, 2 * n).block, counted(GPT2, n).block) == ratio


def test_doubling_512_is_no_factor_of_two() -> None:
    # a counter that misses attention says 2
    assert counted(GPT2, 512).multiplications == 68_080_238_592
    ratio = counted(GPT2, 512).growth.model_doubling
    assert ratio == Fraction(145_824_153_600, 68_080_238_592)
    assert round(float(ratio), 5) == 2.14195


def test_the_head_costs_the_same_tied_or_not_and_the_look_up_nothing() -> None:
    assert counted(GPT2.replace(tied_head=False), 1_024).multiplications == 145_824_153_600


def test_the_causal_half_of_gpt2_small() -> None:
    half, full = counted(GPT2, 1_024, causal="half"), counted(GPT2, 1_024)
    assert half.quadratic == 806_092_800  # n(n + 1)d
    assert Fraction(half.quadratic, full.quadratic) == Fraction("0.50048828125")
    assert half.multiplications == 136_169_914_368


def test_the_causal_half_is_the_sum_over_one_new_token_at_a_time() -> None:
    # with a KV cache the token that attends to t keys costs 12·(12d² + 2td) + d·V
    def step(t: int) -> int:
        before = counted(GPT2, t - 1, causal="half").multiplications
        return counted(GPT2, t, causal="half").multiplications - before

    assert step(1) == 123_550_464
    assert step(1_024) == 142_406_400 == 12 * (12 * 768**2 + 2 * 1_024 * 768) + 768 * 50_257


def test_logits_of_the_last_position_alone() -> None:
    last = counted(GPT2, 1_024, head="last")
    assert last.by_component["head"] == 50_257 * 768
    assert last.multiplications == 106_300_440_576 + 38_597_376


def test_a_batch_is_no_longer_sequence() -> None:
    assert counted(GPT2, 128, batch=8).multiplications == 8 * 16_114_089_984 == 128_912_719_872


def test_flops_of_a_token_beside_the_2n_rule() -> None:
    # Kaplan et al. 2020, table 1: 2N′ for the matrices N′ = 12·L·d²; their context term is one of the two products
    report = counted(GPT2, 1_024)
    matrices, attention, head = (part.flops for part in report.per_token)
    assert matrices == 2 * 84_934_656
    assert matrices + attention == 207_618_048
    assert matrices + attention // 2 == 188_743_680
    assert report.flops_per_token == matrices + attention + head == 284_812_800
    assert report.to_dict()["two_n_rule"] == {
        "n_params": 124_439_808,
        "flops_per_token": 248_879_616,
        "n_matrix_params": 84_934_656,  # Kaplan et al. 2020, 2.1: N = 12·L·d²
        "matrix_flops_per_token": 169_869_312,
        "n_active_params": None,
        "n_active_matrix_params": None,
    }


def test_causal_half_per_token() -> None:
    attention = counted(GPT2, 1_024, causal="half").per_token[1]
    assert 3 * attention.flops == 56_678_400  # forward and backward: exact, where 6·L·d·n says 56,623,104


def test_nanogpt_utilisation_differs_by_six_flops_per_bias_and_norm() -> None:
    # karpathy/nanoGPT, estimate_mfu: 6N + 12·L·H·Q·T per token, with N = 123,653,376
    n = params(GPT2, check=False).other_counts[0].params
    per_token = 6 * n + 12 * 12 * 12 * 64 * 1_024
    assert per_token == 855_166_464
    forward_and_backward = 3 * counted(GPT2, 1_024).flops
    assert forward_and_backward == 874_944_921_600
    assert 1_024 * per_token - forward_and_backward == 6 * 1_024 * 121_344


@pytest.mark.parametrize(
    ("n", "multiplications"),
    [
        (695_708, 9_007_207_562_056_704),  # the first beyond 2^53
        (22_366_271, 9_223_372_396_811_261_184),  # the first beyond 2^63 - 1
        (10**12, 18_432_000_123_532_032_000_000_000_000),
    ],
)
def test_no_length_is_rounded_or_wraps(n: int, multiplications: int) -> None:
    assert counted(GPT2, n).multiplications == multiplications
    assert counted(GPT2, n).beyond_context


def test_no_tokens_no_work() -> None:
    for head in ("all", "last"):
        report = counted(GPT2, 0, head=head)
        assert (report.multiplications, report.flops_per_token, report.growth.block_doubling) == (0, None, None)
        assert all(work.evaluations == 0 for work in report.elementwise)


def test_elementwise_work_of_gpt2_small() -> None:
    # output elements: 25 norms, 12·12 softmaxes of n², 12 activations, 24 additions
    work = {w.component: w.evaluations for w in counted(GPT2, 1_024).elementwise}
    assert work == {
        "norm": 25 * 1_024 * 768,
        "softmax": 144 * 1_024**2,
        "activation": 12 * 1_024 * 3_072,
        "residual": 24 * 1_024 * 768,
    }


def test_a_sweep_doubles_n_and_marks_the_crossover() -> None:
    points = counted(GPT2, 1_024, sweep=(128, 65_536)).sweep
    assert [p.seq_len for p in points] == [128, 256, 512, 1_024, 2_048, 4_096, 4_608, 8_192, 16_384, 32_768, 65_536]
    assert all(p.multiplications == counted(GPT2, p.seq_len).multiplications for p in points)


@pytest.mark.parametrize(
    ("ends", "lengths"), [((1, 1), [1]), ((3, 20), [3, 6, 12, 20]), ((1_000, 1_001), [1_000, 1_001])]
)
def test_a_sweep_ends_where_it_was_told_to(ends: tuple[int, int], lengths: list[int]) -> None:
    assert [p.seq_len for p in counted(GPT2, 1, sweep=ends).sweep] == lengths
