"""One shell for all pages, so that a command runs once however many pages show it."""

from __future__ import annotations

import pytest

from tests.docs.console import Shell


@pytest.fixture(scope="session")
def shell() -> Shell:
    return Shell()
