"""From the names of a published checkpoint to the core's own: which of their tensors each of ours is, and how.

    ours                      theirs (GPT-2)                     how
    blocks.3.attn.q.weight    transformer.h.3.attn.c_attn.weight  transposed, the first third
    blocks.3.mlp.up.weight    transformer.h.3.mlp.c_fc.weight     transposed

A table per family says it for each module of the core; "{}" stands for a number. Where checkpoints of one family come
with different names, each is tried in turn, with and without the first word. Nothing is copied that need not be.

Source:  the parameter names of the families' released checkpoints, as their modules in huggingface/transformers have
         them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import torch
from torch import Tensor

from tfinspect.dims import brackets
from tfinspect.errors import InputError
from tfinspect.model.build import Model, build
from tfinspect.model.encoder_decoder import EncoderDecoder
from tfinspect.spec import ModelSpec

__all__ = ["FAMILIES", "converted", "load"]

#: What BERT's first checkpoints call a gain and a bias.
_OLD_WORDS: Final = {"weight": "gamma", "bias": "beta"}

#: Names that an error shows.
SHOWN: Final = 4

#: A part of a name that is a number.
_NUMBER: Final = re.compile(r"(?<=\.)\d+(?=\.|$)")

#: From one of their tensors, the spec and the numbers in our name to ours.
Taking: TypeAlias = Callable[[Tensor, ModelSpec, tuple[int, ...]], Tensor]
#: Their module, or their module and how; or several such, of which one is there.
Origin: TypeAlias = "str | tuple[str, Taking] | list[tuple[str, Taking]]"


def as_it_is(tensor: Tensor, spec: ModelSpec, at: tuple[int, ...]) -> Tensor:
    """The tensor itself."""
    return tensor


def transposed(tensor: Tensor, spec: ModelSpec, at: tuple[int, ...]) -> Tensor:
    """[in, out] to [out, in]; a bias as it is."""
    return tensor.mT if tensor.ndim == 2 else tensor


def plus_one(tensor: Tensor, spec: ModelSpec, at: tuple[int, ...]) -> Tensor:
    """A gain that is stored as what it exceeds 1 by."""
    return tensor + 1


def of_qkv(part: int) -> Taking:
    """Q, K or V out of one matrix that holds them one after the other."""
    return lambda tensor, spec, at: tensor.split((spec.d_attn, spec.d_kv, spec.d_kv))[part]


def of_flipped_qkv(part: int) -> Taking:
    """The same out of a matrix [in, out]."""
    return lambda tensor, spec, at: of_qkv(part)(transposed(tensor, spec, at), spec, at)


def of_groups(part: int) -> Taking:
    """Q, K or V out of one matrix that holds, for each head of keys, its queries, its key and its value."""

    def take(tensor: Tensor, spec: ModelSpec, at: tuple[int, ...]) -> Tensor:
        n_queries = spec.n_heads // spec.n_kv_heads
        groups = tensor.unflatten(0, (spec.n_kv_heads, n_queries + 2, spec.d_head))
        return groups.split((n_queries, 1, 1), dim=1)[part].flatten(0, 2)

    return take


def over_root_d(tensor: Tensor, spec: ModelSpec, at: tuple[int, ...]) -> Tensor:
    """The last gain over √d where the head is tied: T5 divides what such a head reads by as much."""
    return tensor / math.sqrt(spec.d_model) if spec.tied_head else tensor


def half(part: int) -> Taking:
    """Gate or up out of one matrix that holds both."""
    return lambda tensor, spec, at: tensor.chunk(2)[part]


def of_expert(taking: Taking = as_it_is) -> Taking:
    """One expert's matrix out of one tensor that holds those of all."""
    return lambda tensor, spec, at: taking(tensor[at[-1]], spec, at)


