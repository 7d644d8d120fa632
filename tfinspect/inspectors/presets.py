"""The named models, with their counts."""

from __future__ import annotations

from tfinspect.errors import InputError
from tfinspect.inspectors.params import params
from tfinspect.presets import PRESETS, Preset
from tfinspect.results.presets import Listed, Presets

__all__ = ["presets"]


def presets(search: str = "") -> Presets:
    """Every preset, or those whose name, title or source holds each word of a search, in any case.

    Raises:  InputError where a search finds nothing.
    """
    if not isinstance(search, str):
        raise InputError(f"a search is words, not {search!r}")
    words = search.casefold().split()
    found = [preset for preset in PRESETS.values() if all(word in _text(preset) for word in words)]
    if not found:
        raise InputError(f"no preset has {search!r}", "tfinspect presets lists all")
    return Presets(tuple(map(_listed, found)), len(PRESETS), " ".join(search.split()))


def _listed(preset: Preset) -> Listed:
    report = params(preset, check=False)
    return Listed(preset, report.total, report.active)


def _text(preset: Preset) -> str:
    return f"{preset.name} {preset.title} {preset.source} {preset.year or ''} {preset.spec.summary()}".casefold()
