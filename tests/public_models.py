"""Configurations of public models: what their config.json says about their size, and how many parameters that makes.

The keys are those of the published files; what a file leaves to the library's defaults is left out here too.

Source:  each total is what the model's own class in the transformers library, release 5.24, has on the meta device,
         each parameter once; tests/transformers_parity counts them again. Where a total was published too, it says so.
"""

from __future__ import annotations

from typing import Any

__all__ = ["PUBLIC"]

Config = dict[str, Any]


def _gpt2(layers: int, d: int, heads: int, **more: Any) -> Config:
    return {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50_257, "n_positions": 1_024,
        "n_embd": d, "n_layer": layers, "n_head": heads, "activation_function": "gelu_new", **more,
    }  # fmt: skip


def _llama(d: int, layers: int, heads: int, d_ff: int, v: int = 32_000, **more: Any) -> Config:
    return {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": v, "hidden_size": d,
        "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": d_ff, "hidden_act": "silu",
        "tie_word_embeddings": False, **more,
    }  # fmt: skip


def _qwen2(d: int, layers: int, heads: int, kv: int, d_ff: int, v: int, tied: bool) -> Config:
    return {
        "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": v, "hidden_size": d,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv,
        "intermediate_size": d_ff, "tie_word_embeddings": tied, "use_sliding_window": False,
    }  # fmt: skip


def _qwen3(d: int, layers: int, heads: int, kv: int, d_ff: int, tied: bool) -> Config:
    return {
        "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 151_936, "hidden_size": d,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": 128,
        "intermediate_size": d_ff, "tie_word_embeddings": tied,
    }  # fmt: skip


def _neox(d: int, layers: int, heads: int, d_ff: int, v: int = 50_304) -> Config:
    return {
        "model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "vocab_size": v, "hidden_size": d,
        "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": d_ff, "rotary_pct": 0.25,
        "tie_word_embeddings": False,
    }  # fmt: skip


def _opt(d: int, layers: int, heads: int, d_ff: int) -> Config:
    return {
        "model_type": "opt", "architectures": ["OPTForCausalLM"], "vocab_size": 50_272, "hidden_size": d,
        "num_hidden_layers": layers, "num_attention_heads": heads, "ffn_dim": d_ff, "max_position_embeddings": 2_048,
        "word_embed_proj_dim": d,
    }  # fmt: skip


def _bloom(d: int, layers: int, heads: int) -> Config:
    return {
        "model_type": "bloom", "architectures": ["BloomForCausalLM"], "vocab_size": 250_880, "hidden_size": d,
        "n_layer": layers, "n_head": heads,
    }  # fmt: skip


def _bert(d: int, layers: int, heads: int, v: int, kind: str) -> Config:
    return {
        "model_type": "bert", "architectures": [kind], "vocab_size": v, "hidden_size": d, "num_hidden_layers": layers,
        "num_attention_heads": heads, "intermediate_size": 4 * d, "max_position_embeddings": 512, "type_vocab_size": 2,
    }  # fmt: skip


def _t5(d: int, layers: int, heads: int, d_ff: int, d_kv: int = 64) -> Config:
    return {
        "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 32_128, "d_model": d,
        "num_layers": layers, "num_heads": heads, "d_ff": d_ff, "d_kv": d_kv, "n_positions": 512,
    }  # fmt: skip


def _bart(d: int, layers: int, heads: int, d_ff: int, v: int = 50_265) -> Config:
    return {
        "model_type": "bart", "architectures": ["BartForConditionalGeneration"], "vocab_size": v, "d_model": d,
        "encoder_layers": layers, "decoder_layers": layers, "encoder_attention_heads": heads,
        "decoder_attention_heads": heads, "encoder_ffn_dim": d_ff, "decoder_ffn_dim": d_ff,
    }  # fmt: skip


