"""What the tensors of published checkpoints are called, family by family, and how each holds one of the core's.

    ours                      theirs (GPT-2)                       how
    blocks.3.attn.q.weight    transformer.h.3.attn.c_attn.weight   "flipped qkv", the first third
    blocks.3.mlp.up.weight    transformer.h.3.mlp.c_fc.weight      "transposed"

A table per family says it for each module of the core; "{}" stands for a number. Where checkpoints of one family come
with different names, each is tried in turn, with and without the first word.

Source:  the parameter names of the families' released checkpoints, as their modules in huggingface/transformers have
         them; karpathy/nanoGPT, model.py.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from tfinspect.spec import ModelSpec

__all__ = [
    "FAMILIES", "NAMED_ONLY", "SAME_NAMES", "How", "Origin", "Place", "as_form", "expected", "find", "forms", "is_mask",
    "is_no_weight", "second_names", "stored_shape", "unwrapped",
]  # fmt: skip

How = Literal["as it is", "transposed", "plus one", "over root d", "qkv", "flipped qkv", "groups", "halves"]
"""transposed: [in, out] where the core has [out, in].  plus one: a gain stored as what it exceeds 1 by.
over root d: where the head is tied, the last gain; T5 divides what such a head reads by √d.
qkv: Q, K and V one after the other.  flipped qkv: the same, [in, out].  groups: for each head of keys its queries, its
key and its value.  halves: gate and up one after the other.
"""

#: What BERT's first checkpoints call a gain and a bias.
_OLD_WORDS: Final = {"weight": "gamma", "bias": "beta"}

#: A part of a name that is a number.
_NUMBER: Final = re.compile(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.)")


@dataclasses.dataclass(frozen=True)
class Origin:
    """Their module that holds one of ours."""

    place: str
    """Its name; "{}" for each number in ours."""
    how: How = "as it is"
    part: int = 0
    """Which of Q, K and V, or of the halves."""
    stacked: bool = False
    """Whether one tensor holds those of all experts, one after the other along a first axis."""


@dataclasses.dataclass(frozen=True)
class Place:
    """The tensor of a checkpoint that holds one of ours."""

    name: str
    origin: Origin
    numbers: tuple[int, ...]
    """The numbers in our name: the block, the expert."""


#: A module of theirs, or several of which one is there; a bare name holds ours as it is.
Said: TypeAlias = "str | Origin | list[str | Origin]"
Named: TypeAlias = Mapping[str, Said]

_LLAMA: Final[Named] = {
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
_EXPERTS: Final[Named] = {
    "blocks.{}.mlp.router": [
        "model.layers.{}.block_sparse_moe.gate",
        "model.layers.{}.mlp.gate",
    ],
    "blocks.{}.mlp.experts.{}.gate": [
        "model.layers.{}.block_sparse_moe.experts.{}.w1",
        "model.layers.{}.mlp.experts.{}.gate_proj",
        Origin("model.layers.{}.mlp.experts.gate_up_proj", "halves", 0, stacked=True),
    ],
    "blocks.{}.mlp.experts.{}.up": [
        "model.layers.{}.block_sparse_moe.experts.{}.w3",
        "model.layers.{}.mlp.experts.{}.up_proj",
        Origin("model.layers.{}.mlp.experts.gate_up_proj", "halves", 1, stacked=True),
    ],
    "blocks.{}.mlp.experts.{}.down": [
        "model.layers.{}.block_sparse_moe.experts.{}.w2",
        "model.layers.{}.mlp.experts.{}.down_proj",
        Origin("model.layers.{}.mlp.experts.down_proj", stacked=True),
    ],
}

_GEMMA: Final[Named] = {
    **_LLAMA,
    "blocks.{}.norm1": Origin("model.layers.{}.input_layernorm", "plus one"),
    "blocks.{}.norm2": Origin("model.layers.{}.post_attention_layernorm", "plus one"),
    "final_norm": Origin("model.norm", "plus one"),
}


def _gpt(qkv: How, other: How, embed: Named) -> dict[str, Said]:
    """GPT-1, GPT-2 and those that are built like them, whose linear maps are stored one way or the other."""
    at = "transformer.h.{}"
    return {
        **embed,
        **{f"blocks.{{}}.attn.{n}": Origin(f"{at}.attn.c_attn", qkv, part) for part, n in enumerate("qkv")},
        "blocks.{}.attn.out": Origin(f"{at}.attn.c_proj", other),
        "blocks.{}.mlp.up": Origin(f"{at}.mlp.c_fc", other),
        "blocks.{}.mlp.down": Origin(f"{at}.mlp.c_proj", other),
        "blocks.{}.norm1": f"{at}.ln_1",
        "blocks.{}.norm2": f"{at}.ln_2",
        "final_norm": "transformer.ln_f",
        "head": "lm_head",
    }


def _gptj(qkv: Mapping[str, Origin]) -> dict[str, Said]:
    """GPT-J and CodeGen."""
    at = "transformer.h.{}"
    return {
        "embed.tokens": "transformer.wte",
        "blocks.{}.norm1": f"{at}.ln_1",
        **{f"blocks.{{}}.attn.{n}": origin for n, origin in qkv.items()},
        "blocks.{}.attn.out": f"{at}.attn.out_proj",
        "blocks.{}.mlp.up": f"{at}.mlp.fc_in",
        "blocks.{}.mlp.down": f"{at}.mlp.fc_out",
        "final_norm": "transformer.ln_f",
        "head": "lm_head",
    }


def _bart(side: str) -> dict[str, Said]:
    """One stack of BART; the decoder has cross-attention, and a norm more."""
    at = f"model.{side}.layers.{{}}"
    names: dict[str, Said] = {
        "embed.tokens": ["model.shared", f"model.{side}.embed_tokens"],
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


def _t5(side: str) -> dict[str, Said]:
    """One stack of T5; sublayers are numbered, and the relative bias stands in the first block."""
    at, last = f"{side}.block.{{}}.layer", 2 if side == "decoder" else 1
    names: dict[str, Said] = {
        "embed.tokens": ["shared", f"{side}.embed_tokens"],
        "relative": f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias",
        "final_norm": f"{side}.final_layer_norm",
        "blocks.{}.mlp.up": [
            f"{at}.{last}.DenseReluDense.wi_1",
            f"{at}.{last}.DenseReluDense.wi",
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
        names["final_norm"] = Origin(f"{side}.final_layer_norm", "over root d")
    return {f"{side}.{ours}": theirs for ours, theirs in names.items()}


def _bert(model: str) -> dict[str, Said]:
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


_GPT2_EMBED: Final[Named] = {"embed.tokens": "transformer.wte", "embed.positions": "transformer.wpe"}
_NEOX_LAYER: Final = "gpt_neox.layers.{}"

#: For each family, our modules and where they come from.
FAMILIES: Final[Mapping[str, Named]] = {
    "gpt2": _gpt("flipped qkv", "transposed", _GPT2_EMBED),
    "nanogpt": _gpt("qkv", "as it is", _GPT2_EMBED),
    "gpt_bigcode": _gpt("groups", "as it is", _GPT2_EMBED),
    "gptj": _gptj({n: Origin(f"transformer.h.{{}}.attn.{n}_proj") for n in "qkv"}),
    "codegen": _gptj({n: Origin("transformer.h.{}.attn.qkv_proj", "qkv", part) for part, n in enumerate("qkv")}),
    "openai-gpt": _gpt(
        "flipped qkv",
        "transposed",
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
        "blocks.{}.norm1_out": Origin("model.layers.{}.post_attention_layernorm", "plus one"),
        "blocks.{}.norm2": Origin("model.layers.{}.pre_feedforward_layernorm", "plus one"),
        "blocks.{}.norm2_out": Origin("model.layers.{}.post_feedforward_layernorm", "plus one"),
    },
    "phi3": {
        **_LLAMA,
        **{
            f"blocks.{{}}.attn.{n}": Origin("model.layers.{}.self_attn.qkv_proj", "qkv", i) for i, n in enumerate("qkv")
        },
        "blocks.{}.mlp.gate": Origin("model.layers.{}.mlp.gate_up_proj", "halves", 0),
        "blocks.{}.mlp.up": Origin("model.layers.{}.mlp.gate_up_proj", "halves", 1),
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
            f"blocks.{{}}.attn.{n}": Origin(f"{_NEOX_LAYER}.attention.query_key_value", "groups", i)
            for i, n in enumerate("qkv")
        },
        "blocks.{}.attn.out": f"{_NEOX_LAYER}.attention.dense",
        "blocks.{}.norm2": f"{_NEOX_LAYER}.post_attention_layernorm",
        "blocks.{}.mlp.up": f"{_NEOX_LAYER}.mlp.dense_h_to_4h",
        "blocks.{}.mlp.down": f"{_NEOX_LAYER}.mlp.dense_4h_to_h",
        "final_norm": "gpt_neox.final_layer_norm",
        "head": ["embed_out", "lm_head"],
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
            f"blocks.{{}}.attn.{n}": Origin("transformer.h.{}.self_attention.query_key_value", "groups", i)
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
        "blocks.{}.norm1": ["transformer.h.{}.input_layernorm", "transformer.h.{}.ln_attn"],
        **{
            f"blocks.{{}}.attn.{n}": Origin("transformer.h.{}.self_attention.query_key_value", "groups", i)
            for i, n in enumerate("qkv")
        },
        "blocks.{}.attn.out": "transformer.h.{}.self_attention.dense",
        "blocks.{}.norm2": [
            "transformer.h.{}.ln_mlp",
            "transformer.h.{}.post_attention_layernorm",
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
        "head": ["cls.predictions.decoder", "cls.predictions"],
        "pooler": "bert.pooler.dense",
    },
    "roberta": {
        **_bert("roberta"),
        "embed.types": "roberta.embeddings.token_type_embeddings",
        "mlm.dense": "lm_head.dense",
        "mlm.norm": "lm_head.layer_norm",
        "head": ["lm_head.decoder", "lm_head"],
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


#: Families whose tensors are called as another's.
SAME_NAMES: Final[Mapping[str, str]] = {
    "camembert": "roberta",
    "xlm-roberta": "roberta",
    "mt5": "t5",
    "gemma3_text": "gemma2",
}

#: Families whose tensors are named here and whose values the core cannot use as they are, and why.
NAMED_ONLY: Final[Mapping[str, str]] = {
    "gptj": "its RoPE turns neighbouring features, the core's the two halves of a head",
    "codegen": "its RoPE turns neighbouring features, the core's the two halves of a head",
    "gemma3_text": "its blocks turn by two bases, the core's by one",
}

#: What training frameworks put before every name.
_WRAPPERS: Final = re.compile(r"^(?:(?:_orig_mod|module|_fsdp_wrapped_module|_forward_module|_checkpoint_wrapped)\.)+")

#: Tensors that are no weights: masks, tables of angles, numbers of positions.
_MASKS: Final = re.compile(
    r"(^|\.)(attn\.bias|attn\.masked_bias|attention\.bias|attention\.masked_bias|inv_freq|position_ids)$"
)
#: Weights of BERT that no logit hangs on.
_OTHER_HEADS: Final = re.compile(r"^(bert\.|roberta\.)?pooler\.|^cls\.seq_relationship\.")


def find(family: str, ours: str, stored: Container[str]) -> Place | None:
    """The stored tensor that holds one of ours; None where none does."""
    kind = ours.rpartition(".")[2]
    for place in _places(family, ours):
        for name in _names(place.name, kind):
            if name in stored:
                return dataclasses.replace(place, name=name)
    return None


def expected(family: str, ours: str, present: Collection[str] = ()) -> Place | None:
    """The tensor that would hold one of ours, called as the rest of a file is; None where the family has none such.

    present: the forms of the names that the file has. Without any, the first of the family's names.
    """
    kind = ours.rpartition(".")[2]
    places = list(_places(family, ours))
    for place in places:
        for module in (place.name, _short(place.name)):
            if any(as_form(f"{module}.{each}") in present for each in _OLD_WORDS):
                return dataclasses.replace(place, name=f"{module}.{kind}")
    for place in places:
        first = place.name.partition(".")[0]
        bare = present and not any(form.startswith(f"{first}.") for form in present)
        return dataclasses.replace(place, name=f"{_short(place.name) if bare else place.name}.{kind}")
    return None


def stored_shape(origin: Origin, ours: tuple[int, ...], spec: ModelSpec) -> tuple[int, ...]:
    """The shape of the tensor that holds one of ours, from ours."""
    rows, rest = ours[0], ours[1:]
    if origin.how in ("qkv", "flipped qkv", "groups"):
        rows = spec.d_attn + 2 * spec.d_kv
    elif origin.how == "halves":
        rows = 2 * rows
    shape = (rows, *rest)
    if origin.how in ("transposed", "flipped qkv"):
        shape = shape[::-1]
    return (spec.n_experts, *shape) if origin.stacked else shape


def second_names(family: str) -> frozenset[str]:
    """What a tied table may be called besides the name that is used."""
    modules = [ours for ours in _table(family) if ours.endswith(("embed.tokens", "head"))]
    return frozenset(
        name
        for module in modules
        for origin in _origins(family, module)
        for kind in ("weight", "bias")
        for name in _names(origin.place, kind)
    )


def is_mask(name: str) -> bool:
    """Whether a tensor is a buffer that some files hold: a mask, a table of angles, the numbers of positions."""
    return bool(_MASKS.search(name))


def is_no_weight(name: str) -> bool:
    """Whether no logit hangs on a tensor: a buffer, or another head of BERT's."""
    return is_mask(name) or bool(_OTHER_HEADS.search(name))


