"""Which model a checkpoint holds, from the names and shapes of its tensors alone.

    names    the family: each family's names are tried, and the one that explains most of the file's is it
    shapes   widths, blocks, rows of tables, biases, experts: whatever leaves a trace in a tensor

What leaves none, such as an epsilon, is the family's default, and is listed as not told by the file.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from tfinspect.errors import InputError
from tfinspect.naming import FAMILIES, as_form, find, forms, is_no_weight, unwrapped
from tfinspect.sources import hf_config
from tfinspect.spec import ModelSpec

__all__ = ["ALIKE", "Recognised", "Shaped", "alike", "bare_names", "family", "recognised"]

#: Families whose tensors have the same names as another's; only those of GPT-2's kin differ by their shapes.
ALIKE: Final[Mapping[str, tuple[str, ...]]] = {
    "gpt2": ("gpt_bigcode", "nanogpt"),
    "llama": ("mistral", "gemma"),
    "gemma2": ("gemma3_text",),
    "roberta": ("camembert", "xlm-roberta"),
    "t5": ("mt5",),
}

#: Part of the names that a family has to explain, in hundredths.
LEAST_EXPLAINED: Final = 60
#: How many common first words are taken off the names, one after the other.
MOST_WORDS: Final = 4

#: What nanoGPT has where GPT-2 has something else.
_NANOGPT: Final = {"activation": "gelu"}
#: Widths of a head that are tried where nothing tells it, after the family's own.
_D_HEADS: Final = (64, 128)


class Shaped(Protocol):
    """A tensor of a file."""

    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclasses.dataclass(frozen=True)
class Recognised:
    """A family, and as much of a spec as shapes tell."""

    family: str
    """As a key of `naming.FAMILIES`."""
    spec: ModelSpec | None
    """None where the shapes fit no model of the family."""
    untold: tuple[str, ...]
    """What no tensor tells, with the value that is assumed: "norm_eps = 1e-05"."""
    names: Mapping[str, str]
    """The names without what stands before all of them, and for each the name that the file has."""
    why: str = ""
    """Why there is no spec, where there is none."""


def family(names: Iterable[str]) -> str | None:
    """The family whose names these are, whatever stands before all of them; None where none is known.

    Families that no name tells apart are given as the first of them: see `ALIKE`.
    """
    return _told_by_names(names)[0]


def alike(told: str, other: str) -> bool:
    """Whether a family that names tell may as well be another."""
    return other == told or other in ALIKE.get(told, ())


def bare_names(names: Iterable[str]) -> dict[str, str]:
    """Names without what frameworks and wrapping modules put before all of them, and for each the name as it is."""
    return _told_by_names(names)[1]


def recognised(tensors: Mapping[str, Shaped]) -> Recognised | None:
    """The family and the spec of a file's tensors; None where no family's names explain them."""
    kind, names = _told_by_names(tensors)
    if kind is None:
        return None
    shapes = {bare: tensors[name].shape for bare, name in names.items()}
    kind = _told_by_shapes(kind, shapes)
    try:
        spec, untold = _Sizes(kind, shapes).spec()
    except InputError as error:
        return Recognised(kind, None, (), names, error.message)
    return Recognised(kind, spec, untold, names)


def _told_by_names(names: Iterable[str]) -> tuple[str | None, dict[str, str]]:
    """The family, and the names that told it."""
    bare = unwrapped(names)
    first, candidates = bare, [bare]
    while len(candidates) <= MOST_WORDS and (shorter := _without_first_word(candidates[-1])):
        candidates.append(shorter)
    found = [(score, kind, bare) for bare in candidates for score, kind in [_best(bare)] if kind is not None]
    if not found:
        return None, first
    return max(found, key=lambda each: each[0])[1:]  # of equal ones the first: the longest names


def _without_first_word(names: Mapping[str, str]) -> dict[str, str] | None:
    """Names without the first word that all share; None where they share none."""
    words = {name.partition(".")[0] for name in names}
    if len(words) != 1 or not all("." in name for name in names):
        return None
    return {name.partition(".")[2]: whole for name, whole in names.items()}


def _best(names: Iterable[str]) -> tuple[int, str | None]:
    """How many names the best family explains, and which it is; None where it explains too few."""
    names = list(names)
    present: dict[str, int] = {}
    for name in names:
        form = as_form(name)
        present[form] = present.get(form, 0) + 1
    silent = {form for form in present if is_no_weight(form)}
    score, kind = 0, None
    for candidate in sorted(FAMILIES, key=lambda name: len(_forms(name))):
        if not _attention(candidate).isdisjoint(present):
            explained = sum(n for form, n in present.items() if form in _forms(candidate) or form in silent)
            if explained > score:
                score, kind = explained, candidate
    if kind is None or 100 * score < LEAST_EXPLAINED * len(names):
        return 0, None
    return score, _narrowed(kind, present.keys())


@functools.cache
def _forms(kind: str) -> frozenset[str]:
    return forms(kind)


@functools.cache
def _attention(kind: str) -> frozenset[str]:
    """What the projection of the heads' results may be called."""
    return forms(kind, ".attn.out")