_LLAMA: Final[Mapping[str, Origin]] = {
    "embed.tokens": "model.embed_tokens",
    "blocks.{}.norm1": "model.layers.{}.input_layernorm",
    "blocks.{}.attn.q": "model.layers.{}.self_attn.q_proj",
    "blocks.{}.attn.k": "model.layers.{}.self_attn.k_proj",
    "blocks.{}.attn.v": "model.layers.{}.self_attn.v_proj",
    "blocks.{}.attn.q_norm": "model.layers.{}.self_attn.q_norm",
    "blocks.{}.attn.k_norm": "model.layers.{}.self_attn.k_norm",
    "blocks.{}.attn.out": "model.layers.{}.self_attn.o_proj",
    "blocks.{}.norm2": "model.layers.{}.post_attention_layernorm",
    "blocks.{}.mlp.gate": "model.layers.{}.mlp.gate_proj",
    "blocks.{}.mlp.up": "model.layers.{}.mlp.up_proj",
    "blocks.{}.mlp.down": "model.layers.{}.mlp.down_proj",
    "final_norm": "model.norm",
    "head": "lm_head",
}

#: Experts one by one, as checkpoints have them, and stacked, as the library's module does.
_EXPERTS: Final[Mapping[str, Origin]] = {
    "blocks.{}.mlp.router": [
        ("model.layers.{}.block_sparse_moe.gate", as_it_is),
        ("model.layers.{}.mlp.gate", as_it_is),
    ],
    "blocks.{}.mlp.experts.{}.gate": [
        ("model.layers.{}.block_sparse_moe.experts.{}.w1", as_it_is),
        ("model.layers.{}.mlp.experts.{}.gate_proj", as_it_is),
        ("model.layers.{}.mlp.experts.gate_up_proj", of_expert(half(0))),
    ],
    "blocks.{}.mlp.experts.{}.up": [
        ("model.layers.{}.block_sparse_moe.experts.{}.w3", as_it_is),
        ("model.layers.{}.mlp.experts.{}.up_proj", as_it_is),
        ("model.layers.{}.mlp.experts.gate_up_proj", of_expert(half(1))),
    ],
    "blocks.{}.mlp.experts.{}.down": [
        ("model.layers.{}.block_sparse_moe.experts.{}.w2", as_it_is),
        ("model.layers.{}.mlp.experts.{}.down_proj", as_it_is),
        ("model.layers.{}.mlp.experts.down_proj", of_expert()),
    ],
}

_GEMMA: Final[Mapping[str, Origin]] = {
    **_LLAMA,
    "blocks.{}.norm1": ("model.layers.{}.input_layernorm", plus_one),
    "blocks.{}.norm2": ("model.layers.{}.post_attention_layernorm", plus_one),
    "final_norm": ("model.norm", plus_one),
}


def _gpt(qkv: Callable[[int], Taking], other: Taking, embed: Mapping[str, Origin]) -> dict[str, Origin]:
    """GPT-1, GPT-2 and those that are built like them, whose linear maps are stored one way or the other."""
    at = "transformer.h.{}"
    return {
        **embed,
        **{f"blocks.{{}}.attn.{n}": (f"{at}.attn.c_attn", qkv(part)) for part, n in enumerate("qkv")},
        "blocks.{}.attn.out": (f"{at}.attn.c_proj", other),
        "blocks.{}.mlp.up": (f"{at}.mlp.c_fc", other),
        "blocks.{}.mlp.down": (f"{at}.mlp.c_proj", other),
        "blocks.{}.norm1": f"{at}.ln_1",
        "blocks.{}.norm2": f"{at}.ln_2",
        "final_norm": "transformer.ln_f",
        "head": "lm_head",
    }


