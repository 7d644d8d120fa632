"""The installed program as a process of its own."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pytest

PROGRAM = str(Path(sysconfig.get_path("scripts")) / "tfinspect")

#: What a user's shell may have set and a test must not inherit.
UNSET = (
    "COLUMNS", "NO_COLOR", "FORCE_COLOR", "LC_ALL", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONUNBUFFERED",
    "TFINSPECT_TRACEBACK",
)  # fmt: skip
PLAIN = {key: value for key, value in os.environ.items() if key not in UNSET} | {"LC_ALL": "C.UTF-8", "TERM": "xterm"}


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a run of the program ended."""

    code: int
    out: str
    err: str


class Program(Protocol):
    def __call__(self, *words: str | bytes, stdin: bytes = b"", env: Mapping[str, str] = {}) -> Ended: ...


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    return {**PLAIN, **changes}


def command(words: Sequence[str | bytes]) -> list[str | bytes]:
    return [PROGRAM, *words]


@pytest.fixture(scope="session")
def tfinspect() -> Program:
    """Run tfinspect with these words to its end."""

    def run(*words: str | bytes, stdin: bytes = b"", env: Mapping[str, str] = {}) -> Ended:
        ended = subprocess.run(command(words), input=stdin, capture_output=True, env=environment(env), check=False)
        out, err = (text.decode("utf-8", "surrogateescape") for text in (ended.stdout, ended.stderr))
        return Ended(ended.returncode, out, err)

    return run
