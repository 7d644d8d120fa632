"""As many parameters as the transformers library's own class has, from the same configuration, on the meta device."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.public_models import PUBLIC
from tfinspect.inspectors.params import params
from tfinspect.sources.hf_config import from_dict

transformers: Any = pytest.importorskip(
    "transformers", reason='the transformers library is not installed; python -m pip install ".[hf]"'
)


@pytest.mark.parametrize("name", PUBLIC)
def test_the_total_is_the_librarys_to_the_last_unit(name: str) -> None:
    config, pinned = PUBLIC[name]
    kind = getattr(transformers, config["architectures"][0])
    own = {key: value for key, value in config.items() if key not in ("model_type", "architectures")}
    with torch.device("meta"):
        model = kind(kind.config_class(**own))
    model.tie_weights()
    assert sum(parameter.numel() for parameter in model.parameters()) == pinned
    assert params(from_dict(config).spec, check=False).total == pinned
