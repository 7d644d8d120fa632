"""Waiting is quiet unless a person watches, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
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


@pytest.mark.skipif(os.name != "posix", reason="terminals of POSIX")
def test_the_line_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
    written = b""
    with open(theirs, "w", encoding="utf-8") as terminal:  # noqa: PTH123
        monkeypatch.setattr(progress, "NOTICEABLE_SECONDS", 0.0)
        monkeypatch.setattr(sys, "stderr", terminal)
        with working("running the torch model on the meta device"):
            written = os.read(ours, 1_000)
        written += os.read(ours, 1_000)
    os.close(ours)
    assert written.decode() == "\rrunning the torch m" + "\r" + " " * 19 + "\r"


@pytest.mark.skipif(os.name != "posix", reason="signals and terminals of POSIX")
def test_a_terminated_process_wipes_its_line_and_dies_of_the_signal() -> None:
    import pty

    work = """
from tfinspect.render import progress
progress.NOTICEABLE_SECONDS = 0.0
with progress.working("measuring"):
    while True:
        pass
"""
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", work], stderr=theirs) as process:
        os.close(theirs)
        written = os.read(ours, 1_000)
        process.terminate()
        with contextlib.suppress(OSError):  # Linux ends a terminal without writers so
            while part := os.read(ours, 1_000):
                written += part
    os.close(ours)
    assert written.decode() == "\rmeasuring ..." + "\r" + " " * len("measuring ...") + "\r"
    assert process.returncode == -signal.SIGTERM


def test_somebody_elses_handler_of_sigterm_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def theirs(number: int, frame: object) -> None:
        raise AssertionError

    monkeypatch.setattr(sys, "stderr", Watched())
    before = signal.signal(signal.SIGTERM, theirs)
    try:
        with working("measuring"):
            assert signal.getsignal(signal.SIGTERM) is theirs
        assert signal.getsignal(signal.SIGTERM) is theirs
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with working("measuring"):
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
