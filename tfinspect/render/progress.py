"""A word to a person who waits: one line on standard error, gone when the work is done."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Final

from tfinspect.render.page import on_terminal, page_width

__all__ = ["working"]

#: Work that ends within this time needs no word.
NOTICEABLE_SECONDS: Final = 0.4


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Say what is being done while it is done: ``with working("measuring the torch model"): ...``.

    Silent where standard error is no terminal, and for work that takes no noticeable time. Nothing stays behind, also
    when the work fails or is interrupted.
    """
    if not on_terminal(sys.stderr):
        yield
        return
    line = f"{what} ..."[: page_width() - 1]
    done, shown = threading.Event(), threading.Event()

    def show() -> None:
        if not done.wait(NOTICEABLE_SECONDS):
            shown.set()
            _write(f"\r{line}")

    watcher = threading.Thread(target=show, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        if shown.is_set():
            _write(f"\r{' ' * len(line)}\r")


def _write(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # a terminal that went away needs no word
        sys.stderr.write(text)
        sys.stderr.flush()
