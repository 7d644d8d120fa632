"""What published checkpoints hold, from headers of their names and shapes: the case's number stands beside each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.headers import Shape, header, shards
from tests.sources.test_safetensors_header import tensor, write
from tfinspect.errors import CheckFailed, InputError
from tfinspect.inspectors.stored import require, stored
from tfinspect.results.stored import StoredParams
from tfinspect.sources.checkpoint import read


def ledger(path: Path, shapes: Mapping[str, Shape], **how: Any) -> StoredParams:
    """What a file of these tensors holds; it is sparse, and takes no room."""
    file = path / "model.safetensors"
    return stored(read(write(file, header(shapes))), **how)


def blocks(n: int, prefix: str, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    return {f"{prefix}.{at}.{name}": shape for at in range(n) for name, shape in shapes.items()}


GPT2_BLOCK: Final[Mapping[str, Shape]] = {
    "ln_1.weight": [768], "ln_1.bias": [768],
    "attn.c_attn.weight": [768, 2304], "attn.c_attn.bias": [2304],
    "attn.c_proj.weight": [768, 768], "attn.c_proj.bias": [768],
    "ln_2.weight": [768], "ln_2.bias": [768],
    "mlp.c_fc.weight": [768, 3072], "mlp.c_fc.bias": [3072],
    "mlp.c_proj.weight": [3072, 768], "mlp.c_proj.bias": [768],
}  # fmt: skip
MASK: Final[Mapping[str, Shape]] = {"attn.bias": [1, 1, 1024, 1024]}
GPT2: Final[Mapping[str, Shape]] = {
    "wte.weight": [50257, 768], "wpe.weight": [1024, 768],
    **blocks(12, "h", {**GPT2_BLOCK, **MASK}),
    "ln_f.weight": [768], "ln_f.bias": [768],
}  # fmt: skip


def test_p05_masks_that_are_stored_are_no_parameters(tmp_path: Path) -> None:
    found = ledger(tmp_path, GPT2, check=False)
    assert (found.elements, found.total, found.n_bytes) == (137_022_720, 124_439_808, 548_090_880)
    assert found.elements_of("buffer") == 12 * 1_048_576
    assert {row.name.split(".", 2)[2] for row in found.rows if row.role == "buffer"} == {"attn.bias"}


def test_p05_other_buffers_are_told_apart_too(tmp_path: Path) -> None:
    shapes: dict[str, Shape] = {
        "h.0.attn.bias": ("BOOL", [1, 1, 8, 8]), "h.0.attn.masked_bias": [], "layers.0.rotary_emb.inv_freq": [32],
        "embeddings.position_ids": ("I64", [1, 512]), "bn.running_mean": [4], "bn.num_batches_tracked": ("I64", []),
        "h.1.attn.bias": [12], "gpt_neox.layers.0.attention.bias": ("BOOL", [1, 1, 8, 8]), "attention.dense.bias": [4],
    }  # fmt: skip
    found = ledger(tmp_path, shapes)
    assert {row.name for row in found.rows if row.role == "parameter"} == {"h.1.attn.bias", "attention.dense.bias"}
    assert found.total == 16


def test_p07_conv1d_is_in_out_and_linear_out_in(tmp_path: Path) -> None:
    conv1d = ledger(tmp_path, GPT2, check=False)
    linear = ledger(tmp_path, {"h.0.attn.c_attn.weight": [2304, 768], "h.0.attn.c_attn.bias": [2304]})
    assert (conv1d.flipped, linear.flipped) == (True, False)
    assert linear.total == 1_771_776
    assert "[in, out]" in str(conv1d.tables())
    assert "[in, out]" not in str(linear.tables())


QUANTISED: Final = {
    "q_proj": (4096, 4096), "k_proj": (4096, 4096), "v_proj": (4096, 4096), "o_proj": (4096, 4096),
    "gate_proj": (11008, 4096), "up_proj": (11008, 4096), "down_proj": (4096, 11008),
}  # fmt: skip
OUTSIDE: Final[Mapping[str, Shape]] = {
    "model.embed_tokens.weight": ("F16", [32000, 4096]),
    "lm_head.weight": ("F16", [32000, 4096]),
    "model.norm.weight": ("F16", [4096]),
    **blocks(
        32,
        "model.layers",
        {"input_layernorm.weight": ("F16", [4096]), "post_attention_layernorm.weight": ("F16", [4096])},
    ),
}


def bitsandbytes(n_out: int, n_in: int) -> dict[str, Shape]:
    return {
        "weight": ("U8", [n_out * n_in // 2, 1]),
        "weight.absmax": ("U8", [n_out * n_in // 64]),
        "weight.quant_map": [16],
        "weight.quant_state.bitsandbytes__nf4": ("U8", [300]),
    }


def gptq(n_out: int, n_in: int) -> dict[str, Shape]:
    return {
        "qweight": ("I32", [n_in // 8, n_out]),
        "qzeros": ("I32", [n_in // 128, n_out // 8]),
        "scales": ("F16", [n_in // 128, n_out]),
        "g_idx": ("I32", [n_in]),
    }


def awq(n_out: int, n_in: int) -> dict[str, Shape]:
    return {
        "qweight": ("I32", [n_in, n_out // 8]),
        "qzeros": ("I32", [n_in // 128, n_out // 8]),
        "scales": ("F16", [n_in // 128, n_out]),
    }


@pytest.mark.parametrize(("kind", "said"), [(bitsandbytes, "bitsandbytes nf4"), (gptq, "GPTQ"), (awq, "AWQ")])
def test_p10_packed_weights_count_as_many_as_they_stand_for(tmp_path: Path, kind: Any, said: str) -> None:
    # LLaMA-2-7B with all seven linear maps of a block in 4 bit
    packed: dict[str, Shape] = {}
    for module, sizes in QUANTISED.items():
        packed |= {f"{module}.{name}": shape for name, shape in kind(*sizes).items()}
    found = ledger(tmp_path, {**OUTSIDE, **blocks(32, "model.layers", packed)}, check=False)
    assert found.total == 6_738_415_616
    assert found.formats[0].packing == f"4-bit, {said}"
    if kind is bitsandbytes:
        assert found.elements_of("parameter") == 3_500_412_928 == 6_476_005_376 // 2 + 262_410_240


def test_p10_a_matrix_of_100_by_100_has_5000_bytes(tmp_path: Path) -> None:
    (row, *_) = ledger(tmp_path, bitsandbytes(100, 100)).rows
    assert (row.n_bytes, row.params) == (5_000, 10_000)


@pytest.mark.parametrize(
    ("shapes", "params", "packing"),
    [
        ({"w.qweight": ("I32", [96, 64]), "w.qzeros": ("I32", [8, 6]), "w.scales": [8, 64]}, 64 * 1024, "3-bit, GPTQ"),
        ({"w.qweight": ("I32", [96, 512])}, 96 * 512, "packed, bits unknown"),
        ({"e.w_blocks": ("U8", [2, 64, 4, 16]), "e.w_scales": ("U8", [2, 64, 4])}, 2 * 64 * 128, "4-bit, MXFP4"),
        ({"w.weight": ("U8", [8, 64]), "w.weight_scale": ("F8_E4M3", [8, 8])}, 8 * 128, "4-bit, NVFP4"),
        ({"w.weight": ("F8_E4M3", [8, 64]), "w.weight_scale_inv": [1, 1]}, 8 * 64, ""),
        ({"w.weight": ("I8", [8, 64]), "w.SCB": [8]}, 8 * 64, ""),
        ({"w": ("F4", [3, 4])}, 12, ""),
    ],
)  # fmt: skip
def test_p10_further_packings(tmp_path: Path, shapes: dict[str, Shape], params: int, packing: str) -> None:
    found = ledger(tmp_path, shapes)
    assert (found.total, found.rows[0].packing) == (params, packing)
    assert all(row.role == "scale" for row in found.rows[1:])
    assert [module.tensors for module in found.modules] == ([len(shapes)] if "." in found.rows[0].name else [])


def test_c03_a_file_that_ends_early_is_listed_and_fails(tmp_path: Path) -> None:
    file = write(tmp_path / "model.safetensors", {"a": tensor("F32", [1], 0, 4), "b": tensor("F32", [3], 4, 16)}, 12)
    found = stored(read(file))
    assert (found.total, found.conventions.split(",")[0]) == (4, "INCOMPLETE")
    with pytest.raises(CheckFailed, match="ends 4 bytes early; incomplete: b"):
        require(found)


def test_c05_c06_c16_scalars_empty_tensors_and_strange_formats(tmp_path: Path) -> None:
    shapes: dict[str, Shape] = {
        "w": ("BF16", [2, 3]),
        "s": [],
        "e": [0, 5],
        "f": ("F8_E4M3", [4]),
        "g": ("F8_E5M2", [4]),
    }
    content = {"__metadata__": {"format": "pt"}, **header(shapes)}
    found = stored(read(write(tmp_path / "model.safetensors", json.dumps(content).encode() + b"  ", 12 + 4 + 8)))
    assert {row.name: row.elements for row in found.rows} == {"w": 6, "s": 1, "e": 0, "f": 4, "g": 4}
    assert {kind.dtype: kind.elements for kind in found.formats} == {"BF16": 6, "F32": 1, "F8_E4M3": 4, "F8_E5M2": 4}
    assert [a.verdict for a in found.agreements] == ["agree"] * 5


def test_c07_what_is_missing_is_listed_and_the_rest_counted(tmp_path: Path) -> None:
    # 30 files named and 15 present; and 1,199 names of which the shards hold 1,198
    names = {f"layers.{at}.w": f"model-{at // 40 + 1:05}-of-00030.safetensors" for at in range(1199)}
    present: dict[str, dict[str, Shape]] = {}
    for name, file in names.items():
        if int(file[6:11]) <= 15 and name != "layers.7.w":
            present.setdefault(file, {})[name] = [2]
    index = {"metadata": {"total_size": 1}, "weight_map": names}
    found = stored(read(shards(tmp_path, present, index)))
    assert (len(found.missing_files), found.missing_tensors) == (15, ("layers.7.w",))
    assert found.total == 2 * (15 * 40 - 1)
    assert "The index says 1 bytes, and is not believed." in str(found.tables())
    with pytest.raises(CheckFailed, match="15 files are missing"):
        require(found)


QWEN: Final[Mapping[str, Shape]] = {
    # Qwen2-0.5B: d 896, d_ff 4864, 24 blocks, 14 heads of 64, 2 of keys
    "model.embed_tokens.weight": ("BF16", [151936, 896]),
    **blocks(24, "model.layers", {
        "input_layernorm.weight": ("BF16", [896]), "post_attention_layernorm.weight": ("BF16", [896]),
        "self_attn.q_proj.weight": ("BF16", [896, 896]), "self_attn.q_proj.bias": ("BF16", [896]),
        "self_attn.k_proj.weight": ("BF16", [128, 896]), "self_attn.k_proj.bias": ("BF16", [128]),
        "self_attn.v_proj.weight": ("BF16", [128, 896]), "self_attn.v_proj.bias": ("BF16", [128]),
        "self_attn.o_proj.weight": ("BF16", [896, 896]),
        "mlp.gate_proj.weight": ("BF16", [4864, 896]), "mlp.up_proj.weight": ("BF16", [4864, 896]),
        "mlp.down_proj.weight": ("BF16", [896, 4864]),
    }),
    "model.norm.weight": ("BF16", [896]),
}  # fmt: skip
GEMMA: Final[Mapping[str, Shape]] = {
    # Gemma-2-9B: d 3584, d_ff 14336, 42 blocks, 16 heads of 256, 8 of keys, four norms
    "model.embed_tokens.weight": ("BF16", [256000, 3584]),
    **blocks(42, "model.layers", {
        **{f"{name}_layernorm.weight": ("BF16", [3584])
           for name in ("input", "post_attention", "pre_feedforward", "post_feedforward")},
        "self_attn.q_proj.weight": ("BF16", [4096, 3584]), "self_attn.k_proj.weight": ("BF16", [2048, 3584]),
        "self_attn.v_proj.weight": ("BF16", [2048, 3584]), "self_attn.o_proj.weight": ("BF16", [3584, 4096]),
        "mlp.gate_proj.weight": ("BF16", [14336, 3584]), "mlp.up_proj.weight": ("BF16", [14336, 3584]),
        "mlp.down_proj.weight": ("BF16", [3584, 14336]),
    }),
    "model.norm.weight": ("BF16", [3584]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("shapes", "elements", "params"),
    [(QWEN, 630_167_424, 494_032_768), (GEMMA, 10_159_209_984, 9_241_705_984)],
    ids=["Qwen2-0.5B", "Gemma-2-9B"],
)
def test_c08_a_head_that_is_stored_beside_its_table(
    tmp_path: Path, shapes: dict[str, Shape], elements: int, params: int
) -> None:
    twice = {"lm_head.weight": shapes["model.embed_tokens.weight"], **shapes}
    for tied in (True, None):
        once = ledger(tmp_path, shapes, tied_head=tied)
        assert (once.elements, once.total) == (params, params)
    said, silent = (ledger(tmp_path, twice, tied_head=tied, check=False) for tied in (True, None))
    assert (said.elements, said.total) == (elements, params)
    assert (silent.elements, silent.total) == (elements, elements)


def bytes_of(path: Path, shapes: Mapping[str, Shape], numbers: Mapping[str, bytes]) -> Path:
    """A file with these tensors' bytes."""
    content = header(shapes)
    write(path, content)
    raw = len(json.dumps(content).encode())
    with path.open("r+b") as file:
        for name, data in numbers.items():
            file.seek(8 + raw + content[name]["data_offsets"][0])
            file.write(data)
    return path


