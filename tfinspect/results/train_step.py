"""One training step, stage by stage: what each stage does, what it changes, and what it leaves alone.

    forward     logits = model(tokens)                                 parameters stay
    loss        loss = cross_entropy(logits[:, :-1], tokens[:, 1:])    parameters stay
    backward    loss.backward()                                        parameters stay, gradients accumulate
    step        optimizer.step()                                       parameters change
    zero_grad   optimizer.zero_grad()                                  gradients go

Units:  bytes of tensors, each storage once; Euclidean norms, summed in float64; losses in nats.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal

from tfinspect.dims import brackets
from tfinspect.results.agreement import Agreement
from tfinspect.results.params import COMPONENTS
from tfinspect.results.report import Answer
from tfinspect.results.subject import Subject
from tfinspect.results.table import Cell, Column, Row, Table
from tfinspect.results.texts import Text, one_line
from tfinspect.results.weights import Filled

__all__ = [
    "STAGES", "Gradient", "Held", "KeptTerm", "Losses", "Optimizer", "OptimizerName", "Stage", "StageName", "Tied",
    "TrainStep", "Update",
]  # fmt: skip

OptimizerName = Literal["sgd", "adamw"]
StageName = Literal["start", "forward", "loss", "backward", "step", "zero_grad"]

#: Each stage and its call, in order.
STAGES: Final[Mapping[StageName, str]] = {
    "forward": "logits = model(tokens)",
    "loss": "loss = cross_entropy(logits[:, :-1], tokens[:, 1:])",
    "backward": "loss.backward()",
    "step": "optimizer.step()",
    "zero_grad": "optimizer.zero_grad()",
}

#: Digits of a SHA-256 that a table shows.
_SHOWN_DIGITS: Final = 12


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """An optimizer and its settings; those that it does not have are 0."""

    name: OptimizerName
    lr: float
    """Learning rate η."""
    momentum: float = 0.0
    """Share of the last velocity that SGD keeps."""
    beta1: float = 0.0
    """Decay of AdamW's first moment."""
    beta2: float = 0.0
    """Decay of AdamW's second moment."""
    eps: float = 0.0
    """ε, added to the root of AdamW's second moment."""
    weight_decay: float = 0.0
    """λ: how much of each parameter AdamW takes away, times η."""

    @property
    def formula(self) -> str:
        """What the first step makes of a parameter p with gradient g."""
        return "p − η·g" if self.name == "sgd" else "(1 − η·λ)·p − η·g/(|g| + ε)"

    @property
    def title(self) -> str:
        """Its name and settings in words."""
        if self.name == "sgd":
            return f"SGD, η = {self.lr:g}" + (f", momentum {self.momentum:g}" if self.momentum else "")
        betas = f"β = ({self.beta1:g}, {self.beta2:g})"
        return f"AdamW, η = {self.lr:g}, {betas}, ε = {self.eps:g}, λ = {self.weight_decay:g}"


@dataclasses.dataclass(frozen=True)
class Held:
    """Tensors that something holds."""

    tensors: int
    n_bytes: int


@dataclasses.dataclass(frozen=True)
class Stage:
    """How things stand after a stage."""

    name: StageName
    parameters_sha256: str
    """SHA-256 of the bytes of all parameters, in the order of the module."""
    gradients_sha256: str | None
    """The same of all gradients; None where there are none."""
    gradients: Held
    kept: Held
    """What autograd holds for backward, parameters left out."""
    state: Held
    """What the optimizer remembers."""


@dataclasses.dataclass(frozen=True)
class Losses:
    """The loss, and what it is held against."""

    n_predictions: int
    from_logits: float
    """Mean cross-entropy, from logits, float32."""
    by_hand: float
    """−mean log softmax, term by term in float64."""
    from_probabilities: float
    """The number that results from passing probabilities where logits belong."""
    logit_gradient: float
    """Norm of the loss's gradient at the logits."""
    mistaken_logit_gradient: float
    """The same under the mistake."""
    after_step: float
    """The loss on the same texts after the step."""


@dataclasses.dataclass(frozen=True)
class Gradient:
    """The gradient of one parameter tensor."""

    name: str
    """Path of the parameter."""
    component: str
    """Key of `COMPONENTS`."""
    dims: str
    """Its shape in symbols."""
    sizes: tuple[int, ...]
    """Its shape as it was measured."""
    norm: float
    zeros: int
    """Elements that are exactly 0."""

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)

    @property
    def block(self) -> int | None:
        """Which block it belongs to, from 0; None outside the blocks."""
        parts = self.name.split(".")
        return int(parts[1]) if parts[0] == "blocks" else None


