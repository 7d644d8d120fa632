"""What the rules of thumb say of known models, and how far off they are."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tfinspect.closed_form.rules import rules
from tfinspect.presets import PRESETS
from tfinspect.results.rules import Rule
from tfinspect.spec import ModelSpec

GPT2 = ModelSpec()


def of(spec: ModelSpec, n: int, batch: int = 1) -> dict[str, Rule]:
    return {rule.name: rule for rule in rules(spec, seq_len=n, batch=batch).rules}


def test_nanogpt_is_six_flops_too_high_for_each_bias_and_norm() -> None:
    # karpathy/nanoGPT, estimate_mfu: 6N + 12·L·H·Q·T with N = 123,653,376; 121,344 of those are in no matrix
    rule = of(GPT2, 1_024)["nanoGPT"]
    assert rule.flops == 1_024 * 855_166_464 == 875_690_459_136
    assert rule.scope.flops == 874_944_921_600
    assert rule.flops - rule.scope.flops == 745_537_536 == 6 * 1_024 * 121_344


def test_palm_counts_the_position_table_as_well() -> None:
    found = of(GPT2, 1_024)
    assert found["PaLM"].flops - found["nanoGPT"].flops == 6 * 1_024 * 786_432


def test_the_compute_of_gpt3_has_all_its_digits() -> None:
    # Brown et al. 2020, appendix D: 300 billion tokens; 146,484,375 sequences of 2,048
    rule = of(PRESETS["gpt3-175b"].spec, 2_048, batch=146_484_375)["6ND"]
    assert rule.flops == 314_287_666_790_400_000_000_000 == 6 * 174_604_259_328 * 300 * 10**9


def test_kaplan_counts_one_product_or_the_causal_half_of_both() -> None:
    # Kaplan et al. 2020, table 1: N = 84,934,656, 2N + 2·L·n·d
    found = of(GPT2, 1_024)
    assert found["Kaplan"].flops == 2 * 84_934_656
    assert found["Kaplan"].error == 0
    assert found["Kaplan, with context"].flops == 188_743_680
    # the causal half has n + 1 pairs for each n of a token
    assert found["Kaplan, with context"].scope.flops == 2 * 84_934_656 + 2 * 12 * 1_025 * 768
    assert found["Kaplan, 6ND"].flops == 6 * 84_934_656 * 1_024
    assert found["Kaplan, 6ND"].error < -Fraction(2, 5)  # no attention, no head


def test_megatron_is_exact_for_the_models_that_it_is_made_for() -> None:
    for name in ("gpt2", "gpt2-xl", "gpt3-175b", "opt-6.7b"):
        found = of(PRESETS[name].spec, 2_048, batch=3)
        assert (found["Megatron"].error, found["Megatron, recomputing"].error) == (0, 0)
    assert of(PRESETS["llama3-8b"].spec, 2_048)["Megatron"].error != 0


def test_chinchilla_counts_a_look_up_as_a_product_and_softmax_as_three_flops() -> None:
    # Hoffmann et al. 2022, appendix F
    n, d, vocabulary = 1_024, 768, 50_257
    rule = of(GPT2, n)["Chinchilla"]
    look_up, softmax = 2 * n * vocabulary * d, 3 * 12 * n * n
    assert rule.flops - rule.scope.flops == 3 * (look_up + 12 * softmax)


def test_experts_are_counted_by_those_that_a_token_meets() -> None:
    found = of(PRESETS["mixtral-8x7b"].spec, 128)
    assert set(found) == {"2N", "2N, active", "6ND", "6ND, active"}
    assert found["2N"].error > 2
    assert abs(found["2N, active"].error) < Fraction(1, 50)
    assert found["6ND, active"].error == found["2N, active"].error


def test_a_parameter_of_an_encoder_decoder_meets_one_side() -> None:
    # Brown et al. 2020, table D.1: T5's parameters are active in half of the tokens
    found = of(PRESETS["t5-11b"].spec, 512)
    assert found["3ND"].flops * 2 == found["6ND"].flops
    assert abs(found["3ND"].error) < Fraction(1, 10) < found["6ND"].error


@pytest.mark.parametrize(
    "name", ["gpt2", "llama-7b", "mixtral-8x7b", "t5-small", "bert-base", "falcon-7b", "bloom-560m"]
)
def test_every_rule_says_where_it_stands_and_what_it_means_for_each_token(name: str) -> None:
    for rule in rules(PRESETS[name].spec, seq_len=64, batch=2).rules:
        assert rule.source
        assert rule.flops > 0
        assert rule.error == Fraction(rule.flops) / rule.scope.flops - 1
