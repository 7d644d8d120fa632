"""The eight steps: each is refuted by a model that does that step in another way."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from tests.verify.broken import (
    LatePositions,
    NoResidual,
    PeekingAttention,
    UnscaledAttention,
    WrongAxis,
    failing,
    with_attention,
    with_blocks,
    with_embedding,
)
from tfinspect import tokenizer
from tfinspect.model.tap import Tap
from tfinspect.model.transformer import ACTIVATIONS, Embedding, LayerNorm, Transformer
from tfinspect.presets import PRESETS
from tfinspect.spec import ModelSpec
from tfinspect.verify import passes
from tfinspect.verify.draws import Draws
from tfinspect.verify.kept import transformer
from tfinspect.verify.propositions import Settings

SETTINGS = Settings()
NUMPY = "largest |torch − NumPy|"


class NoNorm(LayerNorm):
    """The norm gives what it is given."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class ScaledEmbedding(Embedding):
    """Token vectors times √d_model, as in the 2017 model."""

    def forward(self, tokens: Tensor, tap: Tap, n_past: int) -> Tensor:
        x = tap("tokens", self.tokens(tokens) * math.sqrt(self.tokens.weight.shape[1]), "B T d_model")
        return tap("sum", x + tap("positions", self.positions.weight[: tokens.shape[1]], "T d_model"), "B T d_model")


def in_training_mode(spec: ModelSpec, draws: Draws) -> Transformer:
    torch.manual_seed(0)
    return transformer(spec.replace(dropout=0.5), draws).train()


def unmasked(spec: ModelSpec, draws: Draws) -> Transformer:
    model = transformer(spec, draws)
    for block in model.blocks:
        block.attn.causal = False
    return model


def with_exact_gelu(spec: ModelSpec, draws: Draws) -> Transformer:
    model = transformer(spec, draws)
    for block in model.blocks:
        block.mlp.activation = ACTIVATIONS["gelu"]
    return model


def one_block_twice(spec: ModelSpec, draws: Draws) -> Transformer:
    model = transformer(spec, draws)
    model.blocks[1] = model.blocks[0]
    return model


def without_final_norm(spec: ModelSpec, draws: Draws) -> Transformer:
    model = transformer(spec, draws)
    model.final_norm.__class__ = NoNorm
    return model


def with_a_copied_head(spec: ModelSpec, draws: Draws) -> Transformer:
    model = transformer(spec, draws)
    model.head.weight = nn.Parameter(model.head.weight.detach().clone())
    return model


def untied(spec: ModelSpec, draws: Draws) -> Transformer:
    model = with_a_copied_head(spec, draws)
    with torch.no_grad():
        model.head.weight += 0.01
    return model


def by_bytes(data: bytes) -> list[int]:
    return [tokenizer.ranks()[bytes([byte])] for byte in data]


@pytest.mark.breaks("B15.2.1")
def test_ids_of_single_bytes_are_not_the_ids_of_the_text() -> None:
    assert failing(passes.tokens(SETTINGS, by_bytes)) == ["ids"]


@pytest.mark.breaks("B15.2.1")
def test_ids_of_another_text_bring_other_bytes_back() -> None:
    found = failing(passes.tokens(SETTINGS, lambda data: tokenizer.encode(data)[:-1] + tokenizer.encode(b" x")))
    assert found == ["ids", "bytes that come back"]


@pytest.mark.breaks("B15.2.2", "B15.2.3", "B15.3.1", "B15.3.2", "B15.3.3", "B15.4", "B15.5", "B15.6")
@pytest.mark.parametrize(
    ("check", "model", "wrong"),
    [
        (passes.token_vectors, with_embedding(ScaledEmbedding), ["largest |vector − row of E|", NUMPY]),
        (passes.positions, with_embedding(LatePositions), ["largest |X − (row of E + row of P)|", NUMPY]),
        (passes.attention, unmasked, ["largest weight on the future", NUMPY]),
        (passes.attention, with_attention(PeekingAttention), ["largest weight on the future", NUMPY]),
        (passes.attention, with_attention(UnscaledAttention), ["largest |scores − QKᵀ/√d_head|", NUMPY]),
        (passes.attention, with_attention(WrongAxis), ["largest |row sum − 1|", NUMPY]),
        (passes.first_residual, with_blocks(NoResidual), ["largest |U − X − delta|", NUMPY]),
        (passes.mlp, with_blocks(NoResidual), ["largest |Y − U − delta|", NUMPY]),
        (passes.mlp, with_exact_gelu, ["largest |activated − GELU|", NUMPY]),
        (passes.stack, without_final_norm, [NUMPY]),
        (passes.logits, untied, ["largest |logits − H·Eᵀ|", "matrix of the head", NUMPY]),
        (passes.logits, with_a_copied_head, ["matrix of the head"]),
        (passes.every_tensor, with_exact_gelu, [NUMPY]),
        (passes.every_tensor, with_attention(UnscaledAttention), [NUMPY]),
    ],
)
def test_a_step_done_otherwise_is_named(check: passes.Step, model: passes.BuildModel, wrong: list[str]) -> None:
    assert failing(check(SETTINGS, model=model)) == wrong


@pytest.mark.breaks("B15.4")
def test_blocks_that_share_their_parameters_are_named() -> None:
    assert "parameters that blocks share" in failing(passes.stack(SETTINGS, one_block_twice))


@pytest.mark.breaks("B15.2.3", "B15.3.2")
def test_dropout_that_is_left_on_is_named() -> None:
    assert "change by dropout in evaluation mode" in failing(passes.positions(SETTINGS, in_training_mode))
    assert NUMPY in failing(passes.first_residual(SETTINGS, in_training_mode))


@pytest.mark.breaks("B15.6")
@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        (PRESETS["gpt2-medium"].spec, ["named tensors", "of another shape than the steps say", "widths of the stream"]),
        (PRESETS["gpt2"].spec.replace(n_heads=6), ["of another shape than the steps say", "widths inside a block"]),
        (PRESETS["gpt2"].spec.replace(positions="rope"), ["named tensors", "of another shape than the steps say"]),
    ],
)
def test_shapes_of_another_model_are_named(spec: ModelSpec, wrong: list[str]) -> None:
    assert set(wrong) <= set(failing(passes.every_tensor(SETTINGS, spec=spec)))


def test_random_state_of_the_program_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    assert passes.positions(SETTINGS).outcome == "pass"
    assert torch.equal(torch.random.get_rng_state(), before)
