"""The core with a family's weights gives the logits that the transformers library's own class gives.

Each model is small and random: gains and biases far from 1 and 0, matrices large enough that no part is negligible.
Sizes, groups, windows and experts are such that a wrong one shows. The spec is read from the model's own configuration.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tfinspect.inspectors.params import params
from tfinspect.model.weights import FAMILIES, load
from tfinspect.sources.hf_config import from_dict
from tfinspect.spec import ModelSpec

transformers: Any = pytest.importorskip(
    "transformers", reason='the transformers library is not installed; python -m pip install ".[hf]"'
)

#: Largest difference of a logit that counts as rounding in float32, as a part of the largest logit.
TOLERANCE = 1e-5

#: A wrong spec differs by at least so many times the tolerance.
SEEN = 10


@dataclasses.dataclass(frozen=True)
class Case:
    """A small model of the library, and a change of its spec that has to show."""

    kind: str
    """The library's class."""
    config: dict[str, Any]
    change: dict[str, Any]


TOKEN_IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
SIZES: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 6,
    "max_position_embeddings": 32, **TOKEN_IDS,
}  # fmt: skip
WIDE: dict[str, Any] = {**SIZES, "intermediate_size": 40}
GROUPED: dict[str, Any] = {**WIDE, "num_key_value_heads": 2}
GPT: dict[str, Any] = {
    "vocab_size": 97, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 32, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
FALCON: dict[str, Any] = {**SIZES, "parallel_attn": True, "bias": False, "alibi": False}
T5: dict[str, Any] = {
    "vocab_size": 97, "d_model": 24, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 6, "d_kv": 5, "d_ff": 40,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20, "pad_token_id": 0,
    "decoder_start_token_id": 0,
}  # fmt: skip

CASES: dict[str, Case] = {
    "gpt2": Case("GPT2LMHeadModel", GPT, {"activation": "gelu"}),
    "openai-gpt": Case(
        "OpenAIGPTLMHeadModel",
        {key: value for key, value in GPT.items() if "token_id" not in key},
        {"activation": "gelu"},
    ),
    "gpt_bigcode": Case("GPTBigCodeForCausalLM", {**GPT, "n_inner": 40}, {"scale_scores": False}),
    "llama": Case("LlamaForCausalLM", {**GROUPED, "rope_theta": 500_000.0}, {"rope_base": 10_000.0}),
    "qwen2": Case("Qwen2ForCausalLM", GROUPED, {"norm_eps": 0.1}),
    "qwen3": Case("Qwen3ForCausalLM", {**GROUPED, "head_dim": 8}, {"scale_scores": False}),
    "qwen3_moe": Case(
        "Qwen3MoeForCausalLM",
        {**GROUPED, "head_dim": 8, "num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 12,
         "norm_topk_prob": True},
        {"n_experts_per_token": 2},
    ),
    "mistral": Case("MistralForCausalLM", {**GROUPED, "sliding_window": 5}, {"window": 6}),
    "mixtral": Case(
        "MixtralForCausalLM",
        {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
        {"n_experts_per_token": 1},
    ),
    "gemma": Case("GemmaForCausalLM", {**WIDE, "num_key_value_heads": 1, "head_dim": 8}, {"embed_scale": False}),
    # its soft caps on scores and logits are not in the core: off here
    "gemma2": Case(
        "Gemma2ForCausalLM",
        {**GROUPED, "head_dim": 8, "sliding_window": 5, "query_pre_attn_scalar": 8, "attn_logit_softcapping": None,
         "final_logit_softcapping": None},
        {"global_every": 3},
    ),
    "gpt_neox": Case("GPTNeoXForCausalLM", {**WIDE, "rotary_pct": 0.5}, {"rope_dim": 4}),
    "gpt_neox in series": Case(
        "GPTNeoXForCausalLM", {**WIDE, "rotary_pct": 0.5, "use_parallel_residual": False}, {"placement": "parallel"}
    ),
    "opt": Case(
        "OPTForCausalLM", {**SIZES, "ffn_dim": 40, "word_embed_proj_dim": 24}, {"activation": "gelu"}
    ),
    "opt post-norm": Case(
        "OPTForCausalLM",
        {**SIZES, "ffn_dim": 40, "word_embed_proj_dim": 24, "do_layer_norm_before": False},
        {"activation": "gelu"},
    ),
    "bert": Case("BertForMaskedLM", WIDE, {"activation": "gelu_tanh"}),
    "roberta": Case("RobertaForMaskedLM", {**WIDE, "pad_token_id": 1, "type_vocab_size": 1}, {"norm_eps": 0.1}),
    "distilbert": Case(
        "DistilBertForMaskedLM",
        {"vocab_size": 97, "dim": 24, "n_layers": 3, "n_heads": 6, "hidden_dim": 40, "max_position_embeddings": 32},
        {"norm_eps": 0.1},
    ),
    "phi": Case(
        "PhiForCausalLM", {**WIDE, "num_attention_heads": 3, "partial_rotary_factor": 0.5}, {"rope_dim": 8}
    ),
    "phi3": Case("Phi3ForCausalLM", {**GROUPED, "sliding_window": 5}, {"window": 0}),
    "starcoder2": Case("Starcoder2ForCausalLM", GROUPED, {"rope_base": 500.0}),
    "stablelm": Case(
        "StableLmForCausalLM",
        {**GROUPED, "num_attention_heads": 2, "use_qkv_bias": True, "partial_rotary_factor": 0.5},
        {"rope_dim": 12},
    ),
    "falcon": Case("FalconForCausalLM", FALCON, {"rope_base": 500.0}),
    "falcon with groups": Case(
        "FalconForCausalLM", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}, {"rope_base": 500.0}
    ),
    "bloom": Case(
        "BloomForCausalLM",
        {"vocab_size": 97, "hidden_size": 24, "n_layer": 3, "n_head": 6, "bos_token_id": 1, "eos_token_id": 2},
        {"positions": "none"},
    ),
    "bart": Case(
        "BartForConditionalGeneration",
        {
            "vocab_size": 97, "d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 6,
            "decoder_attention_heads": 6, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 32,
            "pad_token_id": 1, "scale_embedding": True,
        },
        {"embed_scale": False},
    ),
    "t5": Case("T5ForConditionalGeneration", T5, {"max_distance": 12}),
    "t5 1.1": Case(
        "T5ForConditionalGeneration",
        {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        {"scale_scores": True},
    ),
}  # fmt: skip


def spec_of(name: str) -> ModelSpec:
    """What the configuration says, all of it understood."""
    configured = from_dict({"model_type": name.split()[0], **CASES[name].config})
    assert configured.incomplete == ()
    return configured.spec


def theirs(name: str, spec: ModelSpec) -> Any:
    """A small random model of the library, in float32 and eval mode."""
    kind = getattr(transformers, CASES[name].kind)
    model = kind(kind.config_class(**CASES[name].config)).float().eval()
    if not spec.tied_head:
        # the library ties the table and the head of every T5, and leaves a checkpoint that has both as it is
        head = model.get_output_embeddings()
        head.weight = nn.Parameter(head.weight.detach().clone())
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(parameter + 0.3 * noise if parameter.ndim == 1 else 0.25 * noise)
    return model


def logits(model: Any, spec: ModelSpec, *, library: bool) -> Tensor:
    """The logits of two rows of 13 tokens, after 11 tokens of a source where the model reads one."""
    generator = torch.Generator().manual_seed(1)
    tokens, source = (torch.randint(3, 97, (2, n), generator=generator) for n in (13, 11))  # no token of padding
    with torch.no_grad():
        if spec.architecture != "encoder_decoder":
            return model(tokens).logits if library else model(tokens)
        return model(input_ids=source, decoder_input_ids=tokens).logits if library else model(tokens, source=source)


def difference(one: Tensor, other: Tensor) -> float:
    """The largest difference, as a part of the largest logit."""
    assert one.shape == other.shape
    assert one.std() > 0.1
    return ((one - other).abs().max() / one.abs().max()).item()


def test_every_family_with_weights_has_a_case() -> None:
    assert {name.split()[0] for name in CASES} == set(FAMILIES) - {"nanogpt"}  # no class of the library


@pytest.mark.parametrize("name", CASES)
def test_logits_are_the_librarys_own(name: str) -> None:
    spec = spec_of(name)
    model = theirs(name, spec)
    expected = logits(model, spec, library=True)
    ours = load(name.split()[0], model.state_dict(), spec)
    found = difference(expected, logits(ours, spec, library=False))
    wrong = spec.replace(**CASES[name].change)
    without = load(name.split()[0], model.state_dict(), wrong)
    seen = difference(expected, logits(without, wrong, library=False))
    print(f"{name}: largest difference {found:.1e} of the largest logit, float32; {seen:.1e} with {CASES[name].change}")
    assert found <= TOLERANCE
    assert seen > SEEN * TOLERANCE


@pytest.mark.parametrize("name", CASES)
def test_parameters_are_as_many_as_the_librarys(name: str) -> None:
    spec = spec_of(name)
    assert params(spec, check=False).total == sum(p.numel() for p in theirs(name, spec).parameters())
