"""A checkpoint, its configuration and the built module against each other: each fault is named, and nothing else is."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints import Shapes, shapes_of, write
from tfinspect.errors import CheckFailed, InputError
from tfinspect.inspectors.check import check, require
from tfinspect.results.checkpoint_check import CheckpointCheck, Finding
from tfinspect.sources.checkpoint_files import checkpoint
from tfinspect.sources.hf_config import from_dict

GPT2: dict[str, Any] = {
    "model_type": "gpt2", "vocab_size": 97, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 32, "n_ctx": 32,
}  # fmt: skip
LLAMA: dict[str, Any] = {
    "model_type": "llama", "vocab_size": 97, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6,
    "num_key_value_heads": 2, "intermediate_size": 40, "max_position_embeddings": 32,
}  # fmt: skip
QWEN2 = {**LLAMA, "model_type": "qwen2", "tie_word_embeddings": True}
TABLE, HEAD = "transformer.wte.weight", "lm_head.weight"


@dataclasses.dataclass
class Saved:
    """A checkpoint in a folder, to be changed before it is looked at."""

    folder: Path
    config: dict[str, Any]
    shapes: Shapes = dataclasses.field(default_factory=dict)
    dtype: str = "F32"
    more: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shapes = shapes_of(self.config["model_type"], from_dict(self.config).spec)

    def looked_at(self, *, module: bool = False) -> CheckpointCheck:
        write(self.folder / "model.safetensors", self.shapes, self.dtype, **self.more)
        (self.folder / "config.json").write_text(json.dumps(self.config))
        return check(checkpoint(self.folder), check=module)

    def found(self) -> list[tuple[str, bool]]:
        return [(finding.kind, finding.differs) for finding in self.looked_at().findings]

    def only(self) -> Finding:
        (finding,) = self.looked_at().findings
        return finding


@pytest.fixture
def gpt2(tmp_path: Path) -> Saved:
    return Saved(tmp_path, dict(GPT2))


@pytest.fixture
def llama(tmp_path: Path) -> Saved:
    return Saved(tmp_path, dict(LLAMA))


@pytest.fixture
def qwen2(tmp_path: Path) -> Saved:
    return Saved(tmp_path, dict(QWEN2))


def test_what_fits_is_found_and_the_module_agrees(gpt2: Saved, tmp_path: Path) -> None:
    report = gpt2.looked_at(module=True)
    # 97·24 + 32·24 + 3·(12·24² + 13·24) + 2·24
    assert report.expected_params == report.found_params == report.built_params == report.stored_elements == 24_816
    assert (report.expected_tensors, report.stored_tensors, report.findings) == (40, 40, ())
    assert [a.verdict for a in report.agreements] == ["agree"] * 4
    require(report)


def test_a_missing_tensor_is_named_as_the_file_would_name_it(gpt2: Saved) -> None:
    del gpt2.shapes["transformer.h.1.mlp.c_proj.weight"]
    report = gpt2.looked_at(module=True)
    (finding,) = report.findings
    assert (finding.kind, finding.differs) == ("missing tensors", True)
    assert [(p.name, p.expected, p.stored) for p in finding.tensors] == [
        ("transformer.h.1.mlp.c_proj.weight", (96, 24), None)
    ]
    assert (report.found_tensors, report.found_params) == (39, 24_816 - 96 * 24)
    assert [a.verdict for a in report.agreements] == ["agree"] * 4
    with pytest.raises(CheckFailed, match=r"missing tensors: 1 tensor of the configuration is not in the file"):
        require(report)


def test_a_missing_matrix_of_q_k_and_v_is_one_tensor(gpt2: Saved) -> None:
    del gpt2.shapes["transformer.h.0.attn.c_attn.weight"]
    (pair,) = gpt2.only().tensors
    assert (pair.name, pair.expected) == ("transformer.h.0.attn.c_attn.weight", (24, 72))


def test_an_unexpected_tensor(gpt2: Saved) -> None:
    gpt2.shapes["transformer.h.0.attn.lora_A"] = (24, 2)
    finding = gpt2.only()
    assert (finding.kind, finding.differs, finding.tensors[0].stored) == ("unexpected tensors", True, (24, 2))
    assert "48 numbers" in finding.what


def test_a_wrong_shape_shows_both(gpt2: Saved) -> None:
    gpt2.shapes["transformer.h.2.mlp.c_fc.weight"] = (24, 95)
    finding = gpt2.only()
    (pair,) = finding.tensors
    assert (finding.kind, pair.expected, pair.stored) == ("wrong shapes", (24, 96), (24, 95))


def test_missing_biases(qwen2: Saved) -> None:
    qwen2.shapes = {name: shape for name, shape in qwen2.shapes.items() if not name.endswith("bias")}
    finding = qwen2.only()
    assert (finding.kind, finding.differs, len(finding.tensors)) == ("missing biases", True, 6)
    assert finding.what.startswith("6 biases of the configuration are not in the file, 80 parameters")


def test_biases_that_the_configuration_switches_off(llama: Saved) -> None:
    llama.shapes["model.layers.1.self_attn.o_proj.bias"] = (24,)
    assert llama.found() == [("unexpected biases", True)]
    llama.config["attention_bias"] = True
    assert llama.found() == [("missing biases", True)]  # the other seven


def test_a_padded_vocabulary_is_named_unless_the_configuration_says_so(gpt2: Saved) -> None:
    # NVIDIA/Megatron-LM issue 51: rows are padded so that they divide well
    gpt2.shapes[TABLE] = (128, 24)
    finding = gpt2.only()
    assert (finding.kind, finding.differs) == ("padded vocabulary", True)
    assert "padded by 31 to a multiple of 128, 744 numbers" in finding.what
    gpt2.config["vocab_size"] = 128
    assert gpt2.found() == []


@pytest.mark.parametrize("rows", [98, 96])
def test_rows_that_are_no_padding_are_a_wrong_vocabulary(gpt2: Saved, rows: int) -> None:
    gpt2.shapes[TABLE] = (rows, 24)
    assert gpt2.found() == [("wrong vocabulary", True)]


def test_gpt2_padded_to_50304_as_its_configuration_says_is_a_note(gpt2: Saved) -> None:
    # nanoGPT and llm.c: V = 50,304; the tokenizer has 50,257
    gpt2.config["vocab_size"] = 50_304
    gpt2.shapes[TABLE] = (50_304, 24)
    assert gpt2.found() == [("padded vocabulary", False)]
    gpt2.config["vocab_size"] = 50_257
    finding = gpt2.only()
    assert finding.differs
    assert "50,304 rows" in finding.what
    assert "padded by 47" in finding.what


@pytest.mark.parametrize(("byte", "kind", "differs"), [(0, "second copy", False), (9, "two tables", True)])
def test_a_tied_table_stored_twice_is_told_by_its_bytes(gpt2: Saved, byte: int, kind: str, differs: bool) -> None:
    # huggingface/transformers issue 30202; arcee-ai/mergekit issue 390
    gpt2.shapes[HEAD] = (97, 24)
    gpt2.more["fill"] = {TABLE: 0, HEAD: byte}
    finding = gpt2.only()
    assert (finding.kind, finding.differs) == (kind, differs)
    assert {pair.name for pair in finding.tensors} == {TABLE, HEAD}
    report = gpt2.looked_at()
    assert report.held["copies"] == (1, 97 * 24)
    assert report.expected_params == report.found_params == 24_816


def test_a_copy_of_another_format_is_another_table(gpt2: Saved) -> None:
    gpt2.shapes[HEAD] = (97, 24)
    gpt2.more["dtypes"] = {HEAD: "F16"}
    assert gpt2.found() == [("two tables", True)]


@pytest.mark.parametrize(("byte", "found"), [(0, [("equal tables", False)]), (9, [])])
def test_tables_that_are_not_tied_and_hold_the_same(llama: Saved, byte: int, found: list[tuple[str, bool]]) -> None:
    llama.more["fill"] = {"model.embed_tokens.weight": 0, HEAD: byte}
    assert llama.found() == found


def test_an_untied_head_that_is_not_there(llama: Saved) -> None:
    # google-deepmind/gemma issue 8: no lm_head in the file
    del llama.shapes[HEAD]
    assert llama.found() == [("missing head", True)]
    llama.config["tie_word_embeddings"] = True
    assert llama.found() == []


def test_a_position_table_of_another_length(gpt2: Saved) -> None:
    gpt2.shapes["transformer.wpe.weight"] = (64, 24)
    finding = gpt2.only()
    assert (finding.kind, finding.differs) == ("wrong n_ctx", True)
    assert "64 rows, and the configuration gives it 32" in finding.what
    gpt2.config |= {"n_positions": 64, "n_ctx": 64}
    assert gpt2.found() == []


def test_a_configuration_with_two_lengths(gpt2: Saved) -> None:
    gpt2.config["n_ctx"] = 16
    assert gpt2.found() == [("wrong n_ctx", True)]


def test_masks_stored_as_weights_are_a_note_and_counted_apart(gpt2: Saved) -> None:
    # lopuhin/transformer-lm issue 20: attn.bias is a mask, c_attn.bias a bias
    for layer in range(3):
        gpt2.shapes |= {f"transformer.h.{layer}.attn.bias": (1, 1, 32, 32),
                        f"transformer.h.{layer}.attn.masked_bias": ()}  # fmt: skip
    report = gpt2.looked_at()
    assert [(f.kind, f.differs, len(f.tensors)) for f in report.findings] == [("masks", False, 6)]
    assert report.held["masks"] == (6, 3 * 32 * 32 + 3)
    assert report.stored_elements == 24_816 + 3_075


def test_a_mask_of_another_length_than_the_configurations(gpt2: Saved) -> None:
    gpt2.shapes["transformer.h.0.attn.bias"] = (1, 1, 64, 64)
    assert gpt2.found() == [("masks", False), ("wrong n_ctx", True)]


def test_number_formats(gpt2: Saved) -> None:
    gpt2.config["torch_dtype"] = "float32"
    assert gpt2.found() == []
    gpt2.dtype = "F16"
    assert gpt2.found() == [("dtype", True)]
    gpt2.config["torch_dtype"] = "float16"
    assert gpt2.found() == []
    gpt2.more["dtypes"] = {"transformer.ln_f.weight": "F32"}
    assert gpt2.found() == [("mixed dtypes", False)]


def test_blocks_that_are_not_there_and_blocks_beyond(gpt2: Saved) -> None:
    gpt2.config["n_layer"] = 5
    finding = gpt2.only()
    assert (finding.kind, len(finding.tensors)) == ("missing blocks", 24)
    assert "2 of them are not in the file: blocks.3, blocks.4" in finding.what
    gpt2.config["n_layer"] = 2
    finding = gpt2.only()
    assert (finding.kind, len(finding.tensors)) == ("more blocks", 12)


def test_matrices_that_lie_the_other_way(gpt2: Saved) -> None:
    # karpathy/nanoGPT issue 190: c_proj is square, so that its shape alone cannot tell
    gpt2.shapes = shapes_of("nanogpt", from_dict(GPT2).spec)
    finding = gpt2.only()
    assert finding.kind == "transposed"
    assert {pair.name.rpartition("h.")[2].partition(".")[2] for pair in finding.tensors} == {
        "attn.c_attn.weight", "mlp.c_fc.weight", "mlp.c_proj.weight",
    }  # fmt: skip


def test_the_configuration_of_another_family(gpt2: Saved) -> None:
    gpt2.config = dict(LLAMA)
    finding = gpt2.only()
    assert finding.kind == "another family"
    assert "is of llama, and the names in the file are those of gpt2" in finding.what


@pytest.mark.parametrize("before", ["_orig_mod.module.", "module."])
def test_prefixes_are_taken_off_and_shown(gpt2: Saved, before: str) -> None:
    # karpathy/nanoGPT issue 325
    gpt2.shapes = {f"{before}{name}": shape for name, shape in gpt2.shapes.items()}
    assert gpt2.found() == []
    del gpt2.shapes[f"{before}transformer.ln_f.weight"]
    gpt2.shapes[f"{before}x"] = (1,)
    missing, unexpected = gpt2.looked_at().findings
    assert missing.tensors[0].name == f"{before}transformer.ln_f.weight"
    assert unexpected.tensors[0].name == f"{before}x"


def test_names_without_their_first_word(gpt2: Saved) -> None:
    gpt2.shapes = {name.removeprefix("transformer."): shape for name, shape in gpt2.shapes.items()}
    assert gpt2.found() == []
    del gpt2.shapes["ln_f.weight"]
    assert gpt2.only().tensors[0].name == "ln_f.weight"


def test_a_file_that_ends_early(gpt2: Saved) -> None:
    gpt2.looked_at()
    path = gpt2.folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    (finding,) = check(checkpoint(gpt2.folder), check=False).findings
    assert (finding.kind, finding.differs) == ("truncated files", True)
    assert finding.what.startswith("model.safetensors ends 100 bytes early: 2 tensors are not whole")


def sharded(gpt2: Saved) -> dict[str, str]:
    """GPT-2's tensors in two shards, and which file each is in."""
    names = list(gpt2.shapes)
    (gpt2.folder / "config.json").write_text(json.dumps(gpt2.config))
    where = {}
    for file, part in (("a.safetensors", names[:20]), ("b.safetensors", names[20:])):
        write(gpt2.folder / file, {name: gpt2.shapes[name] for name in part})
        where |= dict.fromkeys(part, file)
    return where


