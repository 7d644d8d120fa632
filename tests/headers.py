"""Headers of checkpoints from names and shapes, and the files that they stand in; without a tensor's bytes."""

from __future__ import annotations

import functools
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.sources.test_safetensors_header import tensor, write
from tfinspect.sources.safetensors_header import BITS

#: Sizes, which are those of float32 numbers, or a format and sizes.
Shape = Sequence[int] | tuple[str, Sequence[int]]


def header(shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """A header of these tensors, one after the other."""
    found, at = {}, 0
    for name, shape in shapes.items():
        dtype, sizes = shape if isinstance(shape, tuple) else ("F32", shape)
        end = at + math.prod(sizes) * BITS[dtype] // 8
        found[name], at = tensor(dtype, list(sizes), at, end), end
    return found


def shards(folder: Path, files: Mapping[str, Mapping[str, Shape]], index: Mapping[str, Any] | None = None) -> Path:
    """A directory of files, each with its tensors, and their index, by default one that is right but for its total."""
    names = {name: file for file, shapes in files.items() for name in shapes}
    for file, shapes in files.items():
        write(folder / file, header(shapes))
    content = {"metadata": {"total_size": 0}, "weight_map": names} if index is None else index
    (folder / "model.safetensors.index.json").write_text(json.dumps(content))
    return folder


@functools.cache
def sharded() -> str:
    """A checkpoint with something of everything: shards, masks, a head beside its table, a configuration."""
    folder = Path(tempfile.mkdtemp(prefix="tfinspect-"))
    config = {"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "vocab_size": 9, "n_positions": 4}
    (folder / "config.json").write_text(json.dumps(config))
    table: Mapping[str, Shape] = {"lm_head.weight": [9, 8], "wte.weight": [9, 8], "wpe.weight": [4, 8]}
    block: Mapping[str, Shape] = {
        "h.0.ln_1.weight": [8], "h.0.attn.bias": [1, 1, 4, 4], "h.0.attn.c_attn.weight": [8, 24],
        "h.0.attn.c_proj.weight": [8, 8], "h.0.ln_2.weight": [8], "h.0.mlp.c_fc.weight": [8, 32],
        "h.0.mlp.c_proj.weight": [32, 8], "ln_f.weight": [8],
    }  # fmt: skip
    shards(folder, {"model-00001-of-00002.safetensors": table, "model-00002-of-00002.safetensors": block})
    return str(folder)


@functools.cache
def single() -> str:
    """A file of a table and a head alike, with nothing beside it."""
    path = Path(tempfile.mkdtemp(prefix="tfinspect-")) / "model.safetensors"
    return str(write(path, {"__metadata__": {"step": 3}, **header({"wte.weight": [9, 8], "lm_head.weight": [9, 8]})}))
