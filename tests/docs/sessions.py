"""Python sessions in the documentation and in docstrings: whether they say what Python says."""

from __future__ import annotations

import doctest
import re
from collections.abc import Mapping
from typing import Any

import pytest

FLAGS = doctest.ELLIPSIS


def wrong(text: str, name: str, names: Mapping[str, Any]) -> str:
    """What of a text's session is not as it is written; empty where all of it is.

    Skips where the session needs pandas and there is none.
    """
    if "to_dataframe" in text:
        pytest.importorskip("pandas")
    session = doctest.DocTestParser().get_doctest(_fenced(text), dict(names), name, name, 0)
    said: list[str] = []
    results = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(session, out=said.append)
    assert results.attempted > 0, f"no session in {name}"
    return "".join(said)


def calls(text: str) -> set[str]:
    """The names of tfinspect that a text's session uses, each as ``tfinspect.NAME``."""
    lines = re.findall(r"^ *(?:>>>|\.\.\.) (.*)$", text, re.MULTILINE)
    return set(re.findall(r"\btfinspect\.(\w+)", "\n".join(lines)))


def _fenced(text: str) -> str:
    """The text with a blank line before the end of each fence, which ends the output above it."""
    return text.replace("\n```", "\n\n```")