@dataclasses.dataclass(frozen=True)
class Tied:
    """The gradient of the tied table, and those of its two uses, from an untied twin with the same weights."""

    norm: float
    """Norm of the tied table's gradient."""
    input_norm: float
    """Norm of the twin's gradient of E as a look-up table."""
    output_norm: float
    """Norm of the twin's gradient of E as the output head."""
    input_rows: int
    """Rows of the look-up's gradient that are not 0: the tokens that predictions are made from."""
    output_rows: int
    """Rows of the head's gradient that are not 0."""
    difference: float
    """Largest absolute difference between the tied gradient and the sum of the two."""
    largest: float
    """Largest absolute value of the tied gradient."""


@dataclasses.dataclass(frozen=True)
class Update:
    """What the step did to one parameter tensor."""

    name: str
    component: str
    elements: int
    changed: int
    """Elements that are another number after the step."""
    norm: float
    """Norm of the change."""
    first_order: float
    """Σ g·Δp: how much the loss changes to first order."""
    deviation: float
    """Largest distance from what the formula gives in float64, as a share of the parameter."""


@dataclasses.dataclass(frozen=True)
class KeptTerm:
    """One kind of tensor that autograd keeps for backward."""

    title: str
    formula: str
    """Elements of one copy, in letters."""
    elements: int
    """Elements of one copy."""
    copies: int
    """One per block, or 1."""
    tensors: int | None
    """Tensors of one copy; None where the values decide, as a router does that leaves some experts without a row."""
    width: int
    """Bytes of one element."""

    @property
    def n_bytes(self) -> int:
        """Bytes of all copies."""
        return self.elements * self.copies * self.width

    @property
    def n_tensors(self) -> int | None:
        """Tensors of all copies; None where the values decide."""
        return None if self.tensors is None else self.tensors * self.copies


