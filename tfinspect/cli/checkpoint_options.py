"""A command on a checkpoint: its argument names one, where it is a file of tensors or a directory that holds some."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from tfinspect.errors import InputError

__all__ = ["ModelOrCheckpoint", "checkpoint_flags"]

ModelOrCheckpoint = Annotated[
    Optional[str],  # noqa: UP045 - typer on Python 3.10 reads this spelling
    typer.Argument(
        metavar="[MODEL]",
        help="A preset, a config.json or a directory with one, or a checkpoint: a file of safetensors or torch.save, "
        "an index, or a directory with one. Where a directory has both, its checkpoint is read; --config reads the "
        "other.",
        show_default=False,
    ),
]


def checkpoint_flags(on_checkpoint: Callable[..., None]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command that is `on_checkpoint` where its argument ``model`` names a checkpoint; it takes no further options.

    Raises:  InputError, when the command is called, for an option that `on_checkpoint` does not take.
    """

    def joined(command: Callable[..., None]) -> Callable[..., None]:
        theirs = inspect.signature(command).parameters
        ours = inspect.signature(on_checkpoint).parameters

        @functools.wraps(command)
        def either(**given: Any) -> None:
            if given["model"] is None or not _names_checkpoint(given["model"]):
                command(**given)
                return
            for name, value in given.items():
                if name not in ours and value != theirs[name].default and value not in ([], ()):
                    raise InputError(
                        f"{_spelled(theirs[name], value)} does nothing with a checkpoint",
                        f"{given['model']!r} is one; --config reads the config.json of a directory",
                    )
            on_checkpoint(**{name: given[name] for name in ours})

        either.__signature__ = inspect.Signature(list(theirs.values()))  # type: ignore[attr-defined]
        return either

    return joined


def _names_checkpoint(target: str) -> bool:
    from tfinspect.presets import PRESETS
    from tfinspect.sources.checkpoint import is_named_like_one, is_stored

    return target not in PRESETS and (is_named_like_one(target) or is_stored(Path(target)))


def _spelled(parameter: inspect.Parameter, value: Any) -> str:
    """An option as a user types it; typer keeps its first spelling where a default would stand."""
    (info,) = parameter.annotation.__metadata__
    on, _, off = next(str(word) for word in (info.default, *info.param_decls) if isinstance(word, str)).partition("/")
    return off if value is False and off else on