def as_form(name: str) -> str:
    """A name with "{}" for each number."""
    return _NUMBER.sub("{}", name)


def forms(family: str, end: str = "") -> frozenset[str]:
    """Every name that a tensor of a family may have, with "{}" for each number; or of our modules of this end alone."""
    return frozenset(
        as_form(name)
        for module in _table(family)
        if module.endswith(end)
        for origin in _origins(family, module)
        for kind in ("weight", "bias")
        for name in _names(origin.place, kind)
    )


def unwrapped(names: Iterable[str]) -> dict[str, str]:
    """Names without what training frameworks put before them, and for each the name that the file has.

    "_orig_mod.module.transformer.wte.weight" is "transformer.wte.weight". All stay as they are where two would become
    one, or one nothing.
    """
    names = list(names)
    found = {_WRAPPERS.sub("", name): name for name in names}
    return found if len(found) == len(names) and "" not in found else {name: name for name in names}


def _table(family: str) -> Named:
    return FAMILIES[SAME_NAMES.get(family, family)]


def _origins(family: str, module: str) -> list[Origin]:
    said = _table(family).get(as_form(module), [])
    return [Origin(s) if isinstance(s, str) else s for s in (said if isinstance(said, list) else [said])]


def _places(family: str, ours: str) -> Iterator[Place]:
    """The modules that may hold one of ours."""
    module = ours.rpartition(".")[0]
    numbers = tuple(map(int, _NUMBER.findall(module)))
    for origin in _origins(family, module):
        yield Place(origin.place.format(*numbers), origin, numbers)


def _names(module: str, kind: str) -> tuple[str, ...]:
    """What a tensor of a module may be called: also by the module's name alone, without its first word, or in the words
    of TensorFlow's norms."""
    old, short = _OLD_WORDS[kind], _short(module)
    return f"{module}.{kind}", module, f"{short}.{kind}", f"{module}.{old}", f"{short}.{old}"


def _short(module: str) -> str:
    """A module's name without its first word, where it has more than one."""
    return module.partition(".")[2] or module
