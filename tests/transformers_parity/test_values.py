"""The core with a family's weights gives the logits that the transformers library's own class gives.

Each model is small and random: gains and biases far from 1 and 0, matrices large enough that no part is negligible.
Sizes, groups, windows and experts are such that a wrong one shows.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tfinspect.errors import InputError
from tfinspect.model.weights import converted, load
from tfinspect.spec import ModelSpec

transformers: Any = pytest.importorskip(
    "transformers", reason='the transformers library is not installed; python -m pip install ".[hf]"'
)

#: Largest difference of a logit that counts as rounding in float32, as a part of the largest logit.
TOLERANCE = 1e-5

SIZES: dict[str, Any] = {"vocab_size": 97, "d_model": 24, "n_layers": 3, "n_ctx": 32}
HIDDEN: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "intermediate_size": 40,
    "max_position_embeddings": 32,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GROUPED = {**HIDDEN, "num_key_value_heads": 2}
LLAMA: dict[str, Any] = {
    **SIZES, "n_heads": 6, "n_kv_heads": 2, "d_ff": 40, "norm": "rmsnorm", "activation": "swiglu",
    "positions": "rope", "tied_head": False, "bias": False, "norm_eps": 1e-6,
}  # fmt: skip
GPT = {
    "vocab_size": 97,
    "n_embd": 24,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 32,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

#: Family, the library's class and its configuration, our spec, and a change of the spec that has to show.
CASES: list[tuple[str, str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("gpt2", "GPT2LMHeadModel", GPT, {**SIZES, "n_heads": 4, "d_ff": 96}, {"norm_eps": 0.1}),
    (
        "openai-gpt",
        "OpenAIGPTLMHeadModel",
        {key: value for key, value in GPT.items() if "token_id" not in key},
        {**SIZES, "n_heads": 4, "d_ff": 96, "placement": "post", "final_norm": False},
        {"placement": "pre"},
    ),
    ("llama", "LlamaForCausalLM", {**GROUPED, "rms_norm_eps": 1e-6}, LLAMA, {"rope_base": 500_000.0}),
    ("qwen2", "Qwen2ForCausalLM", {**GROUPED, "rms_norm_eps": 1e-6}, {**LLAMA, "qkv_bias": True}, {"norm_eps": 0.1}),
    (
        "qwen3",
        "Qwen3ForCausalLM",
        {**GROUPED, "head_dim": 8, "rms_norm_eps": 1e-6},
        {**LLAMA, "d_head": 8, "qk_norm": True},
        {"scale_scores": False},
    ),
    (
        "mistral",
        "MistralForCausalLM",
        {**GROUPED, "head_dim": 4, "sliding_window": 5, "rms_norm_eps": 1e-6},
        {**LLAMA, "window": 5},
        {"window": 6},
    ),
    (
        "mixtral",
        "MixtralForCausalLM",
        {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None, "rms_norm_eps": 1e-6},
        {**LLAMA, "n_experts": 4, "n_experts_per_token": 2, "rope_base": 1e6},
        {"n_experts_per_token": 1},
    ),
    (
        "gemma",
        "GemmaForCausalLM",
        {**HIDDEN, "num_key_value_heads": 1, "head_dim": 8},
        {**LLAMA, "n_kv_heads": 1, "d_head": 8, "activation": "geglu_tanh", "tied_head": True, "embed_scale": True},
        {"embed_scale": False},
    ),
    (
        "gemma2",
        "Gemma2ForCausalLM",
        {
            **GROUPED, "head_dim": 8, "sliding_window": 5, "attn_logit_softcapping": None,
            "final_logit_softcapping": None, "query_pre_attn_scalar": 8,
        },
        {
            **LLAMA, "d_head": 8, "activation": "geglu_tanh", "tied_head": True, "embed_scale": True,
            "placement": "sandwich", "window": 5, "global_every": 2,
        },
        {"global_every": 3},
    ),
    (
        "gpt_neox",
        "GPTNeoXForCausalLM",
        {**HIDDEN, "rotary_pct": 0.5, "use_parallel_residual": True},
        {
            **SIZES, "n_heads": 6, "d_ff": 40, "placement": "parallel", "activation": "gelu", "positions": "rope",
            "rope_dim": 2, "tied_head": False,
        },
        {"rope_dim": 4},
    ),
    (
        "opt",
        "OPTForCausalLM",
        {
            "vocab_size": 97, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 6, "ffn_dim": 40,
            "max_position_embeddings": 32, "word_embed_proj_dim": 24,
        },
        {**SIZES, "n_heads": 6, "d_ff": 40, "activation": "relu", "position_offset": 2},
        {"activation": "gelu"},
    ),
    (
        "bert",
        "BertForMaskedLM",
        HIDDEN,
        {
            **SIZES, "n_heads": 6, "d_ff": 40, "architecture": "encoder", "placement": "post", "final_norm": False,
            "activation": "gelu", "embed_norm": True, "n_token_types": 2, "head": "mlm", "norm_eps": 1e-12,
        },
        {"activation": "relu"},
    ),
    (
        "phi",
        "PhiForCausalLM",
        {**HIDDEN, "num_attention_heads": 3, "partial_rotary_factor": 0.5},
        {
            **SIZES, "n_heads": 3, "d_ff": 40, "placement": "parallel_one_norm", "positions": "rope", "rope_dim": 4,
            "tied_head": False, "head_bias": True,
        },
        {"rope_dim": 8},
    ),
    ("phi3", "Phi3ForCausalLM", {**GROUPED, "sliding_window": None, "rms_norm_eps": 1e-6}, LLAMA, {"norm_eps": 0.1}),
    (
        "starcoder2",
        "Starcoder2ForCausalLM",
        {**GROUPED, "sliding_window": None},
        {**SIZES, "n_heads": 6, "n_kv_heads": 2, "d_ff": 40, "positions": "rope"},
        {"positions": "none"},
    ),
    (
        "falcon",
        "FalconForCausalLM",
        {
            "vocab_size": 97, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 6, "multi_query": True,
            "parallel_attn": True, "bias": False, "new_decoder_architecture": False, "alibi": False,
            "bos_token_id": 1, "eos_token_id": 2,
        },
        {
            **SIZES, "n_heads": 6, "n_kv_heads": 1, "d_ff": 96, "placement": "parallel_one_norm", "activation": "gelu",
            "positions": "rope", "bias": False, "norm_bias": True,
        },
        {"positions": "none"},
    ),
    (
        "bloom",
        "BloomForCausalLM",
        {"vocab_size": 97, "hidden_size": 24, "n_layer": 3, "n_head": 6, "bos_token_id": 1, "eos_token_id": 2},
        {**SIZES, "n_heads": 6, "d_ff": 96, "positions": "alibi", "embed_norm": True},
        {"positions": "none"},
    ),
    (
        "bart",
        "BartForConditionalGeneration",
        {
            "vocab_size": 97, "d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 6,
            "decoder_attention_heads": 6, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 32,
            "pad_token_id": 1,
        },
        {
            **SIZES, "n_encoder_layers": 2, "n_heads": 6, "d_ff": 40, "architecture": "encoder_decoder",
            "placement": "post", "final_norm": False, "embed_norm": True, "position_offset": 2, "activation": "gelu",
        },
        {"activation": "relu"},
    ),
    (
        "t5",
        "T5ForConditionalGeneration",
        {
            "vocab_size": 97, "d_model": 24, "num_layers": 3, "num_heads": 6, "d_kv": 4, "d_ff": 40, "pad_token_id": 0,
            "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "decoder_start_token_id": 0,
        },
        {
            **SIZES, "n_heads": 6, "d_ff": 40, "architecture": "encoder_decoder", "positions": "relative",
            "norm": "rmsnorm", "norm_eps": 1e-6, "bias": False, "activation": "geglu_tanh",
            "scale_scores": False,  # release 5 of the library ties T5's head whatever the configuration says
        },
        {"max_distance": 40},
    ),
]  # fmt: skip


def theirs(name: str, config: dict[str, Any]) -> Any:
    """A small random model of the library, in float32 and eval mode."""
    kind = getattr(transformers, name)
    model = kind(kind.config_class(**config)).float().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(parameter + 0.3 * noise if parameter.ndim == 1 else 0.25 * noise)
    return model


def logits(model: Any, spec: ModelSpec, *, library: bool) -> Tensor:
    """The logits of two rows of 13 tokens, after 11 tokens of a source where the model reads one."""
    tokens, source = (torch.randint(97, (2, n), generator=torch.Generator().manual_seed(n)) for n in (13, 11))
    with torch.no_grad():
        if spec.architecture != "encoder_decoder":
            return model(tokens).logits if library else model(tokens)
        return model(input_ids=source, decoder_input_ids=tokens).logits if library else model(tokens, source=source)


def difference(one: Tensor, other: Tensor) -> float:
    """The largest difference, as a part of the largest logit."""
    assert one.shape == other.shape
    assert one.std() > 0.1
    return ((one - other).abs().max() / one.abs().max()).item()


@pytest.mark.parametrize(("family", "name", "config", "fields", "change"), CASES, ids=[case[0] for case in CASES])
def test_logits_are_the_librarys_own(
    family: str, name: str, config: dict[str, Any], fields: dict[str, Any], change: dict[str, Any]
) -> None:
    model, spec = theirs(name, config), ModelSpec(**fields)
    expected = logits(model, spec, library=True)
    ours = load(family, model.state_dict(), spec)
    found = difference(expected, logits(ours, spec, library=False))
    print(f"{family}: largest difference {found:.1e} of the largest logit, float32")
    assert found <= TOLERANCE
    wrong = spec.replace(**change)
    assert difference(expected, logits(load(family, model.state_dict(), wrong), wrong, library=False)) > 100 * TOLERANCE


@pytest.mark.parametrize(("family", "name", "config", "fields", "change"), CASES, ids=[case[0] for case in CASES])
def test_parameters_are_as_many_as_the_librarys(
    family: str, name: str, config: dict[str, Any], fields: dict[str, Any], change: dict[str, Any]
) -> None:
    from tfinspect.inspectors.params import params

    assert params(ModelSpec(**fields)).total == sum(p.numel() for p in theirs(name, config).parameters())


def test_what_does_not_fit_is_named() -> None:
    _, name, config, fields, _ = CASES[0]
    state, spec = theirs(name, config).state_dict(), ModelSpec(**fields)
    with pytest.raises(InputError, match=r"has nothing for blocks\.2\.norm1\.weight"):
        converted("gpt2", {key: value for key, value in state.items() if "h.2.ln_1" not in key}, spec)
    with pytest.raises(InputError, match=r"unknown tensors: transformer\.h\.2\.ln_1"):
        converted("gpt2", state, spec.replace(n_layers=2))
    with pytest.raises(InputError, match=r"does not fit: transformer\.wpe\.weight is \[32, 24\]"):
        converted("gpt2", state, spec.replace(n_ctx=31))
    with pytest.raises(InputError, match="no weights of 'mamba'"):
        converted("mamba", state, spec)
    bare = {key.removeprefix("transformer."): value for key, value in state.items()}
    assert converted("gpt2", bare, spec).keys() == converted("gpt2", state, spec).keys()