def found_in(gpt2: Saved, where: dict[str, str]) -> list[tuple[str, bool]]:
    (gpt2.folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return [(f.kind, f.differs) for f in check(checkpoint(gpt2.folder), check=False).findings]


def test_an_index_and_its_shards(gpt2: Saved) -> None:
    # huggingface_hub issue 4725: an index with 1,199 names, shards with 1,198
    where = sharded(gpt2)
    assert found_in(gpt2, where) == []
    assert found_in(gpt2, {**where, "gone": "a.safetensors"}) == [("index", True)]
    unlisted = {name: file for name, file in where.items() if name != "transformer.ln_f.weight"}
    assert found_in(gpt2, unlisted) == [("index", True)]
    (gpt2.folder / "b.safetensors").unlink()
    kinds = found_in(gpt2, where)
    assert kinds[0] == ("missing files", True)
    assert {kind for kind, _ in kinds[1:]} <= {"missing blocks", "missing tensors", "missing biases"}


def test_without_a_configuration_the_names_and_shapes_tell_the_model(gpt2: Saved) -> None:
    gpt2.looked_at()
    (gpt2.folder / "config.json").unlink()
    report = check(checkpoint(gpt2.folder))
    assert (report.config, report.family, report.findings) == (None, "gpt2", ())
    assert any(said.startswith("n_heads = ") for said in report.untold)
    del gpt2.shapes["transformer.h.1.ln_1.bias"]
    write(gpt2.folder / "model.safetensors", gpt2.shapes)
    assert [f.kind for f in check(checkpoint(gpt2.folder), check=False).findings] == ["missing biases"]


def test_a_configuration_elsewhere(gpt2: Saved, tmp_path: Path) -> None:
    gpt2.looked_at()
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({**GPT2, "vocab_size": 98}))
    for path in (other, other / "config.json"):
        report = check(checkpoint(gpt2.folder / "model.safetensors", path), check=False)
        assert [f.kind for f in report.findings] == ["wrong vocabulary"]
        assert report.config == str(other / "config.json")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "no JSON"),
        ('{"model_type": "mamba"}', "it is no Transformer"),
        (json.dumps({**GPT2, "n_layer": 2**31 - 1}), "the most is 100,000"),
        (json.dumps({**GPT2, "n_embd": "24"}), "must be an integer"),
    ],
)
def test_configurations_that_cannot_be_used(gpt2: Saved, config: str, message: str) -> None:
    gpt2.looked_at()
    (gpt2.folder / "config.json").write_text(config)
    with pytest.raises(InputError, match=message):
        check(checkpoint(gpt2.folder), check=False)


