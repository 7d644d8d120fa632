"""From what a user typed to one Source: a preset or a configuration file, and the flags that change it."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfinspect.errors import InputError
from tfinspect.presets import DEFAULT, PRESETS, preset
from tfinspect.results.subject import Subject
from tfinspect.results.weights import Weights
from tfinspect.spec import ModelSpec, derive

__all__ = ["Source", "resolve"]


@dataclasses.dataclass(frozen=True)
class Source(Subject):
    """The model that a command is about, and how it was come by; its name is a preset's, a family's, or "custom"."""

    weights: Weights | None = None
    """A checkpoint's tensors, where the model comes with them."""


def resolve(
    preset_name: str | None = None,
    *,
    target: str | None = None,
    config: str | None = None,
    weights: str | None = None,
    **given: Any,
) -> Source:
    """The model that a preset, a config.json or either of them names, with the fields that are not None changed.

    GPT-2 Small where none is named. A target is a preset's name, or the path of a config.json or of a directory that
    holds one. A spec that equals a preset's is that preset, however it was typed: ``--d 1024 --layers 24`` is
    gpt2-medium. Weights are the path of a checkpoint; where no model is named besides, it is that of the config.json
    beside them, or else what their names and shapes tell.

    Raises:  InputError for two models, a target that is neither or both, an unknown preset, a configuration that cannot
             be used, an invalid field, or a checkpoint that cannot be read.

    >>> tfinspect.resolve(d_model=640, n_layers=6).derived
    ('d_ff = 4·d = 2560', 'heads = d/64 = 10')
    """
    if weights is not None:
        return _with_weights(weights, {"preset_name": preset_name, "target": target, "config": config}, given)
    named = {"MODEL": target, "--preset": preset_name, "--config": config}
    for way, name in named.items():
        if name == "":
            raise InputError(f"{way} is ''", "give a preset, or the path of a config.json")
    typed = [f"{way} {name}" for way, name in named.items() if name is not None]
    if len(typed) > 1:
        raise InputError(f"two models are named: {' and '.join(typed)}", "give one of them")
    if target is not None:
        preset_name, config = _told_apart(target)
    if config is not None:
        return _configured(Path(config), given)
    base = preset(preset_name) if preset_name is not None else DEFAULT
    spec, rules = derive(base.spec, given)
    if spec == base.spec:
        return Source(base.name, base.title, spec, base.source, (), base.remark)
    for known in PRESETS.values():
        if spec == known.spec:
            return Source(known.name, known.title, spec, known.source, rules, known.remark)
    return Source("custom", "custom model", spec, f"{base.name} with {_changed(base.spec, spec, given)} changed", rules)


def _with_weights(weights: str, named: Mapping[str, str | None], given: Mapping[str, Any]) -> Source:
    """A model with a checkpoint's tensors: the one that is named, that of the config.json beside them, or their own."""
    from tfinspect.sources import weights as checkpoints

    if not weights:
        raise InputError("--weights is ''", "give a checkpoint: a safetensors file, an index, or a directory")
    path = Path(weights)
    source = None
    if any(name is not None for name in named.values()):
        source = resolve(**named, **given)
    elif (beside := _beside(path)) is not None:
        source = _configured(beside, given)
    if source is not None:
        found = checkpoints.read(path, kind=source.name, spec=source.spec)
    else:
        found = checkpoints.read(path)
        assert found.spec is not None
        spec, rules = derive(found.spec, given)
        origin = f"names and shapes of {weights} ({found.weights.family})"
        if spec != found.spec:
            origin += f", with {_changed(found.spec, spec, given)} changed"
        untold = (f"not told by the file: {', '.join(found.untold)}",) if found.untold else ()
        family = found.weights.family
        source = Source(family, f"{family} of {weights}", spec, origin, (*untold, *rules))
    return dataclasses.replace(source, weights=found.weights)


def _beside(path: Path) -> Path | None:
    """The config.json in a checkpoint's directory; None where there is none."""
    try:
        found = (path if path.is_dir() else path.parent) / "config.json"
        return found if found.is_file() else None
    except (OSError, ValueError):
        return None


def _told_apart(target: str) -> tuple[str | None, str | None]:
    """A target as a preset's name or as a path.

    Raises:  InputError where it is neither, and where it is both.
    """
    if not target.strip():
        raise InputError(f"MODEL is {target!r}", "give a preset, a config.json, or a directory with one")
    path = Path(target)
    try:
        there = (path / "config.json").is_file() or path.is_file() or (path.is_dir() and target not in PRESETS)
    except (OSError, ValueError):
        there = False
    if target in PRESETS and there:
        raise InputError(
            f"{target!r} is a preset, and a path here too", f"give --preset {target}, or --config ./{target}"
        )
    if not there and not any(sign in target for sign in ("/", "\\")) and not target.endswith(".json"):
        return target, None
    last = target.replace("\\", "/").rpartition("/")[2].lower()
    near = [] if there else difflib.get_close_matches(last, PRESETS, n=1)
    if near:  # a name on a hub: nothing is fetched
        raise InputError(f"no file or directory is at {target!r}", f"did you mean the preset {near[0]}?")
    return None, target


def _configured(path: Path, given: Mapping[str, Any]) -> Source:
    """The model of a configuration file, with the fields that are not None changed."""
    from tfinspect.sources import hf_config

    found = hf_config.read(path)
    spec, rules = derive(found.spec, given)
    origin = f"{path} ({found.model_type})"
    if spec != found.spec:
        origin += f" with {_changed(found.spec, spec, given)} changed"
    assumed = (f"{', '.join(found.assumed)} (the library's defaults)",) if found.assumed else ()
    derived = (*found.remarks, *assumed, *rules)
    title = f"{found.model_type} of {path}"
    return Source(found.model_type, title, spec, origin, derived, incomplete=found.incomplete)


def _changed(base: ModelSpec, spec: ModelSpec, given: Mapping[str, Any]) -> str:
    """The fields that a user or a stated rule changed, without those that follow from them."""
    differs = [name for name, value in spec.to_dict().items() if value != getattr(base, name)]
    return ", ".join(name for name in differs if given.get(name) is not None or not spec.follows_rule(name))
