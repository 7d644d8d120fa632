"""How many parameters known models have."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tfinspect.inspectors.params import Params, params
from tfinspect.presets import PRESETS
from tfinspect.spec import ModelSpec

GPT2 = ModelSpec()


def counted(spec: ModelSpec) -> Params:
    return params(spec, check=False)


@pytest.mark.parametrize(
    ("name", "total"),
    [
        # openai/gpt-2's released checkpoints; the same sums with torch modules
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
        ("gpt1", 116_534_784),  # openai-gpt's released checkpoint
        ("tiny-568", 568),  # 40 + 32 + 2×244 + 8
        ("tiny-272256", 272_256),  # 64,000 + 8,192 + 4×49,984 + 128
    ],
)
def test_presets(name: str, total: int) -> None:
    assert counted(PRESETS[name].spec).total == total


@pytest.mark.parametrize(
    ("spec", "total"),
    [
        (GPT2.replace(n_layers=6), 81_912_576),  # DistilGPT-2
        (GPT2.replace(n_ctx=2_048), 125_226_240),  # GPT-3 Small: Brown et al. 2020, table 2.1
        (GPT2.replace(vocab_size=50_304), 124_475_904),  # padded vocabulary: 47·d more
        (PRESETS["gpt2-medium"].spec.replace(vocab_size=50_304), 354_871_296),  # NVIDIA/Megatron-LM, log of 345M
        (GPT2.replace(vocab_size=50_272, n_ctx=2_050), 125_239_296),  # OPT-125M: 2,048 positions and an offset of 2
        (GPT2.replace(vocab_size=50_304, positions="rope", tied_head=False), 162_322_944),  # Pythia-160M
        (GPT2.replace(vocab_size=65, n_ctx=256, n_layers=6, d_model=384, n_heads=6, d_ff=1_536), 10_770_816),
        (GPT2.replace(n_layers=2, d_model=64, n_heads=4, d_ff=256), 3_382_080),
        (GPT2.replace(vocab_size=11, n_ctx=8, n_layers=1, d_model=4, n_heads=2, d_ff=16), 328),
    ],
)
def test_other_models_of_the_same_shape(spec: ModelSpec, total: int) -> None:
    assert counted(spec).total == total


def test_gpt3_175b_tied_and_untied() -> None:
    # Brown et al. 2020, table 2.1: L 96, d 12288, h 96, context 2048
    gpt3 = GPT2.replace(n_ctx=2_048, n_layers=96, d_model=12_288, n_heads=96, d_ff=49_152)
    assert counted(gpt3).total == 174_604_259_328
    assert counted(gpt3.replace(tied_head=False)).total == 175_221_817_344


def test_gpt2_small_by_component() -> None:
    report = counted(GPT2)
    assert report.by_component == {
        "tokens": 38_597_376,
        "positions": 786_432,
        "attention": 28_348_416,
        "mlp": 56_669_184,
        "norms": 38_400,
        "head": 0,
    }
    assert report.block == 7_087_872
    assert report.block * 12 == 85_054_464


def test_the_worked_example_by_part() -> None:
    # V 10, d 4, d_ff 16, L 2, n_ctx 8: attention 80, MLP 148, norms 16 in each block; 8 in the final norm
    report = counted(PRESETS["tiny-568"].spec)
    assert report.by_component == {
        "tokens": 40, "positions": 32, "attention": 2 * 80, "mlp": 2 * 148, "norms": 2 * 16 + 8, "head": 0,
    }  # fmt: skip
    assert report.block == 244


def test_the_exercise_spends_23_5_percent_on_tokens() -> None:
    report = counted(PRESETS["tiny-272256"].spec)
    assert report.block == 49_984
    assert round(1_000 * Fraction(report.by_component["tokens"], report.total)) == 235


def test_a_gpt2_block_has_12d2_plus_13d() -> None:
    for spec in (
        PRESETS[name].spec for name in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "gpt1", "tiny-568", "gpt3-175b")
    ):
        assert counted(spec).block == 12 * spec.d_model**2 + 13 * spec.d_model
        assert counted(spec).block_formula == "12d² + 13d"


def test_an_untied_head_adds_v_times_d() -> None:
    untied = counted(GPT2.replace(tied_head=False))
    assert untied.total == 163_037_184
    assert untied.total - counted(GPT2).total == untied.by_component["head"] == 38_597_376


@pytest.mark.parametrize("positions", ["sinusoidal", "rope", "alibi", "none"])
def test_positions_without_a_table_save_n_ctx_times_d(positions: str) -> None:
    assert counted(GPT2).total - counted(GPT2.replace(positions=positions)).total == 786_432


def test_counts_without_embeddings() -> None:
    # karpathy/nanoGPT prints 123.65M, without positions; 12·L·d² is what Kaplan et al. call N
    counts = [count.params for count in counted(GPT2).other_counts]
    assert counts == [123_653_376, 85_056_000, 84_934_656]
    assert counts[1] - counts[2] == 121_344


def test_the_untied_head_is_an_embedding_too() -> None:
    # Pythia-160M: published as 85,056,000 non-embedding parameters
    pythia = GPT2.replace(vocab_size=50_304, positions="rope", tied_head=False)
    assert 85_056_000 in [count.params for count in counted(pythia).other_counts]


def test_bytes_of_gpt2_small() -> None:
    # an F32 file of the 124,439,808 parameters holds four times as many bytes
    assert counted(GPT2).to_dict()["weight_bytes"] == {
        "fp32": 497_759_232, "bf16 or fp16": 248_879_616, "int8": 124_439_808,
    }  # fmt: skip


def test_the_remark_on_117m_says_what_the_sources_say() -> None:
    notes = counted(GPT2).tables()[0].notes
    assert (
        "Table 2 of Radford et al. (2019) says 117M; OpenAI's repository later noted that the paper's parameter counts "
        "were wrong. Neither says how 117M arose." in notes
    )
    others = (counted(spec) for spec in (PRESETS["gpt2-xl"].spec, GPT2.replace(n_layers=11)))
    assert not any("117M" in note for report in others for table in report.tables() for note in table.notes)


def test_gpt2_small_per_tensor() -> None:
    tensors = params(GPT2, check=False, per_tensor=True).tensors
    assert tensors is not None
    assert len(tensors) == 2 + 12 * 16 + 2
    by_name = {tensor.name: tensor for tensor in tensors}
    assert (by_name["embed.tokens.weight"].shape, by_name["embed.tokens.weight"].alias) == (
        (50_257, 768),
        "head.weight",
    )
    assert by_name["blocks.11.mlp.up.weight"].dims == "d_ff d_model"
    assert by_name["blocks.11.mlp.up.weight"].shape == (3_072, 768)
    assert by_name["blocks.0.mlp.up.bias"].shape == (3_072,)
    assert "head.weight" not in by_name
