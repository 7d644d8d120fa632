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


def test_llama_2_7b_over_128_tokens() -> None:
    # MrYxJ/calculate-flops.pytorch, issue 64: "why 850 G and not 6.74 G?" - work is per token, times n
    report = counted(PRESETS["llama2-7b"].spec, 128)
    assert report.multiplications == 850_000_871_424
    assert report.flops == 1_700_001_742_848
    attention = report.by_component["scores"] + report.by_component["mix"]
    assert report.multiplications - attention == 845_705_904_128


@pytest.mark.parametrize(
    ("d_ff", "times_d_squared"),
    [
        # (8 + 6·d_ff/d)·d² FLOPs for each token and layer: Megatron-DeepSpeed PR 283, Megatron-LM PR 682
        (4 * 768, 32),
        (8 * 768 // 3, 24),
    ],
)
def test_a_gated_mlp_costs_half_as_much_again(d_ff: int, times_d_squared: int) -> None:
    spec = GPT2.replace(activation="swiglu", d_ff=d_ff, n_layers=1)
    assert counted(spec, 1).per_token[0].flops == times_d_squared * 768**2
    plain = counted(spec.replace(activation="silu", d_ff=4 * 768), 1)
    assert plain.per_token[0].flops == 24 * 768**2


def test_one_key_head_for_all_queries_spares_projections_and_no_product_of_attention() -> None:
    # Shazeer 2019: K and V are made for one head of 64, and every query head reads it
    one, all_heads = counted(GPT2.replace(n_kv_heads=1), 1_024), counted(GPT2, 1_024)
    spared = 12 * 2 * 1_024 * 768 * (768 - 64)
    assert all_heads.by_component["projections"] - one.by_component["projections"] == spared
    assert one.by_component["scores"] == all_heads.by_component["scores"]
    assert one.growth.crossover == 2 * 768 + 3_072 - (768 - 64)  # 6d, less what the projections lost over 2d


def test_mixtral_over_one_token_by_hand() -> None:
    # Jiang et al. 2024, table 1: d 4,096, 32 layers, 32 heads, 8 of keys, 8 experts of 14,336, 2 per token, V 32,000
    report = counted(PRESETS["mixtral-8x7b"].spec, 1)
    per_layer = {
        "projections": 2 * 4_096 * 4_096 + 2 * 4_096 * 1_024,
        "scores": 4_096,
        "mix": 4_096,
        "router": 4_096 * 8,
        "experts": 2 * 3 * 4_096 * 14_336,
    }
    assert report.by_component == {**{key: 32 * work for key, work in per_layer.items()}, "head": 4_096 * 32_000}
    assert report.n_active_params is not None
    assert 3.6 < report.n_params / report.n_active_params < 3.7  # 46.7B and 12.9B


def test_an_encoder_decoder_by_hand() -> None:
    # T5's small shape (Raffel et al. 2020): 6 + 6 layers, d 512, d_ff 2,048; a source of 7 and a text of 5
    spec = PRESETS["t5-small"].spec
    report = counted(spec, 5, source_len=7)
    d, d_ff, n, m = 512, 2_048, 5, 7
    assert report.by_component == {
        "projections": 6 * 4 * (m + n) * d * d,
        "scores": 6 * (m * m + n * n) * d,
        "mix": 6 * (m * m + n * n) * d,
        "mlp": 6 * 2 * (m + n) * d * d_ff,
        "cross_projections": 6 * (2 * n * d * d + 2 * m * d * d),
        "cross_scores": 6 * n * m * d,
        "cross_mix": 6 * n * m * d,
        "head": n * d * 32_128,
    }


def test_an_encoder_sees_all_pairs_in_either_convention() -> None:
    bert = PRESETS["bert-base"].spec
    half, full = counted(bert, 512, causal="half"), counted(bert, 512)
    assert half.multiplications == full.multiplications == 60_622_110_720
    assert full.by_component["head"] == 512 * (768 * 768 + 768 * 30_522)


def test_a_window_counts_w_n_less_a_triangle() -> None:
    windowed = GPT2.replace(window=4)
    for n, pairs in ((3, 6), (4, 10), (5, 14), (100, 4 * 100 - 6)):  # 1, 2, 3, 4, 4, 4 ...
        assert counted(windowed, n, causal="half").by_component["scores"] == 12 * pairs * 768
    assert counted(windowed, 100).by_component == counted(GPT2, 100).by_component  # what runs is the full square
    alternating = counted(windowed.replace(global_every=2), 100, causal="half")
    assert alternating.by_component["scores"] == 6 * (394 + 5_050) * 768


@pytest.mark.parametrize(
    ("changes", "crossover"),
    [
        ({"activation": "swiglu"}, 8 * 768),  # 2d + 3·d_ff/2
        ({"n_kv_heads": 4, "activation": "swiglu"}, 768 + 256 + 3 * 1_536),
        ({"d_ff": 1_001, "activation": "swiglu"}, 2 * 768 + Fraction(3_003, 2)),
        ({"n_experts": 8, "n_experts_per_token": 2}, 2 * 768 + 4 + 2 * 3_072),
        ({"architecture": "encoder_decoder"}, 7 * 768),
        ({"d_head": 128}, Fraction(4 * 768 * 1_536 + 2 * 768 * 3_072, 2 * 1_536)),
    ],
)
def test_the_crossover_in_general(changes: dict[str, Any], crossover: Fraction) -> None:
    assert counted(GPT2.replace(**changes), 1).growth.crossover == crossover


def test_a_crossover_that_is_no_whole_number_is_said_to_lie_between_two() -> None:
    report = counted(GPT2.replace(d_ff=1_001, activation="swiglu"), 1, sweep=(1, 4_096))
    assert report.growth.crossover == Fraction(6_075, 2)
    assert report.growth.stated() == "n*, between 3,037 and 3,038,"
    leads = {point.seq_len: point.linear - point.quadratic for point in report.sweep}
    assert leads[3_037] > 0 > leads[3_038]


def test_a_window_on_every_block_leaves_no_crossover() -> None:
    windowed = counted(GPT2.replace(window=128), 10**6, causal="half")
    assert windowed.growth.crossover is None
    assert windowed.growth.at_crossover is None
    assert any("there is no n*" in note for note in windowed.tables()[1].notes)
    # in full, which is what runs, and where a block without a window is left, it is where it was
    assert counted(GPT2.replace(window=128), 1).growth.crossover == 6 * 768
    some = counted(GPT2.replace(window=128, global_every=6), 1, causal="half").growth
    assert (some.crossover, some.block) == (12 * 768 - 1, "block without a window")
    # a wide window may hold the crossover, on either side of n = w
    assert counted(GPT2.replace(window=10_000), 1, causal="half").growth.crossover == 9_215
    beyond = counted(GPT2.replace(window=9_000), 1, causal="half").growth.crossover
    assert beyond == Fraction(9_000 * 8_999, 2 * 9_000 - 12 * 768)
