"""What a prompt, a decode step and a training step of known models cost, and what a cache holds."""

from __future__ import annotations

import pytest

from tfinspect.closed_form.generation import with_cache
from tfinspect.closed_form.passes import passes
from tfinspect.presets import PRESETS
from tfinspect.results.passes import Passes
from tfinspect.spec import ModelSpec

GPT2 = ModelSpec()


def multiplications(found: Passes) -> dict[str, int]:
    return {work.kind: work.multiplications for work in found.works}


@pytest.mark.parametrize(("keys", "work"), [(1, 123_550_464), (1_024, 142_406_400)])
def test_a_decode_step_of_gpt2_small(keys: int, work: int) -> None:
    # 12·(12·768² + 2·t·768) + 768·50257
    assert multiplications(passes(GPT2, seq_len=keys))["decode"] == work


def test_the_step_of_a_loop_that_generates_is_a_decode_step() -> None:
    second = with_cache(GPT2, prompt_len=1_023, n_new=2)[1]
    assert second == multiplications(passes(GPT2, seq_len=1_024))["decode"]


def test_training_is_three_times_the_forward_pass() -> None:
    # PyTorch PR 95751; Kaplan et al. 2020: 291,648,307,200 forward, and twice that on the way back
    found = multiplications(passes(GPT2, seq_len=1_024))
    assert 2 * found["training"] == 874_944_921_600 == 3 * 291_648_307_200
    assert multiplications(passes(GPT2, seq_len=1_024, batch=8))["training"] == 8 * found["training"]


def test_a_prompt_needs_logits_at_its_last_position_alone() -> None:
    found = multiplications(passes(GPT2, seq_len=1_024))
    assert found["training"] // 3 - found["prefill"] == 1_023 * 768 * 50_257


def test_a_fused_kernel_adds_one_product_of_attention() -> None:
    assert passes(GPT2, seq_len=1_024).made_again == 12 * 1_024**2 * 768


def test_the_cache_of_each_family() -> None:
    def numbers(name: str, n: int) -> list[int]:
        return [cache.numbers for cache in passes(PRESETS[name].spec, seq_len=n).caches]

    assert numbers("gpt2", 1_024) == [2 * 12 * 1_024 * 768]
    assert numbers("llama3-8b", 8_192) == [2 * 32 * 8_192 * 8 * 128]  # 1 GiB in bfloat16
    # a window of 4,096 in every layer of Mistral 7B, and in every other one of Gemma 2 2B
    assert numbers("mistral-7b", 8_192) == [2 * 32 * 8_192 * 1_024, 2 * 32 * 4_096 * 1_024]
    assert numbers("gemma2-2b", 8_192) == [2 * 26 * 8_192 * 1_024, 2 * 13 * (4_096 + 8_192) * 1_024]
    assert numbers("mistral-7b", 4_096) == [2 * 32 * 4_096 * 1_024]
    assert numbers("t5-small", 512) == [2 * 6 * 512 * 512, 2 * 6 * 512 * 512]  # of the text, and of the source


def test_a_step_over_a_windows_keys_alone_spares_the_rest() -> None:
    mistral = PRESETS["mistral-7b"].spec
    assert passes(mistral, seq_len=8_192).spared == 32 * 2 * 4_096 * 4_096
    assert passes(mistral, seq_len=4_096).spared == 0


def test_an_encoder_decodes_nothing_and_caches_nothing() -> None:
    found = passes(PRESETS["bert-base"].spec, seq_len=512)
    assert [work.kind for work in found.works] == ["forward", "training"]
    assert found.caches == ()


def test_a_step_of_an_encoder_decoder_reads_its_source_from_the_cache() -> None:
    d, d_ff, m = 512, 2_048, 7
    step = passes(PRESETS["t5-small"].spec, seq_len=5, source_len=m).work("decode")
    assert step is not None
    assert step.by_component == {
        "projections": 6 * 4 * d * d,
        "scores": 6 * 5 * d,
        "mix": 6 * 5 * d,
        "cross_projections": 6 * 2 * d * d,
        "cross_scores": 6 * m * d,
        "cross_mix": 6 * m * d,
        "mlp": 6 * 2 * d * d_ff,
        "head": d * 32_128,
    }
