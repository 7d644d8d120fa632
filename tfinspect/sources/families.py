"""The families whose configurations a spec describes exactly: one function each, from a reading to the spec's fields.

Defaults are those of the library's own classes, release 5.24.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from tfinspect.errors import InputError
from tfinspect.sources.reading import CURVES, Reading, curves, short

__all__ = ["FAMILIES", "Fields"]

Fields: TypeAlias = "dict[str, Any]"


def _hidden(c: Reading, v: int, d: int, layers: int, heads: int, ctx: int) -> Fields:
    """The sizes that most families name alike, with the library's defaults."""
    return {
        "vocab_size": c.size(v, "vocab_size"),
        "d_model": c.size(d, "hidden_size"),
        "n_layers": c.size(layers, "num_hidden_layers"),
        "n_heads": c.size(heads, "num_attention_heads"),
        "n_ctx": c.size(ctx, "max_position_embeddings"),
    }


def _gpt(c: Reading, v: int, ctx: int, d: int = 768, layers: int = 12, heads: int = 12, *, tied: bool = True) -> Fields:
    """The sizes of GPT-1, GPT-2 and their like."""
    d = c.size(d, "n_embd", "hidden_size")
    return {
        "vocab_size": c.size(v, "vocab_size"),
        "n_ctx": c.size(ctx, "n_positions", "max_position_embeddings"),
        "d_model": d,
        "n_layers": c.size(layers, "n_layer", "num_hidden_layers"),
        "n_heads": c.size(heads, "n_head", "num_attention_heads"),
        "d_ff": c.maybe(4 * d, "n_inner", rule=4 * d),
        "norm_eps": c.real(1e-5, "layer_norm_epsilon"),
        "tied_head": c.flag(tied, "tie_word_embeddings"),
    }


def _gpt2(c: Reading) -> Fields:
    c.require(False, "add_cross_attention")
    c.ignore("n_ctx")
    scaled = c.flag(True, "scale_attn_weights")
    return {**_gpt(c, 50_257, 1_024), "activation": c.curve("gelu_new", "activation_function"), "scale_scores": scaled}


def _openai_gpt(c: Reading) -> Fields:
    c.ignore("n_ctx")
    word = c.word("gelu", "afn")
    if word not in ("gelu", "relu", "silu", "swish"):
        raise InputError(f"{c.where}: the activation {word!r} is not known", "known: gelu, relu, silu")
    curve = "gelu_tanh" if word == "gelu" else CURVES[word]  # this family calls the approximation gelu
    return {**_gpt(c, 40_478, 512), "placement": "post", "final_norm": False, "activation": curve}


def _gpt_bigcode(c: Reading) -> Fields:
    c.require(False, "add_cross_attention")
    c.ignore("num_key_value_heads")  # the library derives it from multi_query
    fields = {
        **_gpt(c, 50_257, 1_024),
        "activation": c.curve("gelu_pytorch_tanh", "activation_function"),
        "scale_scores": c.flag(True, "scale_attn_weights"),
    }
    return {**fields, "n_kv_heads": 1 if c.flag(True, "multi_query") else fields["n_heads"]}


def _gptj(c: Reading) -> Fields:
    """GPT-J and CodeGen: RoPE pairs neighbours there, which is the core's with rows of W_Q and W_K permuted."""
    c.ignore("n_ctx", "rotary")
    fields = {
        **_gpt(c, 50_400, 2_048, 4_096, 28, 16, tied=False),
        "activation": c.curve("gelu_new", "activation_function"),
    }
    return {
        **fields,
        "placement": "parallel_one_norm",
        "positions": "rope",
        "rope_dim": c.size(64, "rotary_dim"),
        "qkv_bias": False,
        "out_bias": False,
        "norm_bias": True,
        "head_bias": True,
    }


