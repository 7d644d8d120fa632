"""A model's weights out of a checkpoint, mapped into memory: a page of a file is read when a number in it is.

    checkpoint.read                 names, formats, shapes, places, held against the size of each file; files of
                                    torch.save are mapped by torch itself
    recognise                       whose names these are, and without a configuration, what model it is
    torch.from_file(shared=False)   the file as bytes, private: what is written stays in memory and never reaches it
    a view of these bytes           the tensor

Nothing is copied but a tensor whose place in the file is no multiple of its number's size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tfinspect.errors import InputError
from tfinspect.naming import FAMILIES, SAME_NAMES, is_mask
from tfinspect.results.weights import Weights
from tfinspect.sources import checkpoint, recognise
from tfinspect.sources.safetensors_header import Header, StoredTensor
from tfinspect.spec import ModelSpec

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Found", "read", "tensors"]

#: torch's names of the dtypes that a model can run in, or that a checkpoint has besides its weights.
_TORCH_NAMES: Final[Mapping[str, str]] = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
#: The formats among them that a model runs in.
_RUN_IN: Final = ("F64", "F32", "F16", "BF16")
#: What parts of quantised weights are called.
_PACKED: Final = (
    "qweight", "qzeros", "SCB", "absmax", "quant_map", "weight_packed", "weight_scale", "weight_scale_inv",
)  # fmt: skip


class Found(NamedTuple):
    """What a checkpoint holds."""

    weights: Weights
    spec: ModelSpec | None
    """The model as names and shapes tell it; None where they do not, and none was asked for."""
    untold: tuple[str, ...]
    """What they do not tell, with the value that is taken."""


class Tensors(Mapping[str, "Tensor"]):
    """Tensors by name, each made when it is asked for."""

    def __init__(
        self, makers: Mapping[str, Callable[[], Tensor]], shapes: Mapping[str, recognise.Shaped] | None = None
    ) -> None:
        self._makers = makers
        self.shapes = shapes or {}
        """What has each tensor's shape without making it, by name."""

    def __getitem__(self, name: str) -> Tensor:
        return self._makers[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def read(path: Path, *, kind: str = "", spec: ModelSpec | None = None) -> Found:
    """The weights in a checkpoint, whose names are those of a family, and without a spec the model that they tell.

    A kind that is no family, such as a preset's name, says nothing of the tensors' names.

    Raises:  InputError as `tensors` does, for names of no known family, and where no spec is given and none is told.
    """
    found = tensors(path)
    told = recognise.recognised(found.shapes)
    if spec is None and (told is None or told.spec is None):
        why = told.why if told else "its names are of no known family"
        raise InputError(f"{str(path)!r} does not tell its model: {why}", "give --config PATH or --preset NAME besides")
    family = _family(path, kind, told, spec)
    names = told.names if told else recognise.bare_names(found)
    named = Tensors({bare: functools.partial(found.__getitem__, name) for bare, name in names.items()})
    return Found(Weights(str(path), family, named), told.spec if told else None, told.untold if told else ())


def _family(path: Path, kind: str, told: recognise.Recognised | None, spec: ModelSpec | None) -> str:
    """Whose names a checkpoint's tensors have.

    Raises:  InputError where nothing tells it.
    """
    if kind in FAMILIES or kind in SAME_NAMES:
        return "nanogpt" if kind == "gpt2" and told is not None and told.family == "nanogpt" else kind
    if told is None:
        raise InputError(f"the tensors of {str(path)!r} have names of no known family", f"known: {', '.join(FAMILIES)}")
    if told.family in ("llama", "mistral") and spec is not None and spec.embed_scale:
        return "gemma"  # whose names are Llama's, and whose gains are stored less 1
    return told.family


def tensors(path: Path) -> Tensors:
    """Each tensor of a safetensors file, an index, or a directory with either; of a file of torch.save too.

    No number is read before it is used, and no file is written to.

    Raises:  InputError for what `checkpoint.read` refuses, a checkpoint that is not whole, and quantised weights.
    """
    found = checkpoint.read(path)
    if found.faults:
        raise InputError(f"{str(path)!r} is not whole: {found.faults[0]}", "fetch what is missing")
    for stored in found.tensors.values():
        _require_plain(path, stored.name, stored.dtype)
    files, saved = _Files(), found.mapped
    places = {stored.name: (header, stored) for header in found.headers for stored in header.tensors}
    makers = {name: functools.partial(files.tensor, *place) for name, place in places.items()}
    return Tensors({**makers, **{name: functools.partial(saved.__getitem__, name) for name in saved}}, found.tensors)


def _require_plain(path: Path, name: str, dtype: str) -> None:
    """Nothing for numbers that a model runs in, and for masks and positions in any format.

    Raises:  InputError for quantised and packed weights.
    """
    last = name.rpartition(".")[2]
    is_weight = last in ("weight", "bias") and not is_mask(name)
    if last in _PACKED or dtype not in _TORCH_NAMES or (is_weight and dtype not in _RUN_IN):
        raise InputError(
            f"{str(path)!r} stores {name[:80]!r} as {dtype}, and a model runs in {', '.join(_RUN_IN)}",
            "give the checkpoint that is not quantised",
        )


class _Files:
    """Files as bytes, each mapped once."""

    def __init__(self) -> None:
        self._mapped: dict[Path, Tensor] = {}

    def tensor(self, header: Header, stored: StoredTensor) -> Tensor:
        """One tensor where it lies in its file."""
        import torch

        dtype = getattr(torch, _TORCH_NAMES[stored.dtype])
        if not stored.n_bytes:
            return torch.empty(stored.shape, dtype=dtype)
        begin = 8 + header.n_header_bytes + stored.begin
        data = self._bytes(header.path, header.n_file_bytes)[begin : begin + stored.n_bytes]
        if begin % dtype.itemsize:
            data = data.clone()
        return data.view(dtype).view(stored.shape)

    def _bytes(self, path: Path, n_bytes: int) -> Tensor:
        """A file, of which nothing is read yet.

        Raises:  InputError where it has become shorter, or cannot be mapped.
        """
        import torch

        if path not in self._mapped:
            try:
                self._mapped[path] = torch.from_file(str(path), shared=False, size=n_bytes, dtype=torch.uint8)
            except (RuntimeError, OSError) as error:
                reason = str(error).partition("\n")[0][:200]
                raise InputError(f"{str(path)!r} cannot be mapped: {reason}", "is it being written?") from None
        return self._mapped[path]
