"""The program as a process: ``python -m tfinspect``, and the console script."""

from __future__ import annotations

from typing import NoReturn


def run() -> NoReturn:
    """Import the program and run it; Ctrl-C is quiet in the imports too."""
    try:
        from tfinspect.cli import app
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    app.run()


if __name__ == "__main__":
    run()
