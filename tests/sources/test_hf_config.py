"""Configurations as people have them: whole, with gaps, and wrong in every way."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.public_models import PUBLIC
from tfinspect.errors import InputError
from tfinspect.inspectors.params import params
from tfinspect.sources.families import FAMILIES
from tfinspect.sources.hf_config import from_dict, read
from tfinspect.sources.json_file import MOST_BYTES, read_object
from tfinspect.sources.resolve import resolve

# LLaMA-7B as its files have it, without what later releases of the library added
LLAMA: dict[str, Any] = {
    "model_type": "llama", "vocab_size": 32_000, "hidden_size": 4_096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "intermediate_size": 11_008,
}  # fmt: skip


def total(config: dict[str, Any]) -> int:
    return params(from_dict(config).spec, check=False).total


def test_gpt2s_own_spelling_of_its_sizes() -> None:
    # datamol-io/safe issue 44
    config = {
        "model_type": "gpt2", "n_embd": 768, "n_head": 8, "n_layer": 6, "n_positions": 1_024, "n_inner": None,
        "vocab_size": 10_000,
    }  # fmt: skip
    spec = from_dict(config).spec
    assert (spec.d_ff, spec.d_head, spec.tied_head) == (4 * 768, 96, True)
    assert total(config) == 50_995_200


def test_what_is_left_out_takes_the_familys_own_default_and_is_said() -> None:
    found = from_dict(LLAMA)
    assert (found.spec.n_kv_heads, found.spec.d_head, found.spec.tied_head) == (32, 128, False)
    assert total(LLAMA) == 6_738_415_616
    assert {"num_key_value_heads = 32", "head_dim = 128", "tie_word_embeddings = false"} <= set(found.assumed)
    assert from_dict({"model_type": "gpt2"}).spec.tied_head
    assert not any("vocab_size" in said for said in found.assumed)


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_bare_family_is_the_librarys_own_default_model(kind: str) -> None:
    found = from_dict({"model_type": kind})
    assert found.assumed
    assert found.incomplete == ()


def test_head_dim_is_taken_where_it_is_given() -> None:
    # EleutherAI/gpt-neox issue 1434: d/h would give 507,965,952
    config = PUBLIC["Qwen/Qwen3-0.6B"][0]
    assert total(config) == 596_049_920
    del (halved := dict(config))["head_dim"]
    assert total({**halved, "head_dim": 64}) == 507_965_952


def test_a_key_that_nobody_understands_makes_the_result_incomplete(tmp_path: Path) -> None:
    found = from_dict({**LLAMA, "n_memory_tokens": 16, "rope_scaling": {"type": "linear"}, "torch_dtype": "float16"})
    assert found.incomplete == ("n_memory_tokens is not understood",)
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "n_memory_tokens": 16}))
    report = params(resolve(target=str(tmp_path)), check=False)
    assert report.conventions.startswith("INCOMPLETE, llama of ")
    assert report.to_dict()["model"]["incomplete"] == ["n_memory_tokens is not understood"]
    assert any("figures may be wrong: n_memory_tokens" in note for note in report.tables()[0].notes)


def test_heads_that_do_not_divide_are_named_with_what_would() -> None:
    # rasbt/LLMs-from-scratch issue 444: layers and heads swapped
    swapped = {"model_type": "gpt2", "n_embd": 1_600, "n_layer": 25, "n_head": 48}
    with pytest.raises(InputError, match=r"1600 mod 48 = 16; try --heads .*(40|50)"):
        from_dict(swapped)
    with pytest.raises(InputError, match=r"32 mod 5 = 2; try --kv-heads "):
        from_dict({**LLAMA, "num_key_value_heads": 5})


@pytest.mark.parametrize("value", [0, -1, "12", 12.0, 12.5, True, float("inf"), [12], {}, 2**31, 10**400])
def test_numbers_of_the_wrong_kind_are_one_line_with_key_and_value(value: object) -> None:
    with pytest.raises(InputError, match="n_layer must be ") as raised:
        from_dict({"model_type": "gpt2", "n_layer": value})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings must be true or false, not 'yes'"),
        ({"hidden_act": "mish"}, "the activation 'mish' is not known"),
        ({"hidden_act": 3}, "hidden_act must be a word, not 3"),
        ({"rms_norm_eps": "1e-6"}, "rms_norm_eps must be a finite number"),
        ({"rope_parameters": []}, "rope_parameters must be an object"),
        ({"num_hidden_layers": None}, "num_hidden_layers must be an integer, not None"),
        ({"model_type": "falcon", "multi_query": None}, "multi_query must be true or false, not None"),
        ({"model_type": "falcon", "num_ln_in_parallel_attn": 5}, "num_ln_in_parallel_attn is 5"),
        ({"model_type": "opt", "_remove_final_layer_norm": "no"}, "must be true or false, not 'no'"),
        ({"model_type": "bert", "is_decoder": True}, "is_decoder = True is not supported"),
        ({"model_type": "bert", "architectures": ["BertLMHeadModel"]}, "another model of the same parts"),
        ({"model_type": "bart", "architectures": ["BartForCausalLM"]}, "another model of the same parts"),
        ({"model_type": "t5", "architectures": ["T5EncoderModel"]}, "is the encoder alone"),
        ({"model_type": "mamba", "text_config": {}}, "it is no Transformer"),
        ({"rope_parameters": {"rope_theta": 0}}, "rope_base (--rope-base) must be finite and at least 1"),
        ({"rope_parameters": "linear"}, "rope_parameters must be an object"),
        ({"architectures": "LlamaForCausalLM"}, "architectures must be a list of names"),
        ({"model_type": "llamas"}, "model_type 'llamas' is not known; known: bart, bert"),
        ({"model_type": None}, "has no model_type; known: "),
        ({"model_type": ["llama"]}, "model_type must be a word"),
        ({"model_type": "deepseek_v3"}, "its latent attention is not in the core"),
        ({"model_type": "mamba"}, "it is no Transformer"),
        ({"model_type": "opt", "word_embed_proj_dim": 512, "hidden_size": 1_024, "num_attention_heads": 16},
         "word_embed_proj_dim 512 is not hidden_size 1024"),
        ({"model_type": "bart", "decoder_ffn_dim": 7}, "decoder_ffn_dim is 7 where the encoder has 4096"),
        # a key that is left out has the library's default, 4,096, and not the encoder's width
        ({"model_type": "bart", "encoder_ffn_dim": 8_192}, "decoder_ffn_dim is 4096 where the encoder has 8192"),
        ({"model_type": "bart", "tie_word_embeddings": False}, "tie_word_embeddings = false is not supported"),
        ({"model_type": "bart", "normalize_before": True}, "normalize_before = True is not supported"),
        ({"model_type": "t5", "is_gated_act": True}, "is_gated_act = True is not supported; supported: False"),
        ({"hidden_act": "relu"}, "the activation 'relu' is not known in a gate; known: gelu, "),
        ({"model_type": "qwen3_moe", "decoder_sparse_step": 2}, "decoder_sparse_step = 2 is not supported"),
        ({"model_type": "gpt2", "add_cross_attention": True}, "add_cross_attention = True is not supported"),
        ({"model_type": "gpt2", "n_embd": 768, "hidden_size": 512}, "says n_embd = 768 and hidden_size = 512"),
        ({"model_type": "t5", "feed_forward_proj": "gated-mish"}, "feed_forward_proj 'gated-mish' is not known"),
        ({"model_type": "gpt_neox", "rotary_pct": 7}, "rotary_pct is 7"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "is not supported"),
        ({"model_type": "roberta", "max_position_embeddings": 2}, "leaves no position"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(change: dict[str, Any], complaint: str | None) -> None:
    config = {**({} if "model_type" in change else LLAMA), **change}
    if complaint is None:
        from_dict(config)
        return
    with pytest.raises(InputError) as raised:
        from_dict(config)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_text_part_of_a_multimodal_model_is_used_and_said_to_be() -> None:
    found = from_dict({"model_type": "llava", "vision_config": {"hidden_size": 1_024}, "text_config": LLAMA})
    assert found.spec == from_dict(LLAMA).spec
    assert found.remarks == ("text_config (llama) alone is counted; the rest of llava is not",)
    # huggingface/transformers issue 38331: a text part of no known family
    with pytest.raises(InputError, match="'qwen2_vl' has a text_config of the unknown model_type None"):
        from_dict({"model_type": "qwen2_vl", "text_config": {"hidden_size": 1_024}})


def test_the_class_that_a_configuration_names_says_which_head_it_has() -> None:
    bert = PUBLIC["google-bert/bert-base-uncased"][0]
    assert total(bert) == 109_514_298
    assert total({**bert, "architectures": ["BertModel"]}) == 109_482_240
    assert from_dict({**LLAMA, "architectures": ["LlamaModel"]}).spec.head == "none"
    classifier = from_dict({**bert, "architectures": ["BertForSequenceClassification"]})
    assert classifier.incomplete == ("BertForSequenceClassification: its own head is not counted",)
    assert from_dict({**bert, "architectures": ["BertForPreTraining"]}).incomplete


def test_a_head_that_the_library_counts_otherwise_is_said() -> None:
    # google/t5-v1_1-small: gated, and a head of its own; 76,961,152 elements in its file
    t5 = {
        "model_type": "t5", "d_model": 512, "d_ff": 1_024, "d_kv": 64, "num_heads": 6, "num_layers": 8,
        "num_decoder_layers": 8, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False,
    }  # fmt: skip
    assert total(t5) == 76_961_152
    assert any("head is counted apart" in said for said in from_dict(t5).remarks)
    assert from_dict({"model_type": "bert", "tie_word_embeddings": False}).incomplete


def test_windows_by_layer_types() -> None:
    kinds = ["sliding_attention", "full_attention"] * 13
    base = {"model_type": "gemma2", "num_hidden_layers": 26}
    assert from_dict({**base, "layer_types": kinds}).spec.global_every == 2
    assert from_dict({**base, "layer_types": ["full_attention"] * 26}).spec.global_every == 1
    odd = from_dict({**base, "layer_types": kinds[:-2] + kinds[-2:][::-1]})
    assert odd.incomplete
    with pytest.raises(InputError, match="layer_types must name 26 layers"):
        from_dict({**base, "layer_types": kinds[:3]})


BAD_FILES = {
    "empty": (b"", "is empty"),
    "spaces": (b"  \n", "is empty"),
    "trailing comma": (b'{\n "n_layer": 3,\n}', "is no JSON at line 3, column 1"),
    "comment": (b'{ // layers\n "n_layer": 3}', "JSON has no comments"),
    "nan": (b'{"model_type": "gpt2", "n_layer": NaN}', "at line 1, column 35: NaN is no JSON"),
    "infinity": (b'{"model_type": "gpt2", "x": -Infinity}', "-Infinity is no JSON"),
    "twice": (
        b'{"model_type": "gpt2", "n_layer": 3, "n_layer": 4}',
        "at line 1, column 38: the key 'n_layer' is given twice",
    ),
    "twice inside": (
        b'{"model_type": "gpt2",\n "x": [{"y": "NaN {\\"", "z": {}}, {"y": 1,\n  "y" : 2}], "model_type": "gpt2"}',
        "at line 3, column 3: the key 'y' is given twice",
    ),
    "list": (b'[{"model_type": "gpt2"}]', "holds a list where an object belongs"),
    "word": (b'"gpt2"', "holds a string"),
    "null": (b"null", "holds null"),
    "binary": (bytes(range(256)), "is no text: byte 128 is not UTF-8"),
    "deep": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "is nested too deeply"),
    "long number": (
        b'{"model_type": "gpt2", "n_layer": ' + b"9" * 5_000 + b"}",
        "column 35: an integer of 5,000 digits is no size",
    ),
    "cut short": (b'{"model_type": "gp', "is no JSON at line 1"),
    "single quotes": (b"{'model_type': 'gpt2'}", "names in double quotes"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_what_is_not_quite_json_is_one_line(tmp_path: Path, name: str) -> None:
    data, complaint = BAD_FILES[name]
    (tmp_path / "config.json").write_bytes(data)
    with pytest.raises(InputError) as raised:
        read(tmp_path)
    assert complaint in str(raised.value)
    assert "config.json" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(LLAMA).encode())
    assert read(path).spec == from_dict(LLAMA).spec


def test_a_number_beyond_all_floats_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "gpt2", "n_layer": 1e400}')
    with pytest.raises(InputError, match="n_layer must be an integer, not an infinite number"):
        read(path)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no config\.json"):
        read(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "nothing.json")
    with pytest.raises(InputError, match="null"):
        read(Path("a\0b"))
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate(10 * 2**30)  # a sparse file: nothing of it is on the disk
    with pytest.raises(InputError, match=f"goes beyond {MOST_BYTES:,} bytes"):
        read(huge)
    if os.geteuid():
        huge.chmod(0)
        with pytest.raises(InputError, match="Permission denied"):
            read(huge)


def test_a_target_is_a_preset_or_a_path_and_never_a_guess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve(target="mistral-7b").name == "mistral-7b"
    with pytest.raises(InputError, match="unknown preset 'mistral-7'; did you mean mistral-7b"):
        resolve(target="mistral-7")
    Path("gpt2").mkdir()
    assert resolve(target="gpt2").name == "gpt2"  # a directory without a configuration is no model
    Path("gpt2/config.json").write_text(json.dumps(LLAMA))
    with pytest.raises(InputError, match=r"'gpt2' is a preset, and a path here too; give --preset gpt2"):
        resolve(target="gpt2")
    assert resolve(config="gpt2").name == "llama"
    assert resolve("gpt2").name == "gpt2"
    assert resolve(target="./gpt2", n_layers=2).origin == "gpt2 (llama) with n_layers changed"
    with pytest.raises(InputError, match="two models are named: MODEL gpt2 and --preset gpt1"):
        resolve("gpt1", target="gpt2")
    with pytest.raises(InputError, match=r"'mistralai/Mistral-7B-v0\.1'; did you mean the preset mistral-7b"):
        resolve(target="mistralai/Mistral-7B-v0.1")
    with pytest.raises(InputError, match="MODEL is ''; give a preset"):
        resolve(target="")
    with pytest.raises(InputError, match=r"'missing/config\.json' cannot be read: No such file"):
        resolve(target="missing/config.json")


def outcome(reading: Callable[[], Any]) -> Any:
    """What reading gives, or its error."""
    try:
        return reading()
    except InputError as error:
        return error


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = sorted({key for config, _ in PUBLIC.values() for key in config} | {"rope_parameters", "layer_types", "n_inner"})


@given(st.sampled_from(sorted(FAMILIES)), st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=9), values))
@settings(max_examples=400, deadline=None)
def test_any_configuration_is_a_spec_or_an_error_of_one_line(kind: str, config: dict[str, Any]) -> None:
    found = outcome(lambda: from_dict({**config, "model_type": kind}))
    if isinstance(found, InputError):
        assert "\n" not in str(found)
        assert "the configuration" in str(found)
    else:
        assert params(found.spec, check=False).total > 0


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_any_bytes_are_an_object_or_an_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "config.json"
    path.write_bytes(data)
    found = outcome(lambda: read_object(path))
    assert isinstance(found, dict) or "config.json" in str(found)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(InputError, match="is a pipe"):
        read_object(tmp_path / "config.json")


def test_the_whole_models_word_on_its_head_holds_for_the_text_part() -> None:
    config = {"model_type": "llava", "tie_word_embeddings": True, "text_config": LLAMA}
    assert total(config) == 6_738_415_616 - 32_000 * 4_096


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("gpt2", "GPT2DoubleHeadsModel", "its second head is not counted"),
        ("gpt2", "LlamaForCausalLM", "is no class of gpt2"),
        ("t5", "T5Model", "has no head: its work is counted with one"),
        ("bart", "BartForSequenceClassification", "has a head that is not counted"),
    ],
)
def test_a_class_with_more_or_less_than_the_spec_is_said_to_be(kind: str, name: str, said: str) -> None:
    (lacking,) = from_dict({"model_type": kind, "architectures": [name]}).incomplete
    assert said in lacking


def test_a_gate_of_another_curve_is_kept() -> None:
    assert from_dict({"model_type": "gemma", "hidden_act": "silu"}).spec.activation == "swiglu"
    gelu = from_dict({"model_type": "gemma", "hidden_act": "gelu"})
    assert (gelu.spec.activation, len(gelu.remarks)) == ("geglu_tanh", 1)


def test_many_unknown_keys_are_named_in_part() -> None:
    found = from_dict({**LLAMA, **{f"unknown_{i}": i for i in range(5_000)}, "z" * 100_000: 1})
    assert len(found.incomplete) == 13
    assert sum(map(len, found.incomplete)) < 2_000