#: Model by its name on the hub: configuration, parameters.
PUBLIC: dict[str, tuple[Config, int]] = {
    "openai-community/gpt2": (_gpt2(12, 768, 12), 124_439_808),
    "openai-community/gpt2-medium": (_gpt2(24, 1_024, 16), 354_823_168),
    "openai-community/gpt2-large": (_gpt2(36, 1_280, 20), 774_030_080),
    "openai-community/gpt2-xl": (_gpt2(48, 1_600, 25), 1_557_611_200),
    "distilbert/distilgpt2": (_gpt2(6, 768, 12), 81_912_576),
    "openai-community/openai-gpt": (
        {"model_type": "openai-gpt", "architectures": ["OpenAIGPTLMHeadModel"], "vocab_size": 40_478, "n_ctx": 512,
         "n_positions": 512, "n_embd": 768, "n_layer": 12, "n_head": 12, "afn": "gelu"}, 116_534_784,
    ),
    "huggyllama/llama-7b": (_llama(4_096, 32, 32, 11_008), 6_738_415_616),
    "huggyllama/llama-13b": (_llama(5_120, 40, 40, 13_824), 13_015_864_320),
    "huggyllama/llama-30b": (_llama(6_656, 60, 52, 17_920), 32_528_943_616),
    "huggyllama/llama-65b": (_llama(8_192, 80, 64, 22_016), 65_285_660_672),
    "meta-llama/Llama-2-70b-hf": (
        _llama(8_192, 80, 64, 28_672, num_key_value_heads=8, max_position_embeddings=4_096), 68_976_648_192,
    ),
    "meta-llama/Meta-Llama-3-8B": (_llama(4_096, 32, 32, 14_336, 128_256, num_key_value_heads=8), 8_030_261_248),
    "meta-llama/Meta-Llama-3-70B": (_llama(8_192, 80, 64, 28_672, 128_256, num_key_value_heads=8), 70_553_706_496),
    "meta-llama/Llama-3.1-405B": (_llama(16_384, 126, 128, 53_248, 128_256, num_key_value_heads=8), 405_853_388_800),
    "meta-llama/Llama-3.2-1B": (
        _llama(2_048, 16, 32, 8_192, 128_256, num_key_value_heads=8, tie_word_embeddings=True, head_dim=64),
        1_235_814_400,
    ),
    "meta-llama/Llama-3.2-3B": (
        _llama(3_072, 28, 24, 8_192, 128_256, num_key_value_heads=8, tie_word_embeddings=True, head_dim=128),
        3_212_749_824,
    ),
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": (_llama(2_048, 22, 32, 5_632, num_key_value_heads=4), 1_100_048_384),
    "HuggingFaceTB/SmolLM-135M": (
        _llama(576, 30, 9, 1_536, 49_152, num_key_value_heads=3, tie_word_embeddings=True), 134_515_008,
    ),
    "01-ai/Yi-34B": (_llama(7_168, 60, 56, 20_480, 64_000, num_key_value_heads=8), 34_388_917_248),
    "mistralai/Mistral-7B-v0.1": (
        {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "vocab_size": 32_000, "hidden_size": 4_096,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14_336,
         "max_position_embeddings": 32_768, "sliding_window": 4_096, "tie_word_embeddings": False}, 7_241_732_096,
    ),
    "mistralai/Mixtral-8x7B-v0.1": (
        {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "vocab_size": 32_000, "hidden_size": 4_096,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14_336,
         "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 32_768,
         "sliding_window": None, "tie_word_embeddings": False}, 46_702_792_704,
    ),
    "mistralai/Mixtral-8x22B-v0.1": (
        {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "vocab_size": 32_000, "hidden_size": 6_144,
         "num_hidden_layers": 56, "num_attention_heads": 48, "num_key_value_heads": 8, "intermediate_size": 16_384,
         "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 65_536,
         "sliding_window": None, "tie_word_embeddings": False}, 140_620_634_112,
    ),
    "Qwen/Qwen2-0.5B": (_qwen2(896, 24, 14, 2, 4_864, 151_936, True), 494_032_768),
    "Qwen/Qwen2-1.5B": (_qwen2(1_536, 28, 12, 2, 8_960, 151_936, True), 1_543_714_304),
    "Qwen/Qwen2-7B": (_qwen2(3_584, 28, 28, 4, 18_944, 152_064, False), 7_615_616_512),
    "Qwen/Qwen2-72B": (_qwen2(8_192, 80, 64, 8, 29_568, 152_064, False), 72_706_203_648),
    "Qwen/Qwen3-0.6B": (_qwen3(1_024, 28, 16, 8, 3_072, True), 596_049_920),
    "Qwen/Qwen3-4B": (_qwen3(2_560, 36, 32, 8, 9_728, True), 4_022_468_096),
    "Qwen/Qwen3-8B": (_qwen3(4_096, 36, 32, 8, 12_288, False), 8_190_735_360),
    "Qwen/Qwen3-30B-A3B": (
        {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 151_936,
         "hidden_size": 2_048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
         "head_dim": 128, "intermediate_size": 6_144, "moe_intermediate_size": 768, "num_experts": 128,
         "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": False},
        30_532_122_624,
    ),
    "google/gemma-2b": (
        {"model_type": "gemma", "architectures": ["GemmaForCausalLM"], "vocab_size": 256_000, "hidden_size": 2_048,
         "num_hidden_layers": 18, "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256,
         "intermediate_size": 16_384}, 2_506_172_416,
    ),
    "google/gemma-7b": (
        {"model_type": "gemma", "architectures": ["GemmaForCausalLM"], "vocab_size": 256_000, "hidden_size": 3_072,
         "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256,
         "intermediate_size": 24_576}, 8_537_680_896,
    ),
    "google/gemma-2-2b": (
        {"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "vocab_size": 256_000, "hidden_size": 2_304,
         "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
         "intermediate_size": 9_216, "sliding_window": 4_096, "hidden_activation": "gelu_pytorch_tanh"}, 2_614_341_888,
    ),
    "google/gemma-2-9b": (
        {"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "vocab_size": 256_000, "hidden_size": 3_584,
         "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
         "intermediate_size": 14_336, "sliding_window": 4_096, "hidden_activation": "gelu_pytorch_tanh"}, 9_241_705_984,
    ),
    "google/gemma-3-1b-pt": (
        {"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "vocab_size": 262_144,
         "hidden_size": 1_152, "num_hidden_layers": 26, "num_attention_heads": 4, "num_key_value_heads": 1,
         "head_dim": 256, "intermediate_size": 6_912, "sliding_window": 512, "sliding_window_pattern": 6}, 999_885_952,
    ),
    "microsoft/phi-2": (
        {"model_type": "phi", "architectures": ["PhiForCausalLM"], "vocab_size": 51_200, "hidden_size": 2_560,
         "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 10_240,
         "partial_rotary_factor": 0.4, "hidden_act": "gelu_new", "tie_word_embeddings": False}, 2_779_683_840,
    ),
    "microsoft/Phi-3-mini-4k-instruct": (
        {"model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "vocab_size": 32_064, "hidden_size": 3_072,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 8_192,
         "sliding_window": 2_047, "tie_word_embeddings": False}, 3_821_079_552,
    ),
    "EleutherAI/pythia-70m": (_neox(512, 6, 8, 2_048), 70_426_624),
    "EleutherAI/pythia-160m": (_neox(768, 12, 12, 3_072), 162_322_944),
    "EleutherAI/pythia-410m": (_neox(1_024, 24, 16, 4_096), 405_334_016),
    "EleutherAI/pythia-1.4b": (_neox(2_048, 24, 16, 8_192), 1_414_647_808),
    "EleutherAI/pythia-12b": (_neox(5_120, 36, 40, 20_480, 50_688), 11_846_072_320),
    "EleutherAI/gpt-neox-20b": (_neox(6_144, 44, 64, 24_576, 50_432), 20_554_567_680),
    "EleutherAI/gpt-j-6b": (
        {"model_type": "gptj", "architectures": ["GPTJForCausalLM"], "vocab_size": 50_400, "n_positions": 2_048,
         "n_embd": 4_096, "n_layer": 28, "n_head": 16, "rotary_dim": 64, "activation_function": "gelu_new",
         "tie_word_embeddings": False}, 6_050_882_784,
    ),
    "Salesforce/codegen-350M-mono": (
        {"model_type": "codegen", "architectures": ["CodeGenForCausalLM"], "vocab_size": 51_200, "n_ctx": 2_048,
         "n_positions": 2_048, "n_embd": 1_024, "n_layer": 20, "n_head": 16, "rotary_dim": 32,
         "tie_word_embeddings": False}, 356_712_448,
    ),
    "facebook/opt-125m": (_opt(768, 12, 12, 3_072), 125_239_296),
    "facebook/opt-1.3b": (_opt(2_048, 24, 32, 8_192), 1_315_758_080),
    "facebook/opt-66b": (_opt(9_216, 64, 72, 36_864), 65_719_701_504),
    "bigscience/bloom-560m": (_bloom(1_024, 24, 16), 559_214_592),
    "bigscience/bloom": (_bloom(14_336, 70, 112), 176_247_271_424),
    "tiiuae/falcon-7b": (
        {"model_type": "falcon", "architectures": ["FalconForCausalLM"], "vocab_size": 65_024, "hidden_size": 4_544,
         "num_hidden_layers": 32, "num_attention_heads": 71, "multi_query": True, "parallel_attn": True,
         "bias": False, "new_decoder_architecture": False, "alibi": False}, 6_921_720_704,
    ),
    "tiiuae/falcon-40b": (
        {"model_type": "falcon", "architectures": ["FalconForCausalLM"], "vocab_size": 65_024, "hidden_size": 8_192,
         "num_hidden_layers": 60, "num_attention_heads": 128, "num_kv_heads": 8, "parallel_attn": True,
         "bias": False, "new_decoder_architecture": True, "alibi": False}, 41_303_293_952,
    ),
    "bigcode/starcoder2-3b": (
        {"model_type": "starcoder2", "architectures": ["Starcoder2ForCausalLM"], "vocab_size": 49_152,
         "hidden_size": 3_072, "num_hidden_layers": 30, "num_attention_heads": 24, "num_key_value_heads": 2,
         "intermediate_size": 12_288, "sliding_window": 4_096, "use_bias": True}, 3_030_371_328,
    ),
    "bigcode/gpt_bigcode-santacoder": (
        {"model_type": "gpt_bigcode", "architectures": ["GPTBigCodeForCausalLM"], "vocab_size": 49_280,
         "n_positions": 2_048, "n_embd": 2_048, "n_layer": 24, "n_head": 16, "n_inner": 8_192, "multi_query": True},
        1_124_886_528,
    ),
    "stabilityai/stablelm-2-1_6b": (
        {"model_type": "stablelm", "architectures": ["StableLmForCausalLM"], "vocab_size": 100_352,
         "hidden_size": 2_048, "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 32,
         "intermediate_size": 5_632, "partial_rotary_factor": 0.25, "use_qkv_bias": True,
         "tie_word_embeddings": False}, 1_644_515_328,
    ),
    "google-bert/bert-base-uncased": (_bert(768, 12, 12, 30_522, "BertForMaskedLM"), 109_514_298),
    "google-bert/bert-base-uncased (no head)": (_bert(768, 12, 12, 30_522, "BertModel"), 109_482_240),
    "google-bert/bert-large-uncased": (_bert(1_024, 24, 16, 30_522, "BertForMaskedLM"), 335_174_458),
    "FacebookAI/roberta-base": (
        {"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "vocab_size": 50_265, "hidden_size": 768,
         "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3_072,
         "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1}, 124_697_433,
    ),
    "FacebookAI/xlm-roberta-base": (
        {"model_type": "xlm-roberta", "architectures": ["XLMRobertaForMaskedLM"], "vocab_size": 250_002,
         "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3_072,
         "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1}, 278_295_186,
    ),
    "distilbert/distilbert-base-uncased": (
        {"model_type": "distilbert", "architectures": ["DistilBertForMaskedLM"], "vocab_size": 30_522, "dim": 768,
         "n_layers": 6, "n_heads": 12, "hidden_dim": 3_072, "max_position_embeddings": 512}, 66_985_530,
    ),
    "google-t5/t5-small": (_t5(512, 6, 8, 2_048), 60_506_624),
    "google-t5/t5-base": (_t5(768, 12, 12, 3_072), 222_903_552),
    "google-t5/t5-11b": (_t5(1_024, 24, 128, 65_536, 128), 11_307_321_344),
    "facebook/bart-base": (_bart(768, 6, 12, 3_072), 139_420_416),
    "facebook/bart-large": (_bart(1_024, 12, 16, 4_096), 406_291_456),
}  # fmt: skip
