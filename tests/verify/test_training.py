"""Claims about the loss and the stages of training: each stage is refuted by one that does another's work."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import Optimizer

from tests.verify.broken import failing
from tfinspect.model.transformer import Transformer
from tfinspect.spec import ModelSpec
from tfinspect.verify import training
from tfinspect.verify.draws import Draws
from tfinspect.verify.kept import transformer
from tfinspect.verify.propositions import Settings
from tfinspect.verify.training import Stages, next_token_loss

SETTINGS = Settings()


def unshifted(logits: Tensor, tokens: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def from_probabilities(logits: Tensor, tokens: Tensor) -> Tensor:
    return next_token_loss(logits.softmax(dim=-1), tokens)


def summed(logits: Tensor, tokens: Tensor) -> Tensor:
    return next_token_loss(logits, tokens) * tokens[:, 1:].numel()


def by_naive_logarithm(logits: Tensor, tokens: Tensor) -> Tensor:
    return -logits.softmax(dim=-1)[:, :-1].gather(-1, tokens[:, 1:, None]).log().mean()


def forward_that_writes(model: Transformer, tokens: Tensor) -> Tensor:
    with torch.no_grad():
        model.get_parameter("blocks.3.norm1.weight").mul_(1.01)
    return model(tokens)


def loss_that_reads_another_text(logits: Tensor, tokens: Tensor) -> Tensor:
    return next_token_loss(logits.detach().requires_grad_(), tokens)


def backward_and_step(loss: Tensor, optimizer: Optimizer) -> None:
    loss.backward()
    optimizer.step()


def backward_afresh(loss: Tensor, optimizer: Optimizer) -> None:
    optimizer.zero_grad()
    loss.backward()


def with_a_detached_block(spec: ModelSpec, draws: Draws) -> Transformer:
    model = transformer(spec, draws)
    model.blocks[4].register_forward_hook(lambda module, args, out: out.detach())
    return model


def with_frozen_positions(spec: ModelSpec, draws: Draws) -> Transformer:
    model = transformer(spec, draws)
    model.get_parameter("embed.positions.weight").requires_grad_(False)
    return model


def untied(spec: ModelSpec, draws: Draws) -> Transformer:
    return transformer(spec.replace(tied_head=False), draws)


@pytest.mark.breaks("B15.5.1")
@pytest.mark.parametrize(
    ("loss", "wrong"),
    [
        (unshifted, {"loss", "positions with a gradient", "largest |gradient − claimed|"}),
        (from_probabilities, {"loss", "largest |gradient − claimed|"}),
        (summed, {"loss", "largest |gradient − claimed|"}),
        (by_naive_logarithm, {"loss of 1,000 × logits"}),
    ],
)
def test_another_loss_is_named(loss: training.Loss, wrong: set[str]) -> None:
    assert set(failing(training.loss(SETTINGS, loss))) == wrong


@pytest.mark.breaks("B15.8")
@pytest.mark.parametrize(
    ("stage", "wrong"),
    [
        ({"forward": forward_that_writes}, "tensors changed by forward"),
        ({"backward": backward_and_step}, "backward"),
        ({"backward": backward_afresh}, "second backward, largest |gradient − twice|"),
        ({"step": lambda optimizer: None}, "step, of 196"),
        ({"zero_grad": lambda optimizer: None}, "gradients left by zero_grad"),
        ({"loss": loss_that_reads_another_text}, "smallest gradient norm of the 12 blocks"),
    ],
)
def test_a_stage_that_does_another_thing_is_named(stage: dict[str, object], wrong: str) -> None:
    steps = dataclasses.replace(Stages(), **stage)
    assert wrong in failing(training.stages(SETTINGS, steps))


@pytest.mark.breaks("B15.8")
@pytest.mark.parametrize("stage", ["step", "zero_grad"])
def test_a_stage_left_out_spoils_no_other_figure(stage: str) -> None:
    found = failing(training.stages(SETTINGS, dataclasses.replace(Stages(), **{stage: lambda optimizer: None})))
    own = {
        "step": ["step, of 196", "largest |change by step + rate·gradient|"],
        "zero_grad": ["gradients left by zero_grad"],
    }
    assert found == own[stage]


@pytest.mark.breaks("B15.8")
@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        (with_a_detached_block, "smallest gradient norm of the 12 blocks"),
        (with_frozen_positions, "smallest of a position that predicts"),
        (untied, "largest |gradient of E − sum over its two uses|"),
    ],
)
def test_a_model_whose_gradients_stop_is_named(model: training.BuildModel, wrong: str) -> None:
    assert wrong in failing(training.stages(SETTINGS, model=model))