def _llama_like(
    c: Reading,
    fields: Fields,
    *,
    kv: int | None,
    head_dim: int | None,
    eps: float,
    tied: bool,
    theta: float = 10_000.0,
) -> Fields:
    """RMSNorm, RoPE, a gated MLP, grouped keys, no biases: what most families of today have in common."""
    base, part = c.rope(theta=theta)
    d, h = fields["d_model"], fields["n_heads"]
    d_head = c.maybe(head_dim, "head_dim", rule=d // h if d % h == 0 else None)
    fields = {
        **fields,
        "n_kv_heads": c.maybe(kv, "num_key_value_heads", rule=h),
        "norm": "rmsnorm",
        "norm_eps": c.real(eps, "rms_norm_eps"),
        "positions": "rope",
        "rope_base": base,
        "bias": False,
        "tied_head": c.flag(tied, "tie_word_embeddings"),
    }
    if d_head is not None:
        fields |= {"d_head": d_head, "rope_dim": _turned(d_head, part)}
    return fields


def _attention_bias(c: Reading, default: bool = False) -> Fields:
    """One switch for all four projections."""
    bias = c.flag(default, "attention_bias")
    return {"qkv_bias": bias, "out_bias": bias}


def _swiglu(c: Reading, d_ff: int) -> Fields:
    """The MLP that most families of today have in common."""
    return {
        "d_ff": c.size(d_ff, "intermediate_size"),
        "activation": c.curve("silu", "hidden_act", gated=True),
    }


def _turned(d_head: int, part: float) -> int:
    """Features that RoPE turns, where it turns a part of each head."""
    return int(d_head * part)


def _llama(c: Reading) -> Fields:
    fields = _hidden(c, 32_000, 4_096, 32, 32, 2_048)
    bias = _attention_bias(c)
    return {
        **_llama_like(c, fields, kv=None, head_dim=None, eps=1e-6, tied=False),
        **_swiglu(c, 11_008),
        **bias,
        "mlp_bias": c.flag(False, "mlp_bias"),
    }


def _mistral(c: Reading) -> Fields:
    fields = _hidden(c, 32_000, 4_096, 32, 32, 131_072)
    return {
        **_llama_like(c, fields, kv=8, head_dim=None, eps=1e-6, tied=False),
        **_swiglu(c, 14_336),
        "window": c.maybe(4_096, "sliding_window", rule=0),
    }


def _mixtral(c: Reading) -> Fields:
    fields = _hidden(c, 32_000, 4_096, 32, 32, 131_072)
    return {
        **_llama_like(c, fields, kv=8, head_dim=None, eps=1e-5, tied=False, theta=1e6),
        **_swiglu(c, 14_336),
        "window": c.maybe(None, "sliding_window", rule=0) or 0,
        "n_experts": c.size(8, "num_local_experts", "num_experts"),
        "n_experts_per_token": c.size(2, "num_experts_per_tok"),
    }


def _qwen_window(c: Reading) -> None:
    """Qwen's window is off by default; its pattern, the first blocks without, is none that a spec has."""
    c.ignore("sliding_window", "max_window_layers", "layer_types")
    if c.flag(False, "use_sliding_window"):
        c.incomplete.append(
            "use_sliding_window: windows of some blocks are not in the spec; no parameter hangs on them"
        )


def _qwen2(c: Reading) -> Fields:
    _qwen_window(c)
    fields = _hidden(c, 151_936, 4_096, 32, 32, 32_768)
    return {
        **_llama_like(c, fields, kv=32, head_dim=None, eps=1e-6, tied=False),
        **_swiglu(c, 22_016),
        "qkv_bias": True,
    }


def _qwen3(c: Reading) -> Fields:
    _qwen_window(c)
    bias = _attention_bias(c)
    fields = _hidden(c, 151_936, 4_096, 32, 32, 32_768)
    return {
        **_llama_like(c, fields, kv=32, head_dim=128, eps=1e-6, tied=False),
        **_swiglu(c, 22_016),
        **bias,
        "qk_norm": True,
    }


def _qwen3_moe(c: Reading) -> Fields:
    _qwen_window(c)
    c.require(1, "decoder_sparse_step")
    c.require([], "mlp_only_layers")
    bias = _attention_bias(c)
    fields = _hidden(c, 151_936, 2_048, 24, 32, 32_768)
    return {
        **_llama_like(c, fields, kv=4, head_dim=None, eps=1e-6, tied=False),
        "d_ff": c.size(6_144, "intermediate_size"),
        "d_expert": c.size(768, "moe_intermediate_size"),
        "n_experts": c.size(128, "num_experts", "num_local_experts"),
        "n_experts_per_token": c.size(8, "num_experts_per_tok"),
        "activation": c.curve("silu", "hidden_act", gated=True),
        **bias,
        "qk_norm": True,
    }


def _looks_back(c: Reading) -> None:
    """Gemma's attention sees no later position, unless its configuration says otherwise."""
    c.ignore("use_bidirectional_attention")
    if c.config.get("use_bidirectional_attention"):
        raise InputError(f"{c.where}: use_bidirectional_attention is not supported", "supported: false")


def _gemma(c: Reading) -> Fields:
    _looks_back(c)
    bias = _attention_bias(c)
    fields = _hidden(c, 256_000, 3_072, 28, 16, 8_192)
    own = [key for key in ("hidden_activation", "hidden_act") if c.config.get(key) is not None]
    c.ignore("hidden_act", "hidden_activation")
    if own[:1] == ["hidden_act"] and c.config["hidden_act"] == "gelu":
        c.remarks.append("hidden_act gelu is read as its approximation, with which the first release was trained")
        curve = "geglu_tanh"
    else:
        curve = c.curve("gelu_pytorch_tanh", *own[:1], gated=True) if own else "geglu_tanh"
    return {
        **_llama_like(c, fields, kv=16, head_dim=256, eps=1e-6, tied=True),
        "d_ff": c.size(24_576, "intermediate_size"),
        "activation": curve,
        **bias,
        "embed_scale": True,
    }


def _gemma_windows(c: Reading, default: int, every: int) -> Fields:
    """The window, and each how many-th block has none."""
    n_layers = c.size(26, "num_hidden_layers")
    window = c.maybe(default, "sliding_window", "sliding_window_size", rule=0) or 0
    every = c.maybe(every, "sliding_window_pattern", "_sliding_window_pattern", rule=every) or every
    kinds = c.config.get("layer_types")
    c.ignore("layer_types")
    if kinds is not None:
        if not isinstance(kinds, list) or len(kinds) != n_layers:
            raise InputError(f"{c.where}: layer_types must name {n_layers} layers, not {short(kinds)}")
        fitting = [k for k in range(1, n_layers + 2) if kinds == _kinds(n_layers, k)]
        if not fitting:
            c.incomplete.append("layer_types: no regular pattern of windows; no parameter hangs on it")
        every = fitting[0] if fitting else every
    return {"window": window, "global_every": 0 if every > n_layers or not window else every}


def _kinds(n_layers: int, every: int) -> list[str]:
    return ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(n_layers)]


