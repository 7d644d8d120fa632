"""What tensors are called, and what they are called where one is missing."""

from __future__ import annotations

import pytest

from tfinspect.naming import FAMILIES, as_form, expected, find, is_mask, stored_shape, unwrapped
from tfinspect.presets import preset

GPT2 = preset("gpt2").spec


def name_of(family: str, ours: str, stored: tuple[str, ...] = ()) -> str:
    place = expected(family, ours, {as_form(name) for name in stored})
    assert place is not None
    return place.name


@pytest.mark.parametrize(
    ("family", "ours", "stored", "theirs"),
    [
        ("gpt2", "blocks.3.attn.q.weight", (), "transformer.h.3.attn.c_attn.weight"),
        ("gpt2", "blocks.3.mlp.up.bias", ("h.0.mlp.c_fc.weight",), "h.3.mlp.c_fc.bias"),
        ("gpt2", "final_norm.weight", ("wte.weight",), "ln_f.weight"),
        ("gpt2", "final_norm.weight", ("transformer.wte.weight",), "transformer.ln_f.weight"),
        ("t5", "encoder.blocks.1.mlp.up.weight", ("encoder.block.0.layer.1.DenseReluDense.wi.weight",),
         "encoder.block.1.layer.1.DenseReluDense.wi.weight"),
        ("qwen3_moe", "blocks.1.mlp.router.weight", ("model.layers.0.mlp.gate.weight",),
         "model.layers.1.mlp.gate.weight"),
        ("mixtral", "blocks.1.mlp.experts.7.up.weight", (), "model.layers.1.block_sparse_moe.experts.7.w3.weight"),
    ],
)  # fmt: skip
def test_a_missing_tensor_is_called_as_the_others_are(
    family: str, ours: str, stored: tuple[str, ...], theirs: str
) -> None:
    assert name_of(family, ours, stored) == theirs


def test_no_family_has_a_name_for_what_it_lacks() -> None:
    assert expected("llama", "embed.positions.weight") is None
    assert find("llama", "embed.positions.weight", ["model.embed_positions.weight"]) is None


def test_gpt2s_matrix_of_q_k_and_v_is_stored_in_by_out_and_nanogpts_out_by_in() -> None:
    # karpathy/nanoGPT issue 190: [768, 2304] against a Linear of [2304, 768]
    for family, shape in (("gpt2", (768, 2304)), ("nanogpt", (2304, 768))):
        place = expected(family, "blocks.0.attn.k.weight")
        assert place is not None
        assert stored_shape(place.origin, (768, 768), GPT2) == shape
        assert stored_shape(place.origin, (768,), GPT2) == (2304,)


@pytest.mark.parametrize(
    ("name", "mask"),
    [("h.0.attn.bias", True), ("h.0.attn.c_attn.bias", False), ("gpt_neox.layers.3.attention.bias", True),
     ("embeddings.position_ids", True), ("model.layers.0.self_attn.rotary_emb.inv_freq", True),
     ("model.layers.0.self_attn.q_proj.bias", False)],
)  # fmt: skip
def test_masks_are_told_from_biases(name: str, mask: bool) -> None:
    assert is_mask(name) == mask


def test_wrappers_are_taken_off_where_no_two_names_become_one() -> None:
    wrapped, plain = "_orig_mod.module.a.weight", "a.weight"
    assert unwrapped([wrapped, "module.a.bias"]) == {plain: wrapped, "a.bias": "module.a.bias"}
    assert unwrapped([wrapped, plain]) == {wrapped: wrapped, plain: plain}
    assert unwrapped(["module.", "module.x"]) == {"module.": "module.", "module.x": "module.x"}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_names_the_table_and_both_ends_of_a_block(family: str) -> None:
    stack = "decoder." if "decoder.embed.tokens" in FAMILIES[family] else ""
    names = [name_of(family, f"{stack}{module}.weight") for module in
             ("embed.tokens", "blocks.0.attn.out", "blocks.11.norm1")]  # fmt: skip
    assert len(set(names)) == 3
    assert ".11." in names[2]
