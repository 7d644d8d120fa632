"""Tensors stand in memory where their file is mapped, and nothing that is done to them reaches it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.stored import GPT2_WORDS, LLAMA, TINY, as_gpt2, as_llama, folder, save, seeded
from tfinspect.errors import InputError
from tfinspect.measured.weights import model
from tfinspect.results.weights import Weights
from tfinspect.sources.resolve import resolve
from tfinspect.sources.weights import read, tensors
from tfinspect.spec import ModelSpec

OF_ALL_KINDS = {
    "a.float32": torch.arange(6.0).view(2, 3),
    "b.float64": torch.tensor([1e-300, -2.0], dtype=torch.float64),
    "c.bfloat16": torch.tensor([[1.5], [-3.0]], dtype=torch.bfloat16),
    "d.float16": torch.tensor([0.5, 65504.0], dtype=torch.float16),
    "e.int64": torch.tensor([[2**40, -1]]),
    "f.bool": torch.tensor([True, False, True]),
    "g.scalar": torch.tensor(7.25),
    "h.empty": torch.empty(0, 3),
}


def weights_of(path: Path) -> Weights:
    found = resolve(weights=str(path)).weights
    assert found is not None
    return found


def same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)


@pytest.mark.parametrize("shift", [0, 1, 2, 3, 4, 7, 8])
def test_tensors_of_every_kind_come_as_they_were_stored(tmp_path: Path, shift: int) -> None:
    found = tensors(save(tmp_path / "any.safetensors", OF_ALL_KINDS, shift=shift))
    assert {name for name in found if name != "first"} == OF_ALL_KINDS.keys()
    assert len(found) == len(OF_ALL_KINDS) + bool(shift)
    assert all(same(found[name], tensor) for name, tensor in OF_ALL_KINDS.items())


def test_each_tensor_is_a_view_of_its_mapped_file(tmp_path: Path) -> None:
    in_line = {name: tensor for name, tensor in OF_ALL_KINDS.items() if name < "g"}  # three bools put what follows out
    file = save(tmp_path / "any.safetensors", in_line)
    found = tensors(file)
    views = [found[name] for name in in_line]
    assert {view.untyped_storage().nbytes() for view in views} == {file.stat().st_size}
    assert len({view.untyped_storage().data_ptr() for view in views}) == 1


def test_one_that_stands_out_of_line_is_copied_alone(tmp_path: Path) -> None:
    # F64 before BF16 before F32: an offset of 2 is a multiple of a bfloat16's size, and of no float32's
    stored = {"a": torch.ones(3, dtype=torch.bfloat16), "b": torch.ones(2)}
    file = save(tmp_path / "any.safetensors", stored)
    found = tensors(file)
    assert found["a"].untyped_storage().nbytes() == file.stat().st_size
    assert found["b"].untyped_storage().nbytes() == 8
    assert found["b"].data_ptr() % 4 == 0


def test_what_is_written_to_a_tensor_stays_in_memory(tmp_path: Path) -> None:
    file = save(tmp_path / "any.safetensors", OF_ALL_KINDS)
    before = file.read_bytes()
    found = tensors(file)
    found["a.float32"].fill_(9.0)
    assert found["a.float32"].sum() == 54
    assert file.read_bytes() == before
    assert tensors(file)["a.float32"].sum() == 15


@pytest.mark.parametrize(("spec", "stored"), [(TINY, as_gpt2(TINY)), (LLAMA, as_llama(LLAMA))], ids=["gpt2", "llama"])
def test_a_model_has_its_parameters_in_the_file(tmp_path: Path, spec: ModelSpec, stored: dict[str, Tensor]) -> None:
    place = folder(tmp_path / "model", spec)
    size = (place / "model.safetensors").stat().st_size
    built = model(spec, weights_of(place), batch=1, seq_len=1)
    parameters = dict(built.named_parameters())
    assert {p.untyped_storage().nbytes() for p in parameters.values()} == {size}
    assert len({p.untyped_storage().data_ptr() for p in parameters.values()}) == 1
    assert all(same(parameters[name].detach(), tensor) for name, tensor in seeded(spec).items())
    assert stored.keys() == tensors(place).keys()


def test_shards_are_mapped_each(tmp_path: Path) -> None:
    stored = as_gpt2(TINY)
    halves = [dict(list(stored.items())[::2]), dict(list(stored.items())[1::2])]
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    where = {name: file for file, half in zip(names, halves, strict=True) for name in half}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    for file, half in zip(names, halves, strict=True):
        save(tmp_path / file, half)
    found = tensors(tmp_path)
    assert all(same(found[name], tensor) for name, tensor in stored.items())
    assert len({found[name].untyped_storage().data_ptr() for name in found}) == 2
    (tmp_path / names[1]).unlink()
    with pytest.raises(InputError, match=r"is not whole: 1 file is missing: model-00002"):
        tensors(tmp_path)


def test_a_file_of_torch_is_mapped_too(tmp_path: Path) -> None:
    spec, stored = TINY.replace(d_model=64, n_heads=1, d_head=64, n_kv_heads=1, d_ff=256), tmp_path / "model.pt"
    torch.save({"model": {f"_orig_mod.{name}": tensor for name, tensor in as_gpt2(spec).items()}, "step": 3}, stored)
    before = stored.read_bytes()
    built = model(spec, weights_of(stored), batch=1, seq_len=1)
    assert all(same(built.get_parameter(name).detach(), tensor) for name, tensor in seeded(spec).items())
    built.get_parameter("final_norm.weight").data.fill_(3.0)
    assert stored.read_bytes() == before


def test_a_file_that_ends_early_is_refused_before_anything_is_mapped(tmp_path: Path) -> None:
    file = save(tmp_path / "any.safetensors", as_gpt2(TINY))
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(InputError, match=r"is not whole: any\.safetensors ends 5 bytes early"):
        tensors(file)


def test_a_file_that_becomes_shorter_before_it_is_mapped_is_said(tmp_path: Path) -> None:
    file = save(tmp_path / "any.safetensors", OF_ALL_KINDS)
    found = tensors(file)
    file.write_bytes(b"")
    with pytest.raises(InputError, match=r"cannot be mapped: .*is it being written"):
        found["a.float32"]


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("h.0.attn.c_attn.weight", torch.zeros(8, 24, dtype=torch.int8)),
        ("h.0.attn.c_attn.qweight", torch.zeros(8, 24)),
        ("h.0.attn.c_attn.weight_scale", torch.zeros(8)),
        ("h.0.attn.c_attn.bias", torch.zeros(24, dtype=torch.int64)),
    ],
)
def test_quantised_weights_are_refused(tmp_path: Path, name: str, tensor: Tensor) -> None:
    file = save(tmp_path / "any.safetensors", {**as_gpt2(TINY), name: tensor})
    with pytest.raises(InputError, match=rf"stores '{name}' as .*, and a model runs in F64, F32, F16, BF16"):
        tensors(file)


def test_a_format_that_torch_does_not_know_is_refused(tmp_path: Path) -> None:
    header = {"h.0.mlp.c_fc.weight": {"dtype": "F8_E4M3", "shape": [2, 2], "data_offsets": [0, 4]}}
    raw = json.dumps(header).encode()
    file = tmp_path / "any.safetensors"
    file.write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(4))
    with pytest.raises(InputError, match="as F8_E4M3"):
        tensors(file)


def test_masks_that_are_stored_change_nothing(tmp_path: Path) -> None:
    mask = torch.ones(1, 1, 16, 16, dtype=torch.uint8).tril()
    place = folder(tmp_path / "model", TINY)
    save(place / "model.safetensors", {**as_gpt2(TINY), "h.0.attn.bias": mask, "h.1.attn.bias": mask})
    built = model(TINY, weights_of(place), batch=1, seq_len=1)
    assert all(same(built.get_parameter(name).detach(), tensor) for name, tensor in seeded(TINY).items())


@pytest.mark.parametrize("prefix", ["transformer.", "_orig_mod.module.transformer.", "model.backbone."])
def test_what_stands_before_all_names_changes_nothing(tmp_path: Path, prefix: str) -> None:
    place = folder(tmp_path / "model", TINY)
    save(place / "model.safetensors", {prefix + name: tensor for name, tensor in as_gpt2(TINY).items()})
    built = model(TINY, weights_of(place), batch=1, seq_len=1)
    assert same(built.get_parameter("blocks.1.mlp.up.weight").detach(), seeded(TINY)["blocks.1.mlp.up.weight"])


def test_nanogpts_matrices_lie_the_other_way(tmp_path: Path) -> None:
    turned = {
        name: tensor.mT if tensor.ndim == 2 and name.startswith("h.") else tensor
        for name, tensor in as_gpt2(TINY).items()
    }
    place = folder(tmp_path / "model", TINY)
    save(place / "model.safetensors", turned)
    weights = weights_of(place)
    assert weights.family == "nanogpt"
    built = model(TINY, weights, batch=1, seq_len=1)
    assert all(same(built.get_parameter(name).detach(), tensor) for name, tensor in seeded(TINY).items())


def test_names_of_nobody_are_refused(tmp_path: Path) -> None:
    ours = {name: tensor for name, tensor in seeded(TINY).items() if name.split(".")[0] not in GPT2_WORDS.values()}
    file = save(tmp_path / "any.safetensors", ours)
    with pytest.raises(InputError, match="does not tell its model: its names are of no known family; give --config"):
        read(file)
    with pytest.raises(InputError, match="have names of no known family; known: gpt2, "):
        read(file, kind="custom", spec=TINY)


def test_no_checkpoint_is_one_line() -> None:
    for path in ("no-such-file.safetensors", ".", "\0", "a" * 5_000):
        with pytest.raises(InputError):
            resolve(weights=path)
    with pytest.raises(InputError, match="--weights is ''"):
        resolve(weights="")