TWICE: Final[Mapping[str, Shape]] = {"lm_head.weight": [8, 4], "wte.weight": [8, 4], "wpe.weight": [9, 4]}


@pytest.mark.parametrize(
    ("head", "tied", "total", "words"),
    [
        (bytes(128), None, 68, "equal bytes"),
        (bytes(128), True, 68, "equal bytes; config.json says tied"),
        (bytes(128), False, 100, "equal bytes; config.json says untied"),
        (bytes(127) + b"\1", True, 68, "the bytes DIFFER; config.json says tied"),
        (bytes(127) + b"\1", None, 100, None),
    ],
)
def test_c08_two_copies_are_compared_byte_by_byte(
    tmp_path: Path, head: bytes, tied: bool | None, total: int, words: str | None
) -> None:
    file = bytes_of(tmp_path / "model.safetensors", TWICE, {"lm_head.weight": head})
    found = stored(read(file), tied_head=tied)
    assert found.total == total
    assert [(c.name, c.of, c.words) for c in found.copies] == (
        [("lm_head.weight", "wte.weight", words)] if words else []
    )


def test_c08_of_large_copies_pieces_all_over_are_compared(tmp_path: Path) -> None:
    shapes = {"a.weight": [2**21, 2], "b.weight": [2**21, 2]}  # 16 MiB each
    checkpoint = read(bytes_of(tmp_path / "model.safetensors", shapes, {}))
    assert checkpoint.compare("a.weight", "b.weight") == type(checkpoint.compare("a.weight", "b.weight"))(
        True, 2**24, 2**24
    )
    few = checkpoint.compare("a.weight", "b.weight", 2**22)
    assert (few.equal, few.n_compared) == (True, 2**22)
    last = bytes_of(tmp_path / "model.safetensors", shapes, {"b.weight": bytes(12 * 2**20) + b"\1"})
    assert not read(last).compare("a.weight", "b.weight", 2**22).equal


