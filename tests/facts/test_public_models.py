"""Public models from their configurations: as many parameters as the library's own classes have."""

from __future__ import annotations

import pytest

from tests.public_models import PUBLIC
from tfinspect.inspectors.params import params, require
from tfinspect.sources.hf_config import from_dict


def test_there_are_enough_of_them() -> None:
    assert len(PUBLIC) >= 60


@pytest.mark.parametrize("name", PUBLIC)
def test_the_total_is_the_published_models(name: str) -> None:
    config, total = PUBLIC[name]
    configured = from_dict(config)
    assert configured.incomplete == ()
    report = params(configured.spec, expect=total)  # from both paths: the closed form and the torch core
    require(report)
    assert report.total == total


# Figures that were published for these models beside their configurations.
PUBLISHED = {
    "Qwen/Qwen2-7B": 7_615_616_512,  # the parameter count of the hub's safetensors header (huggingface_hub issue 4221)
    "Qwen/Qwen2-0.5B": 494_032_768,  # likewise, with the head tied
    "google/gemma-2-9b": 9_241_705_984,  # likewise
    "EleutherAI/pythia-160m": 162_322_944,  # Biderman et al. 2023, table 1: 85,056,000 without embeddings
    "meta-llama/Llama-3.2-1B": 1_235_814_400,  # the hub's header
    "mistralai/Mistral-7B-v0.1": 7_241_732_096,  # the hub's header
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_totals_are_the_same(name: str) -> None:
    assert PUBLIC[name][1] == PUBLISHED[name]


def test_pythias_count_without_embeddings() -> None:
    report = params(from_dict(PUBLIC["EleutherAI/pythia-160m"][0]).spec, check=False)
    assert any(count.params == 85_056_000 for count in report.other_counts)
