"""One training step, stage by stage, and whether each stage does what it should and nothing else."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast, get_args

from tfinspect.closed_form import train_step as closed_form
from tfinspect.closed_form.params import ledger, tensors
from tfinspect.errors import InputError
from tfinspect.inspectors import batch
from tfinspect.inspectors.trace import blocks_named, firsts
from tfinspect.results.agreement import Agreement
from tfinspect.results.subject import Described, Subject
from tfinspect.results.train_step import Gradient, Optimizer, OptimizerName, Tied, TrainStep
from tfinspect.results.weights import Weights
from tfinspect.spec import ModelSpec

if TYPE_CHECKING:
    from tfinspect.measured.train_step import Arrived, Trained

__all__ = ["agreements", "train_step"]

#: Learning rate where none is given: torch's own, for either optimizer.
DEFAULT_LR: Final = 1e-3
#: Above it float32 overflows in the very step.
LARGEST_LR: Final = 1e6
#: Rounding that a sum of many float32 terms may gather, as a share of the largest result.
ROUNDING: Final = 1e-5
#: What the roundings of float32 (2⁻²⁴ each) may add up to, as a share of the parameter: 3 in a step of SGD; in one of
#: AdamW 2 for m, 5.5 for √v + ε, 2 for the decay and 4 for the sum.
ROUNDINGS: Final = {"sgd": 4 * 2.0**-24, "adamw": 16 * 2.0**-24}
#: Widths up to this one leave a layer norm's Jacobian nothing to pass on (d − 2 directions).
NARROWEST: Final = 2


def train_step(
    model: ModelSpec | Described,
    texts: Sequence[str | bytes] | str | bytes = (),
    *,
    ids: Sequence[Sequence[int]] = (),
    optimizer: str = "adamw",
    lr: float = DEFAULT_LR,
    momentum: float = 0.0,
    seed: int = 0,
    dtype: str | None = None,
    pad: bool = False,
    blocks: str = "",
    allow_special: bool = False,
) -> TrainStep:
    """One training step on some texts: what forward, loss, backward, step and zero_grad change and leave alone.

    The step is real: training mode, float32, torch's own optimizer. A model that comes with weights (`resolve` of a
    checkpoint) begins with a copy of them, any other with seeded GPT-2 initialisation. AdamW has torch's settings:
    β = (0.9, 0.999), ε = 1e-8, λ = 0.01. Padding is left out of the loss.

    Raises:  InputError for a model that predicts no next token, a text of one token, everything that `trace` refuses,
             an unknown optimizer, a learning rate that is not above 0, momentum outside [0, 1) or with AdamW, or too
             little memory.
    Agrees:  closed_form.train_step for bytes and counts; by hand in float64 for the loss and the update.

    >>> step = tfinspect.train_step(tfinspect.preset("tiny-568"), ids=[[3, 1, 4, 1, 5, 9]])
    >>> step.losses.n_predictions, {agreement.verdict for agreement in step.agreements}
    (5, {'agree'})
    """
    subject = Subject.of(model)
    spec = subject.spec
    batch.require_decoder(spec, "train-step")
    if dtype not in (None, "float32"):
        raise InputError(f"a training step is made in float32, not in {dtype!r}", "give --dtype float32")
    settings = _settings(optimizer, lr, momentum)
    shown = blocks_named(blocks, spec.n_layers, firsts=firsts(spec))
    weights = Weights.of(model)
    rows = batch.rows(spec, texts, ids, allow_special, weights=weights)
    seq_len = batch.seq_len(spec, rows, pad=pad, nothing="nothing to train on (0 tokens)")
    lengths = [len(row.ids) for row in rows]
    if min(lengths) == 1:
        which = "the text" if len(rows) == 1 else "one of the texts"
        raise InputError(f"{which} has 1 token, so there is nothing to predict", "give at least two tokens")
    padded = batch.padded(spec, rows, seq_len)

    from tfinspect.measured import memory
    from tfinspect.measured import train_step as measured

    room = closed_form.room_bytes(spec, settings, len(rows), seq_len)
    memory.require_bytes(room, "the training step", "choose a smaller model, a shorter text, or --optimizer sgd")
    ran = measured.train_step(spec, padded, lengths=lengths, optimizer=settings, seed=seed, given=weights, dtype=dtype)
    if weights is not None and not math.isfinite(ran.losses.from_logits):
        raise InputError(
            f"the loss with the weights of {weights.path!r} is {ran.losses.from_logits}, no number to train on",
            f"see tfinspect verify --weights {weights.path} finite",
        )
    dims = {tensor.name: tensor.dims for tensor in tensors(spec)}
    report = TrainStep(
        subject=subject,
        texts=rows,
        seq_len=seq_len,
        seed=seed,
        optimizer=settings,
        parameters=ran.parameters,
        stages=ran.stages,
        losses=ran.losses,
        gradients=tuple(
            Gradient(g.name, g.component, dims.get(g.name, ""), g.shape, g.norm, g.zeros) for g in ran.gradients
        ),
        doubling=ran.doubling,
        tied=_tied(ran),
        updates=ran.updates,
        kept=closed_form.kept(spec, len(rows), seq_len),
        kept_parameters=ran.kept_parameters,
        cleared=ran.cleared,
        shown_blocks=shown,
        filled=ran.filled,
    )
    return dataclasses.replace(report, agreements=tuple(agreements(report, ran, lengths)))


def _settings(name: str, lr: float, momentum: float) -> Optimizer:
    if name not in get_args(OptimizerName):
        raise InputError(f"unknown --optimizer {name!r}", f"choose one of {', '.join(get_args(OptimizerName))}")
    if isinstance(lr, bool) or not isinstance(lr, int | float) or not 0 < lr <= LARGEST_LR:
        raise InputError(f"the learning rate (--lr) must be above 0 and at most {LARGEST_LR:,.0f}, not {lr!r}")
    if isinstance(momentum, bool) or not isinstance(momentum, int | float) or not 0 <= momentum < 1:
        raise InputError(f"the momentum (--momentum) must be at least 0 and below 1, not {momentum!r}")
    if name == "adamw" and momentum:
        raise InputError(f"--momentum {momentum:g} belongs to SGD", "--optimizer sgd takes it")
    if name == "sgd":
        return Optimizer("sgd", float(lr), momentum=float(momentum))
    return Optimizer(
        cast("OptimizerName", name), float(lr), beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
    )  # fmt: skip


def _tied(ran: Trained) -> Tied | None:
    if ran.tied is None:
        return None
    table, look_up, head = _of(ran, "embed.tokens.weight"), ran.tied.look_up, ran.tied.head
    return Tied(table.norm, look_up.norm, head.norm, look_up.rows, head.rows, ran.tied.difference, table.largest)


def agreements(report: TrainStep, ran: Trained, lengths: Sequence[int]) -> Iterator[Agreement]:
    """Each claim about a training step, against what the step was seen to do."""
    spec, settings = report.subject.spec, report.optimizer
    how = "torch model on the CPU"
    yield Agreement("parameters", sum(t.params for t in ledger(spec)), sum(u.elements for u in ran.updates), how)
    yield from _left_alone(ran)
    yield from _loss(ran, lengths)
    yield from _kept(report, ran)
    yield from _gradients(report, ran, lengths)
    state = closed_form.state_bytes(spec, settings)
    yield Agreement(f"bytes of {settings.name} state", state, ran.stages[-1].state.n_bytes, "the optimizer's tensors")
    worst = _worst([update.deviation for update in ran.updates])
    quantity = "largest |p − its formula|, as a share of p"
    yield Agreement(quantity, 0.0, worst, "formula in float64", ROUNDINGS[settings.name])


def _left_alone(ran: Trained) -> Iterator[Agreement]:
    """What the stages must not touch, they did not touch: by bytes, not by intention."""
    pairs = list(zip(ran.stages, ran.stages[1:], strict=False))
    same = sum(old.parameters_sha256 == new.parameters_sha256 for old, new in pairs if new.name != "step")
    yield Agreement("stages, all but step, that leave every parameter as it was", 4, same, "SHA-256 before and after")
    before, after = next((old, new) for old, new in pairs if new.name == "step")
    moved = int(before.gradients_sha256 != after.gradients_sha256)
    yield Agreement("steps that change a gradient", 0, moved, "SHA-256 before and after")
    yield Agreement("gradients other than 0 after zero_grad", 0, ran.uncleared, f"it leaves {ran.cleared}")


def _loss(ran: Trained, lengths: Sequence[int]) -> Iterator[Agreement]:
    losses = ran.losses
    asked = closed_form.n_predictions(lengths)
    yield Agreement("predictions", asked, losses.n_predictions, "targets that the loss takes in")
    tolerance = ROUNDING * max(1.0, abs(losses.by_hand))
    how = "cross_entropy, float32; closed form: −mean log softmax, float64"
    yield Agreement("loss", losses.by_hand, losses.from_logits, how, tolerance)


def _kept(report: TrainStep, ran: Trained) -> Iterator[Agreement]:
    held = next(stage.kept for stage in ran.stages if stage.name == "loss")
    how = "saved-tensor hooks, each storage once, no parameters"
    if report.n_kept_tensors is not None:  # otherwise the router decides
        yield Agreement("tensors kept for backward", report.n_kept_tensors, held.tensors, how)
    yield Agreement("bytes kept for backward", sum(t.n_bytes for t in report.kept), held.n_bytes, how)
    after = next(stage.kept for stage in ran.stages if stage.name == "backward")
    yield Agreement("bytes kept after backward", 0, after.n_bytes, how)


def _gradients(report: TrainStep, ran: Trained, lengths: Sequence[int]) -> Iterator[Agreement]:
    spec = report.subject.spec
    planned = {tensor.name: tensor.shape for tensor in tensors(spec)}
    in_place = sum(planned.get(g.name) == g.shape for g in ran.gradients)
    how = "gradients of the torch model"
    yield Agreement("gradients of the expected name and shape", len(planned), in_place, how)
    n_bytes = next(stage.gradients.n_bytes for stage in ran.stages if stage.name == "backward")
    yield Agreement("bytes of the gradients", closed_form.gradient_bytes(spec), n_bytes, how)
    largest = _worst([g.largest for g in ran.gradients])
    how = "backward twice, no zero_grad between"
    yield Agreement("largest |g₂ − 2·g₁|, where gradients add up", 0.0, ran.doubling, how, ROUNDING * largest)
    if ran.tied is not None:
        tolerance = ROUNDING * _of(ran, "embed.tokens.weight").largest
        how = "untied twin with the same weights"
        yield Agreement("largest |∂L/∂E − (∂L/∂E_in + ∂L/∂E_out)|", 0.0, ran.tied.difference, how, tolerance)
    if report.filled.random and spec.d_model > NARROWEST and not spec.dropout:
        yield from _reached(report, ran, lengths)


def _reached(report: TrainStep, ran: Trained, lengths: Sequence[int]) -> Iterator[Agreement]:
    """Where gradients arrive; dropout, very narrow layer norms and weights of 0 may stop them: nothing is claimed."""
    spec, how = report.subject.spec, "gradients that are not 0"
    blocks = {g.block for g in report.gradients if g.block is not None and g.norm > 0}
    yield Agreement("blocks that a gradient reaches", spec.n_layers, len(blocks), how)
    if spec.final_norm:
        arrived = int(_of(ran, "final_norm.weight").norm > 0)
        yield Agreement("final layer norms that a gradient reaches", 1, arrived, how)
    if spec.positions == "learned":
        rows = _of(ran, "embed.positions.weight").rows
        yield Agreement("rows of P that a gradient reaches", closed_form.reached_positions(lengths), rows, how)
    if ran.tied is not None:
        read = {token for text in report.texts for token in text.ids[:-1]}
        yield Agreement("rows of E that the look-up's gradient reaches", len(read), ran.tied.look_up.rows, how)


def _of(ran: Trained, name: str) -> Arrived:
    return next(gradient for gradient in ran.gradients if gradient.name == name)


def _worst(figures: Sequence[float]) -> float:
    """The largest; NaN where one of them is."""
    return math.nan if any(map(math.isnan, figures)) else max(figures)