def test_names_of_no_family_need_a_configuration(tmp_path: Path) -> None:
    path = write(tmp_path / "x.safetensors", {"conv.weight": (3, 3)})
    with pytest.raises(InputError, match="no known family"):
        checkpoint(path)
    (tmp_path / "config.json").write_text(json.dumps(GPT2))
    report = check(checkpoint(path), check=False)
    assert {f.kind for f in report.findings} >= {"missing tensors", "unexpected tensors"}


def test_published_sizes_are_those_of_their_files(tmp_path: Path) -> None:
    """Qwen2-0.5B with and without its second table, as the files of the hub are.

    Source:  arcee-ai/mergekit issue 390; the counts are those of the published headers.
    """
    config = {
        "model_type": "qwen2", "vocab_size": 151_936, "hidden_size": 896, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4_864, "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
    }  # fmt: skip
    shapes = shapes_of("qwen2", from_dict(config).spec)
    (tmp_path / "config.json").write_text(json.dumps(config))
    for more, elements in (({}, 494_032_768), ({HEAD: (151_936, 896)}, 630_167_424)):
        write(tmp_path / "model.safetensors", {**shapes, **more}, "BF16", sparse=True)
        report = check(checkpoint(tmp_path), check=False)
        assert (report.stored_elements, report.expected_params, report.found_params) == (
            elements,
            494_032_768,
            494_032_768,
        )
        assert [(f.kind, f.differs) for f in report.findings] == ([("second copy", False)] if more else [])


