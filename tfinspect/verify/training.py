"""Loss, and the four stages of a training step: what each reads, and what each changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from tfinspect.measured.dispatch import without_compiler
from tfinspect.model.transformer import Transformer
from tfinspect.results.checks import Figure, Findings, Matrix
from tfinspect.spec import ModelSpec
from tfinspect.verify.difference import largest
from tfinspect.verify.draws import Draws
from tfinspect.verify.kept import transformer
from tfinspect.verify.propositions import Settings

__all__ = ["Stages", "loss", "next_token_loss", "stages"]

BuildModel: TypeAlias = Callable[[ModelSpec, Draws], Transformer]
Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""From logits [B, T, V] and tokens [B, T] to one number."""

#: Twelve blocks, as the chapter's model has, and positions beyond the text.
DEEP: Final = ModelSpec(vocab_size=31, n_ctx=12, d_model=12, n_layers=12, n_heads=3, d_ff=48)
B: Final = 2
T: Final = 7
RATE: Final = 0.1


def next_token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Cross-entropy of the logits at each position but the last against the token that follows, averaged."""
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def loss(settings: Settings, loss: Loss = next_token_loss, model: BuildModel = transformer) -> Findings:
    """B15.5.1: the loss is the mean of −log softmax at the next token, from logits and not from probabilities."""
    draws = Draws(settings)
    tokens = draws.ids(DEEP.vocab_size, B, T)
    logits = model(DEEP, draws)(tokens).detach().requires_grad_()
    value = loss(logits, tokens)
    (gradient,) = torch.autograd.grad(value, logits)
    with torch.no_grad():
        mistaken, large = loss(logits.softmax(dim=-1), tokens), 1_000 * logits
        by_hand = -large.softmax(dim=-1)[:, :-1].gather(-1, tokens[:, 1:, None]).log().mean()
        claimed = (logits.softmax(dim=-1) - F.one_hot(tokens.roll(-1, dims=1), DEEP.vocab_size)) / (B * (T - 1))
        claimed[:, -1] = 0  # the last position has no token to predict
    found, tolerance = float(value.detach()), settings.tolerance(1e-12)
    figures = (
        Figure("loss", found, _by_definition(logits, tokens), tolerance),
        Figure("from probabilities, by mistake", float(mistaken), found, 1e-6, differs=True),
        Figure("positions with a gradient", int(gradient.abs().amax(dim=-1).count_nonzero()), B * (T - 1)),
        Figure("largest |gradient − claimed|", largest(gradient - claimed), 0.0, tolerance, detail=True),
        Figure("loss of 1,000 × logits", _finite(loss(large, tokens)), "finite", detail=True),
        Figure("−log of their softmax", _finite(by_hand), "infinite", detail=True),
    )
    notes = ("Claimed gradient: (softmax − 1 at the next token)/(B·(T − 1)), and 0 at the last position.",)
    return Findings(figures, notes=notes)


@dataclasses.dataclass(frozen=True)
class Stages:
    """What a training step does, in the order in which it does it."""

    forward: Callable[[Transformer, Tensor], Tensor] = lambda model, tokens: model(tokens)
    loss: Loss = next_token_loss
    backward: Callable[[Tensor, Optimizer], None] = lambda loss, optimizer: loss.backward()
    step: Callable[[Optimizer], None] = lambda optimizer: optimizer.step()
    zero_grad: Callable[[Optimizer], None] = lambda optimizer: optimizer.zero_grad()


def stages(settings: Settings, step: Stages = Stages(), model: BuildModel = transformer) -> Findings:
    """B15.8: what forward, loss, backward, step and zero_grad each do to parameters and gradients."""
    draws = Draws(settings)
    tokens = draws.ids(DEEP.vocab_size, B, T)
    built = model(DEEP, draws)
    twin = _untied(built)
    with without_compiler():
        optimizer = SGD(built.parameters(), lr=RATE)
        before = _values(built)
        logits = step.forward(built, tokens)
        after_forward = _changed(built, before)
        value = step.loss(logits, tokens)
        after_loss = _changed(built, before)
        step.backward(value, optimizer)
        after_backward = _changed(built, before)
        gradients = {name: _gradient(p) for name, p in built.named_parameters()}
        step.step(optimizer)
        after_step = _changed(built, before)
        descent = largest(p - before[n] + RATE * gradients[n] for n, p in built.named_parameters())
        step.zero_grad(optimizer)
        left = sum(int(_gradient(p).count_nonzero()) for p in built.parameters())
        once, twice = (_backward_again(step, twin, tokens) for _ in range(2))
    uses = [once["embed.tokens.weight"], once["head.weight"]]
    reached = _norms(gradients)
    in_blocks = torch.tensor([norm for part, norm in reached.items() if part.startswith("blocks.")])
    rows = gradients["embed.positions.weight"].abs().amax(dim=-1)
    tolerance = settings.tolerance(1e-12)
    figures = (
        Figure("tensors changed by forward", after_forward, 0),
        Figure("loss", after_loss, 0),
        Figure("backward", after_backward, 0),
        Figure(f"step, of {len(before)}", after_step, 0, differs=True),
        Figure("largest |change by step + rate·gradient|", descent, 0.0, tolerance, detail=True),
        Figure("gradients left by zero_grad", left, 0),
        Figure(
            "second backward, largest |gradient − twice|",
            largest(twice[name] - 2 * g for name, g in once.items()),
            0.0,
            tolerance,
            detail=True,
        ),
        Figure(
            "largest |gradient of E − sum over its two uses|",
            largest(gradients["embed.tokens.weight"] - sum(uses)),
            0.0,
            tolerance,
        ),
        *(
            Figure(f"largest gradient of E as {use}", largest(g), 0.0, 1e-6, differs=True, detail=True)
            for use, g in zip(("input", "head"), uses, strict=True)
        ),
        Figure("smallest gradient norm of the 12 blocks", float(in_blocks.min()), 0.0, 1e-9, differs=True),
        Figure("of the final norm", reached["final_norm"], 0.0, 1e-9, differs=True, detail=True),
        Figure(
            "smallest of a position that predicts", float(rows[: T - 1].min()), 0.0, 1e-9, differs=True, detail=True
        ),
        Figure("largest of the positions after those", float(rows[T - 1 :].max()), 0.0, detail=True),
    )
    matrix = Matrix("Gradient norms", tuple((norm,) for norm in reached.values()), tuple(reached), ("norm",))
    return Findings(figures, (matrix,))


def _untied(model: Transformer) -> Transformer:
    """A twin with the same values, whose table and head are two parameters."""
    twin = Transformer(model.spec.replace(tied_head=False)).to(model.embed.tokens.weight.dtype).eval()
    twin.load_state_dict(model.state_dict())
    return twin


def _backward_again(step: Stages, model: Transformer, tokens: Tensor) -> dict[str, Tensor]:
    """The gradients of a model after one more forward, loss and backward, and no step."""
    step.backward(step.loss(step.forward(model, tokens), tokens), SGD(model.parameters(), lr=0.0))
    return {name: _gradient(p) for name, p in model.named_parameters()}


def _values(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def _changed(model: nn.Module, before: dict[str, Tensor]) -> int:
    """How many parameter tensors are not what they were."""
    return sum(not torch.equal(p, before[name]) for name, p in model.named_parameters())


def _gradient(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.detach().clone()


def _norms(gradients: dict[str, Tensor]) -> dict[str, float]:
    """Gradient norm of each part: both tables, every block, the final norm."""
    squares: dict[str, float] = {}
    for name, gradient in gradients.items():
        part = ".".join(name.split(".")[:2]) if name.startswith(("blocks", "embed")) else name.split(".")[0]
        squares[part] = squares.get(part, 0.0) + float(gradient.square().sum())
    return {part: square**0.5 for part, square in squares.items()}


def _by_definition(logits: Tensor, tokens: Tensor) -> float:
    """The mean of −log softmax at the next token, in NumPy float64."""
    z, ids = logits.detach().double().numpy(), tokens.numpy()
    top = z.max(axis=-1, keepdims=True)
    log_softmax = z - top - np.log(np.exp(z - top).sum(axis=-1, keepdims=True))
    b, t = np.indices((ids.shape[0], ids.shape[1] - 1))
    return -float(log_softmax[b, t, ids[:, 1:]].mean())


def _finite(value: Tensor) -> str:
    return "finite" if bool(value.isfinite()) else "infinite"
