"""Every ``>>>`` of the pages and of the docstrings runs, and prints what stands below it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfinspect
from tests.docs.console import PAGES, ROOT
from tests.docs.sessions import calls, wrong

SESSIONS = [page for page in PAGES if ">>> " in page.read_text("utf-8")]
FUNCTIONS = [name for name in tfinspect.__all__ if inspect.isfunction(getattr(tfinspect, name))]


def docstrings() -> Iterator[tuple[str, str]]:
    """Each docstring with a session in it, and where it stands."""
    for path in sorted((ROOT / "tfinspect").rglob("*.py")):
        source = path.read_text("utf-8")
        if ">>> " not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                words = ast.get_docstring(node) or ""
                if ">>> " in words:
                    yield f"{path.relative_to(ROOT)}:{getattr(node, 'name', '')}", words


DOCSTRINGS = dict(docstrings())


@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_session_of_a_page_runs_as_written(page: Path) -> None:
    assert wrong(page.read_text("utf-8"), str(page), {}) == ""


@pytest.mark.parametrize("place", DOCSTRINGS)
def test_the_session_of_a_docstring_runs_as_written(place: str) -> None:
    assert wrong(DOCSTRINGS[place], place, {"tfinspect": tfinspect}) == ""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_public_function_shows_itself_in_its_docstring(name: str) -> None:
    assert name in calls(inspect.getdoc(getattr(tfinspect, name)) or "")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_public_function_is_called_in_the_reference(name: str) -> None:
    assert name in calls((ROOT / "docs/reference/python.md").read_text("utf-8"))


def test_a_wrong_output_is_seen() -> None:
    text = ">>> 2 + 2\n5\n"
    assert "Expected:\n    5\nGot:\n    4\n" in wrong(text, "a text", {})
    assert wrong(text.replace("5", "4"), "a text", {}) == ""


def test_a_fence_ends_an_output() -> None:
    assert wrong("```python\n>>> 2 + 2\n4\n```\n", "a page", {}) == ""


def test_only_what_is_typed_is_a_call() -> None:
    assert calls("tfinspect.flops\n>>> tfinspect.params(tfinspect.ModelSpec())\ntfinspect.trace") == {
        "params",
        "ModelSpec",
    }
