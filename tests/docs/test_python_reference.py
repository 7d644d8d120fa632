"""The Python sessions of the pages run as they are written, and every public name has a place in them."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import tfinspect
from tests.docs.console import PAGES, ROOT

PAGE = ROOT / "docs/reference/python.md"
SESSIONS = [page for page in PAGES if ">>> " in page.read_text("utf-8")]


@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: str(page.relative_to(ROOT)))
def test_sessions_run_as_written(page: Path) -> None:
    parser = doctest.DocTestParser()
    text = page.read_text("utf-8").replace("\n```", "\n\n```")  # a fence ends the output above it
    session = parser.get_doctest(text, {}, page.name, str(page), 0)
    said: list[str] = []
    results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(session, out=said.append)
    assert results.attempted > 0
    assert results.failed == 0, "".join(said)


def test_the_reference_has_sessions() -> None:
    assert PAGE in SESSIONS


@pytest.mark.parametrize("name", sorted(tfinspect.__all__))
def test_each_public_name_is_in_the_reference(name: str) -> None:
    assert f"`{name}`" in PAGE.read_text("utf-8") or f"tfinspect.{name}" in PAGE.read_text("utf-8")