def _bart(side: str) -> dict[str, Origin]:
    """One stack of BART; the decoder has cross-attention, and a norm more."""
    at = f"model.{side}.layers.{{}}"
    names: dict[str, Origin] = {
        "embed.tokens": [("model.shared", as_it_is), (f"model.{side}.embed_tokens", as_it_is)],
        "embed.positions": f"model.{side}.embed_positions",
        "embed.norm": f"model.{side}.layernorm_embedding",
        "blocks.{}.norm1": f"{at}.self_attn_layer_norm",
        f"blocks.{{}}.norm{3 if side == 'decoder' else 2}": f"{at}.final_layer_norm",
        "blocks.{}.mlp.up": f"{at}.fc1",
        "blocks.{}.mlp.down": f"{at}.fc2",
    }
    kinds = {"attn": "self_attn", "cross": "encoder_attn"} if side == "decoder" else {"attn": "self_attn"}
    for ours, theirs in kinds.items():
        for name in ("q", "k", "v", "out"):
            names[f"blocks.{{}}.{ours}.{name}"] = f"{at}.{theirs}.{name}_proj"
    if side == "decoder":
        names["blocks.{}.norm2"] = f"{at}.encoder_attn_layer_norm"
    return {f"{side}.{ours}": theirs for ours, theirs in names.items()}


def _t5(side: str) -> dict[str, Origin]:
    """One stack of T5; sublayers are numbered, and the relative bias stands in the first block."""
    at, last = f"{side}.block.{{}}.layer", 2 if side == "decoder" else 1
    names: dict[str, Origin] = {
        "embed.tokens": [("shared", as_it_is), (f"{side}.embed_tokens", as_it_is)],
        "relative": f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias",
        "final_norm": f"{side}.final_layer_norm",
        "blocks.{}.mlp.up": [
            (f"{at}.{last}.DenseReluDense.wi_1", as_it_is),
            (f"{at}.{last}.DenseReluDense.wi", as_it_is),
        ],
        "blocks.{}.mlp.gate": f"{at}.{last}.DenseReluDense.wi_0",
        "blocks.{}.mlp.down": f"{at}.{last}.DenseReluDense.wo",
    }
    kinds = {"attn": "0.SelfAttention", "cross": "1.EncDecAttention"}
    for ours, theirs in list(kinds.items())[:last]:
        for name, letter in zip(("q", "k", "v", "out"), "qkvo", strict=True):
            names[f"blocks.{{}}.{ours}.{name}"] = f"{at}.{theirs}.{letter}"
    for number in range(last + 1):
        names[f"blocks.{{}}.norm{number + 1}"] = f"{at}.{number}.layer_norm"
    if side == "decoder":
        names["final_norm"] = (f"{side}.final_layer_norm", over_root_d)
    return {f"{side}.{ours}": theirs for ours, theirs in names.items()}


def _bert(model: str) -> dict[str, Origin]:
    """The stack of BERT and of those that are built like it."""
    at = f"{model}.encoder.layer.{{}}"
    return {
        "embed.tokens": f"{model}.embeddings.word_embeddings",
        "embed.positions": f"{model}.embeddings.position_embeddings",
        "embed.norm": f"{model}.embeddings.LayerNorm",
        "blocks.{}.attn.q": f"{at}.attention.self.query",
        "blocks.{}.attn.k": f"{at}.attention.self.key",
        "blocks.{}.attn.v": f"{at}.attention.self.value",
        "blocks.{}.attn.out": f"{at}.attention.output.dense",
        "blocks.{}.norm1": f"{at}.attention.output.LayerNorm",
        "blocks.{}.mlp.up": f"{at}.intermediate.dense",
        "blocks.{}.mlp.down": f"{at}.output.dense",
        "blocks.{}.norm2": f"{at}.output.LayerNorm",
    }


_GPT2_EMBED: Final[Mapping[str, Origin]] = {"embed.tokens": "transformer.wte", "embed.positions": "transformer.wpe"}
_NEOX_LAYER: Final = "gpt_neox.layers.{}"

