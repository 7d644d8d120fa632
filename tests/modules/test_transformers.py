"""Models of the transformers library, built from a configuration: counted by hand, eager and fused alike."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tfinspect
from tests.modules.zoo import floats, ids, seeded

pytest.importorskip("transformers")
pytestmark = pytest.mark.transformers

B, N, D, H, FF, V, L = 2, 5, 24, 3, 40, 50, 2
KERNELS = ("eager", "sdpa")


def built(family: str, architecture: str, attention: str, **sizes: Any) -> nn.Module:
    """A model of the library with the weights of seed 0."""
    library = importlib.import_module("transformers")
    config = getattr(library, f"{family}Config")(**sizes)
    config._attn_implementation = attention
    return seeded(lambda: getattr(library, architecture)(config)).eval()


@dataclasses.dataclass(frozen=True)
class Built:
    """A model, its inputs, and its two figures by hand."""

    make: Callable[[str], nn.Module]
    kwargs: Callable[[], dict[str, Tensor]]
    params: int
    multiplications: int


def tokens() -> dict[str, Tensor]:
    return {"input_ids": ids(B, N, below=V)}


def two_kinds_of_norm_and_mlp(n: int) -> int:
    """One block of h heads of width d/h on n positions: Q, K, V and output, scores and mix, two MLP matrices."""
    return 4 * n * D * D + 2 * n * n * D + 2 * n * D * FF


def grouped_attention(n: int) -> int:
    """Six heads of four, two of keys and values."""
    return n * D * (24 + 2 * 8 + 24) + 2 * n * n * 24


GROUPED_MATRICES = D * 24 + 2 * D * 8 + 24 * D
BIASED_BLOCK = 4 * (D * D + D) + (D * FF + FF) + (FF * D + D) + 2 * 2 * D
T5_ATTENTION = 4 * D * (3 * 7)  # heads of seven
SOURCE, TARGET = 6, 4

MODELS: dict[str, Built] = {
    "GPT-2": Built(
        lambda attention: built(
            "GPT2", "GPT2LMHeadModel", attention, n_embd=D, n_head=H, n_layer=L, vocab_size=V, n_positions=32,
            bos_token_id=0, eos_token_id=0,
        ),
        tokens,
        V * D + 32 * D + L * (12 * D * D + 13 * D) + 2 * D,
        B * (L * (12 * N * D * D + 2 * N * N * D) + N * D * V),
    ),
    "Llama": Built(
        lambda attention: built(
            "Llama", "LlamaForCausalLM", attention, hidden_size=D, num_attention_heads=6, num_key_value_heads=2,
            num_hidden_layers=L, intermediate_size=FF, vocab_size=V, max_position_embeddings=32,
        ),
        tokens,
        2 * V * D + L * (GROUPED_MATRICES + 3 * D * FF + 2 * D) + D,
        B * (L * (grouped_attention(N) + 3 * N * D * FF) + N * D * V),
    ),
    "BERT": Built(
        lambda attention: built(
            "Bert", "BertModel", attention, hidden_size=D, num_attention_heads=H, num_hidden_layers=L,
            intermediate_size=FF, vocab_size=V, max_position_embeddings=32, type_vocab_size=2,
        ),
        tokens,
        (V + 32 + 2) * D + 2 * D + L * BIASED_BLOCK + D * D + D,
        B * (L * two_kinds_of_norm_and_mlp(N) + D * D),  # the pooler reads the first position
    ),
    "T5": Built(
        lambda attention: built(
            "T5", "T5ForConditionalGeneration", attention, d_model=D, d_kv=7, num_heads=H, d_ff=FF, num_layers=L,
            num_decoder_layers=L, vocab_size=V, relative_attention_num_buckets=8, decoder_start_token_id=0,
        ),
        lambda: {"input_ids": ids(B, SOURCE, below=V), "decoder_input_ids": ids(B, TARGET, below=V)},
        V * D  # tied
        + 2 * 8 * H  # one table of distances in each stack
        + L * (T5_ATTENTION + 2 * D * FF + 2 * D) + D
        + L * (2 * T5_ATTENTION + 2 * D * FF + 3 * D) + D,
        B * (
            L * (SOURCE * T5_ATTENTION + 2 * SOURCE**2 * 21 + 2 * SOURCE * D * FF)
            + L * (TARGET * T5_ATTENTION + 2 * TARGET**2 * 21 + 2 * TARGET * D * FF)
            + L * ((TARGET + SOURCE) * T5_ATTENTION // 2 + 2 * TARGET * SOURCE * 21)
            + TARGET * D * V
        ),
    ),
    "ViT": Built(
        lambda attention: built(
            "ViT", "ViTForImageClassification", attention, hidden_size=D, num_attention_heads=H, num_hidden_layers=L,
            intermediate_size=FF, image_size=12, patch_size=4, num_labels=7,
        ),
        lambda: {"pixel_values": floats(B, 3, 12, 12)},
        (3 * 16 * D + D) + D + 10 * D + L * BIASED_BLOCK + 2 * D + (D * 7 + 7),
        B * (9 * 3 * 16 * D + L * two_kinds_of_norm_and_mlp(10) + D * 7),
    ),
    "Mixtral": Built(
        lambda attention: built(
            "Mixtral", "MixtralForCausalLM", attention, hidden_size=D, num_attention_heads=6, num_key_value_heads=2,
            num_hidden_layers=L, intermediate_size=FF, vocab_size=V, num_local_experts=4, num_experts_per_tok=2,
            max_position_embeddings=32,
        ),
        tokens,
        2 * V * D + L * (GROUPED_MATRICES + 4 * D + 4 * 3 * D * FF + 2 * D) + D,
        # every token goes to two experts, whichever they are
        B * (L * (grouped_attention(N) + N * 4 * D + 2 * N * 3 * D * FF) + N * D * V),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_those_counted_by_hand(name: str) -> None:
    model = MODELS[name].make("eager")
    found = tfinspect.params(model)
    assert found.total == MODELS[name].params
    assert found.total == sum(p.numel() for p in model.parameters())
    # huggingface's own count
    assert found.total == model.num_parameters()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("attention", KERNELS)
@pytest.mark.parametrize("grad", [False, True])
def test_work_is_that_counted_by_hand(name: str, attention: str, grad: bool) -> None:
    model = MODELS[name].make(attention)
    with torch.set_grad_enabled(grad):
        work = tfinspect.flops(model, kwargs=MODELS[name].kwargs())
    assert work.total_multiplications == MODELS[name].multiplications
    assert work.uncounted == ()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("attention", KERNELS)
def test_a_trace_counts_the_same_and_gives_the_outputs_by_name(name: str, attention: str) -> None:
    trace = tfinspect.trace(MODELS[name].make(attention), kwargs=MODELS[name].kwargs())
    assert trace.failure is None
    assert trace.total_params == MODELS[name].params
    assert trace.total_multiplications == MODELS[name].multiplications
    outputs = {value.path: value.sizes for value in trace.calls[0].outputs}
    expected = {"BERT": ("last_hidden_state", (B, N, D)), "ViT": ("logits", (B, 7)), "T5": ("logits", (B, TARGET, V))}
    path, sizes = expected.get(name, ("logits", (B, N, V)))
    assert outputs[path] == sizes


@pytest.mark.parametrize("name", MODELS)
def test_a_trace_of_fused_attention_shows_the_scores(name: str) -> None:
    trace = tfinspect.trace(MODELS[name].make("sdpa"), kwargs=MODELS[name].kwargs())
    expected = {
        "GPT-2": [(B, H, N, N)] * L,
        "Llama": [(B, 6, N, N)] * L,
        "BERT": [(B, H, N, N)] * L,
        "T5": [(B, H, SOURCE, SOURCE)] * L + [(B, H, TARGET, TARGET), (B, H, TARGET, SOURCE)] * L,
        "ViT": [(B, H, 10, 10)] * L,
        "Mixtral": [(B, 6, N, N)] * L,
    }
    assert [opened.scores for _, opened in trace.opened] == expected[name]
    assert all(opened.difference is not None and opened.difference < 1e-5 for _, opened in trace.opened)


def test_the_matrices_that_lie_the_other_way_round_are_counted() -> None:
    # karpathy/nanoGPT#190: GPT-2's Conv1D holds [in, out]; thop knows neither it nor an embedding (38,635,776)
    model = MODELS["GPT-2"].make("sdpa")
    rows = {row.name: row for row in tfinspect.params(model).tensors}
    assert rows["transformer.h.0.attn.c_attn.weight"].sizes == (D, 3 * D)
    trace = tfinspect.trace(model, kwargs=tokens())
    (call,) = [call for call in trace.calls if call.path == "transformer.h.0.attn.c_attn"]
    assert call.kind == "Conv1D"
    assert call.params == D * 3 * D + 3 * D
    assert call.flops == 2 * B * N * D * 3 * D


@pytest.mark.parametrize("attention", KERNELS)
def test_gpt2_small_has_its_published_counts(attention: str) -> None:
    # at 64 positions L(12nd² + 2n²d) + ndV; torchlens prints the same integer
    model = built("GPT2", "GPT2LMHeadModel", attention)
    n = 64
    work = tfinspect.flops(model, ids(1, n, below=50_257))
    assert work.total_multiplications == 7_981_547_520 == 12 * (12 * n * 768**2 + 2 * n * n * 768) + n * 768 * 50_257
    found = tfinspect.params(model)
    assert found.total == 124_439_808
    assert [(row.name, tuple(row.aliases)) for row in found.tensors if row.aliases] == [
        ("transformer.wte.weight", ("lm_head.weight",))
    ]


@pytest.mark.parametrize("attention", KERNELS)
def test_a_llama_of_two_heads_of_keys_has_the_counts_that_peers_miss(attention: str) -> None:
    # Under SDPA torch's counter, fvcore, ptflops and calflops give 0.9202 of the work; torchinfo 1.8.0 gives 0.0078 of
    # it, as it counts rows of the batch and not positions; thop gives 3,024,896 parameters.
    n, d, n_layers, d_ff, vocab_size = 128, 256, 4, 688, 1_000
    model = built(
        "Llama", "LlamaForCausalLM", attention, hidden_size=d, num_attention_heads=8, num_key_value_heads=2,
        num_hidden_layers=n_layers, intermediate_size=d_ff, vocab_size=vocab_size,
    )  # fmt: skip
    matrices = 2 * d * d + 2 * d * (2 * 32) + 3 * d * d_ff
    work = tfinspect.flops(model, ids(1, n, below=vocab_size))
    assert work.total_multiplications == 420_741_120
    assert work.total_multiplications == n_layers * (n * matrices + 2 * n * n * d) + n * d * vocab_size
    assert tfinspect.params(model).total == 3_283_200 == n_layers * (matrices + 2 * d) + 2 * vocab_size * d + d


@pytest.mark.parametrize("attention", KERNELS)
def test_gpt2_small_on_the_meta_device_counts_or_says_what_stops_it(attention: str) -> None:
    # torch's counter, torchinfo, calflops and torchview raise "Tensor.item() cannot be called on meta tensors"
    with torch.device("meta"):
        model = built("GPT2", "GPT2LMHeadModel", attention)
    trace = tfinspect.trace(model, torch.zeros(1, 1_024, dtype=torch.long, device="meta"))
    if trace.failure is None:
        assert trace.total_multiplications == 145_824_153_600
    else:
        assert "item" in str(trace.failure) or "_local_scalar_dense" in str(trace.failure)
        assert "meta" in str(trace.failure)
