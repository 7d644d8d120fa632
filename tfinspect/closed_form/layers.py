"""Parameters and multiplications of a layer from its attributes alone: what its class is called, and its sizes.

Attributes are those that torch's classes keep (`in_features`, `kernel_size`, ...), and those of Hugging Face's Conv1D
(`nx`, `nf`). A class that is not listed has no formula here; what is inside of it may have.

Units:  parameters; multiplications (1 multiply-add = 1 multiplication = 2 FLOPs).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

__all__ = ["multiplications", "params"]

Attributes: TypeAlias = Mapping[str, Any]
Sizes: TypeAlias = tuple[int, ...]


def params(kind: str, a: Attributes) -> int | None:
    """Parameters of a layer of a known class, those of the layers inside it left out; None for any other class."""
    formula = _PARAMS.get(kind)
    return None if formula is None else formula(a)


def multiplications(kind: str, a: Attributes, given: Sizes, made: Sizes) -> int | None:
    """Multiplications of one call of a layer of a known class; None for any other class.

    Shapes:  given, its first input; made, its first output.
    """
    formula = _WORK.get(kind)
    return None if formula is None else formula(a, given, made)


def _linear(a: Attributes) -> int:
    return int(a["in_features"] * a["out_features"] + a["bias"] * a["out_features"])


def _conv(a: Attributes) -> int:
    into = a["out_channels"] * a["in_channels"] // a["groups"]
    return int(into * math.prod(a["kernel_size"]) + a["bias"] * a["out_channels"])


def _table(a: Attributes) -> int:
    return int(a["num_embeddings"] * a["embedding_dim"])


def _norm(a: Attributes) -> int:
    """A gain for each feature, and a shift where the layer has one."""
    shape = a["normalized_shape"]
    size = math.prod(shape) if isinstance(shape, tuple) else shape
    return int(a["weight"] * size + a["bias"] * size)


def _channel_norm(a: Attributes) -> int:
    size = a.get("num_features", a.get("num_channels"))
    return int((a["weight"] + a["bias"]) * size)


def _recurrent(gates: int) -> Callable[[Attributes], int]:
    def count(a: Attributes) -> int:
        state = a.get("proj_size", 0) or a["hidden_size"]
        directions = 2 if a.get("bidirectional") else 1
        total = 0
        for layer in range(a.get("num_layers", 1)):
            width = a["input_size"] if layer == 0 else directions * state
            each = gates * a["hidden_size"] * (width + state) + 2 * gates * a["hidden_size"] * a["bias"]
            each += a["hidden_size"] * state if a.get("proj_size", 0) else 0
            total += directions * each
        return int(total)

    return count


def _recurrent_work(gates: int) -> Callable[[Attributes, Sizes, Sizes], int]:
    def count(a: Attributes, given: Sizes, made: Sizes) -> int:
        matrices = _recurrent(gates)({**a, "bias": False})
        return matrices * math.prod(given[:-1])  # each matrix once at each position

    return count


_PARAMS: Final[Mapping[str, Callable[[Attributes], int]]] = {
    "Linear": _linear,
    "NonDynamicallyQuantizableLinear": _linear,
    "Conv1D": lambda a: a["nx"] * a["nf"] + a["nf"],
    **{f"Conv{n}d": _conv for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": _conv for n in (1, 2, 3)},
    "Embedding": _table,
    "EmbeddingBag": _table,
    "LayerNorm": _norm,
    "RMSNorm": lambda a: _norm({**a, "bias": 0}),
    **{f"{kind}{n}d": _channel_norm for kind in ("BatchNorm", "InstanceNorm") for n in (1, 2, 3)},
    "GroupNorm": _channel_norm,
    "PReLU": lambda a: a["num_parameters"],
    "Bilinear": lambda a: (a["in1_features"] * a["in2_features"] + a["bias"]) * a["out_features"],
    "LSTM": _recurrent(4),
    "GRU": _recurrent(3),
    "RNN": _recurrent(1),
    "LSTMCell": _recurrent(4),
    "GRUCell": _recurrent(3),
    "RNNCell": _recurrent(1),
}

_WORK: Final[Mapping[str, Callable[[Attributes, Sizes, Sizes], int]]] = {
    **dict.fromkeys(
        ("Linear", "NonDynamicallyQuantizableLinear"), lambda a, given, made: math.prod(made) * a["in_features"]
    ),
    "Conv1D": lambda a, given, made: math.prod(made) * a["nx"],
    **{
        f"Conv{n}d": lambda a, given, made: (
            math.prod(made) * a["in_channels"] // a["groups"] * math.prod(a["kernel_size"])
        )
        for n in (1, 2, 3)
    },
    **{
        f"ConvTranspose{n}d": lambda a, given, made: (
            math.prod(given) * a["out_channels"] // a["groups"] * math.prod(a["kernel_size"])
        )
        for n in (1, 2, 3)
    },
    "Embedding": lambda a, given, made: 0,
    "LSTM": _recurrent_work(4),
    "GRU": _recurrent_work(3),
    "RNN": _recurrent_work(1),
    "LSTMCell": _recurrent_work(4),
    "GRUCell": _recurrent_work(3),
    "RNNCell": _recurrent_work(1),
}