def test_c10_prefixes_change_nothing_and_are_shown(tmp_path: Path) -> None:
    wrapped = {f"_orig_mod.module.transformer.{name}": shape for name, shape in GPT2.items()}
    found = ledger(tmp_path, wrapped, check=False)
    assert (found.total, found.flipped) == (124_439_808, True)
    assert found.rows[0].name == "_orig_mod.module.transformer.wte.weight"
    assert [(m.path, m.copies) for m in found.modules if m.depth == 1][2] == ("_orig_mod.module.transformer.h.*", 12)


def test_c11_a_state_dict_of_torch_is_read_with_its_ties(tmp_path: Path) -> None:
    table, norm = torch.ones(8, 4, dtype=torch.bfloat16), torch.ones(4)
    content = {"wte.weight": table, "lm_head.weight": table, "norm.weight": norm, "step": torch.tensor(3)}
    torch.save({"model": content, "optimizer": {"m": norm}}, tmp_path / "x.pt")
    found = stored(read(tmp_path / "x.pt"))
    assert (found.format, found.total, found.elements, found.elements_of("buffer")) == ("torch", 36, 69, 1)
    assert [(c.name, c.of, c.words) for c in found.copies] == [
        ("lm_head.weight", "wte.weight", "one tensor in the file")
    ]
    assert found.remarks == ("x.pt: the tensors of its entry 'model'.", "x.pt: left out: optimizer.")
    assert [a.verdict for a in found.agreements] == ["not measured", "agree", "agree", "agree"]


