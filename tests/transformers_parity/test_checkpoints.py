"""What the library saves fits its own configuration, and one broken thing is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.transformers_parity.test_values import CASES, spec_of, theirs
from tfinspect.inspectors.check import check
from tfinspect.results.checkpoint_check import CheckpointCheck
from tfinspect.sources.checkpoint_files import checkpoint
from tfinspect.sources.recognise import ALIKE, recognised

torch_files: Any = pytest.importorskip("safetensors.torch", reason="the safetensors library is not installed")

#: Differences between what the library saved and what it says, and why.
KNOWN = {
    # the class ties every head; the test gives this one a table of its own, as the files of T5 1.1 have
    "t5 1.1": ["two tables"],
}


@pytest.fixture
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A case's name, and the folder that its small random model was saved in."""
    theirs(request.param, spec_of(request.param)).save_pretrained(tmp_path)
    return request.param, tmp_path


def looked_at(folder: Path, *, module: bool = True) -> CheckpointCheck:
    return check(checkpoint(folder), check=module)


def differing(folder: Path) -> list[str]:
    return [finding.kind for finding in looked_at(folder, module=False).differences]


@pytest.mark.parametrize("saved", CASES, indirect=True)
def test_what_was_saved_fits(saved: tuple[str, Path]) -> None:
    name, folder = saved
    report = looked_at(folder)
    assert [finding.kind for finding in report.differences] == KNOWN.get(name, [])
    assert report.found_params == report.expected_params == report.built_params
    assert {agreement.verdict for agreement in report.agreements} == {"agree"}


@pytest.mark.parametrize("saved", CASES, indirect=True)
def test_one_broken_thing_is_named(saved: tuple[str, Path]) -> None:
    name, folder = saved
    path = folder / "model.safetensors"
    whole = torch_files.load_file(path)
    matrix = next(key for key in whole if ".0." in key and whole[key].ndim == 2 and len(set(whole[key].shape)) == 2)

    def changed(change: dict[str, Any]) -> list[str]:
        tensors = {key: tensor for key, tensor in {**whole, **change}.items() if tensor is not None}
        torch_files.save_file({key: tensor.clone() for key, tensor in tensors.items()}, path)
        return [kind for kind in differing(folder) if kind not in KNOWN.get(name, [])]

    assert changed({}) == []
    assert changed({matrix: None}) == ["missing tensors"]
    assert changed({matrix: whole[matrix][:, :-1]}) == ["wrong shapes"]
    assert changed({"extra.weight": whole[matrix]}) == ["unexpected tensors"]


@pytest.mark.parametrize("saved", CASES, indirect=True)
def test_the_file_alone_tells_the_family_and_every_size(saved: tuple[str, Path]) -> None:
    name, folder = saved
    found = recognised(checkpoint(folder).tensors)
    assert found is not None
    assert found.spec is not None, found.why
    kind, spec = name.split()[0], spec_of(name)
    assert kind == found.family or kind in ALIKE[found.family]
    told = ("vocab_size", "d_model", "n_layers", "n_encoder_layers", "architecture", "qkv_bias", "out_bias",
            "mlp_bias", "norm_bias", "final_norm", "n_experts", "d_expert", "qk_norm", "head")  # fmt: skip
    assert {field: getattr(found.spec, field) for field in told} == {field: getattr(spec, field) for field in told}
    assert (found.spec.d_attn, found.spec.d_kv) == (spec.d_attn, spec.d_kv)


@pytest.mark.parametrize("saved", ["llama", "gpt2"], indirect=True)
def test_a_changed_configuration_is_seen(saved: tuple[str, Path]) -> None:
    _, folder = saved
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for key, value, kinds in (
        ("vocab_size", 96, {"padded vocabulary", "wrong vocabulary"}),
        ("n_layer" if "n_layer" in config else "num_hidden_layers", 4, {"missing blocks"}),
        ("dtype", "bfloat16", {"dtype"}),
    ):
        path.write_text(json.dumps({**config, key: value}))
        assert len(found := differing(folder)) == 1
        assert set(found) <= kinds
    path.write_text(json.dumps(config))
    assert differing(folder) == []
