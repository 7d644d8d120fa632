"""A checkpoint with the configuration beside it, read as far as names and shapes go."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tfinspect.errors import InputError
from tfinspect.naming import FAMILIES, SAME_NAMES
from tfinspect.sources import checkpoint as checkpoints
from tfinspect.sources import recognise
from tfinspect.sources.checkpoint import Checkpoint
from tfinspect.sources.json_file import read_object
from tfinspect.sources.resolve import Source, resolve
from tfinspect.sources.safetensors_header import StoredTensor

__all__ = ["CheckpointFiles", "checkpoint"]

#: Most bytes of a table that are held against another's: more than that of any published model has.
MOST_COMPARED: Final = 2**32


@dataclasses.dataclass(frozen=True)
class CheckpointFiles:
    """What a checkpoint's files say: the configuration, and the header of each file."""

    path: str
    """The checkpoint, as it was named."""
    config_path: str | None
    """The configuration; None where there is none, and the model is the one that names and shapes tell."""
    config: Mapping[str, Any]
    """Its keys; empty without one."""
    model: Source
    family: str
    """Whose names the tensors have to have."""
    recognised: str | None
    """The family that the names tell; as `family` where both have the same names."""
    untold: tuple[str, ...]
    """Without a configuration: what no tensor tells, with the value that is assumed."""
    names: Mapping[str, str]
    """Names without what stands before all of them, and for each the name that the file has."""
    read: Checkpoint

    @property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """Each tensor as a header describes it, by the file's name for it."""
        return self.read.tensors

    @property
    def missing_files(self) -> tuple[str, ...]:
        """Shards that are not there."""
        return self.read.missing_files

    @property
    def missing_tensors(self) -> tuple[str, ...]:
        """Tensors that the index names and the file that should hold them does not."""
        return self.read.missing_tensors

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Tensors that a shard holds and the index does not name."""
        return self.read.unlisted

    @property
    def cut(self) -> Mapping[str, tuple[int, tuple[str, ...]]]:
        """Files that end early: by how many bytes, and which tensors are not whole."""
        return {h.path.name: (h.missing_bytes, h.incomplete) for h in self.read.headers if h.missing_bytes}

    @property
    def n_files(self) -> int:
        """Files of tensors that are there."""
        return len(self.read.files)

    @property
    def n_header_bytes(self) -> int:
        """Bytes that were read for names and shapes."""
        return self.read.n_header_bytes

    def same_bytes(self, one: str, other: str) -> bool | None:
        """Whether two tensors hold the same bytes; None where they agree as far as they could be read."""
        if self.tensors[one].n_bytes != self.tensors[other].n_bytes:
            return False
        if not {one, other}.isdisjoint(self.read.incomplete):
            return None
        compared = self.read.compare(one, other, MOST_COMPARED)
        if compared.equal and compared.n_compared < compared.n_bytes:
            return None
        return compared.equal


def checkpoint(path: str | Path, config: str | Path | None = None) -> CheckpointFiles:
    """A checkpoint's names and shapes, with the config.json beside it, or another one.

    A path is a safetensors file, an index, a directory with either, or a file of torch.save. Without a configuration
    the model is the one that names and shapes tell.

    >>> import pathlib, tempfile, torch
    >>> sizes = {"wte": (9, 4), "wpe": (5, 4), "h.0.ln_1": (4,), "h.0.attn.c_attn": (4, 12), "h.0.attn.c_proj": (4, 4),
    ...          "h.0.ln_2": (4,), "h.0.mlp.c_fc": (4, 16), "h.0.mlp.c_proj": (16, 4)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "model.pt"
    ...     torch.save({f"_orig_mod.{name}.weight": torch.zeros(shape) for name, shape in sizes.items()}, file)
    ...     files = tfinspect.checkpoint(file)
    >>> files.family, files.model.spec.n_layers, files.model.spec.bias
    ('gpt2', 1, False)
    >>> files.names["h.0.ln_1.weight"]
    '_orig_mod.h.0.ln_1.weight'

    Raises:  InputError for files that cannot be used, and for names of no known family without a configuration.
    """
    for way, named in (("CHECKPOINT", path), ("--config", config)):
        if named == "":
            raise InputError(f"{way} is ''", "give a path")
    path = Path(path)
    read = checkpoints.read(path)
    folder = path if path.is_dir() else path.parent
    beside = Path(config) if config is not None else folder / "config.json"
    if beside.is_dir():
        beside /= "config.json"
    told = recognise.family(read.tensors)
    names = recognise.bare_names(read.tensors)
    if config is None and not beside.is_file():
        return _without_config(path, read)
    source = resolve(config=str(beside))
    if source.name not in FAMILIES and source.name not in SAME_NAMES:
        raise InputError(f"the names of {source.name}'s tensors are not known", f"known: {', '.join(FAMILIES)}")
    if told is not None and recognise.alike(told, source.name):
        told = source.name
    return CheckpointFiles(str(path), str(beside), read_object(beside), source, source.name, told, (), names, read)


def _without_config(path: Path, read: Checkpoint) -> CheckpointFiles:
    """A checkpoint that is held against the model that its own names and shapes tell."""
    found = recognise.recognised(read.tensors)
    if found is None:
        raise InputError(
            f"{str(path)!r} has no config.json beside it, and its names are those of no known family",
            "give --config PATH",
        )
    if found.spec is None:
        raise InputError(
            f"{str(path)!r} has no config.json beside it, and its shapes fit no {found.family}: {found.why}",
            "give --config PATH",
        )
    source = Source(found.family, f"{found.family} of {path}", found.spec, f"names and shapes of the tensors in {path}")
    return CheckpointFiles(str(path), None, {}, source, found.family, found.family, found.untold, found.names, read)