def test_c11_of_torchs_files_the_archive_has_as_many_bytes(tmp_path: Path) -> None:
    torch.save({"a.weight": torch.ones(8, 4), "b.weight": torch.zeros(8, 4)}, tmp_path / "pytorch_model.bin")
    found = stored(read(tmp_path))
    assert [(a.closed_form, a.measured) for a in found.agreements] == [(256, 256)] * 2
    assert found.copies == ()


def test_c11_shards_of_torch_are_read_under_their_index(tmp_path: Path) -> None:
    for at, name in enumerate(("a", "b")):
        torch.save({name: torch.ones(at + 2)}, tmp_path / f"pytorch_model-{name}.bin")
    files = {name: f"pytorch_model-{name}.bin" for name in ("a", "b", "c")}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": files}))
    found = stored(read(tmp_path))
    assert (found.total, found.n_files, found.missing_files) == (5, 2, ("pytorch_model-c.bin",))


def test_c17_shards_without_an_index_are_found_by_their_numbers(tmp_path: Path) -> None:
    for at in (1, 2, 4):
        write(tmp_path / f"model-{at:05}-of-00004.safetensors", header({f"w{at}": [at]}))
    found = stored(read(tmp_path))
    assert (found.total, found.missing_files) == (7, ("model-00003-of-00004.safetensors",))


