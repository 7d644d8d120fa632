"""Errors in tfinspect's own words reach a terminal of any encoding as they were written."""

from __future__ import annotations

import ast
from pathlib import Path

import tfinspect


def words_of_errors(source: str) -> list[str]:
    """The literal words in every `raise`."""
    raised = [node.exc for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise) and node.exc]
    constants = (node for error in raised for node in ast.walk(error) if isinstance(node, ast.Constant))
    return [constant.value for constant in constants if isinstance(constant.value, str)]


def test_errors_are_raised_in_words_of_ascii() -> None:
    # an error quotes the user, so that it is escaped and never respelled: "²" would read "\\xb2"
    words = [
        word
        for file in Path(tfinspect.__file__).parent.rglob("*.py")
        for word in words_of_errors(file.read_text(encoding="utf-8"))
    ]
    assert len(words) > 100
    assert [word for word in words if not word.isascii()] == []


def test_a_word_outside_ascii_is_found() -> None:
    assert set(words_of_errors('raise InputError(f"n² is {n}", "…")')) == {"n² is ", "…"}
