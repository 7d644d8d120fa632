"""Checkpoints as files, written by hand: eight bytes of length, JSON, and the tensors' bytes."""

from __future__ import annotations

import functools
import json
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tfinspect.closed_form.params import tensors
from tfinspect.naming import expected, stored_shape
from tfinspect.sources.hf_config import from_dict
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


#: GPT-2 with three blocks, small.
SMALL: Final = {
    "model_type": "gpt2", "vocab_size": 97, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 32, "n_ctx": 32,
}  # fmt: skip


def example(folder: Path, *, faulty: bool = False, more: Shapes | None = None) -> Path:
    """A folder with a small GPT-2 and its masks; or with five things that differ from its configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    shapes = {**shapes_of("gpt2", from_dict(SMALL).spec), **(more or {})}
    shapes |= {f"transformer.h.{layer}.attn.bias": (1, 1, 32, 32) for layer in range(3)}
    if faulty:
        for layer in range(3):
            del shapes[f"transformer.h.{layer}.mlp.c_fc.bias"]
        shapes |= {"transformer.wte.weight": (104, 24), "lm_head.weight": (104, 24), "adapter.weight": (2, 24)}
    config = {**SMALL, "torch_dtype": "float16"} if faulty else SMALL
    (folder / "config.json").write_text(json.dumps(config))
    write(folder / "model.safetensors", shapes)
    return folder


@functools.cache
def examples(kind: str) -> str:
    """The path of such an example in a folder of its own, for tests that take words: whole, faulty, alone or strange.

    alone: without its configuration.  strange: names of no family, and a key that nobody understands.
    """
    folder = example(Path(tempfile.mkdtemp()) / kind, faulty=kind == "faulty")
    if kind == "alone":
        (folder / "config.json").unlink()
    if kind == "strange":
        write(folder / "model.safetensors", {"conv.weight": (3, 3)})
        (folder / "config.json").write_text(json.dumps({**SMALL, "n_memory_tokens": 16}))
    return str(folder)
