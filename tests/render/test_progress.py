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


def test_progress_is_written_over_the_line_and_wiped_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Watched()
    monkeypatch.setattr(progress, "NOTICEABLE_SECONDS", 0.0)
    monkeypatch.setattr(sys, "stderr", stream)
    with working("generating") as say:
        while not stream.getvalue():
            pass
        say("token 10 of 10")
        say("checking")
    first, longest, last = "generating ...", "generating: token 10 of 10 ...", "generating: checking ..."
    wiped = " " * len(last)
    assert stream.getvalue() == f"\r{first}\r{longest}\r{last.ljust(len(longest))}\r{wiped}\r"


def test_progress_before_the_line_is_shown_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Watched()
    monkeypatch.setattr(progress, "NOTICEABLE_SECONDS", 3600.0)
    monkeypatch.setattr(sys, "stderr", stream)
    with working("generating") as say:
        say("token 1 of 10")
    assert stream.getvalue() == ""