#: For each family, our modules and where they come from.
FAMILIES: Final[Mapping[str, Mapping[str, Origin]]] = {
    "gpt2": _gpt(of_flipped_qkv, transposed, _GPT2_EMBED),
    "gpt_bigcode": _gpt(of_groups, as_it_is, _GPT2_EMBED),
    "openai-gpt": _gpt(
        of_flipped_qkv,
        transposed,
        {"embed.tokens": "transformer.tokens_embed", "embed.positions": "transformer.positions_embed"},
    ),
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _LLAMA,
    "mixtral": {**_LLAMA, **_EXPERTS},
    "qwen3_moe": {**_LLAMA, **_EXPERTS},
    "gemma": _GEMMA,
    "gemma2": {
        **_GEMMA,
        "blocks.{}.norm1_out": ("model.layers.{}.post_attention_layernorm", plus_one),
        "blocks.{}.norm2": ("model.layers.{}.pre_feedforward_layernorm", plus_one),
        "blocks.{}.norm2_out": ("model.layers.{}.post_feedforward_layernorm", plus_one),
    },
    "phi3": {
        **_LLAMA,
        **{f"blocks.{{}}.attn.{n}": ("model.layers.{}.self_attn.qkv_proj", of_qkv(i)) for i, n in enumerate("qkv")},
        "blocks.{}.mlp.gate": ("model.layers.{}.mlp.gate_up_proj", half(0)),
        "blocks.{}.mlp.up": ("model.layers.{}.mlp.gate_up_proj", half(1)),
    },
    "phi": {
        **_LLAMA,
        "blocks.{}.attn.out": "model.layers.{}.self_attn.dense",
        "blocks.{}.mlp.up": "model.layers.{}.mlp.fc1",
        "blocks.{}.mlp.down": "model.layers.{}.mlp.fc2",
        "final_norm": "model.final_layernorm",
    },
    "stablelm": _LLAMA,
    "starcoder2": {
        **_LLAMA,
        "blocks.{}.mlp.up": "model.layers.{}.mlp.c_fc",
        "blocks.{}.mlp.down": "model.layers.{}.mlp.c_proj",
    },
    "gpt_neox": {
        "embed.tokens": "gpt_neox.embed_in",
        "blocks.{}.norm1": f"{_NEOX_LAYER}.input_layernorm",
        **{
            f"blocks.{{}}.attn.{n}": (f"{_NEOX_LAYER}.attention.query_key_value", of_groups(i))
            for i, n in enumerate("qkv")
        },
        "blocks.{}.attn.out": f"{_NEOX_LAYER}.attention.dense",
        "blocks.{}.norm2": f"{_NEOX_LAYER}.post_attention_layernorm",
        "blocks.{}.mlp.up": f"{_NEOX_LAYER}.mlp.dense_h_to_4h",
        "blocks.{}.mlp.down": f"{_NEOX_LAYER}.mlp.dense_4h_to_h",
        "final_norm": "gpt_neox.final_layer_norm",
        "head": [("embed_out", as_it_is), ("lm_head", as_it_is)],
    },
    "opt": {
        "embed.tokens": "model.decoder.embed_tokens",
        "embed.positions": "model.decoder.embed_positions",
        "blocks.{}.norm1": "model.decoder.layers.{}.self_attn_layer_norm",
        **{f"blocks.{{}}.attn.{n}": f"model.decoder.layers.{{}}.self_attn.{n}_proj" for n in ("q", "k", "v", "out")},
        "blocks.{}.norm2": "model.decoder.layers.{}.final_layer_norm",
        "blocks.{}.mlp.up": "model.decoder.layers.{}.fc1",
        "blocks.{}.mlp.down": "model.decoder.layers.{}.fc2",
        "final_norm": "model.decoder.final_layer_norm",
        "head": "lm_head",
    },
    "bloom": {
        "embed.tokens": "transformer.word_embeddings",
        "embed.norm": "transformer.word_embeddings_layernorm",
        "blocks.{}.norm1": "transformer.h.{}.input_layernorm",
        **{
            f"blocks.{{}}.attn.{n}": ("transformer.h.{}.self_attention.query_key_value", of_groups(i))
            for i, n in enumerate("qkv")
        },
        "blocks.{}.attn.out": "transformer.h.{}.self_attention.dense",
        "blocks.{}.norm2": "transformer.h.{}.post_attention_layernorm",
        "blocks.{}.mlp.up": "transformer.h.{}.mlp.dense_h_to_4h",
        "blocks.{}.mlp.down": "transformer.h.{}.mlp.dense_4h_to_h",
        "final_norm": "transformer.ln_f",
        "head": "lm_head",
    },
    "falcon": {
        "embed.tokens": "transformer.word_embeddings",
        "blocks.{}.norm1": [("transformer.h.{}.input_layernorm", as_it_is), ("transformer.h.{}.ln_attn", as_it_is)],
        **{
            f"blocks.{{}}.attn.{n}": ("transformer.h.{}.self_attention.query_key_value", of_groups(i))
            for i, n in enumerate("qkv")
        },
        "blocks.{}.attn.out": "transformer.h.{}.self_attention.dense",
        "blocks.{}.norm2": [
            ("transformer.h.{}.ln_mlp", as_it_is),
            ("transformer.h.{}.post_attention_layernorm", as_it_is),
        ],
        "blocks.{}.mlp.up": "transformer.h.{}.mlp.dense_h_to_4h",
        "blocks.{}.mlp.down": "transformer.h.{}.mlp.dense_4h_to_h",
        "final_norm": "transformer.ln_f",
        "head": "lm_head",
    },
    "bert": {
        **_bert("bert"),
        "embed.types": "bert.embeddings.token_type_embeddings",
        "mlm.dense": "cls.predictions.transform.dense",
        "mlm.norm": "cls.predictions.transform.LayerNorm",
        "head": [("cls.predictions.decoder", as_it_is), ("cls.predictions", as_it_is)],
        "pooler": "bert.pooler.dense",
    },
    "roberta": {
        **_bert("roberta"),
        "embed.types": "roberta.embeddings.token_type_embeddings",
        "mlm.dense": "lm_head.dense",
        "mlm.norm": "lm_head.layer_norm",
        "head": [("lm_head.decoder", as_it_is), ("lm_head", as_it_is)],
        "pooler": "roberta.pooler.dense",
    },
    "distilbert": {
        "embed.tokens": "distilbert.embeddings.word_embeddings",
        "embed.positions": "distilbert.embeddings.position_embeddings",
        "embed.norm": "distilbert.embeddings.LayerNorm",
        **{
            f"blocks.{{}}.attn.{n}": f"distilbert.transformer.layer.{{}}.attention.{n}_lin"
            for n in ("q", "k", "v", "out")
        },
        "blocks.{}.norm1": "distilbert.transformer.layer.{}.sa_layer_norm",
        "blocks.{}.mlp.up": "distilbert.transformer.layer.{}.ffn.lin1",
        "blocks.{}.mlp.down": "distilbert.transformer.layer.{}.ffn.lin2",
        "blocks.{}.norm2": "distilbert.transformer.layer.{}.output_layer_norm",
        "mlm.dense": "vocab_transform",
        "mlm.norm": "vocab_layer_norm",
        "head": "vocab_projector",
    },
    "bart": {**_bart("encoder"), **_bart("decoder"), "head": "lm_head"},
    "t5": {**_t5("encoder"), **_t5("decoder"), "head": "lm_head"},
}

