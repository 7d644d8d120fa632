"""Each key of each family: the count follows the transformers library's, or the key is refused or named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tfinspect.errors import InputError
from tfinspect.inspectors.params import params
from tfinspect.sources.families import FAMILIES
from tfinspect.sources.hf_config import from_dict

transformers: Any = pytest.importorskip(
    "transformers", reason='the transformers library is not installed; python -m pip install ".[hf]"'
)

Config = dict[str, Any]

AUTO = {
    "decoder": "AutoModelForCausalLM",
    "encoder": "AutoModelForMaskedLM",
    "encoder_decoder": "AutoModelForSeq2SeqLM",
}

DEPTHS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers", "decoder_layers")

#: T5's files of release 1.1 and mT5's hold a head of their own, which release 5.24 of the library ties all the same.
APART = {("t5", "tie_word_embeddings"), ("mt5", "tie_word_embeddings")}


def librarys_total(config: Config) -> int | None:
    """What the library's class has, or None where the library refuses the configuration."""
    own = {key: value for key, value in config.items() if key != "model_type"}
    try:
        made = transformers.AutoConfig.for_model(config["model_type"], **own)
        architecture = from_dict({"model_type": config["model_type"]}).spec.architecture
        with torch.device("meta"):
            model = getattr(transformers, AUTO[architecture]).from_config(made)
    except Exception:  # of any kind: the library has many
        return None
    return sum(parameter.numel() for parameter in model.parameters())


def turned(key: str, value: object) -> Iterator[object]:
    """Other values of a key, of the same kind."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (2 * value or 3, 1) if "head" in key else (2 * value or 3,)
    elif isinstance(value, float):
        yield value / 2 or 0.25
    elif isinstance(value, str):
        yield from ("relu", "gelu", "silu", "gelu_new", "gated-gelu", "gated-silu", "another word")
    elif value is None:
        yield from (8, True)
    elif isinstance(value, list):
        yield [0]


def outcome(config: Config) -> tuple[int, bool] | None:
    """Our total and whether it is marked as incomplete, or None where the configuration is refused."""
    try:
        found = from_dict(config)
    except InputError:
        return None
    return params(found.spec, check=False).total, bool(found.incomplete)


@pytest.mark.parametrize("kind", FAMILIES)
def test_no_key_changes_the_librarys_count_alone(kind: str) -> None:
    full: Config = transformers.AutoConfig.for_model(kind).to_dict()
    small = {"model_type": kind, **{key: 2 for key in DEPTHS if isinstance(full.get(key), int)}}
    told, followed = 0, 0
    before = librarys_total(small)
    for key in sorted(set(full) - {"model_type", "architectures", "layer_types", "dtype"}):
        for value in turned(key, full[key]):
            config = {**small, key: value}
            ours, theirs = outcome(config), librarys_total(config)
            if ours is None or ours[1]:
                told += 1
            elif theirs is not None and (kind, key) not in APART:
                assert ours[0] == theirs, f"{key} = {value!r}"
                followed += theirs != before
    assert followed >= 4  # the sizes at least; BLOOM has vocabulary, width, depth, tying
    assert told
