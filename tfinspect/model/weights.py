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

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from torch import Tensor

from tfinspect.errors import InputError
from tfinspect.model.build import Model, build
from tfinspect.spec import ModelSpec

__all__ = ["FAMILIES", "converted", "load"]

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


def of_qkv(part: int, *, flipped: bool = False) -> Taking:
    """Q, K or V out of one matrix that holds them one after the other."""

    def take(tensor: Tensor, spec: ModelSpec, at: tuple[int, ...]) -> Tensor:
        whole = transposed(tensor, spec, at) if flipped else tensor
        return whole.split((spec.d_attn, spec.d_kv, spec.d_kv))[part]

    return take


def of_heads(part: int) -> Taking:
    """Q, K or V out of one matrix that holds them head by head."""

    def take(tensor: Tensor, spec: ModelSpec, at: tuple[int, ...]) -> Tensor:
        return tensor.unflatten(0, (spec.n_heads, 3, spec.d_head))[:, part].flatten(0, 1)

    return take


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


def _gpt(h: str, embed: Mapping[str, Origin], end: Mapping[str, Origin]) -> dict[str, Origin]:
    """GPT-1 and GPT-2, whose linear maps are stored [in, out]."""
    names = {f"attn.{name}": (f"{h}.attn.c_attn", of_qkv(part, flipped=True)) for part, name in enumerate("qkv")}
    rest = {
        "attn.out": (f"{h}.attn.c_proj", transposed),
        "mlp.up": (f"{h}.mlp.c_fc", transposed),
        "mlp.down": (f"{h}.mlp.c_proj", transposed),
        "norm1": (f"{h}.ln_1", as_it_is),
        "norm2": (f"{h}.ln_2", as_it_is),
    }
    return {**embed, **{f"blocks.{{}}.{ours}": theirs for ours, theirs in {**names, **rest}.items()}, **end}


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
    return {f"{side}.{ours}": theirs for ours, theirs in names.items()}


_NEOX_LAYER: Final = "gpt_neox.layers.{}"
_BERT_LAYER: Final = "bert.encoder.layer.{}"

