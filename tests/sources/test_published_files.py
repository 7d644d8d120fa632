"""Published configurations with all their keys: none is called strange, and the count stays."""

from __future__ import annotations

from typing import Any

import pytest

from tests.public_models import PUBLIC
from tfinspect.errors import InputError
from tfinspect.inspectors.params import params
from tfinspect.sources.hf_config import from_dict

#: What the files of these models and of their siblings hold besides the sizes in tests/public_models.py.
BESIDES: dict[str, dict[str, Any]] = {
    "openai-community/gpt2": {
        "attn_pdrop": 0.1, "bos_token_id": 50_256, "embd_pdrop": 0.1, "eos_token_id": 50_256,
        "initializer_range": 0.02, "layer_norm_epsilon": 1e-5, "n_ctx": 1_024, "resid_pdrop": 0.1,
        "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
        "summary_type": "cls_index", "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    },
    "openai-community/openai-gpt": {
        "attn_pdrop": 0.1, "layer_norm_epsilon": 1e-5, "n_special": 0, "predict_special_tokens": True,
        "summary_type": "cls_index", "task_specific_params": {},
    },
    "huggyllama/llama-7b": {
        "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.02, "max_position_embeddings": 2_048,
        "max_sequence_length": 2_048, "pad_token_id": 0, "rms_norm_eps": 1e-6, "torch_dtype": "float16",
        "transformers_version": "4.28.0", "use_cache": True,
    },
    "meta-llama/Llama-3.2-1B": {
        "attention_bias": False, "attention_dropout": 0.0, "eos_token_id": [128_001, 128_008], "mlp_bias": False,
        "max_position_embeddings": 131_072, "pretraining_tp": 1, "rms_norm_eps": 1e-5, "rope_theta": 500_000.0,
        "rope_scaling": {"factor": 32.0, "rope_type": "llama3", "original_max_position_embeddings": 8_192},
        "quantization_config": {"bits": 4}, "unsloth_fixed": True,
    },
    "mistralai/Mistral-7B-v0.1": {"rms_norm_eps": 1e-5, "rope_theta": 10_000.0, "transformers_version": "4.34.0.dev0"},
    "mistralai/Mixtral-8x7B-v0.1": {
        "attention_dropout": 0.0, "output_router_logits": False, "rope_theta": 1e6, "router_aux_loss_coef": 0.02,
    },
    "Qwen/Qwen2-7B": {
        "attention_dropout": 0.0, "max_window_layers": 28, "rope_theta": 1e6, "sliding_window": 131_072,
        "use_mrope": False,
    },
    "Qwen/Qwen3-30B-A3B": {
        "attention_bias": False, "max_window_layers": 48, "norm_topk_prob": True, "output_router_logits": False,
        "rope_scaling": None, "rope_theta": 1e6, "router_aux_loss_coef": 0.001, "sliding_window": None,
        "use_sliding_window": False,
    },
    "google/gemma-2b": {"attention_bias": False, "hidden_act": "gelu", "hidden_activation": None, "rope_scaling": None},
    "google/gemma-2-9b": {
        "attn_logit_softcapping": 50.0, "attention_bias": False, "cache_implementation": "hybrid",
        "final_logit_softcapping": 30.0, "hidden_act": "gelu_pytorch_tanh", "query_pre_attn_scalar": 256,
        "sliding_window_size": 4_096,
    },
    "google/gemma-3-1b-pt": {"rope_local_base_freq": 10_000, "rope_theta": 1_000_000, "query_pre_attn_scalar": 256},
    "microsoft/phi-2": {
        "attention_dropout": 0.0, "embd_pdrop": 0.0, "layer_norm_eps": 1e-5, "num_key_value_heads": 32,
        "qk_layernorm": False, "resid_pdrop": 0.1, "rope_scaling": None, "rope_theta": 10_000.0,
    },
    "microsoft/Phi-3-mini-4k-instruct": {
        "attention_bias": False, "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}, "embd_pdrop": 0.0,
        "original_max_position_embeddings": 4_096, "resid_pdrop": 0.0, "rope_scaling": None,
    },
    "EleutherAI/pythia-160m": {
        "classifier_dropout": 0.1, "layer_norm_eps": 1e-5, "rotary_emb_base": 10_000, "use_parallel_residual": True,
    },
    "EleutherAI/gpt-neox-20b": {"attention_probs_dropout_prob": 0, "hidden_act": "gelu_fast", "hidden_dropout_prob": 0},
    "facebook/opt-125m": {
        "_remove_final_layer_norm": False, "activation_dropout": 0.0, "activation_function": "relu", "dropout": 0.1,
        "do_layer_norm_before": True, "init_std": 0.02, "layerdrop": 0.0, "pad_token_id": 1, "prefix": "</s>",
    },
    "bigscience/bloom-560m": {
        "apply_residual_connection_post_layernorm": False, "attention_softmax_in_fp32": True,
        "bias_dropout_fusion": True, "hidden_dropout": 0.0, "masked_softmax_fusion": True, "n_inner": None,
        "offset_alibi": 100, "pretraining_tp": 1, "seq_length": 2_048, "skip_bias_add": True,
        "skip_bias_add_qkv": False, "unk_token_id": 0,
    },
    "tiiuae/falcon-7b": {
        "apply_residual_connection_post_layernorm": False, "hidden_dropout": 0.0, "layer_norm_epsilon": 1e-5,
        "num_kv_heads": 71,
    },
    "bigcode/starcoder2-3b": {
        "attention_softmax_in_fp32": True, "embedding_dropout": 0.1, "hidden_act": "gelu_pytorch_tanh",
        "layer_norm_epsilon": 1e-5, "mlp_type": "default", "norm_epsilon": 1e-5, "norm_type": "layer_norm",
        "residual_dropout": 0.1, "scale_attention_softmax_in_fp32": True, "scale_attn_weights": True,
    },
    "bigcode/gpt_bigcode-santacoder": {
        "attention_softmax_in_fp32": True, "inference_runner": 0, "max_batch_size": None, "max_sequence_length": None,
        "pad_key_length": True, "pre_allocate_kv_cache": False, "validate_runner_input": True,
    },
    "stabilityai/stablelm-2-1_6b": {"hidden_dropout": 0.0, "layer_norm_eps": 1e-5, "rope_theta": 10_000},
    "google-bert/bert-base-uncased": {
        "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False, "layer_norm_eps": 1e-12,
        "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0", "directionality": "bidi",
        "pooler_fc_size": 768, "pooler_num_attention_heads": 12, "pooler_type": "first_token_transform",
    },
    "FacebookAI/roberta-base": {"bos_token_id": 0, "eos_token_id": 2, "layer_norm_eps": 1e-5},
    "distilbert/distilbert-base-uncased": {
        "activation": "gelu", "qa_dropout": 0.1, "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False,
        "tie_weights_": True,
    },
    "google-t5/t5-small": {
        "decoder_start_token_id": 0, "dropout_rate": 0.1, "feed_forward_proj": "relu", "is_encoder_decoder": True,
        "initializer_factor": 1.0, "num_decoder_layers": 6, "output_past": True, "relative_attention_num_buckets": 32,
    },
    "facebook/bart-base": {
        "activation_dropout": 0.1, "add_bias_logits": False, "add_final_layer_norm": False, "classif_dropout": 0.1,
        "decoder_layerdrop": 0.0, "early_stopping": True, "extra_pos_embeddings": 2, "forced_eos_token_id": 2,
        "id2label": {"0": "LABEL_0"}, "is_encoder_decoder": True, "max_position_embeddings": 1_024,
        "no_repeat_ngram_size": 3, "normalize_before": False, "normalize_embedding": True, "num_beams": 4,
        "num_hidden_layers": 6, "scale_embedding": False, "static_position_embeddings": False,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDES)
def test_a_published_file_is_read_whole(name: str) -> None:
    config, total = PUBLIC[name]
    found = from_dict({**config, **BESIDES[name]})
    assert found.incomplete == ()
    assert params(found.spec, check=False).total == total


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("microsoft/Phi-3-mini-4k-instruct", {"attention_bias": True}),
        ("bigcode/starcoder2-3b", {"mlp_type": "gated"}),
        ("bigcode/starcoder2-3b", {"norm_type": "rms_norm"}),
        ("tiiuae/falcon-7b", {"apply_residual_connection_post_layernorm": True}),
        ("google/gemma-2-9b", {"sliding_window": 4_096, "sliding_window_size": 1_024}),
        ("facebook/bart-base", {"add_final_layer_norm": True}),
    ],
)
def test_the_same_key_with_another_value_is_refused(name: str, change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"is not supported|says sliding_window = 4096 and"):
        from_dict({**PUBLIC[name][0], **BESIDES[name], **change})
