"""Real weights as files: the core's own seeded weights under the names and in the layout of published checkpoints."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from tfinspect.model.build import build
from tfinspect.spec import ModelSpec

#: safetensors' names of torch's formats.
FORMATS = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int8: "I8",
    torch.int64: "I64", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip

#: A model with GPT-2's vocabulary, and one with its own.
GPT2 = ModelSpec(vocab_size=50_257, n_ctx=16, d_model=8, n_layers=2, n_heads=2, d_ff=32)
TINY = GPT2.replace(vocab_size=11)
LLAMA = ModelSpec(
    vocab_size=13, n_ctx=16, d_model=8, n_layers=2, n_heads=4, n_kv_heads=2, d_ff=12, norm="rmsnorm",
    activation="swiglu", positions="rope", bias=False, tied_head=False, norm_eps=1e-6,
)  # fmt: skip

GPT2_WORDS = {
    "embed.tokens": "wte", "embed.positions": "wpe", "blocks": "h", "norm1": "ln_1", "norm2": "ln_2",
    "mlp.up": "mlp.c_fc", "mlp.down": "mlp.c_proj", "attn.out": "attn.c_proj", "final_norm": "ln_f",
}  # fmt: skip
LLAMA_WORDS = {
    "embed.tokens": "model.embed_tokens", "blocks": "model.layers", "norm1": "input_layernorm",
    "norm2": "post_attention_layernorm", "attn.q": "self_attn.q_proj", "attn.k": "self_attn.k_proj",
    "attn.v": "self_attn.v_proj", "attn.out": "self_attn.o_proj", "mlp.gate": "mlp.gate_proj",
    "mlp.up": "mlp.up_proj", "mlp.down": "mlp.down_proj", "final_norm": "model.norm", "head": "lm_head",
}  # fmt: skip


def save(path: Path, tensors: Mapping[str, Tensor], *, shift: int = 0) -> Path:
    """A safetensors file with these tensors; a shift of the first of so many bytes puts the others out of line."""
    header, content = {}, bytearray(shift)
    if shift:
        header["first"] = {"dtype": "U8", "shape": [shift], "data_offsets": [0, shift]}
    for name, tensor in tensors.items():
        data = bytes(tensor.contiguous().view(-1).view(torch.uint8).numpy()) if tensor.numel() else b""
        place = [len(content), len(content) + len(data)]
        header[name] = {"dtype": FORMATS[tensor.dtype], "shape": list(tensor.shape), "data_offsets": place}
        content += data
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + content)
    return path


def seeded(spec: ModelSpec, seed: int = 0) -> dict[str, Tensor]:
    """The parameters that the core has under a seed, by its own names, tied ones once."""
    return {name: parameter.detach() for name, parameter in build(spec, seed=seed).named_parameters()}


def as_gpt2(spec: ModelSpec, seed: int = 0) -> dict[str, Tensor]:
    """The same as GPT-2's files have them: linear maps [in, out], Q, K and V in one."""
    theirs = {}
    for name, tensor in _renamed(seeded(spec, seed), GPT2_WORDS).items():
        theirs[name] = tensor.mT if tensor.ndim == 2 and (".mlp." in name or ".attn." in name) else tensor
    for layer in range(spec.n_layers):
        for kind in ("weight", "bias"):
            parts = [theirs.pop(f"h.{layer}.attn.{part}.{kind}") for part in "qkv"]
            theirs[f"h.{layer}.attn.c_attn.{kind}"] = torch.cat(parts, dim=-1)
    return theirs


def as_llama(spec: ModelSpec, seed: int = 0) -> dict[str, Tensor]:
    """The same as Llama's files have them."""
    return _renamed(seeded(spec, seed), LLAMA_WORDS)


def gpt2_config(spec: ModelSpec) -> str:
    """A config.json of GPT-2's family."""
    sizes = {"n_positions": spec.n_ctx, "n_embd": spec.d_model, "n_layer": spec.n_layers, "n_head": spec.n_heads}
    return json.dumps({"model_type": "gpt2", "vocab_size": spec.vocab_size, **sizes})


def llama_config(spec: ModelSpec) -> str:
    """A config.json of Llama's family."""
    return json.dumps({
        "model_type": "llama", "vocab_size": spec.vocab_size, "max_position_embeddings": spec.n_ctx,
        "hidden_size": spec.d_model, "num_hidden_layers": spec.n_layers, "num_attention_heads": spec.n_heads,
        "num_key_value_heads": spec.n_kv_heads, "intermediate_size": spec.d_ff, "rms_norm_eps": spec.norm_eps,
        "tie_word_embeddings": spec.tied_head,
    })  # fmt: skip


def folder(at: Path, spec: ModelSpec, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> Path:
    """A directory with config.json and model.safetensors of a model whose weights are the core's own under a seed."""
    llama = spec.norm == "rmsnorm"
    at.mkdir(exist_ok=True)
    (at / "config.json").write_text(llama_config(spec) if llama else gpt2_config(spec))
    tensors = as_llama(spec, seed) if llama else as_gpt2(spec, seed)
    save(at / "model.safetensors", {name: tensor.to(dtype) for name, tensor in tensors.items()})
    return at


@functools.cache
def tiny() -> str:
    """Path of such a directory, of a model of 11 tokens; it is there as long as the tests run."""
    place = tempfile.mkdtemp(prefix="tfinspect-")
    atexit.register(shutil.rmtree, place)
    return str(folder(Path(place), TINY))


def _renamed(state: Mapping[str, Tensor], words: Mapping[str, str]) -> dict[str, Tensor]:
    """The state with each of these words in its names replaced by another."""
    theirs = {}
    for name, tensor in state.items():
        new = f".{name}"
        for ours, their in words.items():
            new = new.replace(f".{ours}.", f".{their}.")
        theirs[new[1:]] = tensor
    return theirs
