"""A model by the names and shapes of its tensors, without a configuration."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.checkpoints import Shapes, shapes_of
from tfinspect.naming import FAMILIES, SAME_NAMES
from tfinspect.presets import preset
from tfinspect.sources import families
from tfinspect.sources.hf_config import from_dict
from tfinspect.sources.recognise import Recognised, bare_names, family, recognised
from tfinspect.spec import ModelSpec

GPT2 = preset("gpt2").spec


@dataclasses.dataclass(frozen=True)
class Stored:
    shape: tuple[int, ...]


def of(shapes: Shapes) -> Recognised:
    found = recognised({name: Stored(shape) for name, shape in shapes.items()})
    assert found is not None
    return found


def gpt2(n_layers: int = 12, d: int = 768) -> Shapes:
    """GPT-2's tensors, written out.  Source: the header of the released model.safetensors."""
    block = {
        "ln_1.weight": (d,), "ln_1.bias": (d,), "attn.bias": (1, 1, 1024, 1024),
        "attn.c_attn.weight": (d, 3 * d), "attn.c_attn.bias": (3 * d,),
        "attn.c_proj.weight": (d, d), "attn.c_proj.bias": (d,), "ln_2.weight": (d,), "ln_2.bias": (d,),
        "mlp.c_fc.weight": (d, 4 * d), "mlp.c_fc.bias": (4 * d,), "mlp.c_proj.weight": (4 * d, d),
        "mlp.c_proj.bias": (d,),
    }  # fmt: skip
    blocks = {f"h.{layer}.{name}": shape for layer in range(n_layers) for name, shape in block.items()}
    return {"wte.weight": (50257, d), "wpe.weight": (1024, d), **blocks, "ln_f.weight": (d,), "ln_f.bias": (d,)}


def llama(d: int = 4096, d_kv: int = 1024, d_ff: int = 14336, n_layers: int = 32, vocab: int = 128_256) -> Shapes:
    """Llama 3's tensors, written out.  Source: the index of the released model.safetensors."""
    block = {
        "input_layernorm.weight": (d,), "self_attn.q_proj.weight": (d, d), "self_attn.k_proj.weight": (d_kv, d),
        "self_attn.v_proj.weight": (d_kv, d), "self_attn.o_proj.weight": (d, d), "mlp.gate_proj.weight": (d_ff, d),
        "mlp.up_proj.weight": (d_ff, d), "mlp.down_proj.weight": (d, d_ff), "post_attention_layernorm.weight": (d,),
    }  # fmt: skip
    blocks = {f"model.layers.{layer}.{name}": shape for layer in range(n_layers) for name, shape in block.items()}
    ends = {"model.embed_tokens.weight": (vocab, d), "model.norm.weight": (d,), "lm_head.weight": (vocab, d)}
    return {**ends, **blocks}


def test_gpt2s_file_is_gpt2_small() -> None:
    found = of(gpt2())
    assert found.family == "gpt2"
    assert found.spec == GPT2
    assert found.untold == ("n_heads = 12", "activation = gelu_tanh", "norm_eps = 1e-05")


def test_llama_3s_index_is_llama_3() -> None:
    found = of(llama())
    assert found.family == "llama"
    assert found.spec is not None
    spec = found.spec
    assert (spec.vocab_size, spec.d_model, spec.n_layers, spec.d_ff) == (128_256, 4_096, 32, 14_336)
    assert (spec.n_heads, spec.n_kv_heads, spec.d_head, spec.bias, spec.tied_head) == (32, 8, 128, False, False)
    assert {"n_ctx = 2048", "n_heads = 32", "n_kv_heads = 8", "rope_base = 10000"} < set(found.untold)


@pytest.mark.parametrize(
    "before", ["_orig_mod.module.transformer.", "module.", "transformer.", "model.net.transformer.", "backbone."]
)
def test_what_stands_before_all_names_is_taken_off(before: str) -> None:
    # karpathy/nanoGPT issue 325: keys of a compiled model
    named = {f"{before}{name}": shape for name, shape in gpt2().items()}
    found = of(named)
    assert (found.family, found.spec) == ("gpt2", GPT2)
    assert set(found.names.values()) == named.keys()
    assert set(bare_names(named).values()) == named.keys()


@pytest.mark.parametrize("kind", sorted({*FAMILIES} - {"nanogpt"}))
def test_every_familys_names_are_told_apart_or_said_to_be_alike(kind: str) -> None:
    spec = from_dict({"model_type": kind}).spec
    spec = spec.replace(n_layers=2, **({"n_encoder_layers": 2} if spec.n_encoder_layers else {}))
    found = of(shapes_of(kind, spec))
    assert found.family == {"mistral": "llama", "gemma": "llama"}.get(kind, kind)
    assert found.spec is not None, found.why
    untold = {said.partition(" = ")[0] for said in found.untold}
    follow = {"d_head", "rope_dim", "n_kv_heads"} if "n_heads" in untold else set()
    differs = {name for name, value in spec.to_dict().items() if found.spec.to_dict()[name] != value}
    assert differs <= {*untold, *follow, *({"d_ff"} if kind == "qwen3_moe" else ())}


def test_every_family_that_a_configuration_describes_has_names() -> None:
    assert families.FAMILIES.keys() == ({*FAMILIES} - {"nanogpt"}) | SAME_NAMES.keys()


def test_nanogpts_matrices_lie_the_other_way() -> None:
    # modded-nanogpt issue 26: V = 50,304, no biases
    spec = GPT2.replace(vocab_size=50_304, bias=False, n_layers=2)
    found = of(shapes_of("nanogpt", spec))
    assert found.family == "nanogpt"
    assert found.spec == spec.replace(activation="gelu")


def test_a_bare_model_is_recognised_without_its_head() -> None:
    mini = from_dict({"model_type": "bert", "hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}).spec
    shapes = {n.removeprefix("bert."): s for n, s in shapes_of("bert", mini).items() if n.startswith("bert.")}
    found = of({**shapes, "pooler.dense.weight": (384, 384), "pooler.dense.bias": (384,)})
    assert found.family == "bert"
    assert found.spec == mini.replace(head="none", head_bias=False, pooler=True, n_heads=6, d_head=64)


@pytest.mark.parametrize(
    "names", [(), ("weight",), ("0.weight", "0.bias", "2.weight"), ("conv1.weight", "layer1.0.conv1.weight")]
)
def test_what_is_no_transformer_of_a_known_family_is_none(names: tuple[str, ...]) -> None:
    assert family(names) is None
    assert recognised({name: Stored((2, 2)) for name in names}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"wte.weight": ()},
        {"wte.weight": (0, 768)},
        {"wpe.weight": (768,)},
        {"h.0.attn.c_attn.weight": (768, 5)},
        {"h.0.attn.c_proj.weight": (0, 0)},
        {"h.0.mlp.c_fc.weight": (2, 2, 2)},
        {"h.999999999999.attn.c_proj.weight": (768, 768)},
        {"wte.weight": (2**62, 2**62)},
    ],
)
def test_shapes_that_fit_no_model_leave_the_family_and_say_why(change: dict[str, Any]) -> None:
    found = of({**gpt2(2), **change})
    assert found.family == "gpt2"
    assert found.spec is None
    assert found.why


def test_names_alone_tell_the_family() -> None:
    assert family(gpt2(1)) == "gpt2"
    assert family(f"model.{name}" for name in llama(n_layers=1)) == "llama"
    spec: ModelSpec = from_dict({"model_type": "bart"}).spec
    assert family(shapes_of("bart", spec)) == "bart"