def test_c17_an_index_without_total_size_is_enough(tmp_path: Path) -> None:
    folder = shards(tmp_path, {"a.safetensors": {"w": [3]}}, {"weight_map": {"w": "a.safetensors"}})
    found = stored(read(folder))
    assert (found.total, found.index_total_size, found.faults) == (3, None, ())


def test_c17_one_file_of_any_name_is_the_directorys(tmp_path: Path) -> None:
    write(tmp_path / "adapter.safetensors", header({"w": [3]}))
    assert stored(read(tmp_path)).total == 3
    write(tmp_path / "other.safetensors", header({"w": [3]}))
    with pytest.raises(InputError, match="holds 2 safetensors files: adapter"):
        read(tmp_path)


N_SHARDS: Final = 200


def terabyte(folder: Path, n_shards: int = N_SHARDS) -> int:
    """A checkpoint of a tebibyte and more in sparse files; its parameters."""
    d, wide = 16_384, 24_576  # 5.5 GiB of bfloat16 in each shard
    block = {
        "input_layernorm.weight": ("BF16", [d]), "self_attn.q_proj.weight": ("BF16", [d, d]),
        "self_attn.k_proj.weight": ("BF16", [d, d]), "self_attn.v_proj.weight": ("BF16", [d, d]),
        "self_attn.o_proj.weight": ("BF16", [d, d]), "mlp.up_proj.weight": ("BF16", [wide, d]),
        "mlp.gate_proj.weight": ("BF16", [wide, d]), "mlp.down_proj.weight": ("BF16", [d, wide]),
        "post_attention_layernorm.weight": ("BF16", [d]),
    }  # fmt: skip
    files = {
        f"model-{at + 1:05}-of-{n_shards:05}.safetensors": {
            f"model.layers.{2 * at + inner}.{name}": shape for inner in (0, 1) for name, shape in block.items()
        }
        for at in range(n_shards)
    }
    shards(folder, files)
    return 2 * n_shards * (4 * d * d + 3 * d * wide + 2 * d)


