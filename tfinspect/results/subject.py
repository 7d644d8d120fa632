"""The model that a result is about, and how it was come by."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from tfinspect.errors import InputError
from tfinspect.presets import PRESETS, Preset
from tfinspect.spec import ModelSpec

__all__ = ["Described", "Subject"]


class Described(Protocol):
    """A spec with its provenance, such as `tfinspect.sources.resolve.Source`."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def spec(self) -> ModelSpec: ...
    @property
    def origin(self) -> str: ...
    @property
    def derived(self) -> tuple[str, ...]: ...
    @property
    def remark(self) -> str: ...
    @property
    def incomplete(self) -> tuple[str, ...]: ...


@dataclasses.dataclass(frozen=True)
class Subject:
    """A model by name, with its spec and where the figures of the spec come from."""

    name: str
    """The preset's name, or "custom"."""
    title: str
    """What a reader knows it as."""
    spec: ModelSpec
    origin: str
    """Where the figures of the spec come from."""
    derived: tuple[str, ...] = ()
    """Values that a rule chose because the user left them out."""
    remark: str = ""
    """What a careful reader should know about a published count, and no more."""
    incomplete: tuple[str, ...] = ()
    """What a configuration says that could change a count and is not understood; the figures are then incomplete."""

    @classmethod
    def of(cls, model: ModelSpec | Preset | Described) -> Subject:
        """The subject of a described model, a preset, or a bare spec: a preset where the spec equals one.

        Raises:  InputError for anything else.
        """
        if isinstance(model, Preset):
            return cls(model.name, model.title, model.spec, model.source, remark=model.remark)
        if not isinstance(model, ModelSpec):
            if not isinstance(getattr(model, "spec", None), ModelSpec):
                raise InputError(f"{model!r} is no model", "give a ModelSpec, a preset, or what resolve returns")
            return cls(model.name, model.title, model.spec, model.origin, model.derived, model.remark, model.incomplete)
        for known in PRESETS.values():
            if model == known.spec:
                return cls(known.name, known.title, model, known.source, remark=known.remark)
        return cls("custom", "custom model", model, "a ModelSpec made in Python")

    def opening(self) -> str:
        """How a conventions line begins: the title and the whole spec, and whether that is all of it."""
        return f"{'INCOMPLETE, ' if self.incomplete else ''}{self.title}: {self.spec.summary()}"

    def notes(self) -> tuple[str, ...]:
        """The provenance in sentences: origin, and what a rule chose."""
        chosen = (f"Chosen by rule: {'; '.join(self.derived)}.",) if self.derived else ()
        lacks = (f"Incomplete, figures may be wrong: {'; '.join(self.incomplete)}.",) if self.incomplete else ()
        return (*lacks, f"Source of the spec: {self.origin}.", *chosen)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: name, title, origin, derived values and the spec's fields."""
        return {
            "name": self.name,
            "title": self.title,
            "origin": self.origin,
            "derived": list(self.derived),
            "incomplete": list(self.incomplete),
            "spec": self.spec.to_dict(),
        }