def _narrowed(kind: str, present: Iterable[str]) -> str:
    """The family among those whose names are alike, by what only some of their members have."""

    def has(end: str) -> bool:
        return any(form.endswith(end) for form in present)

    if kind in ("llama", "mistral", "qwen2", "qwen3", "stablelm", "gemma"):
        if has("self_attn.q_norm.weight"):
            return "qwen3"
        if has("input_layernorm.bias"):
            return "stablelm"
        return "qwen2" if has("q_proj.bias") and not has("o_proj.bias") else "llama"
    if kind in ("mixtral", "qwen3_moe"):
        return "qwen3_moe" if has("self_attn.q_norm.weight") else "mixtral"
    if kind in ("bert", "roberta"):
        own = any(form.startswith("roberta.") for form in present) or has("lm_head.dense.weight")
        return "roberta" if own else "bert"
    if kind in ("bloom", "falcon"):
        return "bloom" if has("word_embeddings_layernorm.weight") else "falcon"
    return kind


def _told_by_shapes(kind: str, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """The family among those whose names are alike, by how a matrix lies or a table is cut."""
    if kind == "gpt2":
        qkv, table = (find(kind, name, shapes) for name in ("blocks.0.attn.q.weight", "embed.tokens.weight"))
        if qkv and table and len(shape := shapes[qkv.name]) == 2 and shape[1:] == shapes[table.name][1:] < shape[:1]:
            return "nanogpt" if shape[0] == 3 * shape[1] else "gpt_bigcode"
    if kind == "bert":
        types, positions = (find(kind, f"embed.{what}.weight", shapes) for what in ("types", "positions"))
        if types and positions and shapes[types.name][:1] == (1,) and _rows(shapes[positions.name]) % 64 == 2:
            return "roberta"  # one type, and two rows of positions before the first
    return kind


def _rows(shape: tuple[int, ...]) -> int:
    return shape[0] if shape else 0


class _Sizes:
    """What the shapes of a family's tensors tell of its spec."""

    def __init__(self, kind: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.kind, self.shapes = kind, shapes
        described = "gpt2" if kind == "nanogpt" else kind
        self.base = hf_config.from_dict({"model_type": described}).spec.to_dict()
        if kind == "nanogpt":
            self.base |= _NANOGPT
        self.two_stacks = self.base["architecture"] == "encoder_decoder"
        self.stack = "decoder." if self.two_stacks else ""
        self.untold: list[str] = []

    def spec(self) -> tuple[ModelSpec, tuple[str, ...]]:
        """The spec, and what it assumes.

        Raises:  InputError where the shapes fit no model.
        """
        table = self.need("embed.tokens.weight" if not self.two_stacks else "encoder.embed.tokens.weight", 2)
        fields = {**self.base, "vocab_size": table[0], "d_model": table[1], "n_layers": self.n_blocks(self.stack)}
        if self.two_stacks:
            fields["n_encoder_layers"] = self.n_blocks("encoder.")
        fields |= self.positions() | self.heads() | self.mlp() | self.norms() | self.biases() | self.ends(fields)
        fields["bias"] = fields["qkv_bias"] and fields["out_bias"] and fields["mlp_bias"]
        spec = ModelSpec(**fields)
        self.assume(spec)
        return spec, tuple(f"{name} = {_said(getattr(spec, name))}" for name in dict.fromkeys(self.untold))

    def ours(self, name: str) -> tuple[int, ...] | None:
        """The shape of one of our tensors as the file has it; Q, K and V of one matrix are all of them."""
        place = find(self.kind, name, self.shapes)
        if place is None:
            return None
        shape, origin = self.shapes[place.name], place.origin
        if origin.stacked:
            shape = shape[1:]
        if origin.how in ("transposed", "flipped qkv"):
            shape = shape[::-1]
        return (shape[0] // 2, *shape[1:]) if origin.how == "halves" and shape else shape

    def need(self, name: str, n_axes: int) -> tuple[int, ...]:
        """The same, of a tensor without which there is no spec."""
        shape = self.ours(name)
        if shape is None:
            raise InputError(f"no tensor is {name} of {self.kind}")
        if len(shape) != n_axes:
            raise InputError(f"the tensor that is {name} has {len(shape)} axes where {self.kind} has {n_axes}")
        return shape

    def block(self, name: str, stack: str | None = None) -> str:
        return f"{self.stack if stack is None else stack}blocks.0.{name}"

    def n_blocks(self, stack: str) -> int:
        """The highest number of a block, and one."""
        wanted = forms(self.kind, f"{stack}blocks.{{}}.attn.out")
        numbers = [int(re.findall(r"(?<![^.])\d+", name)[0][:9]) for name in self.shapes if as_form(name) in wanted]
        if not numbers or max(numbers) >= len(self.shapes):
            raise InputError(f"the file numbers no blocks in a row from 0, as {self.kind} does")
        return max(numbers) + 1

    def positions(self) -> dict[str, Any]:
        """Rows of a learned table, and buckets of a relative one."""
        if self.base["positions"] == "learned":
            name = "decoder.embed.positions.weight" if self.two_stacks else "embed.positions.weight"
            rows: int = self.need(name, 2)[0]
            return {"n_ctx": rows - self.base["position_offset"]}
        self.untold.append("n_ctx")
        relative = self.ours("encoder.relative.weight")
        return {"n_buckets": relative[0]} if relative else {}

    def heads(self) -> dict[str, Any]:
        """How wide queries and keys are, and into how many heads that is cut, where anything tells."""
        out, q = self.need(self.block("attn.out.weight"), 2), self.need(self.block("attn.q.weight"), 2)
        place = find(self.kind, self.block("attn.q.weight"), self.shapes)
        d_attn = out[1]
        if place is not None and place.origin.how in ("qkv", "flipped qkv", "groups"):
            d_kv, odd = divmod(q[0] - d_attn, 2)
            if odd or d_kv < 1:
                raise InputError(f"{place.name} has {q[0]:,} rows beside {d_attn:,} features of all heads")
        else:
            d_kv = self.need(self.block("attn.k.weight"), 2)[0]
        if q[0] not in (d_attn, d_attn + 2 * d_kv):
            raise InputError(f"queries of {q[0]:,} features do not fit an output of {d_attn:,}")
        d_head = self.d_head(d_attn, d_kv)
        if not d_head or d_attn % d_head or d_kv % d_head:
            raise InputError(f"{d_attn:,} features of queries and {d_kv:,} of keys fall into no heads")
        turned = self.base["rope_dim"] * d_head // self.base["d_head"] // 2 * 2
        return {"d_head": d_head, "n_heads": d_attn // d_head, "n_kv_heads": d_kv // d_head, "rope_dim": turned}

    def d_head(self, d_attn: int, d_kv: int) -> int:
        """The width of one head, told or assumed."""
        norm, relative = self.ours(self.block("attn.q_norm.weight")), self.ours("encoder.relative.weight")
        if norm and len(norm) == 1:
            return norm[0]
        if relative and len(relative) == 2 and relative[1]:
            return d_attn // relative[1]
        if self.kind == "gpt_bigcode" and d_kv != d_attn:
            return d_kv  # one head of keys, or as many as of queries
        angles = [shape for name, shape in self.shapes.items() if name.endswith("rotary_emb.inv_freq")]
        if angles and len(angles[0]) == 1 and self.base["rope_dim"] == self.base["d_head"]:
            return 2 * angles[0][0]
        self.untold += ["n_heads", "n_kv_heads"] if d_kv != d_attn else ["n_heads"]
        for width in (self.base["d_head"], *_D_HEADS):
            if width and d_attn % width == 0 and d_kv % width == 0:
                return int(width)
        return math.gcd(d_attn, d_kv)

    def mlp(self) -> dict[str, Any]:
        """Width, gate and experts."""
        if router := self.ours(self.block("mlp.router.weight")):
            self.untold.append("n_experts_per_token")
            each = self.need(self.block("mlp.experts.0.up.weight"), 2)[0]
            per_token = min(self.base["n_experts_per_token"], router[0])
            d_ff = self.base["d_ff"] if self.kind == "qwen3_moe" else each  # which no block of it has
            return {"n_experts": router[0], "n_experts_per_token": per_token, "d_expert": each, "d_ff": d_ff}
        fields: dict[str, Any] = {"d_ff": self.need(self.block("mlp.up.weight"), 2)[0]}
        if self.kind == "t5":
            fields["activation"] = "geglu_tanh" if self.ours(self.block("mlp.gate.weight")) else "relu"
        return fields

    def norms(self) -> dict[str, Any]:
        """Where norms stand, as far as their number tells."""
        first, second = (self.ours(self.block(f"norm{n}.weight")) is not None for n in (1, 2))
        final = self.ours(f"{self.stack}final_norm.weight") is not None
        embed = self.ours(f"{'encoder.' if self.two_stacks else ''}embed.norm.weight") is not None
        fields: dict[str, Any] = {"final_norm": final, "embed_norm": embed}
        fields["qk_norm"] = self.ours(self.block("attn.q_norm.weight")) is not None
        if self.kind == "opt":
            fields["placement"] = "pre" if final else "post"
        elif self.kind == "stablelm" and first and not second:
            fields["placement"] = "parallel_one_norm"
        elif self.kind == "falcon":
            apart = any(name.endswith(".ln_mlp.weight") for name in self.shapes)
            fields["placement"] = "parallel" if apart else "pre" if second else "parallel_one_norm"
        elif self.kind == "gpt_neox":
            self.untold.append("placement")
        return fields

    def biases(self) -> dict[str, bool]:
        """Which linear maps and norms have one."""
        up = "mlp.up" if self.ours(self.block("mlp.up.weight")) else "mlp.experts.0.up"
        parts = {"qkv_bias": "attn.q", "out_bias": "attn.out", "mlp_bias": up, "norm_bias": "norm1"}
        return {field: self.ours(self.block(f"{part}.bias")) is not None for field, part in parts.items()}

    def ends(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Token types, the head and the pooler."""
        types, head = self.ours("embed.types.weight"), self.ours("head.weight")
        fields = {"n_token_types": types[0] if types else 0, "pooler": self.ours("pooler.weight") is not None}
        if self.base["head"] == "mlm":
            known = self.ours("mlm.dense.weight") is not None
            return {**fields, "head": "mlm" if known else "none", "head_bias": known}
        tied = self.base["tied_head"] if head else True
        self.untold += ["tied_head"] if head or not self.base["tied_head"] else []
        return {**fields, "tied_head": tied, "head_bias": self.ours("head.bias") is not None}

    def assume(self, spec: ModelSpec) -> None:
        """Add what leaves no trace in any tensor."""
        self.untold += ["activation", "norm_eps"]
        self.untold += ["rope_base"] if spec.positions == "rope" else []
        self.untold += ["rope_dim"] if spec.rope_dim != spec.d_head and spec.positions == "rope" else []
        self.untold += ["window"] if self.base["window"] or self.kind == "llama" else []
        self.untold += ["embed_scale"] if self.kind in ("llama", "bart") else []
        self.untold += ["max_distance"] if spec.positions == "relative" else []


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
