"""The weights of a model: a checkpoint's tensors, and what a result says of where its numbers come from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from tfinspect.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BYTES", "DTYPES", "EPSILON", "Dtype", "Filled", "Weights"]

#: Number formats that a model can run in.
Dtype: TypeAlias = Literal["float32", "float64", "bfloat16", "float16"]
DTYPES: Final[tuple[Dtype, ...]] = get_args(Dtype)

#: Bytes of one number.
BYTES: Final[Mapping[str, int]] = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
#: The distance from 1 to the next number.
EPSILON: Final[Mapping[str, float]] = {
    "float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10
}  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class Weights:
    """The tensors of a checkpoint, which stay in its file until they are asked for."""

    path: str
    """The checkpoint, as it was named."""
    family: str
    """Whose names the tensors have, such as "gpt2"."""
    tensors: Mapping[str, Tensor] = dataclasses.field(repr=False)
    """Each tensor by the checkpoint's name for it."""

    @staticmethod
    def of(model: object) -> Weights | None:
        """The weights that come with a model; None where there are none, and they are random."""
        found = getattr(model, "weights", None)
        return found if isinstance(found, Weights) else None


@dataclasses.dataclass(frozen=True)
class Filled:
    """Where the numbers of a model's parameters come from, and in what format the model runs."""

    dtype: str = "float32"
    checkpoint: str | None = None
    """Path of the checkpoint; None for random numbers."""
    family: str | None = None
    """Whose names its tensors have."""

    @property
    def random(self) -> bool:
        """Whether the numbers are random."""
        return self.checkpoint is None

    @property
    def number_bytes(self) -> int:
        """Bytes of one number."""
        return BYTES[self.dtype]

    def words(self, seed: int) -> str:
        """The format and the origin, as a part of a sentence."""
        origin = f"random weights, seed {seed}" if self.random else f"weights of {self.checkpoint}"
        return f"{self.dtype}, {origin}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: dtype, checkpoint and family."""
        return dataclasses.asdict(self)


def require_dtype(dtype: object) -> None:
    """Nothing for a number format that a model can run in, and for None.

    Raises:  InputError for anything else.
    """
    if dtype is not None and dtype not in DTYPES:
        raise InputError(f"unknown dtype {dtype!r}", f"choose one of {', '.join(DTYPES)}")
