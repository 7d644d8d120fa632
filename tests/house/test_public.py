"""The public API is one list, and all of it is there."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect

import pytest

import tfinspect

FUNCTIONS = (
    "attention",
    "check",
    "checkpoint",
    "checks",
    "claims",
    "compare",
    "decode",
    "flops",
    "generate",
    "headers",
    "model_checks",
    "params",
    "preset",
    "reconcile",
    "resolve",
    "tokens",
    "trace",
    "train_step",
)


@pytest.mark.parametrize("name", tfinspect.__all__)
def test_each_public_name_is_importable(name: str) -> None:
    namespace: dict[str, object] = {}
    exec(f"from tfinspect import {name}", namespace)
    assert namespace[name] is getattr(tfinspect, name)
    assert name in dir(tfinspect)


@pytest.mark.parametrize("name", [n for n in tfinspect.__all__ if n != "__version__"])
def test_each_public_name_is_public_in_its_own_module(name: str) -> None:
    home = importlib.import_module(tfinspect._HOMES[name])
    assert name in home.__all__


def test_the_list_is_sorted_and_says_what_a_user_calls() -> None:
    assert tfinspect.__all__ == sorted(tfinspect.__all__)
    assert {name for name in tfinspect.__all__ if inspect.isfunction(getattr(tfinspect, name))} == set(FUNCTIONS)


@pytest.mark.parametrize("name", [n for n in tfinspect.__all__ if callable(getattr(tfinspect, n))])
def test_each_public_callable_says_what_it_gives(name: str) -> None:
    first = (inspect.getdoc(getattr(tfinspect, name)) or "").split("\n")[0]
    assert first.endswith((".", "?"))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'parameters'"):
        _ = tfinspect.parameters


def test_the_version_is_the_one_that_is_installed() -> None:
    assert tfinspect.__version__ == importlib.metadata.version("tfinspect")
