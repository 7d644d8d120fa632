"""Checks compute on one thread, as they do in the program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tfinspect.verify.threads import one_thread


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield
