"""Counts of public models that people got wrong, or asked about, each from both paths."""

from __future__ import annotations

from typing import Any

import pytest

from tfinspect.inspectors.params import params, require
from tfinspect.presets import PRESETS


def total(name: str, **changes: Any) -> int:
    report = params(PRESETS[name].spec.replace(**changes))
    require(report)
    return report.total


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        # decoders of OpenAI's: released configurations; Brown et al. 2020, table 2.1
        ("gpt2-xl", {}, 1_557_611_200),
        ("distilgpt2", {}, 81_912_576),
        ("gpt3-125m", {}, 125_226_240),
        ("gpt3-175b", {}, 174_604_259_328),
        ("gpt3-175b", {"tied_head": False}, 175_221_817_344),
        # configurations as in Lightning-AI/litgpt, config.py
        ("llama-7b", {}, 6_738_415_616),
        ("llama-13b", {}, 13_015_864_320),
        ("mistral-7b", {}, 7_241_732_096),
        ("tinyllama-1.1b", {}, 1_100_048_384),
        ("pythia-160m", {}, 162_322_944),
        # pytorch/PiPPy PR 901
        ("opt-125m", {}, 125_239_296),
        # BERT with the head for masked tokens, and bare with its pooler
        ("bert-base", {}, 109_514_298),
        ("bert-base", {"head": "none", "head_bias": False, "pooler": True}, 109_482_240),
        ("bert-large", {"head": "none", "head_bias": False, "pooler": True}, 335_141_888),
        # NVIDIA/Megatron-LM issue 51: a vocabulary padded to 50,304 rows
        ("gpt2", {"vocab_size": 50_304}, 124_475_904),
        ("gpt2-medium", {"vocab_size": 50_304}, 354_871_296),
        # EleutherAI/gpt-neox issue 1434: the width of a head given, and derived by mistake
        ("qwen3-0.6b", {}, 596_049_920),
        ("qwen3-0.6b", {"d_head": 64}, 507_965_952),
        ("qwen3-4b", {}, 4_022_468_096),
        # meta-llama/llama issue 1111: keys shared by eight heads, and by one
        ("llama2-70b", {}, 68_976_648_192),
        ("llama2-70b", {"n_kv_heads": 64}, 78_371_889_152),
        # huggingface_hub issue 4221: biases of Q, K and V alone, and forgotten
        ("qwen2-7b", {}, 7_615_616_512),
        ("qwen2-7b", {"qkv_bias": False}, 7_615_487_488),
        # pytorch/torchtitan PR 1040: tied, and counted as untied
        ("llama3.2-1b", {}, 1_235_814_400),
        ("llama3.2-1b", {"tied_head": False}, 1_498_482_688),
        ("llama3.2-3b", {}, 3_212_749_824),
        ("llama3.2-3b", {"tied_head": False}, 3_606_752_256),
        # google-deepmind/gemma issue 8: what a file holds that keeps the head beside its twin
        ("qwen2-0.5b", {}, 494_032_768),
        ("qwen2-0.5b", {"tied_head": False}, 630_167_424),
        ("gemma2-9b", {}, 9_241_705_984),
        ("gemma2-9b", {"tied_head": False}, 10_159_209_984),
    ],
)
def test_totals(name: str, changes: dict[str, Any], expected: int) -> None:
    assert total(name, **changes) == expected


@pytest.mark.parametrize(("name", "expected"), [("llama-7b", 202_383_360), ("mistral-7b", 218_112_000)])
def test_one_block(name: str, expected: int) -> None:
    assert params(PRESETS[name], check=False).block == expected


def test_mixtral_has_a_total_and_what_is_active() -> None:
    # Jiang et al. 2024, abstract: 47B parameters, of which 13B are active in each token
    report = params(PRESETS["mixtral-8x7b"], check=False)
    assert (report.total, report.active) == (46_702_792_704, 12_879_925_248)


def test_the_2017_models_have_about_what_their_table_says() -> None:
    # Vaswani et al. 2017, table 3: 65M and 213M, for a vocabulary of about 37,000
    assert abs(total("vaswani-base") - 65e6) < 2.5e6
    assert abs(total("vaswani-big") - 213e6) < 2.5e6


def test_bloom_is_176b_and_falcon_7b() -> None:
    # Le Scao et al. 2022, table 3: 176,247 million
    assert total("bloom-176b") // 10**6 == 176_247
    assert total("falcon-7b") == 6_921_720_704