def test_gpt2s_released_file_has_masks_beside_its_parameters(tmp_path: Path) -> None:
    # the file of 548,090,880 bytes of data that the hub shows as 137M
    shapes = shapes_of("gpt2", from_dict({"model_type": "gpt2"}).spec)
    masks = {f"transformer.h.{layer}.attn.bias": (1, 1, 1024, 1024) for layer in range(12)}
    path = write(tmp_path / "model.safetensors", {**shapes, **masks}, sparse=True)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    report = check(checkpoint(tmp_path))
    assert (report.stored_elements, report.found_params, report.built_params) == (137_022_720, 124_439_808, 124_439_808)
    assert report.held["masks"] == (12, 12_582_912)
    assert path.stat().st_size - report.n_header_bytes == 548_090_880
    require(report)


def test_a_page_stays_short_and_the_document_has_everything(gpt2: Saved) -> None:
    for i in range(40):
        gpt2.shapes[f"adapter{i}.x"] = (2,)
    report = gpt2.looked_at()
    table = report.tables()[1]
    assert len(table.rows) == 13
    assert table.rows[-1].cells["name"] == "and 28 more lines; --json has all"
    assert len(report.unfolded().tables()[1].rows) == 40
    assert len(report.to_dict()["findings"][0]["tensors"]) == 40