def test_a_terabyte_in_200_shards_is_counted_from_a_few_kilobytes(tmp_path: Path) -> None:
    total = terabyte(tmp_path)
    found = stored(read(tmp_path), expect=total)
    assert (found.total, found.n_files, found.n_bytes) == (total, N_SHARDS, 2 * total)
    assert found.n_bytes > 10**12
    assert found.n_read_bytes < 4096 * N_SHARDS
    assert (found.modules[0].path, found.modules[0].copies) == ("model.layers.*", 400)
    require(found)


names = st.lists(st.sampled_from(["h", "0", "1", "2", "attn", "weight", "bias"]), min_size=1, max_size=5).map(".".join)


@given(st.dictionaries(names, st.lists(st.integers(0, 3), max_size=3), max_size=12), st.none() | st.integers(0, 4))
@settings(max_examples=200)
def test_each_way_to_add_up_has_the_same_sum(
    tmp_path_factory: pytest.TempPathFactory, shapes: dict[str, list[int]], depth: int | None
) -> None:
    found = ledger(tmp_path_factory.mktemp("any"), shapes, depth=depth)
    assert sum(group.params for group in found.groups) == sum(kind.params for kind in found.formats) == found.total
    assert sum(group.copies for group in found.groups) == len(shapes)
    outside = sum(row.own_params for row in found.rows if "." not in row.name)
    if depth != 0:
        assert sum(module.params for module in found.modules if module.depth == 0) + outside == found.total
    assert all(module.depth < (32 if depth is None else depth) for module in found.modules)


def test_tensors_that_differ_are_not_put_together(tmp_path: Path) -> None:
    shapes: dict[str, Shape] = {"h.0.w": [2], "h.1.w": [2], "h.2.w": [3], "h.3.w": ("F16", [2]), "mlp.0.w": [2]}
    found = ledger(tmp_path, shapes)
    assert [(g.pattern, g.copies) for g in found.groups] == [("h.*.w", 2), ("h.2.w", 1), ("h.3.w", 1), ("mlp.0.w", 1)]


def test_expectations_are_compared_with_parameters(tmp_path: Path) -> None:
    require(ledger(tmp_path, GPT2, check=False, expect=124_439_808))
    with pytest.raises(CheckFailed, match="12,582,912 fewer than the expected 137,022,720"):
        require(ledger(tmp_path, GPT2, check=False, expect=137_022_720))


@pytest.mark.parametrize("how", [{"expect": -1}, {"expect": True}, {"depth": -1}])
def test_what_cannot_be_asked_for_is_refused(tmp_path: Path, how: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="give an integer, 0 or more"):
        ledger(tmp_path, {"w": [2]}, **how)