#: Their tensors that no logit hangs on: masks, tables of angles, numbers of positions, and BERT's other heads.
_NO_MATTER: Final = re.compile(
    r"(^|\.)(attn\.bias|attn\.masked_bias|attention\.bias|attention\.masked_bias|inv_freq|position_ids)$"
    r"|^(bert|roberta)\.pooler\.|^cls\.seq_relationship\."
)


def load(family: str, tensors: Mapping[str, Tensor], spec: ModelSpec) -> Model:
    """The core in eval mode with a checkpoint's weights, in the checkpoint's number format.

    Raises:  InputError as `converted` does.
    """
    model = build(spec, device="meta")
    model.load_state_dict(converted(family, tensors, spec), assign=True, strict=False)
    if model.head is not None and spec.tied_head:
        stack = model.encoder if isinstance(model, EncoderDecoder) else model
        model.head.weight = stack.embed.tokens.weight
    return model.eval()


def converted(family: str, tensors: Mapping[str, Tensor], spec: ModelSpec) -> dict[str, Tensor]:
    """A checkpoint's tensors by the core's names, tied ones once.

    Shapes:  linear weights [out, in], as in the core.
    Raises:  InputError for an unknown family, and naming tensors that are missing, of another shape, or left over.
    """
    if family not in FAMILIES:
        raise InputError(f"no weights of {family!r} can be read", f"known: {', '.join(FAMILIES)}")
    found: dict[str, Tensor] = {}
    used: dict[str, Tensor] = {}
    missing, misshapen = [], []
    for name, parameter in build(spec, device="meta").named_parameters():
        origin = _origin(FAMILIES[family], name, tensors)
        if origin is None:
            missing.append(name)
            continue
        theirs, taking, at = origin
        used[theirs] = tensors[theirs]
        try:
            found[name] = taking(tensors[theirs], spec, at)
        except (RuntimeError, IndexError):  # it cannot be split into the parts that the spec has
            found[name] = tensors[theirs]
        if found[name].shape != parameter.shape:
            misshapen.append(f"{theirs} {brackets(tensors[theirs].shape)} ({name} is {brackets(parameter.shape)})")
    twice = _second_names(FAMILIES[family])
    left = [name for name in tensors if name not in used and not _is_nothing_new(name, tensors, used, twice)]
    for names, what in ((missing, "has nothing for"), (misshapen, "does not fit:"), (left, "has unknown tensors:")):
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            raise InputError(f"the checkpoint {what} {', '.join(names[:SHOWN])}{more}", "is it of this model?")
    return found


