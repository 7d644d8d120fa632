"""Checkpoints as files, written by hand: eight bytes of length, JSON, and the tensors' bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfinspect.closed_form.params import tensors
from tfinspect.naming import expected, stored_shape
from tfinspect.spec import ModelSpec

Shapes = dict[str, tuple[int, ...]]

#: Bytes of one element.
EACH = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1, "BOOL": 1}


def shapes_of(family: str, spec: ModelSpec) -> Shapes:
    """Every tensor of a family's file of this spec, by its name."""
    shapes = {}
    for ours in tensors(spec):
        place = expected(family, ours.name)
        assert place is not None, ours.name
        shapes[place.name] = stored_shape(place.origin, ours.shape, spec)
    return shapes


def write(path: Path, shapes: Mapping[str, tuple[int, ...]], dtype: str = "F32", **more: Any) -> Path:
    """A safetensors file with these tensors, each filled with a byte of its own; `dtypes` and `fill` by name.

    sparse: all bytes are 0 and take no room on the disk.
    """
    dtypes, fill, sparse = more.get("dtypes", {}), more.get("fill", {}), more.get("sparse", False)
    header, parts, at = {}, [], 0
    for index, (name, shape) in enumerate(shapes.items()):
        kind = dtypes.get(name, dtype)
        n_bytes = math.prod(shape) * EACH[kind]
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + n_bytes]}
        parts += [] if sparse else [bytes([fill.get(name, index % 256)]) * n_bytes]
        at += n_bytes
    raw = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        file.writelines(parts)
        file.truncate(8 + len(raw) + at)
    return path