@dataclasses.dataclass(frozen=True)
class TrainStep(Answer):
    """The stages of one training step, with everything that each changed and left alone."""

    schema: ClassVar[str] = "tfinspect.train_step/1"
    main_table: ClassVar[str] = "Stages"

    subject: Subject
    texts: tuple[Text, ...]
    seq_len: int
    """T: positions of each row, padding included."""
    seed: int
    """Seed of the weights where they are random, and of dropout where the model has any."""
    optimizer: Optimizer
    parameters: Held
    stages: tuple[Stage, ...]
    """How things stand before the first stage, and after each."""
    losses: Losses
    gradients: tuple[Gradient, ...]
    doubling: float
    """Largest |g₂ − 2·g₁|, where g₂ is what a second backward without zero_grad leaves."""
    tied: Tied | None
    """None where the head has a table of its own."""
    updates: tuple[Update, ...]
    kept: tuple[KeptTerm, ...]
    """What autograd keeps for backward, by kind: the closed form."""
    kept_parameters: Held
    """Parameters among what autograd keeps: no bytes of their own."""
    cleared: Literal["None", "zeros"]
    """What zero_grad leaves in the place of a gradient."""
    shown_blocks: tuple[int, ...]
    """Blocks whose gradients the tables show tensor by tensor; the others are folded."""
    filled: Filled = dataclasses.field(default_factory=Filled)
    """Where the numbers of the parameters come from, and their format."""
    agreements: tuple[Agreement, ...] = ()

    @property
    def batch(self) -> int:
        """B: number of texts."""
        return len(self.texts)

    @property
    def gradient_norm(self) -> float:
        """Norm of all gradients together."""
        return _joint_norm(self.gradients)

    @property
    def n_kept_tensors(self) -> int | None:
        """Tensors that autograd keeps for backward, by the closed form; None where the values decide."""
        numbers = [term.n_tensors for term in self.kept]
        known = [number for number in numbers if number is not None]
        return sum(known) if len(known) == len(numbers) else None

    @property
    def first_order(self) -> float:
        """Σ g·Δp over all parameters: how much the loss changes to first order."""
        return math.fsum(update.first_order for update in self.updates)

    @property
    def conventions(self) -> str:
        """The spec, the run, and what is counted."""
        dropout, run = self.subject.spec.dropout, self.filled.words(self.seed)
        if dropout:
            run += f", dropout {dropout:g}" + (f", seed {self.seed}" if not self.filled.random else "")
        return (
            f"{self.subject.opening()}. One training step on [B, T] = {brackets((self.batch, self.seq_len))}, "
            f"{run}; {self.optimizer.title}. Attention runs equation by equation. "
            "Bytes are of tensors, each storage once; norms are Euclidean; losses are in nats."
        )

    def unfolded(self) -> TrainStep:
        """The same step with the gradients of every block tensor by tensor."""
        blocks = dict.fromkeys(gradient.block for gradient in self.gradients if gradient.block is not None)
        return dataclasses.replace(self, shown_blocks=tuple(blocks))

    def tables(self) -> tuple[Table, ...]:
        """Texts, stages, loss, what is kept for backward, gradients, the tied table, and the step."""
        tied = () if self.tied is None else (self._tied_table(self.tied),)
        return (
            self._text_table(),
            self._stage_table(),
            self._loss_table(),
            self._kept_table(),
            self._component_table(),
            self._gradient_table(),
            *tied,
            self._update_table(),
        )

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values: every gradient of every block, whatever the tables fold."""
        losses = self.losses
        return {
            "conventions": self.conventions,
            "model": self.subject.to_dict(),
            "batch": self.batch,
            "seq_len": self.seq_len,
            "seed": self.seed,
            "weights": self.filled.to_dict(),
            "texts": [{"text": t.text, "ids": list(t.ids), "n_padding": self.seq_len - len(t.ids)} for t in self.texts],
            "optimizer": {**dataclasses.asdict(self.optimizer), "formula": self.optimizer.formula},
            "parameters": _held_dict(self.parameters),
            "stages": [
                {
                    "stage": stage.name,
                    "call": STAGES.get(stage.name),
                    "parameters_sha256": stage.parameters_sha256,
                    "gradients_sha256": stage.gradients_sha256,
                    "gradients": _held_dict(stage.gradients),
                    "kept_for_backward": _held_dict(stage.kept),
                    "optimizer_state": _held_dict(stage.state),
                }
                for stage in self.stages
            ],
            "loss": {
                "n_predictions": losses.n_predictions,
                "from_logits": losses.from_logits,
                "by_hand": losses.by_hand,
                "uniform": math.log(self.subject.spec.vocab_size),
                "from_probabilities": losses.from_probabilities,
                "logit_gradient_norm": losses.logit_gradient,
                "logit_gradient_norm_from_probabilities": losses.mistaken_logit_gradient,
                "after_step": losses.after_step,
                "first_order_change": self.first_order,
            },
            "kept_for_backward": [
                {
                    "what": term.title,
                    "formula": term.formula,
                    "copies": term.copies,
                    "tensors": term.n_tensors,
                    "bytes": term.n_bytes,
                }
                for term in self.kept
            ],
            "kept_parameters": _held_dict(self.kept_parameters),
            "gradient_norm": self.gradient_norm,
            "gradients": [
                {
                    "name": g.name,
                    "component": g.component,
                    "block": g.block,
                    "shape": list(g.dims.split()),
                    "sizes": list(g.sizes),
                    "norm": g.norm,
                    "zeros": g.zeros,
                }
                for g in self.gradients
            ],
            "second_backward_deviation": self.doubling,
            "tied_table": None if self.tied is None else dataclasses.asdict(self.tied),
            "updates": [
                {
                    "name": u.name,
                    "component": u.component,
                    "elements": u.elements,
                    "changed": u.changed,
                    "norm": u.norm,
                    "deviation": u.deviation,
                }
                for u in self.updates
            ],
            "zero_grad_leaves": self.cleared,
        }

    def _text_table(self) -> Table:
        columns = (
            Column("text", "text", keep=9),
            Column("tokens", "tokens", "count", keep=9),
            Column("predictions", "predictions", "count", keep=9),
        )
        rows = tuple(Row({"text": _said(t), "tokens": len(t.ids), "predictions": len(t.ids) - 1}) for t in self.texts)
        padded = any(len(text.ids) < self.seq_len for text in self.texts)
        note = f"Shorter texts are padded to {self.seq_len} positions; the loss leaves padding out."
        title = "Input: each token but the first is predicted from those before it"
        return Table(title, columns, rows, (note,) if padded else ())

    def _stage_table(self) -> Table:
        columns = (
            Column("effect", "", keep=9),
            Column("what", "what", keep=9),
            Column("value", "value", "shape", keep=8),
            Column("tensors", "tensors", "count", keep=9),
            Column("bytes", "bytes", "binary", keep=9),
        )
        rows = itertools.chain.from_iterable(
            self._stage_rows(number, before, after)
            for number, (before, after) in enumerate(itertools.pairwise(self.stages), start=1)
        )
        notes = (
            "A value of 12 digits begins the SHA-256 of all bytes; --json has it whole.",
            f"Parameters that backward needs too ({self.kept_parameters.tensors} tensors) take no bytes of their own.",
        )
        return Table("Stages", columns, tuple(rows), notes)

    def _stage_rows(self, number: int, before: Stage, after: Stage) -> Iterator[Row]:
        """What one stage does, and for each thing there is, whether it changed it."""
        yield Row({"effect": f"{number}. {after.name}: {STAGES[after.name]}"}, "group")
        if after.name == "forward":
            sizes = (self.batch, self.seq_len, self.subject.spec.vocab_size)
            yield Row({"effect": "makes", "what": "logits [B, T, V]", "value": f"f32{brackets(sizes)}", "tensors": 1,
                       "bytes": 4 * math.prod(sizes)})  # fmt: skip
        if after.name == "loss":
            said = f"of {self.losses.n_predictions:,} predictions"
            yield Row({"effect": "makes", "what": "loss, a mean", "value": said, "tensors": 1, "bytes": 4})
        things = (
            ("parameters", self.parameters, self.parameters, before.parameters_sha256, after.parameters_sha256),
            ("gradients", before.gradients, after.gradients, before.gradients_sha256, after.gradients_sha256),
            ("kept for backward", before.kept, after.kept, None, None),
            ("optimizer state", before.state, after.state, None, None),
        )
        for what, was, held, digest_before, digest in things:
            changed = was != held or digest_before != digest
            if changed or held.tensors:
                value = (digest or "")[:_SHOWN_DIGITS]
                if what == "gradients" and after.name == "zero_grad":
                    value = self.cleared
                yield Row({"effect": "changes" if changed else "leaves alone", "what": what, "value": value,
                           "tensors": held.tensors, "bytes": held.n_bytes})  # fmt: skip

    def _loss_table(self) -> Table:
        losses = self.losses
        columns = (
            Column("what", "what", keep=9),
            Column("formula", "how", "formula", keep=8),
            Column("value", "value", "real", keep=9),
        )
        mistake = losses.from_probabilities - losses.from_logits
        figures = (
            ("loss", "cross_entropy(logits, …)", losses.from_logits),
            ("by hand, in float64", "−mean log softmax(logits)", losses.by_hand),
            ("a uniform guess", "ln V", math.log(self.subject.spec.vocab_size)),
            ("loss after the step", "the same texts", losses.after_step),
            ("its change", "after − before", losses.after_step - losses.from_logits),
            ("the same to first order", "Σ ∂L/∂p·Δp", self.first_order),
        )
        mistaken = (
            ("not the loss", "cross_entropy(softmax(logits), …)", losses.from_probabilities),
            ("its distance from the loss", "", mistake),
            ("gradient norm at the logits", "", losses.mistaken_logit_gradient),
            ("the same, from logits", "", losses.logit_gradient),
        )
        rows = [Row({"what": what, "formula": how, "value": float(number)}) for what, how, number in figures]
        rows.append(Row({"what": "The mistake: probabilities where logits belong"}, "group"))
        rows += [Row({"what": what, "formula": how, "value": float(number)}) for what, how, number in mistaken]
        note = "cross_entropy takes the log softmax itself; given probabilities, it squeezes them a second time."
        return Table("Loss", columns, tuple(rows), (note,))

    def _kept_table(self) -> Table:
        columns = (
            Column("what", "kept", keep=9),
            Column("formula", "elements of one copy", "formula", keep=4),
            Column("copies", "copies", "count", keep=3),
            Column("tensors", "tensors", "count", keep=9),
            Column("bytes", "bytes", "bytes", keep=9),
        )
        rows = tuple(
            Row({"what": t.title, "formula": t.formula, "copies": t.copies, "tensors": t.n_tensors, "bytes": t.n_bytes})
            for t in self.kept
        )
        n_bytes = sum(t.n_bytes for t in self.kept)
        total = Row({"what": "total", "tensors": self.n_kept_tensors, "bytes": n_bytes}, "total")
        notes = ["A fused attention kernel keeps heads in the place of the weights, and nothing that grows with n²."]
        if self.n_kept_tensors is None:
            notes.append("The router decides how many experts have rows, and with it the number of tensors.")
        return Table("Kept for backward, by kind", columns, (*rows, total), tuple(notes))

    def _component_table(self) -> Table:
        columns = (
            Column("component", "component", keep=9),
            Column("tensors", "tensors", "count", keep=7),
            Column("elements", "elements", "count", keep=9),
            Column("zeros", "exactly 0", "count", keep=8),
            Column("norm", "norm", "real", keep=9),
        )
        rows = tuple(
            Row({"component": title, **_sums([g for g in self.gradients if g.component == key])})
            for key, title in COMPONENTS.items()
            if any(g.component == key for g in self.gradients)
        )
        total = Row({"component": "total", **_sums(self.gradients)}, "total")
        return Table("Gradients by component", columns, (*rows, total), self._gradient_notes())

    def _gradient_notes(self) -> tuple[str, ...]:
        spec, reached = self.subject.spec, max(len(text.ids) for text in self.texts) - 1
        notes = []
        if spec.positions == "learned":
            offset = spec.position_offset
            before = f"; so have the {offset:,} before position 0" if offset else ""
            notes.append(
                f"Nothing is predicted from a last token, so P's rows from {reached + offset:,} on, counted from 0, "
                f"have a gradient of exactly 0{before}."
            )
        if spec.qkv_bias and spec.positions != "rope" and not spec.qk_norm:
            notes.append(
                "attn.k.bias adds one number to all scores of a row, which softmax ignores: its gradient is rounding."
            )
        return tuple(notes)

    def _gradient_table(self) -> Table:
        columns = (
            Column("name", "gradient of", keep=9),
            Column("dims", "shape", "shape", keep=8),
            Column("sizes", "sizes", "shape", keep=7),
            Column("zeros", "exactly 0", "count", keep=5),
            Column("norm", "norm", "real", keep=9),
        )
        return Table("Gradients by tensor", columns, tuple(self._gradient_rows()), ())

    def _gradient_rows(self) -> Iterator[Row]:
        for block, group in itertools.groupby(self.gradients, lambda g: g.block):
            gradients = list(group)
            if block is None or block in self.shown_blocks:
                for g in gradients:
                    cells: dict[str, Cell] = {"dims": brackets(g.dims), "sizes": f"f32{brackets(g.sizes)}"}
                    yield Row({"name": g.name, **cells, "zeros": g.zeros, "norm": g.norm})
            else:
                sums = _sums(gradients)
                cells = {"name": f"block {block}, {len(gradients)} tensors", "zeros": sums["zeros"]}
                yield Row({**cells, "norm": sums["norm"]}, "fold")

    def _tied_table(self, tied: Tied) -> Table:
        columns = (
            Column("what", "gradient", keep=9),
            Column("formula", "what it is", "formula", keep=8),
            Column("rows", "rows not 0", "count", keep=8),
            Column("norm", "norm", "real", keep=9),
        )
        rows = (
            Row({"what": "of E as look-up table", "formula": "∂L/∂E_in", "rows": tied.input_rows,
                 "norm": tied.input_norm}),
            Row({"what": "of E as output head", "formula": "∂L/∂E_out", "rows": tied.output_rows,
                 "norm": tied.output_norm}),
            Row({"what": "of the tied table", "formula": "∂L/∂E = their sum", "norm": tied.norm}, "total"),
            Row({"what": "largest difference", "formula": "∂L/∂E − their sum", "norm": tied.difference}),
        )  # fmt: skip
        note = "The first two are of an untied twin with the same weights."
        return Table("The tied table", columns, rows, (note,))

    def _update_table(self) -> Table:
        columns = (
            Column("component", "component", keep=9),
            Column("tensors", "tensors changed", "count", keep=8),
            Column("changed", "elements changed", "count", keep=9),
            Column("elements", "of elements", "count", keep=7),
            Column("norm", "norm of the change", "real", keep=9),
        )
        rows = tuple(
            Row({"component": title, **_changes([u for u in self.updates if u.component == key])})
            for key, title in COMPONENTS.items()
            if any(u.component == key for u in self.updates)
        )
        total = Row({"component": "total", **_changes(self.updates)}, "total")
        notes = (f"First step, with gradient g: p becomes {self.optimizer.formula}.",)
        return Table("What the step changed", columns, (*rows, total), notes)


def _joint_norm(parts: Iterable[Gradient | Update]) -> float:
    return math.sqrt(math.fsum(part.norm**2 for part in parts))


def _sums(gradients: Iterable[Gradient]) -> dict[str, Cell]:
    found = list(gradients)
    elements, zeros = sum(g.elements for g in found), sum(g.zeros for g in found)
    return {"tensors": len(found), "elements": elements, "zeros": zeros, "norm": _joint_norm(found)}


def _changes(updates: Iterable[Update]) -> dict[str, Cell]:
    found = list(updates)
    return {
        "tensors": sum(u.changed > 0 for u in found),
        "changed": sum(u.changed for u in found),
        "elements": sum(u.elements for u in found),
        "norm": _joint_norm(found),
    }


def _said(text: Text) -> str:
    return " ".join(map(str, text.ids)) if text.text is None else f'"{one_line(text.text)}"'


def _held_dict(held: Held) -> dict[str, int]:
    return {"tensors": held.tensors, "bytes": held.n_bytes}