#: For each family, our modules and where they come from.
FAMILIES: Final[Mapping[str, Mapping[str, Origin]]] = {
    "gpt2": _gpt(
        "transformer.h.{}",
        {"embed.tokens": "transformer.wte", "embed.positions": "transformer.wpe"},
        {"final_norm": "transformer.ln_f", "head": "lm_head"},
    ),
    "openai-gpt": _gpt(
        "transformer.h.{}",
        {"embed.tokens": "transformer.tokens_embed", "embed.positions": "transformer.positions_embed"},
        {"head": "lm_head"},
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
    "starcoder2": {
        **_LLAMA,
        "blocks.{}.mlp.up": "model.layers.{}.mlp.c_fc",
        "blocks.{}.mlp.down": "model.layers.{}.mlp.c_proj",
    },
    "gpt_neox": {
        "embed.tokens": "gpt_neox.embed_in",
        "blocks.{}.norm1": f"{_NEOX_LAYER}.input_layernorm",
        **{
            f"blocks.{{}}.attn.{n}": (f"{_NEOX_LAYER}.attention.query_key_value", of_heads(i))
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
            f"blocks.{{}}.attn.{n}": ("transformer.h.{}.self_attention.query_key_value", of_heads(i))
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
        "blocks.{}.norm1": "transformer.h.{}.input_layernorm",
        **{
            f"blocks.{{}}.attn.{n}": ("transformer.h.{}.self_attention.query_key_value", of_qkv(i))
            for i, n in enumerate("qkv")
        },
        "blocks.{}.attn.out": "transformer.h.{}.self_attention.dense",
        "blocks.{}.mlp.up": "transformer.h.{}.mlp.dense_h_to_4h",
        "blocks.{}.mlp.down": "transformer.h.{}.mlp.dense_4h_to_h",
        "final_norm": "transformer.ln_f",
        "head": "lm_head",
    },
    "bert": {
        "embed.tokens": "bert.embeddings.word_embeddings",
        "embed.positions": "bert.embeddings.position_embeddings",
        "embed.types": "bert.embeddings.token_type_embeddings",
        "embed.norm": "bert.embeddings.LayerNorm",
        "blocks.{}.attn.q": f"{_BERT_LAYER}.attention.self.query",
        "blocks.{}.attn.k": f"{_BERT_LAYER}.attention.self.key",
        "blocks.{}.attn.v": f"{_BERT_LAYER}.attention.self.value",
        "blocks.{}.attn.out": f"{_BERT_LAYER}.attention.output.dense",
        "blocks.{}.norm1": f"{_BERT_LAYER}.attention.output.LayerNorm",
        "blocks.{}.mlp.up": f"{_BERT_LAYER}.intermediate.dense",
        "blocks.{}.mlp.down": f"{_BERT_LAYER}.output.dense",
        "blocks.{}.norm2": f"{_BERT_LAYER}.output.LayerNorm",
        "mlm.dense": "cls.predictions.transform.dense",
        "mlm.norm": "cls.predictions.transform.LayerNorm",
        "head": [("cls.predictions.decoder", as_it_is), ("cls.predictions", as_it_is)],
        "pooler": "bert.pooler.dense",
    },
    "bart": {**_bart("encoder"), **_bart("decoder"), "head": "lm_head"},
    "t5": {**_t5("encoder"), **_t5("decoder"), "head": "lm_head"},
}

#: Their tensors that hold no parameter of ours: masks, tables of angles, and second names of a tied table.
_NO_PARAMETERS: Final = re.compile(
    r"(^|\.)(attn\.bias|attn\.masked_bias|attention\.bias|masked_bias|inv_freq|position_ids|final_logits_bias)$"
    r"|^(lm_head|embed_out)\.(weight|bias)$|^cls\.predictions\.(decoder\.(weight|bias)|bias)$|(^|\.)embed_tokens\.weight$|rotary_emb\."
)


def load(family: str, tensors: Mapping[str, Tensor], spec: ModelSpec) -> Model:
    """The core in eval mode with a checkpoint's weights, in the checkpoint's number format.

    Raises:  InputError as `converted` does.
    """
    model = build(spec, device="meta")
    model.load_state_dict(converted(family, tensors, spec), assign=True, strict=False)
    tie(model)
    return model.eval()


def tie(model: Model) -> None:
    """The head's matrix is the token table again, where the spec says so."""
    if model.spec.tied_head and model.head is not None:
        tokens = (
            "encoder.embed.tokens.weight" if model.spec.architecture == "encoder_decoder" else "embed.tokens.weight"
        )
        model.head.weight = model.get_parameter(tokens)


def converted(family: str, tensors: Mapping[str, Tensor], spec: ModelSpec) -> dict[str, Tensor]:
    """A checkpoint's tensors by the core's names.

    Shapes:  linear weights [out, in], as in the core.
    Raises:  InputError for an unknown family, and naming tensors that are missing, left over or of another shape.
    """
    if family not in FAMILIES:
        raise InputError(f"no weights of {family!r} can be read", f"known: {', '.join(FAMILIES)}")
    found: dict[str, Tensor] = {}
    used: set[str] = set()
    missing, misshapen = [], []
    for name, parameter in build(spec, device="meta").named_parameters():
        taken = _taken(FAMILIES[family], name, tensors, spec)
        if taken is None:
            missing.append(name)
            continue
        theirs, tensor = taken
        used.add(theirs)
        if tensor.shape != parameter.shape:
            misshapen.append(f"{theirs} is {list(tensor.shape)} where {name} is {list(parameter.shape)}")
        found[name] = tensor
    left = [name for name in tensors if name not in used and not _NO_PARAMETERS.search(name)]
    for names, what in ((missing, "has nothing for"), (misshapen, "does not fit:"), (left, "has unknown tensors:")):
        if names:
            more = f" and {len(names) - 4} more" if len(names) > 4 else ""
            raise InputError(f"the checkpoint {what} {', '.join(names[:4])}{more}", "is it of this model?")
    return found


def _taken(
    table: Mapping[str, Origin], name: str, tensors: Mapping[str, Tensor], spec: ModelSpec
) -> tuple[str, Tensor] | None:
    """The name of their tensor and what of it is ours, or None where it is not there."""
    path, _, kind = name.rpartition(".")
    numbers = tuple(map(int, re.findall(r"(?<=\.)\d+(?=\.)", f".{path}.")))
    origin = table.get(re.sub(r"(?<=\.)\d+(?=\.)", "{}", f".{path}.").strip("."))
    if origin is None:
        return None
    choices = origin if isinstance(origin, list) else [(origin, as_it_is) if isinstance(origin, str) else origin]
    for module, taking in choices:
        theirs = module.format(*numbers)
        for candidate in (f"{theirs}.{kind}", theirs, f"{theirs.partition('.')[2]}.{kind}"):
            if candidate in tensors:
                return candidate, taking(tensors[candidate], spec, numbers)
    return None
