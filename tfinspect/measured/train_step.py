"""A real training step under observation: forward, loss, backward, step and zero_grad, one after the other.

After each stage everything that a stage could have touched is looked at: the bytes of the parameters and of the
gradients (SHA-256), what autograd holds for backward (saved-tensor hooks), and what the optimizer remembers.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfinspect.measured import params, weights
from tfinspect.measured.dispatch import without_compiler
from tfinspect.measured.surroundings import plain_torch
from tfinspect.model.build import decoder
from tfinspect.model.tap import Tap
from tfinspect.model.transformer import Transformer
from tfinspect.results.train_step import Held, Losses, Optimizer, Stage, StageName, Update
from tfinspect.results.weights import Filled, Weights
from tfinspect.spec import ModelSpec

__all__ = ["Arrived", "Kept", "TiedGradient", "Trained", "by_formula", "loss_by_hand", "sha256", "train_step", "update"]

#: Target of a position that nothing is asked of.
IGNORED: Final = -100
#: Elements that are compared at a time, in float64: few enough for one core and its cache.
CHUNK: Final = 2**15
#: Least size that float32 holds with full precision.
SMALLEST_NORMAL: Final = 2.0**-126


@dataclasses.dataclass(frozen=True)
class Arrived:
    """The gradient that reached one parameter tensor."""

    name: str
    component: str
    shape: tuple[int, ...]
    norm: float
    largest: float
    """Largest absolute value."""
    zeros: int
    """Elements that are exactly 0."""
    rows: int
    """Rows that are not all 0, of a table of tokens or positions; 0 of any other tensor."""


@dataclasses.dataclass(frozen=True)
class TiedGradient:
    """The tied table's gradient against the two gradients of an untied twin."""

    look_up: Arrived
    head: Arrived
    difference: float
    """Largest absolute difference between the tied gradient and their sum."""


@dataclasses.dataclass(frozen=True)
class Trained:
    """One training step."""

    parameters: Held
    stages: tuple[Stage, ...]
    losses: Losses
    gradients: tuple[Arrived, ...]
    """In module order; the tied table once."""
    doubling: float
    """Largest |g₂ − 2·g₁| after a second backward without zero_grad."""
    tied: TiedGradient | None
    """None where the head has a table of its own."""
    updates: tuple[Update, ...]
    kept_parameters: Held
    """Parameters among what autograd keeps."""
    cleared: Literal["None", "zeros"]
    """What zero_grad leaves in the place of a gradient."""
    uncleared: int
    """Gradients that are not 0 after it."""
    filled: Filled = dataclasses.field(default_factory=Filled)
    """Where the parameters' numbers came from, and their format."""


@plain_torch()
def train_step(
    spec: ModelSpec,
    ids: Sequence[Sequence[int]],
    *,
    lengths: Sequence[int],
    optimizer: Optimizer,
    seed: int = 0,
    given: Weights | None = None,
    dtype: str | None = None,
) -> Trained:
    """One training step on a batch of token ids, with everything that each stage changed and left alone.

    Shapes:  ids [B, T], rows of one length; lengths [B], how many of each row are text (the rest is padding).
    Raises:  InputError as `weights.trainable` does.
    """
    with without_compiler(), torch.random.fork_rng(devices=[]):
        model = weights.trainable(spec, given, seed=seed, dtype=dtype)
        trained = _walk(_Run(model, torch.tensor(ids), lengths, seed), optimizer)
    return dataclasses.replace(trained, filled=weights.filled(given, model))


class Kept:
    """Tensors that autograd holds for backward, while they are held: ``with kept.hooks(): ...``."""

    def __init__(self, model: nn.Module) -> None:
        self._own = {p.data_ptr(): p.nbytes for p in model.parameters()}
        self._live: weakref.WeakSet[_Saved] = weakref.WeakSet()
        self._parameters: set[int] = set()

    def hooks(self) -> torch.autograd.graph.saved_tensors_hooks:
        """While they are on, each tensor that autograd saves is noted."""
        return torch.autograd.graph.saved_tensors_hooks(self._pack, lambda saved: saved.tensor)

    @property
    def held(self) -> Held:
        """What is held now, each storage once, parameters left out."""
        storages = {s.data_ptr(): s.nbytes() for s in (saved.tensor.untyped_storage() for saved in self._live)}
        n_bytes = [n for place, n in storages.items() if place not in self._own]
        return Held(len(n_bytes), sum(n_bytes))

    @property
    def parameters(self) -> Held:
        """Parameters that were ever held: a reference each, and no bytes."""
        return Held(len(self._parameters), sum(self._own[place] for place in self._parameters))

    def _pack(self, tensor: Tensor) -> _Saved:
        saved = _Saved(tensor.detach())  # with its graph, an output that is saved would hold itself for ever
        self._live.add(saved)
        place = tensor.untyped_storage().data_ptr()
        if place in self._own:
            self._parameters.add(place)
        return saved


