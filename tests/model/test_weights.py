"""What of a checkpoint each tensor of the core is, and what is said of a checkpoint that does not fit."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import Tensor

from tfinspect.errors import InputError
from tfinspect.model.build import build
from tfinspect.model.weights import FAMILIES, converted, load
from tfinspect.spec import ModelSpec

SMALL = ModelSpec(vocab_size=13, n_ctx=7, d_model=8, n_layers=2, n_heads=2, d_ff=12)
LLAMA = SMALL.replace(norm="rmsnorm", activation="swiglu", positions="rope", bias=False, n_kv_heads=1, tied_head=False)
MIXTRAL = LLAMA.replace(n_experts=3, n_experts_per_token=2)
T5 = SMALL.replace(architecture="encoder_decoder", positions="relative", norm="rmsnorm", bias=False, scale_scores=False)


def random_state(spec: ModelSpec) -> dict[str, Tensor]:
    """Random tensors by our names."""
    generator = torch.Generator().manual_seed(3)
    shapes = {name: parameter.shape for name, parameter in build(spec, device="meta").named_parameters()}
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def renamed(state: dict[str, Tensor], words: dict[str, str]) -> dict[str, Tensor]:
    """The state with each of these words replaced in its names, one after the other."""
    theirs = {}
    for name, tensor in state.items():
        new = f".{name}"
        for ours, their in words.items():
            new = new.replace(f".{ours}.", f".{their}.")
        theirs[new[1:]] = tensor
    return theirs


def flipped(tensor: Tensor) -> Tensor:
    return tensor.mT if tensor.ndim == 2 else tensor


def gpt2_checkpoint(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """As GPT-2's is stored: one matrix [in, out] for Q, K and V, all linear maps [in, out]."""
    words = {
        "embed.tokens": "transformer.wte", "embed.positions": "transformer.wpe", "blocks": "transformer.h",
        "norm1": "ln_1", "norm2": "ln_2", "mlp.up": "mlp.c_fc", "mlp.down": "mlp.c_proj", "attn.out": "attn.c_proj",
        "final_norm": "transformer.ln_f",
    }  # fmt: skip
    theirs = {name: flipped(t) if ".c_" in name else t for name, t in renamed(state, words).items()}
    for layer in range(SMALL.n_layers):
        at = f"transformer.h.{layer}.attn"
        for kind in ("weight", "bias"):
            parts = [flipped(theirs.pop(f"{at}.{part}.{kind}")) for part in "qkv"]
            theirs[f"{at}.c_attn.{kind}"] = torch.cat(parts, dim=-1)
    return theirs


