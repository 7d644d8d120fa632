"""Waiting is quiet unless a person watches, and leaves nothing behind."""

from __future__ import annotations

import io
import sys

import pytest

from tfinspect.render import progress
from tfinspect.render.progress import working


class Watched(io.StringIO):
    """A terminal that says when it was written to."""

    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "NOTICEABLE_SECONDS", 0.0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with working("measuring"):
        pass
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def fail_once_told(stream: Watched, error: type[BaseException]) -> None:
    """Work that lasts until the terminal has been told of it, and then fails."""
    with working("measuring"):
        while not stream.getvalue():
            pass
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_terminal_gets_one_line_that_is_wiped(monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    stream = Watched()
    monkeypatch.setattr(progress, "NOTICEABLE_SECONDS", 0.0)
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(error):
        fail_once_told(stream, error)
    assert stream.getvalue() == "\rmeasuring ..." + "\r" + " " * len("measuring ...") + "\r"


def test_quick_work_is_not_worth_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Watched()
    monkeypatch.setattr(progress, "NOTICEABLE_SECONDS", 3600.0)
    monkeypatch.setattr(sys, "stderr", stream)
    with working("measuring"):
        pass
    assert stream.getvalue() == ""
