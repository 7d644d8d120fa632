"""What a configuration leaves out is read as the transformers library's own class has it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tfinspect.inspectors.params import params
from tfinspect.sources.families import FAMILIES
from tfinspect.sources.hf_config import from_dict

transformers: Any = pytest.importorskip(
    "transformers", reason='the transformers library is not installed; python -m pip install ".[hf]"'
)

#: What the library makes of a family's configuration, by the architecture of the spec.
AUTO = {
    "decoder": "AutoModelForCausalLM",
    "encoder": "AutoModelForMaskedLM",
    "encoder_decoder": "AutoModelForSeq2SeqLM",
}


@pytest.mark.parametrize("model_type", FAMILIES)
def test_defaults_are_the_librarys(model_type: str) -> None:
    written_out = transformers.AutoConfig.for_model(model_type)
    bare, full = from_dict({"model_type": model_type}), from_dict(written_out.to_dict())
    assert full.incomplete == ()
    assert bare.spec == full.spec
    with torch.device("meta"):
        model = getattr(transformers, AUTO[bare.spec.architecture]).from_config(written_out)
    model.tie_weights()
    assert params(bare.spec, check=False).total == sum(parameter.numel() for parameter in model.parameters())


def test_a_default_that_is_another_is_seen() -> None:
    mixtral = transformers.AutoConfig.for_model("mixtral").to_dict()
    mixtral["rope_parameters"] = {**mixtral["rope_parameters"], "rope_theta": 10_000.0}
    assert from_dict({"model_type": "mixtral"}).spec != from_dict(mixtral).spec
