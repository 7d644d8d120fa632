"""ModelSpec: what a Transformer is, as integers and choices.

Counts start with ``n_``, widths with ``d_``. The defaults are GPT-2 Small. Nothing is assumed in silence: a width that
is left out is derived by a rule that `derive` or the field states, and every report prints the spec that it used.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, cast, get_args

from tfinspect.errors import InputError

__all__ = ["Activation", "Architecture", "HeadKind", "ModelSpec", "Norm", "Placement", "Positions", "derive"]

Architecture = Literal["decoder", "encoder", "encoder_decoder"]
Placement = Literal["pre", "post", "sandwich", "parallel", "parallel_one_norm"]
Norm = Literal["layernorm", "rmsnorm"]
Activation = Literal["gelu", "gelu_tanh", "relu", "silu", "swiglu", "geglu", "geglu_tanh"]
Positions = Literal["learned", "sinusoidal", "rope", "alibi", "relative", "none"]
HeadKind = Literal["lm", "mlm", "none"]

#: Largest size that torch can index with and that a closed form is asked for.
LARGEST_SIZE: Final = 2**31 - 1

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "architecture": get_args(Architecture),
    "placement": get_args(Placement),
    "norm": get_args(Norm),
    "activation": get_args(Activation),
    "positions": get_args(Positions),
    "head": get_args(HeadKind),
}

#: The curve that a gated activation sends its gate through: act(x·W_gate) ⊙ (x·W_up).
GATES: Final[Mapping[str, str]] = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh"}

#: How a field is typed on the command line, for error messages.
FLAGS: Final[Mapping[str, str]] = {
    "vocab_size": "--vocab",
    "n_ctx": "--ctx",
    "d_model": "--d",
    "n_layers": "--layers",
    "n_heads": "--heads",
    "n_kv_heads": "--kv-heads",
    "d_head": "--d-head",
    "d_ff": "--d-ff",
    "architecture": "--architecture",
    "n_encoder_layers": "--encoder-layers",
    "placement": "--placement",
    "norm": "--norm",
    "final_norm": "--final-norm",
    "activation": "--activation",
    "positions": "--positions",
    "position_offset": "--position-offset",
    "rope_dim": "--rope-dim",
    "rope_base": "--rope-base",
    "n_buckets": "--buckets",
    "max_distance": "--max-distance",
    "embed_scale": "--embed-scale",
    "embed_norm": "--embed-norm",
    "n_token_types": "--token-types",
    "qk_norm": "--qk-norm",
    "scale_scores": "--scale-scores",
    "window": "--window",
    "global_every": "--global-every",
    "n_experts": "--experts",
    "n_experts_per_token": "--experts-per-token",
    "n_shared_experts": "--shared-experts",
    "d_expert": "--d-expert",
    "n_dense_layers": "--dense-layers",
    "head": "--head-kind",
    "tied_head": "--tied",
    "head_bias": "--head-bias",
    "pooler": "--pooler",
    "bias": "--bias",
    "qkv_bias": "--qkv-bias",
    "out_bias": "--out-bias",
    "mlp_bias": "--mlp-bias",
    "norm_bias": "--norm-bias",
    "norm_eps": "--eps",
    "dropout": "--dropout",
}

#: What other projects call the same choice.
_ELSEWHERE: Final[Mapping[str, str]] = {
    "absolute": "learned",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "rotary": "rope",
    "sinusoid": "sinusoidal",
    "swish": "silu",
    "layer_norm": "layernorm",
    "rms_norm": "rmsnorm",
    "decoder_only": "decoder",
    "encoder_only": "encoder",
    "seq2seq": "encoder_decoder",
}

#: No float has an integer of this size.
_BEYOND_REAL: Final = 2**1024

#: Sizes of at least 1, and counts that may be 0.
_SIZES: Final = ("vocab_size", "n_ctx", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_head", "d_ff")
_COUNTS: Final = (
    "n_encoder_layers", "position_offset", "rope_dim", "n_buckets", "max_distance", "n_token_types", "window",
    "global_every", "n_experts", "n_experts_per_token", "n_shared_experts", "d_expert", "n_dense_layers",
)  # fmt: skip
_SWITCHES: Final = (
    "final_norm", "embed_scale", "embed_norm", "qk_norm", "scale_scores", "tied_head", "head_bias", "pooler", "bias",
    "qkv_bias", "out_bias", "mlp_bias", "norm_bias",
)  # fmt: skip

#: Stands for "by the field's rule" where a spec is made; no spec keeps it.
BY_RULE: Final = cast("Any", None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A Transformer, validated when it is made.

    A field whose default is BY_RULE may be left out; its rule stands beside it, and the spec holds the value.

    Raises:  InputError naming the field and its value: a size that is no positive integer, heads that do not divide
             d_model, an unknown choice, an odd width under RoPE, features that no model has together.
    Source:  chapter A, 2.3; GPT-2's released configuration for the defaults.
    """

    vocab_size: int = 50_257
    """V: rows of the token table E."""
    n_ctx: int = 1_024
    """Longest sequence."""
    d_model: int = 768
    """d: width of the residual stream."""
    n_layers: int = 12
    """L: number of blocks; of the decoder in an encoder–decoder."""
    n_heads: int = 12
    """h: attention heads per block."""
    n_kv_heads: int = BY_RULE
    """h_kv: heads of keys and values, each shared by h/h_kv heads of queries; by rule h."""
    d_head: int = BY_RULE
    """Width of one head; by rule d_model / n_heads."""
    d_ff: int = 3_072
    """Width of the MLP's hidden layer."""
    architecture: Architecture = "decoder"
    """Causal "decoder", "encoder" without a mask, or "encoder_decoder" with cross-attention."""
    n_encoder_layers: int = BY_RULE
    """L_enc: blocks of the encoder of an encoder–decoder; by rule L there, and 0 elsewhere."""
    placement: Placement = "pre"
    """x + Sublayer(LN(x)) for "pre"; LN(x + Sublayer(x)) for "post"; x + LN'(Sublayer(LN(x))) for "sandwich";
    x + MHA(LN1(x)) + MLP(LN2(x)) for "parallel", with LN1 in both places for "parallel_one_norm"."""
    norm: Norm = "layernorm"
    """"layernorm", or "rmsnorm": γ·x/√(mean of x² + ε), which has no bias."""
    final_norm: bool = True
    """A norm after the last block of each stack."""
    activation: Activation = "gelu_tanh"
    """"gelu" is t·Φ(t); "gelu_tanh" its approximation; "silu" t·σ(t); "swiglu", "geglu" and "geglu_tanh" gate x·W_up
    with silu, gelu or gelu_tanh of x·W_gate."""
    positions: Positions = "learned"
    """Where position enters: a learned table, the sinusoidal table, rotated Q and K, a slope or a learned bias on
    scores, or nowhere."""
    position_offset: int = 0
    """Rows of the learned table before the one of position 0; the table has n_ctx rows more."""
    rope_dim: int = BY_RULE
    """Features of each head that RoPE turns; by rule d_head under RoPE, and 0 elsewhere."""
    rope_base: float = 10_000.0
    """Base of RoPE's angles."""
    n_buckets: int = 32
    """Rows of the relative bias: distances that share a bucket share a bias."""
    max_distance: int = 128
    """Distance from which on all share the last bucket of the relative bias."""
    embed_scale: bool = False
    """Token vectors times √d_model."""
    embed_norm: bool = False
    """A norm after the embedding sum."""
    n_token_types: int = 0
    """Rows of the token-type table (BERT's segments)."""
    qk_norm: bool = False
    """A norm over each head of Q and of K, before RoPE."""
    scale_scores: bool = True
    """Scores divided by √d_head."""
    window: int = 0
    """Keys that a position sees, itself included; 0 for all before it."""
    global_every: int = 0
    """Among windowed blocks, each one of this number, counted from 1, sees all; 0 for none."""
    n_experts: int = 0
    """E: expert MLPs in each block that has them; 0 for a plain MLP."""
    n_experts_per_token: int = 0
    """k: experts that each token goes through."""
    n_shared_experts: int = 0
    """Experts that every token goes through besides, as one MLP of that many times d_expert."""
    d_expert: int = BY_RULE
    """Width of an expert's hidden layer; by rule d_ff where there are experts, and 0 elsewhere."""
    n_dense_layers: int = 0
    """First blocks of a model with experts that keep a plain MLP."""
    head: HeadKind = "lm"
    """"lm": logits = H·Eᵀ or H·W_headᵀ; "mlm": BERT's d×d layer, activation and norm before it; "none"."""
    tied_head: bool = True
    """The head's matrix is the token table itself; untied adds V·d parameters."""
    head_bias: bool = BY_RULE
    """A bias on the logits; by rule for "mlm" alone."""
    pooler: bool = False
    """tanh of a d×d layer on the first position (BERT)."""
    bias: bool = True
    """Bias vectors wherever the next four fields do not say otherwise; holds whether all linear maps have one."""
    qkv_bias: bool = BY_RULE
    """Bias vectors of W_Q, W_K and W_V; by rule as `bias`."""
    out_bias: bool = BY_RULE
    """Bias vector of W_O; by rule as `bias`."""
    mlp_bias: bool = BY_RULE
    """Bias vectors of the MLP; by rule as `bias`."""
    norm_bias: bool = BY_RULE
    """Bias vectors of layer norms; by rule as `bias`, and never for RMSNorm."""
    norm_eps: float = 1e-5
    """Epsilon added to the variance in norms."""
    dropout: float = 0.0
    """Probability of dropout in training mode; no effect on shapes, parameters or work."""

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                near = _meant(getattr(self, name), known)
                raise InputError(f"unknown {name} {getattr(self, name)!r}", f"{near}choose one of {', '.join(known)}")
        for name in ("d_model", "n_heads", "n_layers", "d_ff"):
            _check_size(name, getattr(self, name))
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool) and (name not in _RULES or getattr(self, name) is not BY_RULE):
                raise InputError(f"{name} must be true or false, not {getattr(self, name)!r}")
        self._require_whole_heads()
        for name, rule in _RULES.items():
            if getattr(self, name) is BY_RULE:
                object.__setattr__(self, name, rule(self))
        object.__setattr__(self, "bias", self.qkv_bias and self.out_bias and self.mlp_bias)
        for name in _SIZES:
            _check_size(name, getattr(self, name))
        for name in _COUNTS:
            _check_size(name, getattr(self, name), least=0)
        _check_real("norm_eps", self.norm_eps, below=1e6)
        _check_real("rope_base", self.rope_base, below=math.inf, least=1)
        _check_real("dropout", self.dropout, below=1.0)
        self._require_fitting_heads()
        self._require_fitting_features()

    @property
    def gated(self) -> bool:
        """Whether the MLP has a gate: three matrices in the place of two."""
        return self.activation in GATES

    @property
    def causal(self) -> bool:
        """Whether the blocks in front of the head see no later position."""
        return self.architecture != "encoder"

    @property
    def d_attn(self) -> int:
        """Width of all heads side by side: n_heads · d_head, as a rule d_model."""
        return self.n_heads * self.d_head

    @property
    def d_kv(self) -> int:
        """Width of all key heads, or of all value heads: n_kv_heads · d_head."""
        return self.n_kv_heads * self.d_head

    def has_experts(self, layer: int) -> bool:
        """Whether a block's MLP is a mixture of experts; layers count from 0."""
        return self.n_experts > 0 and layer >= self.n_dense_layers

    def active(self, total: int, in_experts: int) -> int:
        """Parameters that take part in each token, of a total of which so many are in experts."""
        idle = self.n_experts - self.n_experts_per_token
        return total - in_experts // max(1, self.n_experts) * idle

    def window_of(self, layer: int) -> int:
        """Keys that a position of this block sees, 0 for all before it; layers count from 0."""
        sees_all = self.global_every > 0 and (layer + 1) % self.global_every == 0
        return 0 if sees_all else self.window

    def n_windowed(self, layers: range) -> int:
        """How many of some blocks in a row have a window; at once, however many they are."""
        if not self.window:
            return 0
        every = self.global_every
        return len(layers) - (layers.stop // every - layers.start // every if every else 0)

    def replace(self, **changes: Any) -> ModelSpec:
        """The same spec with some fields changed, validated again; what stood there by rule follows its rule."""
        kept = {name: BY_RULE for name, rule in _RULES.items() if getattr(self, name) == rule(self)}
        if "bias" in changes:
            kept |= dict.fromkeys(("qkv_bias", "out_bias", "mlp_bias", "norm_bias"), BY_RULE)
        return dataclasses.replace(self, **{**kept, **changes})

    def follows_rule(self, name: str) -> bool:
        """Whether a field has the value that its rule gives."""
        return name in _RULES and getattr(self, name) == _RULES[name](self)

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, in the order of the class."""
        return dataclasses.asdict(self)

    def summary(self) -> str:
        """The whole spec in one line, in the project's own words; what GPT-2 lacks is said where the model has it."""
        norm = "LN" if self.norm == "layernorm" else "RMSNorm"
        one_norm = ", one norm" if self.placement == "parallel_one_norm" else ""
        placement = "parallel" if self.placement.startswith("parallel") else self.placement
        kv_heads = f", h_kv {self.n_kv_heads}" if self.n_kv_heads != self.n_heads else ""
        encoder = f" + {self.n_encoder_layers} of the encoder" if self.architecture == "encoder_decoder" else ""
        sizes = (
            f"V {self.vocab_size}, n_ctx {self.n_ctx}, d_model {self.d_model}, L {self.n_layers}{encoder}, "
            f"h {self.n_heads}{kv_heads} (d_head {self.d_head}), d_ff {self.d_ff}"
        )
        return f"{sizes}; {', '.join((f'{placement}-{norm}{one_norm}', *self._features()))}"

    def _features(self) -> list[str]:
        """What the model has and lacks, in words."""
        said: list[tuple[object, str]] = [
            (not self.final_norm, f"no final {'LN' if self.norm == 'layernorm' else 'RMSNorm'}"),
            (True, self.activation),
            (self.positions != "none", f"{self.positions} positions"),
            (self.positions == "none", "no positions"),
            (self.position_offset, f"position offset {self.position_offset}"),
            (self.positions == "rope" and self.rope_dim != self.d_head, f"{self.rope_dim} features turned"),
            (self.embed_scale, "embedding × √d"),
            (self.embed_norm, "embedding norm"),
            (self.n_token_types, f"{self.n_token_types} token types"),
            (self.qk_norm, "QK norm"),
            (not self.scale_scores, "scores unscaled"),
            (self.window, f"window {self.window}"),
            (self.window and self.global_every, f"1 block in {self.global_every} sees all"),
            (self.n_experts, f"{self.n_experts} experts of {self.d_expert}, {self.n_experts_per_token} per token"),
            (self.n_shared_experts, f"{self.n_shared_experts} shared"),
            (self.n_dense_layers, f"first {self.n_dense_layers} blocks dense"),
            (self.architecture == "encoder", "no causal mask"),
            (self.architecture == "encoder_decoder", "encoder–decoder"),
            (self.head == "none", "no head"),
            (self.head != "none", f"{'tied' if self.tied_head else 'untied'} {'MLM ' * (self.head == 'mlm')}head"),
            (self.head == "lm" and self.head_bias, "head bias"),
            (self.pooler, "pooler"),
            (True, self._biases()),
        ]
        return [words for holds, words in said if holds]

    def _biases(self) -> str:
        switches = {"QKV": self.qkv_bias, "O": self.out_bias, "MLP": self.mlp_bias}
        if self.norm == "layernorm":
            switches["LN"] = self.norm_bias
        on = [name for name, has in switches.items() if has]
        if not on:
            return "no biases"
        return "biases" if len(on) == len(switches) else f"biases of {' and '.join(on)}"

    def _require_whole_heads(self) -> None:
        if self.d_head is BY_RULE and self.d_model % self.n_heads:
            raise InputError(
                f"n_heads ({self.n_heads}) does not divide d_model ({self.d_model}): "
                f"{self.d_model} mod {self.n_heads} = {self.d_model % self.n_heads}",
                f"try --heads {' or '.join(map(str, _divisors_near(self.d_model, self.n_heads)))}, or give --d-head",
            )

    def _require_fitting_heads(self) -> None:
        if self.n_heads % self.n_kv_heads:
            raise InputError(
                f"n_kv_heads ({self.n_kv_heads}) does not divide n_heads ({self.n_heads}): "
                f"{self.n_heads} mod {self.n_kv_heads} = {self.n_heads % self.n_kv_heads}",
                f"try --kv-heads {' or '.join(map(str, _divisors_near(self.n_heads, self.n_kv_heads)))}",
            )
        if self.positions == "rope" and (self.rope_dim % 2 or not 0 < self.rope_dim <= self.d_head):
            if self.rope_dim == self.d_head:
                turned = (
                    f"d_head = {self.d_model}/{self.n_heads} = {self.d_head}" if self.d_attn == self.d_model else ""
                )
                raise InputError(
                    f"rope rotates pairs of features, and {turned or f'd_head ({self.d_head})'} is odd",
                    "choose --heads so that d/heads is even",
                )
            raise InputError(
                f"rope_dim (--rope-dim) is {self.rope_dim}, and rope rotates pairs among {self.d_head} features",
                f"give an even number from 2 to {self.d_head}" if self.d_head > 1 else "choose --d-head of at least 2",
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise InputError(
                f"sinusoidal positions pair a sine with a cosine, and d_model = {self.d_model} is odd",
                "choose an even --d",
            )

    def _require_fitting_features(self) -> None:
        """Each pair of features that no model has together, or whose meaning nobody has defined."""
        kind, both = self.architecture, self.architecture == "encoder_decoder"
        expert_fields = (self.n_experts_per_token, self.n_shared_experts, self.d_expert, self.n_dense_layers)
        wrong: list[tuple[object, str, str]] = [
            (self.norm == "rmsnorm" and self.norm_bias, "RMSNorm has no bias", "give --no-norm-bias"),
            (
                self.positions != "rope" and self.rope_dim,
                f"rope_dim is {self.rope_dim} without rope",
                "give --positions rope",
            ),
            (
                self.positions != "learned" and self.position_offset,
                "a position offset needs a learned table",
                "give --positions learned",
            ),
            (
                self.positions == "relative" and (self.n_buckets < 4 or self.n_buckets % 4),
                f"n_buckets ({self.n_buckets}) is no multiple of 4",
                "half of them are for either direction, and half of those for single distances; T5 has 32",
            ),
            (
                self.positions == "relative" and self.max_distance <= self.n_buckets,
                f"max_distance ({self.max_distance}) is not above n_buckets ({self.n_buckets})",
                "T5 has 128 and 32",
            ),
            (
                kind != "decoder" and self.positions == "alibi",
                "ALiBi is defined for a causal decoder",
                "choose other --positions",
            ),
            (kind != "decoder" and self.window, "a window is defined for a causal decoder", "leave out --window"),
            (self.global_every and not self.window, "global_every needs a window", "give --window"),
            (
                not both and self.n_encoder_layers,
                f"n_encoder_layers is {self.n_encoder_layers} in a model of one stack",
                "give --architecture encoder_decoder",
            ),
            (both and not self.n_encoder_layers, "an encoder-decoder needs encoder layers", "give --encoder-layers"),
            (
                both and self.placement not in ("pre", "post"),
                f"an encoder-decoder has no {self.placement} placement",
                "choose --placement pre or post",
            ),
            (both and self.n_experts, "experts are not built into an encoder-decoder", "leave out --experts"),
            (both and self.head == "none", "an encoder-decoder has a head", "leave out --head-kind"),
            (kind != "encoder" and self.head == "mlm", "an mlm head needs an encoder", "give --architecture encoder"),
            (kind != "encoder" and self.pooler, "a pooler needs an encoder", "give --architecture encoder"),
            (kind != "encoder" and self.n_token_types, "token types need an encoder", "give --architecture encoder"),
            (
                self.head == "none" and self.head_bias,
                "a model without a head has no head bias",
                "leave out --head-bias",
            ),
            (self.head == "mlm" and not self.head_bias, "the mlm head has a bias", "leave out --no-head-bias"),
            (
                self.n_experts and not 1 <= self.n_experts_per_token <= self.n_experts,
                f"n_experts_per_token is {self.n_experts_per_token} of {self.n_experts} experts",
                f"give --experts-per-token from 1 to {self.n_experts}",
            ),
            (self.n_experts and not self.d_expert, "d_expert (--d-expert) is 0", "give the width of an expert"),
            (
                not self.n_experts and any(expert_fields),
                "fields of experts are set in a model without experts",
                "give --experts",
            ),
            (
                self.n_dense_layers and self.n_dense_layers >= self.n_layers,
                f"n_dense_layers ({self.n_dense_layers}) leaves no block of {self.n_layers} for experts",
                "give fewer --dense-layers, or no --experts",
            ),
        ]
        for is_wrong, what, advice in wrong:
            if is_wrong:
                raise InputError(what, advice)


#: The rule of each field that may be left out, in the order in which they build on each other.
_RULES: Final[Mapping[str, Callable[[ModelSpec], Any]]] = {
    "n_kv_heads": lambda spec: spec.n_heads,
    "d_head": lambda spec: 0 if spec.d_model % spec.n_heads else spec.d_model // spec.n_heads,
    "n_encoder_layers": lambda spec: spec.n_layers if spec.architecture == "encoder_decoder" else 0,
    "rope_dim": lambda spec: spec.d_head if spec.positions == "rope" else 0,
    "d_expert": lambda spec: spec.d_ff if spec.n_experts else 0,
    "head_bias": lambda spec: spec.head == "mlm",
    "qkv_bias": lambda spec: spec.bias,
    "out_bias": lambda spec: spec.bias,
    "mlp_bias": lambda spec: spec.bias,
    "norm_bias": lambda spec: spec.bias and spec.norm == "layernorm",
}


def derive(base: ModelSpec, given: Mapping[str, Any]) -> tuple[ModelSpec, tuple[str, ...]]:
    """A spec from a base and the fields that a user gave, with the rules that filled the rest.

    d_ff and d_expert follow the base's ratio to d_model when only d_model is given (GPT-2: 4·d); n_heads keeps the
    base's head width (GPT-2: d/64) where that divides, and otherwise the base's number of heads where that divides.
    Query heads per key head and the part of a head that RoPE turns are kept where they come out whole.

    Raises:  InputError when a field is invalid, or when no rule gives the heads.
    Returns: the spec, and one sentence for each value that a rule chose.
    """
    fields = {name: value for name, value in given.items() if value is not None}
    rules: list[str] = []
    _switch_off(base, fields)
    for name in ("d_model", "n_heads", "d_ff"):
        if name in fields:
            _check_size(name, fields[name])
    d_model = fields.get("d_model", base.d_model)
    if d_model != base.d_model:
        _follow_width("d_ff", base, d_model, fields, rules)
        if base.n_experts and base.d_expert != base.d_ff:
            _follow_width("d_expert", base, d_model, fields, rules)
        if base.d_attn == base.d_model and "d_head" not in fields:
            _follow_heads(base, d_model, fields, rules)
    n_heads = fields.get("n_heads", base.n_heads)
    if n_heads != base.n_heads and "n_kv_heads" not in fields and base.n_kv_heads not in (1, base.n_heads):
        group = base.n_heads // base.n_kv_heads
        if n_heads % group:
            raise InputError(
                f"no number of key heads follows from {n_heads} heads in groups of {group}", "give --kv-heads"
            )
        fields["n_kv_heads"] = n_heads // group
        rules.append(f"kv heads = heads/{group} = {fields['n_kv_heads']}")
    _follow_rope(base, d_model, n_heads, fields, rules)
    return base.replace(**fields), tuple(rules)


def _switch_off(base: ModelSpec, fields: dict[str, Any]) -> None:
    """What hangs on a feature of the base goes with it, where the feature is switched off and no more is said."""
    gone: dict[str, Any] = {}
    if fields.get("n_experts") == 0:
        gone |= {"n_experts_per_token": 0, "n_shared_experts": 0, "d_expert": 0, "n_dense_layers": 0}
    if fields.get("window") == 0:
        gone["global_every"] = 0
    if fields.get("positions", "learned") != "learned":
        gone["position_offset"] = 0
    if fields.get("architecture", "encoder") != "encoder":
        gone |= {"n_token_types": 0, "pooler": False}
        if base.head == "mlm":
            gone |= {"head": "lm", "head_bias": False}
    if fields.get("head") == "none":
        gone["head_bias"] = False
    for name, value in gone.items():
        if getattr(base, name) != value:
            fields.setdefault(name, value)


def _follow_width(name: str, base: ModelSpec, d_model: int, fields: dict[str, Any], rules: list[str]) -> None:
    """The width of a hidden layer in the base's ratio to d_model, unless it was given."""
    if name in fields:
        return
    width = getattr(base, name)
    ratio, rest = divmod(width, base.d_model)
    fields[name] = ratio * d_model if not rest else max(1, d_model * width // base.d_model)
    rules.append(f"{name} = {ratio}·d = {fields[name]}" if not rest else f"{name} = {fields[name]} ({name}/d kept)")
    if fields[name] > LARGEST_SIZE:
        raise InputError(
            f"the {name} that follows from --d {d_model} is {fields[name]}, and the largest size is {LARGEST_SIZE}",
            f"give {FLAGS[name]}, or a smaller --d",
        )


def _follow_heads(base: ModelSpec, d_model: int, fields: dict[str, Any], rules: list[str]) -> None:
    """The number of heads by the base's head width, or by its number of heads, unless it was given."""
    if "n_heads" in fields:
        return
    if d_model % base.d_head == 0:
        fields["n_heads"] = d_model // base.d_head
        rules.append(f"heads = d/{base.d_head} = {fields['n_heads']}")
    elif d_model % base.n_heads == 0:
        fields["n_heads"] = base.n_heads
        rules.append(f"heads = {base.n_heads} (d/{base.d_head} is not whole)")
    else:
        near = " or ".join(map(str, _divisors_near(d_model, base.n_heads)))
        raise InputError(
            f"no number of heads follows from --d {d_model}: neither {base.d_head} (the usual head width) nor "
            f"{base.n_heads} (the usual number of heads) divides it",
            f"give --heads, for example {near}",
        )


def _follow_rope(base: ModelSpec, d_model: int, n_heads: int, fields: dict[str, Any], rules: list[str]) -> None:
    """The turned part of a head, where only a part is turned and the width of a head changes."""
    if base.rope_dim in (0, base.d_head) or "rope_dim" in fields or fields.get("positions", "rope") != "rope":
        if fields.get("positions", base.positions) != "rope" and base.rope_dim:
            fields.setdefault("rope_dim", 0)
        return
    by_rule = d_model // n_heads if base.d_attn == base.d_model else base.d_head
    d_head = fields.get("d_head", by_rule)
    if d_head != base.d_head and isinstance(d_head, int):
        fields["rope_dim"] = max(2, d_head * base.rope_dim // base.d_head // 2 * 2)
        rules.append(f"rope_dim = {fields['rope_dim']} (its part of a head kept)")


def _meant(word: object, known: tuple[str, ...]) -> str:
    """A question after the choice that was meant, or nothing where none is near."""
    meant = _ELSEWHERE.get(str(word)) or next(iter(difflib.get_close_matches(str(word), known, n=1)), None)
    return f"did you mean {meant}? " if meant in known else ""


def _check_size(name: str, value: object, *, least: int = 1) -> None:
    flag = f" ({FLAGS[name]})" if name in FLAGS else ""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name}{flag} must be an integer, not {value!r}")
    if value < least:
        raise InputError(f"{name}{flag} must be at least {least}, not {_short(value)}")
    if value > LARGEST_SIZE:
        raise InputError(f"{name}{flag} is {_short(value)}", f"the largest size is {LARGEST_SIZE} (2^31 - 1)")


def _check_real(name: str, value: object, *, below: float, least: int = 0) -> None:
    flag = f" ({FLAGS[name]})"
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < min(below, _BEYOND_REAL):
        limits = f"finite and at least {least}" if below == math.inf else f"at least {least} and below {below:,.10g}"
        shown = _short(value) if isinstance(value, int) else repr(value)
        raise InputError(f"{name}{flag} must be {limits}, not {shown}")


def _short(value: int) -> str:
    """A number as typed, or its length where the digits would drown the message."""
    return str(value) if abs(value) < 10**40 else f"an integer of {int(math.log10(abs(value))) + 1} digits"


def _divisors_near(width: int, wanted: int) -> list[int]:
    """Up to three divisors of width nearest to wanted, smaller first."""
    found = {d for k in range(1, math.isqrt(min(width, 10**8)) + 1) if width % k == 0 for d in (k, width // k)}
    return sorted(sorted(found, key=lambda d: (abs(d - wanted), d))[:3])
