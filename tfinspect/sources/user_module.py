"""From ``package.module:name`` to an `nn.Module`, or to its inputs: the one place where a user's own code is imported.

The name may be a function without arguments that returns the model, a class that needs no arguments, or a model. It is
found as Python finds it, with the current folder first.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tfinspect.errors import InputError, described

if TYPE_CHECKING:
    from torch import nn

__all__ = ["UserModule", "called", "load"]

EXAMPLE = "for example my_model:build, with def build(): return MyModel(...) in my_model.py"


class UserModule(NamedTuple):
    """A user's model, and how to build it again."""

    name: str
    """As it was typed: "my_model:build"."""
    module: nn.Module
    rebuild: Callable[[], nn.Module] | None
    """Builds another one; None where the name is a model already."""


def load(reference: str, seed: int = 0, *, meta: bool = False) -> UserModule:
    """The model that a reference names, built under a seed; no random state is left changed.

    On the meta device its parameters take no memory; a name that is a model already stays where it is.

    Raises:  InputError where there is no such module or name, where the name is no model and builds none, or where the
             user's code raises: its exception and its line.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)  # a model that is named may be made when its module is imported
        home, found = _named(reference)
        if isinstance(found, torch.nn.Module):
            return UserModule(reference, found, None)
        _require_factory(reference, home, found)
        torch.manual_seed(seed % 2**63)
        with torch.device("meta") if meta else contextlib.nullcontext():
            module = _built(reference, found)
        return UserModule(reference, module, lambda: _built(reference, found))


def called(reference: str, seed: int = 0, *, flag: str = "--inputs") -> Any:
    """What the function that a reference names returns, called under a seed; no random state is left changed.

    Raises:  InputError where there is no such function, it needs arguments, or it raises.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        home, found = _named(reference, flag)
        if not callable(found):
            raise InputError(
                f"{reference!r} is {_a(found)}, not a function", "it returns what the module is called with"
            )
        _require_no_arguments(reference, home, found, "returns the inputs")
        torch.manual_seed(seed % 2**63)
        try:
            return found()
        except (Exception, SystemExit) as error:
            raise InputError(f"{reference!r} raised {described(error)}") from None


def _require_factory(reference: str, home: str, found: Any) -> None:
    """Nothing where the object can be called without arguments.

    Raises:  InputError where it cannot.
    """
    if not callable(found):
        raise InputError(f"{reference!r} is {_a(found)}, neither a model nor a function that builds one", EXAMPLE)
    _require_no_arguments(reference, home, found, "returns the model")


def _require_no_arguments(reference: str, home: str, found: Callable[..., Any], wanted: str) -> None:
    needed = _arguments(found)
    if needed:
        raise InputError(
            f"{reference!r} needs arguments: {', '.join(needed)}",
            f"name a function of {home!r} that needs none and {wanted}",
        )


def _named(reference: str, flag: str = "--module") -> tuple[str, Any]:
    """The module's name, and the object that the reference names in it."""
    home, colon, path = reference.partition(":")
    if "/" in home or "\\" in home or home.endswith(".py"):
        raise InputError(
            f"{flag} takes a module's name, not the path {home!r}",
            f"go to its folder and write {Path(home.replace(chr(92), '/')).stem}:{path or 'build'}",
        )
    if not colon or not all(part.isidentifier() for part in (*home.split("."), *path.split("."))):
        raise InputError(f"{flag} takes package.module:name, not {reference!r}", EXAMPLE)
    found = _imported(home)
    for part in path.split("."):
        if not hasattr(found, part):
            raise InputError(f"{home!r} has no {path!r}", _like(part, found))
        found = getattr(found, part)
    return home, found


def _imported(home: str) -> Any:
    here = str(Path.cwd())
    if sys.path[:1] != [here]:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(home)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{home}.".startswith(f"{error.name}."):
            hint = f"it is looked for in {here} and among the installed packages"
            raise InputError(f"there is no module {error.name!r}", hint) from None
        raise InputError(f"importing {home!r} failed: {described(error)}") from None
    except SystemExit as error:
        hint = 'what a file does as a program goes under if __name__ == "__main__"'
        raise InputError(f"importing {home!r} ended the program: {described(error)}", hint) from None
    except Exception as error:
        raise InputError(f"importing {home!r} failed: {described(error)}") from None


def _built(reference: str, factory: Callable[[], Any]) -> nn.Module:
    import torch

    try:
        module = factory()
    except (Exception, SystemExit) as error:
        raise InputError(f"{reference!r} raised {described(error)}") from None
    if not isinstance(module, torch.nn.Module):
        hint = "it has to return the model; does it end in a return?" if module is None else "it has to return a model"
        raise InputError(f"{reference!r} returned {_a(module)}, not a torch.nn.Module", hint)
    return module


def _arguments(factory: Callable[..., Any]) -> list[str]:
    """The arguments that a call cannot do without."""
    with contextlib.suppress(TypeError, ValueError):  # no signature is known
        parameters = inspect.signature(factory).parameters.values()
        optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return [p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind not in optional]
    return []


def _like(name: str, home: Any) -> str:
    """What might have been meant."""
    own = [
        n for n, value in getattr(home, "__dict__", {}).items() if not n.startswith("_") and not inspect.ismodule(value)
    ]
    near = difflib.get_close_matches(name, own, n=1)
    return f"did you mean {near[0]!r}?" if near else f"it has {', '.join(own[:8]) or 'no public name'}"


def _a(value: object) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
