"""What can go wrong, as a user meets it.

    InspectError            message, hint, exit code
    ├── InputError          2  bad input: the message names it, the hint says what to do
    ├── MissingExtra        2  an optional dependency is absent: the hint names the extra
    └── CheckFailed         1  two figures that had to agree do not

An error is printed as ``error: message; hint``: lower case, the user's own spelling quoted, no traceback.
"""

from __future__ import annotations

import os
import sys
from typing import Final

__all__ = ["CheckFailed", "InputError", "InspectError", "MissingExtra", "described"]

#: Longest message of somebody else's exception that is repeated.
LONGEST: Final = 200


class InspectError(Exception):
    """Base of every error that tfinspect raises on purpose."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class InputError(InspectError):
    """The input cannot be used."""


class MissingExtra(InspectError):
    """An optional dependency is needed and absent."""


class CheckFailed(InspectError):
    """Two independent figures disagree, or an expectation does not hold."""

    exit_code = 1


def described(error: BaseException) -> str:
    """An exception of a user's own code on one line: its type, what it says, and the line of that code it came from."""
    try:
        said = str(error)
    except Exception:  # a message that cannot be made is none
        said = ""
    words = " ".join(line.strip() for line in said.strip().splitlines()[:1])
    words = words if len(words) <= LONGEST else f"{words[:LONGEST]} ..."
    place = _place(error)
    return type(error).__name__ + (f": {words}" if words else "") + (f" ({place})" if place else "")


def _place(error: BaseException) -> str:
    """file:line of the innermost frame outside tfinspect, torch and the import machinery; empty where there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_near(error.filename)}:{error.lineno}"
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    ours = tuple(os.path.join(os.path.dirname(file), "") for file in (__file__, torch) if file)  # noqa: PTH118, PTH120
    place, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((*ours, "<frozen ")) and f"{os.sep}importlib{os.sep}" not in file:
            place = f"{_near(file)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _near(file: str) -> str:
    """A path as a reader in the current folder would write it."""
    here = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118
    return file.removeprefix(here)