@dataclasses.dataclass(eq=False)
class _Saved:
    """One tensor that autograd holds."""

    tensor: Tensor


class _Eager:
    """A tap that listens to nothing, and has attention run equation by equation."""

    sees_scores = True

    def __call__(self, name: str, tensor: Tensor, dims: str) -> Tensor:
        return tensor

    def within(self, place: str) -> Tap:
        return self


class _Run:
    """A model on its texts: the same forward pass and loss whenever they are asked for, dropout included."""

    def __init__(self, model: Transformer, tokens: Tensor, lengths: Sequence[int], seed: int) -> None:
        self.model, self.tokens, self.seed = model, tokens, seed & (2**63 - 1)
        padding = torch.arange(1, tokens.shape[1]) >= torch.tensor(lengths)[:, None]
        self.targets = tokens[:, 1:].masked_fill(padding, IGNORED)

    def logits(self, model: nn.Module | None = None) -> Tensor:
        torch.default_generator.manual_seed(self.seed)
        return (model or self.model)(self.tokens, _Eager())

    def loss(self, logits: Tensor) -> Tensor:
        """Position i predicts token i + 1: logits [B, T, V] against targets [B, T − 1]."""
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), self.targets.flatten(), ignore_index=IGNORED)


def _walk(run: _Run, settings: Optimizer) -> Trained:
    """The stages in order; what is compared on the way leaves no trace in what they see."""
    model, kept = run.model, Kept(run.model)
    optimizer = _optimizer(settings, model)
    stages: list[Stage] = []

    def look(name: StageName) -> None:
        stages.append(_stage(name, model, kept, optimizer))

    look("start")
    with kept.hooks():
        logits = run.logits()
    look("forward")
    with kept.hooks():
        loss = run.loss(logits)
    look("loss")
    loss.backward()
    look("backward")

    gradients = tuple(_arrived(name, _gradient(p)) for name, p in model.named_parameters())
    tied = _tied(run, _gradient(model.get_parameter("head.weight"))) if model.spec.tied_head else None
    doubling = _second_backward(run)

    before = [p.detach().clone() for p in model.parameters()]
    optimizer.step()
    look("step")
    updates = _updates(settings, model, before)
    del before
    optimizer.zero_grad()
    look("zero_grad")

    return Trained(
        parameters=_held(model.parameters()),
        stages=tuple(stages),
        losses=_losses(run, logits.detach(), loss.item()),
        gradients=gradients,
        doubling=doubling,
        tied=tied,
        updates=updates,
        kept_parameters=kept.parameters,
        cleared="None" if all(p.grad is None for p in model.parameters()) else "zeros",
        uncleared=sum(bool(_gradient(p).any()) for p in model.parameters()),
    )


def _optimizer(settings: Optimizer, model: nn.Module) -> torch.optim.Optimizer:
    """torch's own; one tensor at a time, which needs no second copy of them all."""
    if settings.name == "sgd":
        return torch.optim.SGD(model.parameters(), lr=settings.lr, momentum=settings.momentum, foreach=False)
    betas = (settings.beta1, settings.beta2)
    decay = settings.weight_decay
    return torch.optim.AdamW(
        model.parameters(), lr=settings.lr, betas=betas, eps=settings.eps, weight_decay=decay, foreach=False
    )


def by_formula(settings: Optimizer, p: Tensor, g: Tensor) -> Tensor:
    """What the first step makes of parameters p with gradients g.

    Source:  Loshchilov and Hutter 2019, algorithm 2, at t = 1, where the corrected moments are g and g².
    """
    if settings.name == "sgd":
        return p - settings.lr * g
    decayed = (1 - settings.lr * settings.weight_decay) * p
    return decayed.addcdiv_(g, g.abs().add_(settings.eps), value=-settings.lr)


