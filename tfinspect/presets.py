"""Named specs, each with the source of its figures.

A preset is a published model or a textbook's example: sizes and choices as its paper or its released configuration has
them. Where the two differ, or a paper's own figures do not fit together, a remark says what was taken.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tfinspect.errors import InputError
from tfinspect.spec import ModelSpec

__all__ = ["DEFAULT", "LEFT_OUT", "PRESETS", "Preset", "preset"]


@dataclasses.dataclass(frozen=True)
class Preset:
    """A published or textbook model."""

    name: str
    """What a user types."""
    title: str
    """What a reader knows it as."""
    spec: ModelSpec
    source: str
    """Where the figures stand."""
    remark: str = ""
    """What a careful reader should know about a published count, and no more."""
    year: int | None = None
    """Year of publication."""
    initialisation: str = ""
    """Standard deviation of its matrices at first, where the source says so."""


def _gpt() -> Iterator[Preset]:
    gpt2 = "released configuration of GPT-2 (openai/gpt-2); Radford et al. 2019, table 2"
    remark = (
        "Table 2 of Radford et al. (2019) says 117M; OpenAI's repository later noted that the paper's parameter counts "
        "were wrong. Neither says how 117M arose."
    )
    filled = "0.02, residual/√(2L)"
    yield Preset("gpt2", "GPT-2 Small", ModelSpec(), gpt2, remark, 2019, filled)
    for name, title, d, layers, heads in (
        ("gpt2-medium", "GPT-2 Medium", 1_024, 24, 16),
        ("gpt2-large", "GPT-2 Large", 1_280, 36, 20),
        ("gpt2-xl", "GPT-2 XL", 1_600, 48, 25),
    ):
        spec = ModelSpec(d_model=d, n_layers=layers, n_heads=heads, d_ff=4 * d)
        yield Preset(name, title, spec, gpt2, year=2019, initialisation=filled)
    yield Preset(
        "gpt1",
        "GPT-1",
        ModelSpec(vocab_size=40_478, n_ctx=512, placement="post", final_norm=False),
        "released configuration of GPT-1 (openai/finetune-transformer-lm); Radford et al. 2018, section 4.1",
        year=2018,
        initialisation="0.02",
    )
    yield Preset(
        "tiny-568",
        "the chapter's worked example",
        ModelSpec(vocab_size=10, n_ctx=8, d_model=4, n_layers=2, n_heads=2, d_ff=16, activation="gelu"),
        "chapter A, 5.2 and 7.2",
    )
    yield Preset(
        "tiny-272256",
        "the chapter's exercise",
        ModelSpec(vocab_size=1_000, n_ctx=128, d_model=64, n_layers=4, n_heads=1, d_ff=256, activation="gelu"),
        "chapter A, exercise 11.1; heads by the rule d/64",
    )
    yield Preset(
        "distilgpt2",
        "DistilGPT-2",
        ModelSpec(n_layers=6),
        "released configuration (distilbert/distilgpt2); Sanh et al. 2019",
        year=2019,
    )
    gpt3 = "Brown et al. 2020, table 2.1; vocabulary of GPT-2"
    dense = "Every second block has locally banded sparse attention in the paper (section 2.1); counted dense here."
    odd_heads = " Table 2.1 says 24 heads of 128 at d = 2048, which do not fit; 16 of 128 do, and give 1.3B."
    odd_width = " Table 2.1 says d = 5140 with 40 heads of 128, which do not fit; 5120 does, and gives 13B."
    for name, title, d, layers, heads, more in (
        ("gpt3-125m", "GPT-3 Small", 768, 12, 12, ""),
        ("gpt3-350m", "GPT-3 Medium", 1_024, 24, 16, ""),
        ("gpt3-760m", "GPT-3 Large", 1_536, 24, 16, ""),
        ("gpt3-1.3b", "GPT-3 XL", 2_048, 24, 16, odd_heads),
        ("gpt3-2.7b", "GPT-3 2.7B", 2_560, 32, 32, ""),
        ("gpt3-6.7b", "GPT-3 6.7B", 4_096, 32, 32, ""),
        ("gpt3-13b", "GPT-3 13B", 5_120, 40, 40, odd_width),
        ("gpt3-175b", "GPT-3 175B", 12_288, 96, 96, ""),
    ):
        spec = ModelSpec(n_ctx=2_048, d_model=d, n_layers=layers, n_heads=heads, d_ff=4 * d)
        yield Preset(name, title, spec, gpt3, dense + more, 2020)


def _encoders_and_pairs() -> Iterator[Preset]:
    vaswani: dict[str, Any] = {
        "vocab_size": 37_000, "n_ctx": 1_024, "n_layers": 6, "architecture": "encoder_decoder", "placement": "post",
        "final_norm": False, "activation": "relu", "positions": "sinusoidal", "embed_scale": True,
        "qkv_bias": False, "out_bias": False,
    }  # fmt: skip
    source = "Vaswani et al. 2017, table 3, sections 3.2 to 3.5 and 5.1 (about 37,000 tokens, one table for all)"
    said = (
        "Table 3 says {}. Projections of attention have no bias (3.2.2); positions have no limit, n_ctx stands for one."
    )
    for name, title, d, heads, count in (
        ("vaswani-base", "Transformer base (2017)", 512, 8, "65M"),
        ("vaswani-big", "Transformer big (2017)", 1_024, 16, "213M"),
    ):
        spec = ModelSpec(d_model=d, n_heads=heads, d_ff=4 * d, **vaswani)
        yield Preset(name, title, spec, source, said.format(count), 2017)
    bert: dict[str, Any] = {
        "vocab_size": 30_522, "n_ctx": 512, "architecture": "encoder", "placement": "post", "final_norm": False,
        "activation": "gelu", "embed_norm": True, "n_token_types": 2, "head": "mlm", "norm_eps": 1e-12,
    }  # fmt: skip
    source = "Devlin et al. 2019, section 3; released configuration (uncased)"
    said = "With the head for masked tokens. --head-kind none --pooler is the bare encoder with its pooler: {}."
    for name, title, d, layers, heads, bare in (
        ("bert-base", "BERT base", 768, 12, 12, "109,482,240"),
        ("bert-large", "BERT large", 1_024, 24, 16, "335,141,888"),
    ):
        spec = ModelSpec(d_model=d, n_layers=layers, n_heads=heads, d_ff=4 * d, **bert)
        yield Preset(name, title, spec, source, said.format(bare), 2018)
    t5: dict[str, Any] = {
        "vocab_size": 32_128, "n_ctx": 512, "architecture": "encoder_decoder", "positions": "relative",
        "norm": "rmsnorm", "norm_eps": 1e-6, "bias": False, "activation": "relu", "scale_scores": False,
    }  # fmt: skip
    for size, d, layers, heads, d_head, d_ff in (
        ("small", 512, 6, 8, 64, 2_048),
        ("base", 768, 12, 12, 64, 3_072),
        ("large", 1_024, 24, 16, 64, 4_096),
        ("3b", 1_024, 24, 32, 128, 16_384),
        ("11b", 1_024, 24, 128, 128, 65_536),
    ):
        spec = ModelSpec(d_model=d, n_layers=layers, n_heads=heads, d_head=d_head, d_ff=d_ff, **t5)
        source = "Raffel et al. 2020, section 3.7; released configuration (google-t5)"
        yield Preset(f"t5-{size}", f"T5 {size}", spec, source, year=2019)
    for size, d, layers, heads in (("base", 768, 6, 12), ("large", 1_024, 12, 16)):
        spec = ModelSpec(
            vocab_size=50_265, d_model=d, n_layers=layers, n_heads=heads, d_ff=4 * d, architecture="encoder_decoder",
            placement="post", final_norm=False, activation="gelu", position_offset=2, embed_norm=True,
        )  # fmt: skip
        source = "Lewis et al. 2020, section 2; released configuration (facebook/bart)"
        yield Preset(f"bart-{size}", f"BART {size}", spec, source, year=2019)


#: What LLaMA and most later families have in common.
_LLAMA: Final[Mapping[str, Any]] = {
    "norm": "rmsnorm",
    "activation": "swiglu",
    "positions": "rope",
    "tied_head": False,
    "bias": False,
}


def _llamas() -> Iterator[Preset]:
    one = "Touvron et al. 2023a, table 2; released configuration"
    two = "Touvron et al. 2023b, table 1; released configuration (meta-llama)"
    three = "Grattafiori et al. 2024, table 3; released configuration (meta-llama)"
    tiny, smol = "Zhang et al. 2024, table 1", "released configuration (HuggingFaceTB)"
    rows: tuple[tuple[str, str, str, int, int, int, int, int, int, int, int], ...] = (
        # name, title, source, year, V, n_ctx, d, L, h, h_kv, d_ff
        ("llama-7b", "LLaMA 7B", one, 2023, 32_000, 2_048, 4_096, 32, 32, 32, 11_008),
        ("llama-13b", "LLaMA 13B", one, 2023, 32_000, 2_048, 5_120, 40, 40, 40, 13_824),
        ("llama-33b", "LLaMA 33B", one, 2023, 32_000, 2_048, 6_656, 60, 52, 52, 17_920),
        ("llama-65b", "LLaMA 65B", one, 2023, 32_000, 2_048, 8_192, 80, 64, 64, 22_016),
        ("llama2-7b", "Llama 2 7B", two, 2023, 32_000, 4_096, 4_096, 32, 32, 32, 11_008),
        ("llama2-13b", "Llama 2 13B", two, 2023, 32_000, 4_096, 5_120, 40, 40, 40, 13_824),
        ("llama2-70b", "Llama 2 70B", two, 2023, 32_000, 4_096, 8_192, 80, 64, 8, 28_672),
        ("llama3-8b", "Llama 3 8B", three, 2024, 128_256, 8_192, 4_096, 32, 32, 8, 14_336),
        ("llama3-70b", "Llama 3 70B", three, 2024, 128_256, 8_192, 8_192, 80, 64, 8, 28_672),
        ("llama3.1-405b", "Llama 3.1 405B", three, 2024, 128_256, 131_072, 16_384, 126, 128, 8, 53_248),
        ("llama3.2-1b", "Llama 3.2 1B", three, 2024, 128_256, 131_072, 2_048, 16, 32, 8, 8_192),
        ("llama3.2-3b", "Llama 3.2 3B", three, 2024, 128_256, 131_072, 3_072, 28, 24, 8, 8_192),
        ("tinyllama-1.1b", "TinyLlama 1.1B", tiny, 2024, 32_000, 2_048, 2_048, 22, 32, 4, 5_632),
        ("yi-34b", "Yi 34B", "Young et al. 2024, table 1", 2024, 64_000, 4_096, 7_168, 60, 56, 8, 20_480),
        ("smollm-135m", "SmolLM 135M", smol, 2024, 49_152, 2_048, 576, 30, 9, 3, 1_536),
    )  # fmt: skip
    for name, title, source, year, v, n_ctx, d, layers, heads, kv, d_ff in rows:
        spec = ModelSpec(
            vocab_size=v, n_ctx=n_ctx, d_model=d, n_layers=layers, n_heads=heads, n_kv_heads=kv, d_ff=d_ff,
            rope_base={"llama3": 500_000.0, "yi-34b": 5e6}.get(name[:6], 10_000.0),
            norm_eps=1e-6 if name in ("llama-7b", "llama-13b", "llama-33b") else 1e-5,
            **{**_LLAMA, "tied_head": name.startswith(("llama3.2", "smollm"))},
        )  # fmt: skip
        yield Preset(name, title, spec, source, year=year)


def _mixtures_and_windows() -> Iterator[Preset]:
    seven: dict[str, Any] = {"d_model": 4_096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "d_ff": 14_336}
    yield Preset(
        "mistral-7b",
        "Mistral 7B",
        ModelSpec(vocab_size=32_000, n_ctx=32_768, window=4_096, **seven, **_LLAMA),
        "Jiang et al. 2023, table 1; released configuration (mistralai/Mistral-7B-v0.1)",
        year=2023,
    )
    yield Preset(
        "mixtral-8x7b",
        "Mixtral 8x7B",
        ModelSpec(
            vocab_size=32_000, n_ctx=32_768, rope_base=1e6, n_experts=8, n_experts_per_token=2, **seven, **_LLAMA
        ),
        "Jiang et al. 2024, table 1; released configuration (mistralai/Mixtral-8x7B-v0.1)",
        year=2024,
    )
    yield Preset(
        "mixtral-8x22b",
        "Mixtral 8x22B",
        ModelSpec(
            vocab_size=32_000, n_ctx=65_536, d_model=6_144, n_layers=56, n_heads=48, n_kv_heads=8, d_ff=16_384,
            rope_base=1e6, n_experts=8, n_experts_per_token=2, **_LLAMA,
        ),
        "released configuration (mistralai/Mixtral-8x22B-v0.1)",
        year=2024,
    )  # fmt: skip


def _qwens() -> Iterator[Preset]:
    for size, d, layers, heads, kv, d_ff, v, tied in (
        ("0.5b", 896, 24, 14, 2, 4_864, 151_936, True),
        ("1.5b", 1_536, 28, 12, 2, 8_960, 151_936, True),
        ("7b", 3_584, 28, 28, 4, 18_944, 152_064, False),
        ("72b", 8_192, 80, 64, 8, 29_568, 152_064, False),
    ):
        spec = ModelSpec(
            vocab_size=v, n_ctx=131_072, d_model=d,
            n_layers=layers, n_heads=heads, n_kv_heads=kv, d_ff=d_ff, rope_base=1e6, norm_eps=1e-6, qkv_bias=True,
            **{**_LLAMA, "tied_head": tied},
        )  # fmt: skip
        source = "Yang et al. 2024, table 1; released configuration (Qwen)"
        yield Preset(f"qwen2-{size}", f"Qwen2 {size.upper()}", spec, source, year=2024)
    source = "Yang et al. 2025, tables 1 and 2; released configuration (Qwen)"
    for size, d, layers, heads, kv, d_ff, tied in (
        ("0.6b", 1_024, 28, 16, 8, 3_072, True),
        ("4b", 2_560, 36, 32, 8, 9_728, True),
        ("8b", 4_096, 36, 32, 8, 12_288, False),
    ):
        spec = ModelSpec(
            vocab_size=151_936, n_ctx=40_960, d_model=d, n_layers=layers, n_heads=heads, n_kv_heads=kv, d_head=128,
            d_ff=d_ff, qk_norm=True, rope_base=1e6, norm_eps=1e-6, **{**_LLAMA, "tied_head": tied},
        )  # fmt: skip
        yield Preset(f"qwen3-{size}", f"Qwen3 {size.upper()}", spec, source, year=2025)
    spec = ModelSpec(
        vocab_size=151_936, n_ctx=40_960, d_model=2_048, n_layers=48, n_heads=32, n_kv_heads=4, d_head=128, d_ff=6_144,
        d_expert=768, n_experts=128, n_experts_per_token=8, qk_norm=True, rope_base=1e6, norm_eps=1e-6, **_LLAMA,
    )  # fmt: skip
    yield Preset("qwen3-30b-a3b", "Qwen3 30B-A3B", spec, source, year=2025)


def _gemmas() -> Iterator[Preset]:
    gemma = {**_LLAMA, "activation": "geglu_tanh", "tied_head": True, "embed_scale": True, "norm_eps": 1e-6}
    for name, title, d, layers, heads, kv, d_ff in (
        ("gemma-2b", "Gemma 2B", 2_048, 18, 8, 1, 16_384),
        ("gemma-7b", "Gemma 7B", 3_072, 28, 16, 16, 24_576),
    ):
        spec = ModelSpec(
            vocab_size=256_000, n_ctx=8_192, d_model=d, n_layers=layers, n_heads=heads, n_kv_heads=kv, d_head=256,
            d_ff=d_ff, **gemma,
        )  # fmt: skip
        yield Preset(name, title, spec, "Gemma Team 2024a, table 1; released configuration (google)", year=2024)
    capped = "Scores and logits are capped by a tanh in this model, which the core leaves out; no count hangs on it."
    for name, title, d, layers, heads, kv, d_head, d_ff in (
        ("gemma2-2b", "Gemma 2 2B", 2_304, 26, 8, 4, 256, 9_216),
        ("gemma2-9b", "Gemma 2 9B", 3_584, 42, 16, 8, 256, 14_336),
        ("gemma2-27b", "Gemma 2 27B", 4_608, 46, 32, 16, 128, 36_864),
    ):
        spec = ModelSpec(
            vocab_size=256_000, n_ctx=8_192, d_model=d, n_layers=layers, n_heads=heads, n_kv_heads=kv, d_head=d_head,
            d_ff=d_ff, placement="sandwich", window=4_096, global_every=2, **gemma,
        )  # fmt: skip
        source = "Gemma Team 2024b, table 1; released configuration (google)"
        yield Preset(name, title, spec, source, capped, 2024)


def _others() -> Iterator[Preset]:
    yield Preset(
        "phi-2",
        "Phi-2",
        ModelSpec(
            vocab_size=51_200, n_ctx=2_048, d_model=2_560, n_layers=32, n_heads=32, d_ff=10_240,
            placement="parallel_one_norm", positions="rope", rope_dim=32, tied_head=False, head_bias=True,
        ),
        "released configuration (microsoft/phi-2); Javaheripi and Bubeck 2023",
        year=2023,
    )  # fmt: skip
    for size, d, layers, heads, v in (
        ("70m", 512, 6, 8, 50_304),
        ("160m", 768, 12, 12, 50_304),
        ("410m", 1_024, 24, 16, 50_304),
        ("1b", 2_048, 16, 8, 50_304),
        ("1.4b", 2_048, 24, 16, 50_304),
        ("2.8b", 2_560, 32, 32, 50_304),
        ("6.9b", 4_096, 32, 32, 50_432),
        ("12b", 5_120, 36, 40, 50_688),
    ):
        spec = ModelSpec(
            vocab_size=v, n_ctx=2_048, d_model=d, n_layers=layers, n_heads=heads, d_ff=4 * d, placement="parallel",
            activation="gelu", positions="rope", rope_dim=d // heads // 4, tied_head=False,
        )  # fmt: skip
        source = "Biderman et al. 2023, table 1; released configuration (EleutherAI)"
        yield Preset(f"pythia-{size}", f"Pythia {size.upper()}", spec, source, year=2023)
    for size, d, layers, heads in (
        ("125m", 768, 12, 12),
        ("1.3b", 2_048, 24, 32),
        ("2.7b", 2_560, 32, 32),
        ("6.7b", 4_096, 32, 32),
        ("13b", 5_120, 40, 40),
        ("30b", 7_168, 48, 56),
        ("66b", 9_216, 64, 72),
        ("175b", 12_288, 96, 96),
    ):
        spec = ModelSpec(
            vocab_size=50_272, n_ctx=2_048, position_offset=2, d_model=d, n_layers=layers, n_heads=heads, d_ff=4 * d,
            activation="relu",
        )  # fmt: skip
        source = "Zhang et al. 2022, table 1; released configuration (facebook/opt)"
        yield Preset(f"opt-{size}", f"OPT {size.upper()}", spec, source, year=2022)
    for size, d, layers, heads in (
        ("560m", 1_024, 24, 16),
        ("1b1", 1_536, 24, 16),
        ("1b7", 2_048, 24, 16),
        ("3b", 2_560, 30, 32),
        ("7b1", 4_096, 30, 32),
        ("176b", 14_336, 70, 112),
    ):
        spec = ModelSpec(
            vocab_size=250_880, n_ctx=2_048, d_model=d, n_layers=layers, n_heads=heads, d_ff=4 * d, positions="alibi",
            embed_norm=True,
        )  # fmt: skip
        source = "Le Scao et al. 2022, table 3; released configuration (bigscience)"
        yield Preset(f"bloom-{size}", f"BLOOM {size.upper()}", spec, source, year=2022)
    falcon: dict[str, Any] = {
        "vocab_size": 65_024, "n_ctx": 2_048, "activation": "gelu", "positions": "rope", "bias": False,
        "norm_bias": True,
    }  # fmt: skip
    source = "Almazrouei et al. 2023, table 13; released configuration (tiiuae)"
    small: dict[str, Any] = {"d_model": 4_544, "n_layers": 32, "n_heads": 71, "n_kv_heads": 1, "d_ff": 18_176}
    large: dict[str, Any] = {"d_model": 8_192, "n_layers": 60, "n_heads": 128, "n_kv_heads": 8, "d_ff": 32_768}
    spec = ModelSpec(placement="parallel_one_norm", **small, **falcon)
    yield Preset("falcon-7b", "Falcon 7B", spec, source, year=2023)
    yield Preset("falcon-40b", "Falcon 40B", ModelSpec(placement="parallel", **large, **falcon), source, year=2023)


PRESETS: Final[Mapping[str, Preset]] = {
    preset.name: preset
    for family in (_gpt, _encoders_and_pairs, _llamas, _mixtures_and_windows, _qwens, _gemmas, _others)
    for preset in family()
}
DEFAULT: Final = PRESETS["gpt2"]

#: Public models that no spec describes exactly, and why: they are left out rather than approximated.
LEFT_OUT: Final[Mapping[str, str]] = {
    "deepseek-v2": "its latent attention is not in the core",
    "deepseek-v3": "its latent attention is not in the core",
    "deepseek-r1": "its latent attention is not in the core",
    "opt-350m": "its embedding is 512 wide and projected to 1,024, which is not in the core",
}

#: Longest name that an error quotes in full.
_LONGEST: Final = 80

#: How many names an error lists.
_SHOWN: Final = 8


def preset(name: str) -> Preset:
    """The preset of this name.

    Raises:  InputError with the nearest names, or with the reason where the model is left out.

    >>> tfinspect.preset("gpt2-xl").spec.n_layers
    48
    """
    if isinstance(name, str) and name in PRESETS:
        return PRESETS[name]
    if reason := LEFT_OUT.get(str(name).lower()):
        raise InputError(f"{name!r} is no preset: {reason}", "it is left out rather than approximated")
    near = difflib.get_close_matches(str(name).lower(), PRESETS, n=1)
    known = f"known: {', '.join(list(PRESETS)[:_SHOWN])} and {len(PRESETS) - _SHOWN} more, see tfinspect presets"
    shown = repr(name) if len(str(name)) <= _LONGEST else f"{str(name)[:_LONGEST]!r}..."
    raise InputError(f"unknown preset {shown}", f"did you mean {near[0]}? {known}" if near else known)
