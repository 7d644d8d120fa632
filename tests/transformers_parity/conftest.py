"""What tests against the transformers library share: they run where it is installed, and are marked so."""

from __future__ import annotations

import pytest

HERE = "transformers_parity"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parts:
            item.add_marker(pytest.mark.transformers)