def sha256(tensors: Iterable[Tensor]) -> str:
    """SHA-256 of the tensors' bytes, one tensor after the other, read where they are."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().view(-1).numpy().data)
    return digest.hexdigest()


def loss_by_hand(logits: Tensor, targets: Tensor) -> float:
    """−mean log softmax(logits)[target] over all targets but ignored ones, in float64, one position at a time."""
    losses = []
    for row, target in zip(logits.flatten(0, 1), targets.flatten().tolist(), strict=True):
        if target != IGNORED:
            z = row.double()
            top = z.max()
            losses.append((top + (z - top).exp().sum().log() - z[target]).item())
    return math.fsum(losses) / len(losses)


def _stage(name: StageName, model: nn.Module, kept: Kept, optimizer: torch.optim.Optimizer) -> Stage:
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    state = (value for values in optimizer.state.values() for value in values.values() if isinstance(value, Tensor))
    return Stage(
        name=name,
        parameters_sha256=sha256(model.parameters()),
        gradients_sha256=sha256(gradients) if gradients else None,
        gradients=_held(gradients),
        kept=kept.held,
        state=_held(state),
    )


def _held(tensors: Iterable[Tensor]) -> Held:
    n_bytes = [tensor.nbytes for tensor in tensors]
    return Held(len(n_bytes), sum(n_bytes))


def _losses(run: _Run, logits: Tensor, loss: float) -> Losses:
    """The loss beside its rivals, and where the step has led it."""
    with torch.no_grad():
        after = run.loss(run.logits()).item()
    leaf = logits.requires_grad_()
    (right,) = torch.autograd.grad(run.loss(leaf), leaf)
    logit_gradient = _norm(right)
    del right
    mistaken = run.loss(leaf.softmax(dim=-1))
    (wrong,) = torch.autograd.grad(mistaken, leaf)
    return Losses(
        n_predictions=int((run.targets != IGNORED).sum()),
        from_logits=loss,
        by_hand=loss_by_hand(logits.detach()[:, :-1], run.targets),
        from_probabilities=mistaken.item(),
        logit_gradient=logit_gradient,
        mistaken_logit_gradient=_norm(wrong),
        after_step=after,
    )


def _gradient(parameter: nn.Parameter) -> Tensor:
    """The gradient of a parameter; zeros where none arrived."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _arrived(name: str, gradient: Tensor) -> Arrived:
    component = params.component(name)
    is_table = component in ("tokens", "positions", "head")
    return Arrived(
        name=name,
        component=component,
        shape=tuple(gradient.shape),
        norm=_norm(gradient),
        largest=_largest(gradient),
        zeros=gradient.numel() - int(gradient.count_nonzero()),
        rows=int((gradient != 0).any(dim=1).sum()) if is_table and gradient.ndim == 2 else 0,
    )


def _norm(tensor: Tensor) -> float:
    return torch.linalg.vector_norm(tensor, dtype=torch.float64).item()


def _largest(tensor: Tensor) -> float:
    """Largest absolute value; NaN where one is."""
    least, greatest = torch.aminmax(tensor)
    return torch.maximum(-least, greatest).item()


def _worst(figures: Sequence[float]) -> float:
    """The largest; NaN where one of them is."""
    return math.nan if any(map(math.isnan, figures)) else max(figures)


def _second_backward(run: _Run) -> float:
    """Largest |g₂ − 2·g₁|; the gradients of the first backward are put back."""
    parameters = list(run.model.parameters())
    once = [_gradient(p).clone() for p in parameters]
    run.loss(run.logits()).backward()
    distances = []
    for parameter, first in zip(parameters, once, strict=True):
        distances.append(_largest(_gradient(parameter).sub_(first, alpha=2)))
        parameter.grad = first
    return _worst(distances)


def _tied(run: _Run, gradient: Tensor) -> TiedGradient:
    """The two gradients of the same weights in a model whose head is a parameter of its own."""
    twin = decoder(run.model.spec.replace(tied_head=False), device="meta").train()
    twin.load_state_dict(run.model.state_dict(), assign=True)  # the same memory under two parameters
    tables = (twin.get_parameter("embed.tokens.weight"), twin.get_parameter("head.weight"))
    look_up, head = torch.autograd.grad(run.loss(run.logits(twin)), tables)
    arrived = _arrived("embed.tokens.weight", look_up), _arrived("head.weight", head)
    return TiedGradient(*arrived, difference=_largest(look_up.add_(head).sub_(gradient)))


def _updates(settings: Optimizer, model: nn.Module, before: Sequence[Tensor]) -> tuple[Update, ...]:
    """What the step did to each parameter, on all cores."""
    names, parameters = zip(*model.named_parameters(), strict=True)
    after, gradients = [p.detach() for p in parameters], [_gradient(p) for p in parameters]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return tuple(pool.map(partial(update, settings), names, before, after, gradients))


def update(settings: Optimizer, name: str, before: Tensor, after: Tensor, gradient: Tensor) -> Update:
    """How far one tensor went, and how far it is from where the formula leads."""
    changed, squares, first_order, deviations = 0, 0.0, 0.0, []
    for old, new, g in _chunks(before, after, gradient):
        wanted, moved = by_formula(settings, old, g), new - old
        changed += int(moved.count_nonzero())
        squares += torch.dot(moved, moved).item()
        first_order += torch.dot(g, moved).item()
        size = torch.maximum(old.abs_(), wanted.abs()).clamp_(min=SMALLEST_NORMAL)
        deviations.append((new.sub_(wanted).abs_() / size).max().item())
    norm, deviation = math.sqrt(squares), _worst(deviations)
    return Update(name, params.component(name), before.numel(), changed, norm, first_order, deviation)


def _chunks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same stretch of each tensor, in float64, from the first to the last."""
    for parts in zip(*(tensor.view(-1).split(CHUNK) for tensor in tensors), strict=True):
        yield tuple(part.double() for part in parts)
