"""The torch core can be read in one sitting."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def test_the_transformer_is_within_350_lines() -> None:
    found = importlib.util.find_spec("tfinspect.model.transformer")
    assert found is not None
    assert found.origin is not None
    assert 0 < len(Path(found.origin).read_text(encoding="utf-8").splitlines()) <= 350