def _origin(
    table: Mapping[str, Origin], name: str, tensors: Mapping[str, Tensor]
) -> tuple[str, Taking, tuple[int, ...]] | None:
    """The name of their tensor, how ours comes out of it, and the numbers in our name; None where it is not there."""
    module, _, kind = name.rpartition(".")
    numbers = tuple(map(int, _NUMBER.findall(module)))
    for place, taking in _places(table.get(_NUMBER.sub("{}", module), [])):
        for theirs in _names(place.format(*numbers), kind):
            if theirs in tensors:
                return theirs, taking, numbers
    return None


def _places(origin: Origin) -> list[tuple[str, Taking]]:
    if isinstance(origin, list):
        return origin
    return [origin if isinstance(origin, tuple) else (origin, as_it_is)]


def _names(module: str, kind: str) -> tuple[str, ...]:
    """What a tensor of a module may be called: also by the module's name alone, without its first word, or in the words
    of TensorFlow's norms."""
    return f"{module}.{kind}", module, f"{module.partition('.')[2]}.{kind}", f"{module}.{_OLD_WORDS[kind]}"


def _second_names(table: Mapping[str, Origin]) -> frozenset[str]:
    """What a tied table may be called besides the name that is used."""
    tied = [origin for ours, origin in table.items() if ours.endswith(("embed.tokens", "head"))]
    return frozenset(
        name for o in tied for place, _ in _places(o) for kind in ("weight", "bias") for name in _names(place, kind)
    )


def _is_nothing_new(
    name: str, tensors: Mapping[str, Tensor], used: Mapping[str, Tensor], second_names: frozenset[str]
) -> bool:
    """Whether a tensor that is left over says nothing: a mask, a bias of zeros, a second name of one that is used."""
    tensor = tensors[name]
    if name in second_names:
        return any(other.shape == tensor.shape and torch.equal(other, tensor) for other in used.values())
    return bool(_NO_MATTER.search(name)) or (name.endswith("final_logits_bias") and not tensor.any())
