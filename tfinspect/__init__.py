"""tfinspect: the shapes, parameters and FLOPs of Transformers, each figure from two independent paths.

Names resolve on first use, so that ``import tfinspect`` costs nothing and torch is imported only by what runs a model.
"""

from __future__ import annotations

from typing import Any, Final

__version__ = "0.1.0"

#: The public API: each name and the module it lives in.
_HOMES: Final = {
    "Agreement": "tfinspect.results.agreement",
    "CheckFailed": "tfinspect.errors",
    "InputError": "tfinspect.errors",
    "InspectError": "tfinspect.errors",
    "MissingExtra": "tfinspect.errors",
    "ModelSpec": "tfinspect.spec",
    "PRESETS": "tfinspect.presets",
    "Source": "tfinspect.sources.resolve",
    "Table": "tfinspect.results.table",
    "attention": "tfinspect.inspectors.attention",
    "check": "tfinspect.inspectors.check",
    "checkpoint": "tfinspect.sources.checkpoint_files",
    "checks": "tfinspect.inspectors.verify",
    "claims": "tfinspect.inspectors.verify",
    "compare": "tfinspect.inspectors.compare",
    "decode": "tfinspect.inspectors.tokens",
    "flops": "tfinspect.inspectors.any_model",
    "generate": "tfinspect.inspectors.generate",
    "headers": "tfinspect.sources.checkpoint",
    "model_checks": "tfinspect.inspectors.model_checks",
    "params": "tfinspect.inspectors.any_model",
    "preset": "tfinspect.presets",
    "reconcile": "tfinspect.inspectors.reconcile",
    "resolve": "tfinspect.sources.resolve",
    "tokens": "tfinspect.inspectors.tokens",
    "trace": "tfinspect.inspectors.any_model",
    "train_step": "tfinspect.inspectors.train_step",
}

__all__ = sorted(["__version__", *_HOMES])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tfinspect' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
