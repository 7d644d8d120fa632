"""Multiplications of a matrix product from the shapes that went in and came out, by the length that is summed over.

Every product is a sum of products: each element of the output is a sum over k terms, so it costs (elements)·k. Nothing
here knows torch's own table of formulas, against which these figures are held.

Unit: multiplications (1 multiply-add = 1 multiplication = 2 FLOPs).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["multiplications"]

#: Which operand is multiplied from the left: its last axis is summed over.
_LEFT: Final[Mapping[str, int]] = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot", "_int_mm", "_scaled_mm"), 0),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "_addmm_activation"), 1),
}

_CONVOLUTIONS: Final = frozenset(("convolution", "_convolution", "cudnn_convolution", "convolution_overrideable"))


def multiplications(
    operator: str, inputs: Sequence[tuple[int, ...]], output: tuple[int, ...], *, transposed: bool = False
) -> int | None:
    """Multiplications of one call, None for an operator that is no product known here.

    Shapes:  inputs, those of its tensors in their order; output, that of its first result.
    """
    operator = operator.removesuffix("_")  # in place, it is the same product
    if operator in _LEFT:
        return math.prod(output) * inputs[_LEFT[operator]][-1]
    if operator == "addbmm":
        return math.prod(inputs[1]) * inputs[2][-1]
    if operator == "addr":
        return math.prod(output)
    if operator in _CONVOLUTIONS:
        weight = inputs[1]  # [out, in / groups, ...]; transposed: [in, out / groups, ...], one input spreads over it
        return math.prod(inputs[0] if transposed else output) * math.prod(weight[1:])
    if operator.startswith("_scaled_dot_product") and not operator.endswith("backward"):
        n_keys = inputs[1][-2]
        return (math.prod(inputs[0]) + math.prod(output)) * n_keys
    if operator == "mkldnn_rnn_layer":
        return math.prod(inputs[0][:-1]) * (math.prod(inputs[1]) + math.prod(inputs[2]))
    return None
