"""From what a user typed to one Source: a preset, and the flags that change it."""

from __future__ import annotations

import dataclasses
from typing import Any

from tfinspect.presets import DEFAULT, PRESETS, preset
from tfinspect.spec import ModelSpec, derive

__all__ = ["Source", "resolve"]


@dataclasses.dataclass(frozen=True)
class Source:
    """The model that a command is about, and how it was come by."""

    name: str
    """The preset's name, or "custom" where flags changed it into something else."""
    title: str
    """What a reader knows it as."""
    spec: ModelSpec
    origin: str
    """Where the figures of the spec come from."""
    derived: tuple[str, ...] = ()
    """Values that a rule chose because the user left them out."""
    remark: str = ""
    """A remark on a published count, where the preset has one and the spec is the preset's."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: name, origin, derived values and the spec's fields."""
        return {
            "name": self.name,
            "title": self.title,
            "origin": self.origin,
            "derived": list(self.derived),
            "spec": self.spec.to_dict(),
        }


def resolve(preset_name: str | None = None, **given: Any) -> Source:
    """The model named by a preset (GPT-2 Small if none) with the fields that are not None changed.

    A spec that equals a preset's is that preset, however it was typed: ``--d 1024 --layers 24`` is gpt2-medium.

    Raises:  InputError for an unknown preset or an invalid field.
    """
    base = preset(preset_name) if preset_name is not None else DEFAULT
    spec, rules = derive(base.spec, given)
    if spec == base.spec:
        return Source(base.name, base.title, spec, base.source, (), base.remark)
    for known in PRESETS.values():
        if spec == known.spec:
            return Source(known.name, known.title, spec, known.source, rules, known.remark)
    changed = [name for name, value in dataclasses.asdict(spec).items() if value != getattr(base.spec, name)]
    return Source("custom", "custom model", spec, f"{base.name} with {', '.join(changed)} changed", rules)
