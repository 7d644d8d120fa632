"""A word to a person who waits: one line on standard error, gone when the work is done."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final, TextIO

from tfinspect.render.page import on_terminal, page_width

__all__ = ["working"]

#: Work that ends within this time needs no word.
NOTICEABLE_SECONDS: Final = 0.4


@contextlib.contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Say what is being done while it is done: ``with working("measuring the torch model"): ...``.

    What it gives says how far the work is: ``with working("generating") as say: say("token 3 of 20")``.

    Silent where standard error is no terminal, and for work that takes no noticeable time. Nothing stays behind, also
    when the work fails, is interrupted or is terminated.
    """
    if not on_terminal(sys.stderr):
        yield lambda progress: None
        return
    line = _Line(_cells(sys.stderr))
    done = threading.Event()

    def show() -> None:
        if not done.wait(NOTICEABLE_SECONDS):
            line.show()

    line.say(what)
    watcher = threading.Thread(target=show, daemon=True)
    with _wiped_before_the_end(line):
        watcher.start()
        try:
            yield lambda progress: line.say(f"{what}: {progress}")
        finally:
            done.set()
            watcher.join()
            line.wipe()


class _Line:
    """One line of a terminal that is written over, from the moment it is shown until it is wiped."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.text, self.shown = "", False
        self._turn = threading.Lock()  # the work and the watcher both write

    def say(self, what: str) -> None:
        with self._turn:
            before, self.text = self.text, f"{what} ..."[: self.width - 1]
            if self.shown:
                _write(f"\r{self.text.ljust(len(before))}")

    def show(self) -> None:
        with self._turn:
            self.shown = True
            _write(f"\r{self.text}")

    def wipe(self) -> None:
        with self._turn:
            self.clear()

    def clear(self) -> None:
        """Wipe the line without a turn, for a signal that may have come in the middle of one."""
        if self.shown:
            _write(f"\r{' ' * len(self.text)}\r")


@contextlib.contextmanager
def _wiped_before_the_end(line: _Line) -> Iterator[None]:
    """SIGTERM ends the process as it always does, but wipes the line first; a handler of somebody else's stays."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not ours:
        yield
        return

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        line.clear()
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _cells(terminal: TextIO) -> int:
    """Cells in a line of the terminal itself: a line that wraps could not be wiped."""
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(terminal.fileno()).columns or page_width()
    return page_width()


def _write(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # a terminal that went away needs no word
        sys.stderr.write(text)
        sys.stderr.flush()