def _gemma2(c: Reading, v: int = 256_000, ctx: int = 8_192, every: int = 2) -> Fields:
    _looks_back(c)
    c.ignore("hidden_act")
    bias = _attention_bias(c)
    fields = _hidden(c, v, 2_304, 26, 8, ctx)
    return {
        **_llama_like(c, fields, kv=4, head_dim=256, eps=1e-6, tied=True),
        **_gemma_windows(c, 4_096, every),
        "d_ff": c.size(9_216, "intermediate_size"),
        "activation": c.curve("gelu_pytorch_tanh", "hidden_activation", gated=True),
        "placement": "sandwich",
        **bias,
        "embed_scale": True,
    }


def _gemma3(c: Reading) -> Fields:
    return {**_gemma2(c, 262_208, 131_072, 6), "qk_norm": True}


def _phi(c: Reading) -> Fields:
    base, part = c.rope(0.5)
    fields = _hidden(c, 51_200, 2_048, 24, 32, 2_048)
    return {
        **fields,
        "n_kv_heads": c.maybe(None, "num_key_value_heads", rule=fields["n_heads"]),
        "d_ff": c.size(8_192, "intermediate_size"),
        "activation": c.curve("gelu_new", "hidden_act"),
        "placement": "parallel_one_norm",
        "positions": "rope",
        "rope_base": base,
        "rope_dim": _turned(fields["d_model"] // fields["n_heads"], part),
        "qk_norm": c.flag(False, "qk_layernorm"),
        "norm_eps": c.real(1e-5, "layer_norm_eps"),
        "tied_head": c.flag(False, "tie_word_embeddings"),
        "head_bias": True,
    }


def _phi3(c: Reading) -> Fields:
    c.require(False, "attention_bias")
    fields = _hidden(c, 32_064, 3_072, 32, 32, 4_096)
    return {
        **_llama_like(c, fields, kv=None, head_dim=None, eps=1e-5, tied=False),
        **_swiglu(c, 8_192),
        "window": c.maybe(None, "sliding_window", rule=0) or 0,
    }


def _starcoder2(c: Reading) -> Fields:
    c.require("layer_norm", "norm_type")
    c.require("default", "mlp_type")
    c.require(True, "scale_attn_weights")
    c.ignore("layer_norm_epsilon")  # the class reads norm_epsilon
    base, _ = c.rope()
    return {
        **_hidden(c, 49_152, 3_072, 30, 24, 4_096),
        "n_kv_heads": c.size(2, "num_key_value_heads"),
        "d_ff": c.size(12_288, "intermediate_size"),
        "activation": c.curve("gelu_pytorch_tanh", "hidden_act"),
        "window": c.maybe(None, "sliding_window", rule=0) or 0,
        "positions": "rope",
        "rope_base": base,
        "norm_eps": c.real(1e-5, "norm_epsilon"),
        "bias": c.flag(True, "use_bias"),
        "norm_bias": True,
        "tied_head": c.flag(True, "tie_word_embeddings"),
    }


def _stablelm(c: Reading) -> Fields:
    base, part = c.rope(0.25)
    c.require(False, "qk_layernorm")
    fields = _hidden(c, 50_304, 2_560, 32, 32, 4_096)
    parallel = c.flag(False, "use_parallel_residual")
    return {
        **fields,
        "n_kv_heads": c.size(32, "num_key_value_heads"),
        **_swiglu(c, 6_912),
        "placement": "parallel_one_norm" if parallel else "pre",
        "positions": "rope",
        "rope_base": base,
        "rope_dim": _turned(fields["d_model"] // fields["n_heads"], part),
        "norm_eps": c.real(1e-5, "layer_norm_eps"),
        "bias": False,
        "norm_bias": True,
        "qkv_bias": c.flag(False, "use_qkv_bias"),
        "tied_head": c.flag(False, "tie_word_embeddings"),
    }


def _gpt_neox(c: Reading) -> Fields:
    base, part = c.rope(0.25, "rotary_pct")
    fields = _hidden(c, 50_432, 6_144, 44, 64, 2_048)
    bias = _attention_bias(c, True)
    return {
        **fields,
        "d_ff": c.size(24_576, "intermediate_size"),
        "activation": c.curve("gelu", "hidden_act"),
        "placement": "parallel" if c.flag(True, "use_parallel_residual") else "pre",
        "positions": "rope",
        "rope_base": base,
        "rope_dim": _turned(fields["d_model"] // fields["n_heads"], part),
        "norm_eps": c.real(1e-5, "layer_norm_eps"),
        **bias,
        "tied_head": c.flag(False, "tie_word_embeddings"),
    }


def _opt(c: Reading) -> Fields:
    fields = _hidden(c, 50_272, 768, 12, 12, 2_048)
    width = c.maybe(fields["d_model"], "word_embed_proj_dim", rule=fields["d_model"])
    if width != fields["d_model"]:
        raise InputError(
            f"{c.where}: word_embed_proj_dim {width} is not hidden_size {fields['d_model']}",
            "a projection of the embedding is not in the core",
        )
    c.require(True, "layer_norm_elementwise_affine")
    before = c.flag(True, "do_layer_norm_before")
    bias = c.flag(True, "enable_bias")
    removed = "_remove_final_layer_norm" in c.config and c.flag(False, "_remove_final_layer_norm")
    return {
        **fields,
        "d_ff": c.size(3_072, "ffn_dim"),
        "activation": c.curve("relu", "activation_function"),
        "placement": "pre" if before else "post",
        "final_norm": before and not removed,
        "position_offset": 2,
        "bias": bias,
        "norm_bias": True,
        "tied_head": c.flag(True, "tie_word_embeddings"),
    }


def _bloom(c: Reading) -> Fields:
    c.require(False, "apply_residual_connection_post_layernorm")
    d = c.size(64, "hidden_size", "n_embed")
    c.ignore("n_inner")  # the class has 4·hidden_size, whatever it says
    return {
        "vocab_size": c.size(250_880, "vocab_size"),
        "d_model": d,
        "n_layers": c.size(2, "n_layer", "num_hidden_layers"),
        "n_heads": c.size(8, "n_head", "num_attention_heads"),
        "n_ctx": c.maybe(2_048, "seq_length", rule=2_048),
        "d_ff": 4 * d,
        "positions": "alibi",
        "embed_norm": True,
        "norm_eps": c.real(1e-5, "layer_norm_epsilon"),
        "tied_head": c.flag(True, "tie_word_embeddings"),
    }


def _falcon(c: Reading) -> Fields:
    c.require(False, "apply_residual_connection_post_layernorm")
    base, _ = c.rope()
    fields = _hidden(c, 65_024, 4_544, 32, 71, 2_048)
    d, h = fields["d_model"], fields["n_heads"]
    new, parallel = c.flag(False, "new_decoder_architecture"), c.flag(True, "parallel_attn")
    multi_query = c.flag(True, "multi_query")
    kv = c.maybe(None, "num_kv_heads", rule=h)
    n_norms = c.maybe(2 if new else 1, "num_ln_in_parallel_attn", rule=2 if new else 1)
    if n_norms not in (1, 2):
        raise InputError(f"{c.where}: num_ln_in_parallel_attn is {n_norms}", "a block has one norm or two")
    parallel_kind = "parallel" if n_norms == 2 else "parallel_one_norm"
    alibi = c.flag(False, "alibi")
    return {
        **fields,
        "n_kv_heads": kv if new else (1 if multi_query else h),
        "d_ff": c.maybe(4 * d, "ffn_hidden_size", rule=4 * d),
        "activation": c.curve("gelu", "activation"),
        "placement": parallel_kind if parallel or new else "pre",
        "positions": "alibi" if alibi else "rope",
        "rope_base": base,
        "norm_eps": c.real(1e-5, "layer_norm_epsilon"),
        "bias": c.flag(False, "bias"),
        "norm_bias": True,
        "tied_head": c.flag(True, "tie_word_embeddings"),
    }


def _bert_sizes(c: Reading, v: int) -> Fields:
    c.require(False, "add_cross_attention")
    c.require("absolute", "position_embedding_type")
    c.require(False, "is_decoder")
    tied = c.flag(True, "tie_word_embeddings")
    if not tied:
        c.incomplete.append("tie_word_embeddings = false: the library then holds the head's bias twice, counted once")
    return {
        **_hidden(c, v, 768, 12, 12, 512),
        "d_ff": c.size(3_072, "intermediate_size"),
        "activation": c.curve("gelu", "hidden_act"),
        "n_token_types": c.size(2, "type_vocab_size", least=0),
        "norm_eps": c.real(1e-12, "layer_norm_eps"),
        "tied_head": tied,
        **_ENCODER,
    }


_ENCODER: Final[Fields] = {"architecture": "encoder", "placement": "post", "final_norm": False, "embed_norm": True}


def _bert(c: Reading) -> Fields:
    return {**_bert_sizes(c, 30_522), "head": "mlm"}


def _xlm_roberta(c: Reading) -> Fields:
    """XLM-RoBERTa and CamemBERT."""
    return _roberta(c, 30_522)


def _roberta(c: Reading, v: int = 50_265) -> Fields:
    fields = {**_bert_sizes(c, v), "head": "mlm"}
    offset = c.size(1, "pad_token_id", least=0) + 1
    if fields["n_ctx"] <= offset:
        raise InputError(f"{c.where}: max_position_embeddings {fields['n_ctx']} leaves no position after {offset}")
    return {**fields, "n_ctx": fields["n_ctx"] - offset, "position_offset": offset}


def _distilbert(c: Reading) -> Fields:
    return {
        "vocab_size": c.size(30_522, "vocab_size"),
        "n_ctx": c.size(512, "max_position_embeddings"),
        "d_model": c.size(768, "dim", "hidden_size"),
        "n_layers": c.size(6, "n_layers", "num_hidden_layers"),
        "n_heads": c.size(12, "n_heads", "num_attention_heads"),
        "d_ff": c.size(3_072, "hidden_dim"),
        "activation": c.curve("gelu", "activation"),
        "norm_eps": 1e-12,
        "tied_head": c.flag(True, "tie_word_embeddings"),
        "head": "mlm",
        **_ENCODER,
    }


def _mt5(c: Reading) -> Fields:
    return _t5(c, 250_112, 1_024, 8, 6, "gated-gelu")


def _t5(c: Reading, v: int = 32_128, d_ff: int = 2_048, depth: int = 6, heads: int = 8, mlp: str = "relu") -> Fields:
    layers = c.size(depth, "num_layers", "num_hidden_layers")
    kind = c.word(mlp, "feed_forward_proj")
    gated, _, word = kind.rpartition("-")
    c.require(bool(gated), "is_gated_act")
    c.require("gelu_new" if kind == "gated-gelu" else word, "dense_act_fn")
    c.ignore("scale_decoder_outputs")
    tied = c.flag(True, "tie_word_embeddings")
    if not tied:
        c.remarks.append("the head is counted apart, as the files of T5 1.1 hold it; the library now ties it")
    known = curves(gated=bool(gated)) if gated in ("", "gated") else {}
    curve = known.get("gelu_new" if kind == "gated-gelu" else word)
    if curve is None:
        raise InputError(
            f"{c.where}: feed_forward_proj {kind!r} is not known", "known: relu, gelu, gated-gelu, gated-silu"
        )
    return {
        "vocab_size": c.size(v, "vocab_size"),
        "n_ctx": c.maybe(512, "n_positions", rule=512),
        "d_model": c.size(512, "d_model", "hidden_size"),
        "n_heads": c.size(heads, "num_heads", "num_attention_heads"),
        "d_head": c.size(64, "d_kv", "head_dim"),
        "d_ff": c.size(d_ff, "d_ff"),
        "n_encoder_layers": layers,
        "n_layers": c.maybe(layers, "num_decoder_layers", rule=layers),
        "architecture": "encoder_decoder",
        "positions": "relative",
        "n_buckets": c.size(32, "relative_attention_num_buckets"),
        "max_distance": c.size(128, "relative_attention_max_distance"),
        "norm": "rmsnorm",
        "norm_eps": c.real(1e-6, "layer_norm_epsilon"),
        "bias": False,
        "activation": curve,
        "scale_scores": False,
        "tied_head": tied,
    }


def _bart(c: Reading) -> Fields:
    heads, d_ff = c.size(16, "encoder_attention_heads", "num_attention_heads"), c.size(4_096, "encoder_ffn_dim")
    for key, default, ours in (("decoder_attention_heads", 16, heads), ("decoder_ffn_dim", 4_096, d_ff)):
        if (theirs := c.size(default, key)) != ours:
            raise InputError(f"{c.where}: {key} is {theirs} where the encoder has {ours}", "both stacks are alike here")
    if not c.flag(True, "tie_word_embeddings"):
        raise InputError(
            f"{c.where}: tie_word_embeddings = false is not supported", "the two stacks share their table here"
        )
    c.require(False, "normalize_before")
    c.require(True, "normalize_embedding")
    c.require(False, "add_final_layer_norm")
    c.require(False, "static_position_embeddings")
    c.ignore("num_hidden_layers")
    return {
        "vocab_size": c.size(50_265, "vocab_size"),
        "n_ctx": c.size(1_024, "max_position_embeddings"),
        "d_model": c.size(1_024, "d_model", "hidden_size"),
        "n_heads": heads,
        "d_ff": d_ff,
        "n_encoder_layers": c.size(12, "encoder_layers"),
        "n_layers": c.size(12, "decoder_layers"),
        "architecture": "encoder_decoder",
        "placement": "post",
        "final_norm": False,
        "activation": c.curve("gelu", "activation_function"),
        "position_offset": 2,
        "embed_norm": True,
        "embed_scale": c.flag(False, "scale_embedding"),
    }


#: The families by the ``model_type`` of their configurations.
FAMILIES: Final[Mapping[str, Callable[[Reading], Fields]]] = {
    "bart": _bart,
    "bert": _bert,
    "bloom": _bloom,
    "camembert": _xlm_roberta,
    "codegen": _gptj,
    "distilbert": _distilbert,
    "falcon": _falcon,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt2": _gpt2,
    "gpt_bigcode": _gpt_bigcode,
    "gpt_neox": _gpt_neox,
    "gptj": _gptj,
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "mt5": _mt5,
    "openai-gpt": _openai_gpt,
    "opt": _opt,
    "phi": _phi,
    "phi3": _phi3,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "roberta": _roberta,
    "stablelm": _stablelm,
    "starcoder2": _starcoder2,
    "t5": _t5,
    "xlm-roberta": _xlm_roberta,
}
