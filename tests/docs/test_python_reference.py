"""Every public name has a place in the reference of the Python API; test_doctests runs its sessions."""

from __future__ import annotations

import pytest

import tfinspect
from tests.docs.console import ROOT

PAGE = ROOT / "docs/reference/python.md"


@pytest.mark.parametrize("name", sorted(tfinspect.__all__))
def test_each_public_name_is_in_the_reference(name: str) -> None:
    assert f"`{name}`" in PAGE.read_text("utf-8") or f"tfinspect.{name}" in PAGE.read_text("utf-8")