def nanogpt_checkpoint(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same with every linear map [out, in]."""
    return {name: flipped(t) if ".c_" in name else t for name, t in gpt2_checkpoint(state).items()}


def llama_checkpoint(state: dict[str, Tensor]) -> dict[str, Tensor]:
    words = {
        "embed.tokens": "model.embed_tokens", "blocks": "model.layers", "norm1": "input_layernorm",
        "norm2": "post_attention_layernorm", "attn": "self_attn", "q": "q_proj", "k": "k_proj", "v": "v_proj",
        "out": "o_proj", "mlp.gate": "mlp.gate_proj", "mlp.up": "mlp.up_proj", "mlp.down": "mlp.down_proj",
        "final_norm": "model.norm", "head": "lm_head",
    }  # fmt: skip
    return renamed(state, words)


def same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> bool:
    return found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)


def test_gpt2s_matrices_are_turned_and_split() -> None:
    state = random_state(SMALL)
    checkpoint = gpt2_checkpoint(state)
    assert checkpoint["transformer.h.1.attn.c_attn.weight"].shape == (8, 24)
    assert same(converted("gpt2", checkpoint, SMALL), state)


def test_nanogpts_matrices_are_split_as_they_are() -> None:
    # karpathy/nanoGPT, model.py: nn.Linear where GPT-2's release has Conv1D
    state = random_state(SMALL)
    checkpoint = nanogpt_checkpoint(state)
    assert checkpoint["transformer.h.1.attn.c_attn.weight"].shape == (24, 8)
    assert same(converted("nanogpt", checkpoint, SMALL), state)
    with pytest.raises(InputError, match=r"does not fit: transformer\.h\.0\.attn\.c_attn\.weight"):
        converted("gpt2", checkpoint, SMALL)


def test_names_come_with_and_without_the_models_own_first_word() -> None:
    state = random_state(SMALL)
    bare = {name.removeprefix("transformer."): tensor for name, tensor in gpt2_checkpoint(state).items()}
    assert same(converted("gpt2", bare, SMALL), state)


def test_nothing_is_copied() -> None:
    checkpoint = gpt2_checkpoint(random_state(SMALL))
    found = converted("gpt2", checkpoint, SMALL)
    fused = checkpoint["transformer.h.0.attn.c_attn.weight"]
    for part in "qkv":
        shared = found[f"blocks.0.attn.{part}.weight"].untyped_storage().data_ptr()
        assert shared == fused.untyped_storage().data_ptr()


def test_a_loaded_model_has_its_head_tied_and_runs() -> None:
    model = load("gpt2", gpt2_checkpoint(random_state(SMALL)), SMALL)
    assert model.head is not None
    assert model.head.weight is model.get_parameter("embed.tokens.weight")
    assert not model.training
    assert model(torch.tensor([[1, 2, 3]])).isfinite().all()


def test_masks_and_second_names_of_the_token_table_say_nothing() -> None:
    state = random_state(SMALL)
    more = {
        "transformer.h.0.attn.bias": torch.ones(1, 1, 7, 7).tril(),
        "transformer.h.0.attn.masked_bias": torch.tensor(-1e4),
        "lm_head.weight": state["embed.tokens.weight"].clone(),
    }
    assert same(converted("gpt2", gpt2_checkpoint(state) | more, SMALL), state)


def test_a_head_of_its_own_is_not_taken_for_the_token_table() -> None:
    checkpoint = gpt2_checkpoint(random_state(SMALL))
    other = checkpoint["transformer.wte.weight"] + 1
    with pytest.raises(InputError, match=r"unknown tensors: lm_head\.weight"):
        converted("gpt2", checkpoint | {"lm_head.weight": other}, SMALL)
    found = converted("gpt2", checkpoint | {"lm_head.weight": other}, SMALL.replace(tied_head=False))
    assert torch.equal(found["head.weight"], other)


def test_a_fused_matrix_in_groups_holds_the_queries_of_a_key_head_then_its_key_and_value() -> None:
    # two key heads of two queries each, d_head 3: rows q0 q1 k0 v0 q2 q3 k1 v1, three of each
    spec = ModelSpec(
        vocab_size=5, n_ctx=4, d_model=12, n_layers=1, n_heads=4, n_kv_heads=2, d_ff=48, positions="none",
        placement="parallel", bias=False, norm_bias=True,
    )  # fmt: skip
    words = {
        "embed.tokens": "transformer.word_embeddings", "blocks": "transformer.h", "attn.out": "self_attention.dense",
        "norm1": "ln_attn", "norm2": "ln_mlp", "mlp.up": "mlp.dense_h_to_4h", "mlp.down": "mlp.dense_4h_to_h",
        "final_norm": "transformer.ln_f",
    }  # fmt: skip
    checkpoint = renamed(random_state(spec), words)
    for part in "qkv":
        del checkpoint[f"transformer.h.0.attn.{part}.weight"]
    number_of_row = torch.arange(24.0)[:, None].expand(24, 12)
    checkpoint["transformer.h.0.self_attention.query_key_value.weight"] = number_of_row
    found = converted("falcon", checkpoint, spec)
    rows = {part: found[f"blocks.0.attn.{part}.weight"][:, 0].int().tolist() for part in "qkv"}
    assert rows == {
        "q": [0, 1, 2, 3, 4, 5, 12, 13, 14, 15, 16, 17],
        "k": [6, 7, 8, 18, 19, 20],
        "v": [9, 10, 11, 21, 22, 23],
    }


def test_gemmas_gains_are_stored_as_what_they_exceed_1_by() -> None:
    state = random_state(LLAMA)
    found = converted("gemma", llama_checkpoint(state), LLAMA)
    for name, tensor in state.items():
        assert torch.equal(found[name], tensor + 1 if "norm" in name else tensor), name


def test_experts_come_one_by_one_or_stacked() -> None:
    state = random_state(MIXTRAL)
    words = {"gate": "w1", "up": "w3", "down": "w2", "mlp.experts": "block_sparse_moe.experts"}
    one_by_one = llama_checkpoint(renamed(state, {**words, "mlp.router": "block_sparse_moe.gate"}))
    assert same(converted("mixtral", one_by_one, MIXTRAL), state)

    stacked = {name: tensor for name, tensor in llama_checkpoint(state).items() if ".mlp." not in name}
    for layer in range(MIXTRAL.n_layers):
        ours, theirs = f"blocks.{layer}.mlp", f"model.layers.{layer}.mlp"
        gate, up, down = (
            torch.stack([state[f"{ours}.experts.{j}.{part}.weight"] for j in range(3)])
            for part in ("gate", "up", "down")
        )
        stacked[f"{theirs}.experts.gate_up_proj"] = torch.cat((gate, up), dim=1)
        stacked[f"{theirs}.experts.down_proj"] = down
        stacked[f"{theirs}.gate.weight"] = state[f"{ours}.router.weight"]
    assert same(converted("mixtral", stacked, MIXTRAL), state)


@pytest.mark.parametrize("tied", [True, False])
def test_t5_divides_what_a_tied_head_reads(tied: bool) -> None:
    spec = T5.replace(tied_head=tied)
    state = random_state(spec)
    checkpoint = {}
    numbers = {"attn": "0.SelfAttention", "norm1": "0.layer_norm", "cross": "1.EncDecAttention"}
    for name, tensor in state.items():
        last = 2 if name.startswith("decoder") else 1
        second = {"norm2": "1.layer_norm", "norm3": "2.layer_norm"}
        mlp = {"mlp.up": f"{last}.DenseReluDense.wi", "mlp.down": f"{last}.DenseReluDense.wo"}
        [new] = renamed({name: tensor}, {**numbers, **second, **mlp, "out": "o"})
        for side in ("encoder", "decoder"):
            new = new.replace(f"{side}.relative", f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias")
            for layer in range(spec.n_layers):
                new = new.replace(f"{side}.blocks.{layer}.", f"{side}.block.{layer}.layer.")
        new = new.replace("encoder.embed.tokens", "shared").replace("final_norm", "final_layer_norm")
        checkpoint["lm_head.weight" if new == "head.weight" else new] = tensor
    found = converted("t5", checkpoint, spec)
    gain = state["decoder.final_norm.weight"]
    assert torch.equal(found["decoder.final_norm.weight"], gain / math.sqrt(8) if tied else gain)
    del found["decoder.final_norm.weight"], state["decoder.final_norm.weight"]
    assert same(found, state)


def test_berts_first_checkpoint_has_gammas_and_betas_and_heads_besides() -> None:
    spec = SMALL.replace(
        architecture="encoder", placement="post", final_norm=False, embed_norm=True, n_token_types=2, head="mlm"
    )
    state = random_state(spec)
    words = {
        "embed": "bert.embeddings", "tokens": "word_embeddings", "positions": "position_embeddings",
        "types": "token_type_embeddings", "blocks": "bert.encoder.layer", "attn.out": "attention.output.dense",
        "attn": "attention.self", "q": "query", "k": "key", "v": "value", "mlp.up": "intermediate.dense",
        "mlp.down": "output.dense", "norm1": "attention.output.LayerNorm", "norm2": "output.LayerNorm",
        "norm": "LayerNorm", "mlm": "cls.predictions.transform", "head": "cls.predictions",
    }  # fmt: skip
    checkpoint = renamed(state, words) | {"cls.seq_relationship.weight": torch.zeros(2, 8)}
    checkpoint |= {"bert.pooler.dense.weight": torch.zeros(8, 8), "bert.embeddings.position_ids": torch.arange(7)}
    old = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): tensor
        for name, tensor in checkpoint.items()
    }
    assert any(name.endswith("gamma") for name in old)
    for names in (checkpoint, old):
        assert same(converted("bert", names, spec), state)


def changed(name: str, tensor: Tensor | None) -> dict[str, Tensor]:
    """GPT-2's checkpoint with one tensor replaced, added or gone."""
    checkpoint = gpt2_checkpoint(random_state(SMALL))
    checkpoint.pop(name, None)
    return checkpoint if tensor is None else checkpoint | {name: tensor}


@pytest.mark.parametrize(
    ("name", "tensor", "said"),
    [
        ("transformer.h.1.ln_1.weight", None, "has nothing for blocks.1.norm1.weight"),
        ("transformer.h.2.ln_1.weight", torch.ones(8), "has unknown tensors: transformer.h.2.ln_1.weight"),
        (
            "transformer.wpe.weight",
            torch.ones(9, 8),
            "does not fit: transformer.wpe.weight [9, 8] (embed.positions.weight is [7, 8])",
        ),
        (
            "transformer.h.0.attn.c_attn.bias",
            torch.ones(25),  # does not split in three
            ", ".join(f"transformer.h.0.attn.c_attn.bias [25] (blocks.0.attn.{part}.bias is [8])" for part in "qkv"),
        ),
    ],
)
def test_a_checkpoint_that_does_not_fit_names_its_tensors(name: str, tensor: Tensor | None, said: str) -> None:
    with pytest.raises(InputError, match=f"{re.escape(said)};"):
        converted("gpt2", changed(name, tensor), SMALL)


def test_many_names_are_cut() -> None:
    first = r"embed\.tokens\.weight, embed\.positions\.weight, blocks\.0\.norm1\.weight, blocks\.0\.norm1\.bias"
    with pytest.raises(InputError, match=rf"has nothing for {first} and 32 more;"):  # 2 + 2 × 16 + 2 in all
        converted("gpt2", {}, SMALL)


def test_a_part_that_the_family_has_no_name_for_is_missing() -> None:
    with pytest.raises(InputError, match=r"has nothing for embed\.norm\.weight, embed\.norm\.bias"):
        converted("gpt2", gpt2_checkpoint(random_state(SMALL)), SMALL.replace(embed_norm=True))


def test_an_unknown_family_is_told_the_known_ones() -> None:
    with pytest.raises(InputError, match="no weights of 'mamba'") as raised:
        converted("mamba", {}, SMALL)
    assert raised.value.hint == f"known: {', '.join(FAMILIES)}"


@pytest.mark.parametrize("family", ["gptj", "codegen", "gemma3_text"])
def test_weights_that_the_core_would_use_otherwise_are_refused(family: str) -> None:
    with pytest.raises(InputError, match=rf"no weights of '{family}' can be read: its"):
        converted(family, {}, SMALL)
