"""ModelSpec: what a decoder-only Transformer is, as integers and choices.

Counts start with ``n_``, widths with ``d_``. The defaults are GPT-2 Small. Nothing is assumed in silence: a width that
is left out is derived by a rule that `derive` states, and every report prints the spec that it used.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

from tfinspect.errors import InputError

__all__ = ["Activation", "ModelSpec", "Placement", "Positions", "derive"]

Placement = Literal["pre", "post"]
Activation = Literal["gelu", "gelu_tanh", "relu"]
Positions = Literal["learned", "sinusoidal", "rope", "alibi", "none"]

#: Largest size that torch can index with and that a closed form is asked for.
LARGEST_SIZE: Final = 2**31 - 1

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "placement": get_args(Placement),
    "activation": get_args(Activation),
    "positions": get_args(Positions),
}

#: How a field is typed on the command line, for error messages.
FLAGS: Final[Mapping[str, str]] = {
    "vocab_size": "--vocab",
    "n_ctx": "--ctx",
    "d_model": "--d",
    "n_layers": "--layers",
    "n_heads": "--heads",
    "d_ff": "--d-ff",
    "placement": "--placement",
    "activation": "--activation",
    "positions": "--positions",
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
}

#: No float has an integer of this size.
_BEYOND_REAL: Final = 2**1024

_SIZES: Final = ("vocab_size", "n_ctx", "d_model", "n_layers", "n_heads", "d_ff")
_SWITCHES: Final = ("final_norm", "tied_head", "bias")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A decoder-only Transformer, validated when it is made.

    Raises:  InputError naming the field and its value: a size that is no positive integer, heads that do not divide
             d_model, an unknown choice, an odd head width under RoPE.
    Source:  chapter A, 2.3; GPT-2's released configuration for the defaults.
    """

    vocab_size: int = 50_257
    """V: rows of the token table E."""
    n_ctx: int = 1_024
    """Longest sequence; rows of the position table P where positions are learned."""
    d_model: int = 768
    """d: width of the residual stream."""
    n_layers: int = 12
    """L: number of blocks."""
    n_heads: int = 12
    """h: attention heads per block; d_head = d_model / n_heads."""
    d_ff: int = 3_072
    """Width of the MLP's hidden layer."""
    placement: Placement = "pre"
    """x + Sublayer(LN(x)) for "pre" (GPT-2); LN(x + Sublayer(x)) for "post" (GPT-1, Vaswani)."""
    final_norm: bool = True
    """A layer norm after the last block (GPT-2: yes; GPT-1: no)."""
    activation: Activation = "gelu_tanh"
    """"gelu" is t·Φ(t); "gelu_tanh" the approximation that the released GPT-2 uses; "relu" Vaswani's."""
    positions: Positions = "learned"
    """Where position enters: a learned table, the sinusoidal table, rotated Q and K, a bias on scores, or nowhere."""
    tied_head: bool = True
    """logits = H·Eᵀ with the token table itself; untied adds V·d parameters."""
    bias: bool = True
    """Bias vectors in every linear map and every layer norm."""
    norm_eps: float = 1e-5
    """Epsilon added to the variance in layer norms."""
    dropout: float = 0.0
    """Probability of dropout in training mode; no effect on shapes, parameters or work."""

    def __post_init__(self) -> None:
        for name in _SIZES:
            _check_size(name, getattr(self, name))
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be true or false, not {getattr(self, name)!r}")
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                near = _meant(getattr(self, name), known)
                raise InputError(f"unknown {name} {getattr(self, name)!r}", f"{near}choose one of {', '.join(known)}")
        _check_real("norm_eps", self.norm_eps, below=math.inf)
        _check_real("dropout", self.dropout, below=1.0)
        if self.d_model % self.n_heads:
            raise InputError(
                f"n_heads ({self.n_heads}) does not divide d_model ({self.d_model}): "
                f"{self.d_model} mod {self.n_heads} = {self.d_model % self.n_heads}",
                f"try --heads {' or '.join(map(str, _divisors_near(self.d_model, self.n_heads)))}",
            )
        if self.positions == "rope" and self.d_head % 2:
            raise InputError(
                f"rope rotates pairs of features, and d_head = {self.d_model}/{self.n_heads} = {self.d_head} is odd",
                "choose --heads so that d/heads is even",
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise InputError(
                f"sinusoidal positions pair a sine with a cosine, and d_model = {self.d_model} is odd",
                "choose an even --d",
            )

    @property
    def d_head(self) -> int:
        """Width of one head, d_model / n_heads."""
        return self.d_model // self.n_heads

    def replace(self, **changes: Any) -> ModelSpec:
        """The same spec with some fields changed, validated again."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, in the order of the class, with d_head."""
        return {**dataclasses.asdict(self), "d_head": self.d_head}

    def summary(self) -> str:
        """The whole spec in one line, in the project's own words."""
        switches = [
            f"{self.placement}-LN" + ("" if self.final_norm else ", no final LN"),
            self.activation,
            f"{self.positions} positions" if self.positions != "none" else "no positions",
            "tied head" if self.tied_head else "untied head",
            "biases" if self.bias else "no biases",
        ]
        return (
            f"V {self.vocab_size}, n_ctx {self.n_ctx}, d_model {self.d_model}, L {self.n_layers}, "
            f"h {self.n_heads} (d_head {self.d_head}), d_ff {self.d_ff}; {', '.join(switches)}"
        )


def derive(base: ModelSpec, given: Mapping[str, Any]) -> tuple[ModelSpec, tuple[str, ...]]:
    """A spec from a base and the fields that a user gave, with the rules that filled the rest.

    d_ff follows the base's ratio d_ff/d_model when only d_model is given (GPT-2: 4·d); n_heads keeps the base's head
    width (GPT-2: d/64) where that divides, and otherwise the base's number of heads where that divides.

    Raises:  InputError when a field is invalid, or when no rule gives the heads.
    Returns: the spec, and one sentence for each value that a rule chose.
    """
    fields = {name: value for name, value in given.items() if value is not None}
    rules: list[str] = []
    for name in _SIZES:
        if name in fields:
            _check_size(name, fields[name])
    d_model = fields.get("d_model", base.d_model)
    if d_model != base.d_model and "d_ff" not in fields:
        ratio, rest = divmod(base.d_ff, base.d_model)
        fields["d_ff"] = ratio * d_model if not rest else max(1, d_model * base.d_ff // base.d_model)
        rules.append(f"d_ff = {ratio}·d = {fields['d_ff']}" if not rest else f"d_ff = {fields['d_ff']} (d_ff/d kept)")
        if fields["d_ff"] > LARGEST_SIZE:
            raise InputError(
                f"the d_ff that follows from --d {d_model} is {fields['d_ff']}, and the largest size is {LARGEST_SIZE}",
                "give --d-ff, or a smaller --d",
            )
    if d_model != base.d_model and "n_heads" not in fields:
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
    return base.replace(**fields), tuple(rules)


def _meant(word: object, known: tuple[str, ...]) -> str:
    """A question after the choice that was meant, or nothing where none is near."""
    meant = _ELSEWHERE.get(str(word)) or next(iter(difflib.get_close_matches(str(word), known, n=1)), None)
    return f"did you mean {meant}? " if meant in known else ""


def _check_size(name: str, value: object) -> None:
    flag = f" ({FLAGS[name]})" if name in FLAGS else ""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name}{flag} must be an integer, not {value!r}")
    if value < 1:
        raise InputError(f"{name}{flag} must be at least 1, not {_short(value)}")
    if value > LARGEST_SIZE:
        raise InputError(f"{name}{flag} is {_short(value)}", f"the largest size is {LARGEST_SIZE} (2^31 - 1)")


def _check_real(name: str, value: object, *, below: float) -> None:
    flag = f" ({FLAGS[name]})"
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < min(below, _BEYOND_REAL):
        limits = "finite and at least 0" if below == math.inf else f"at least 0 and below {below:g}"
        shown = _short(value) if isinstance(value, int) else repr(value)
        raise InputError(f"{name}{flag} must be {limits}, not {shown}")


def _short(value: int) -> str:
    """A number as typed, or its length where the digits would drown the message."""
    return str(value) if abs(value) < 10**40 else f"an integer of {int(math.log10(abs(value))) + 1} digits"


def _divisors_near(width: int, wanted: int) -> list[int]:
    """Up to three divisors of width nearest to wanted, smaller first."""
    found = {d for k in range(1, math.isqrt(min(width, 10**8)) + 1) if width % k == 0 for d in (k, width // k)}
    return sorted(sorted(found, key=lambda d: (abs(d - wanted), d))[:3])
