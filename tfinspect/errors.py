"""What can go wrong, as a user meets it.

    InspectError            message, hint, exit code
    ├── InputError          2  bad input: the message names it, the hint says what to do
    ├── MissingExtra        2  an optional dependency is absent: the hint names the extra
    └── CheckFailed         1  two figures that had to agree do not

An error is printed as ``error: message; hint``: lower case, the user's own spelling quoted, no traceback.
"""

from __future__ import annotations

__all__ = ["CheckFailed", "InputError", "InspectError", "MissingExtra"]


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
