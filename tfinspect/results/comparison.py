"""Models side by side: what differs in structure, and what that costs in parameters, work and memory.

Units:  parameters; multiplications of matrix products (1 multiply-add = 1 multiplication = 2 FLOPs); bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from tfinspect.results.agreement import Agreement
from tfinspect.results.params import COMPONENTS, Params
from tfinspect.results.report import Answer
from tfinspect.results.subject import Subject
from tfinspect.results.table import Cell, Column, Given, Kind, Role, Row, Table

__all__ = ["Compared", "Comparison", "Layer"]

#: Fields of a spec in reading order, as a reader calls them; every other field goes by its name.
_LABELS: Final[Mapping[str, str]] = {
    "architecture": "architecture",
    "n_layers": "blocks L",
    "n_encoder_layers": "encoder blocks",
    "d_model": "width d",
    "n_heads": "heads h",
    "n_kv_heads": "key heads h_kv",
    "d_head": "width of a head",
    "d_ff": "MLP width d_ff",
    "vocab_size": "vocabulary V",
    "n_ctx": "context n_ctx",
    "placement": "a sublayer",
    "norm": "norm",
    "final_norm": "final norm",
    "activation": "activation",
    "positions": "positions",
    "tied_head": "tied head",
    "head": "head",
    "window": "window",
    "n_token_types": "token types",
    "n_experts": "experts",
    "n_experts_per_token": "experts per token",
    "n_shared_experts": "shared experts",
    "d_expert": "expert width",
    "n_dense_layers": "dense blocks",
}

#: What a value says where the word alone does not.
_WORDS: Final[Mapping[tuple[str, object], str]] = {
    ("placement", "pre"): "x + Sublayer(LN(x))",
    ("placement", "post"): "LN(x + Sublayer(x))",
    ("placement", "sandwich"): "x + LN(Sub(LN(x)))",
    ("placement", "parallel"): "both, two norms",
    ("placement", "parallel_one_norm"): "both, one norm",
    ("architecture", "decoder"): "decoder-only",
    ("architecture", "encoder"): "encoder-only",
    ("architecture", "encoder_decoder"): "encoder–decoder",
    ("window", 0): "none",
}


#: Models whose columns fit on a page of 80 columns.
_ABREAST: Final = 3


@dataclasses.dataclass(frozen=True)
class Layer:
    """One kind of block: what it sees, and what it is made of."""

    title: str
    """"block", "encoder block", "decoder block" ..."""
    mask: str
    """"causal" or "none", with a window where there is one."""
    cross_attention: bool
    """Whether it attends to the encoder's output."""
    parts: int
    """Sublayers: attention, cross-attention, MLP."""
    copies: int
    params: int
    """Parameters of one."""


@dataclasses.dataclass(frozen=True)
class Compared:
    """One model of a comparison."""

    subject: Subject
    params: Params
    layers: tuple[Layer, ...]
    forward: int
    """Multiplications of one forward pass."""
    decode_step: int | None
    """Multiplications of one new token that attends to n; None where nothing is decoded."""
    cache_bytes: int | None
    """Bytes of keys and values of n positions, two for each number; None where nothing is decoded."""
    initialisation: str = ""
    """How the published model was filled at first, where its preset says so."""

    @property
    def name(self) -> str:
        """What the tables call it."""
        return self.subject.name if self.subject.name != "custom" else self.subject.title


@dataclasses.dataclass(frozen=True)
class Comparison(Answer):
    """Two or more models side by side."""

    schema: ClassVar[str] = "tfinspect.comparison/1"
    main_table: ClassVar[str] = "Parameters"

    models: tuple[Compared, ...]
    seq_len: int
    """n: positions of the pass that is compared."""
    seq_len_is_shortest: bool
    """Whether n was left out, and the shortest context of the models stands for it."""
    agreements: tuple[Agreement, ...] = ()

    @property
    def differing(self) -> tuple[str, ...]:
        """Fields of the spec in which the models differ, in reading order; each kind of bias speaks for itself."""
        specs = [model.subject.spec.to_dict() for model in self.models]
        fields = (*_LABELS, *(name for name in specs[0] if name not in _LABELS and name != "bias"))
        return tuple(name for name in fields if len({str(spec[name]) for spec in specs}) > 1)

    @property
    def conventions(self) -> str:
        """The models, the run, and what counts."""
        chosen = " (the shortest context; --n changes it)" if self.seq_len_is_shortest else ""
        two_stacks = any(model.subject.spec.architecture == "encoder_decoder" for model in self.models)
        source = ", after a source of as many where there is an encoder" if two_stacks else ""
        return (
            f"{', '.join(model.subject.title for model in self.models)}. Parameters counted once; one forward pass of "
            f"one sequence of n = {self.seq_len:,}{chosen}{source}, attention in full, logits at all positions; one "
            "multiply-add = 1 multiplication = 2 FLOPs."
        )

    def tables(self) -> tuple[Table, ...]:
        """Structure, kinds of blocks, parameters by component, work and memory."""
        side_by_side = [range(first, min(first + _ABREAST, len(self.models))) for first in self._firsts()]
        structure, params = map(self._structure, side_by_side), map(self._params, side_by_side)
        return (*structure, self._layers(), *params, self._work(), self._memory())

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values."""
        return {
            "conventions": self.conventions,
            "seq_len": self.seq_len,
            "differing_fields": list(self.differing),
            "models": [
                {
                    "model": model.subject.to_dict(),
                    "initialisation": model.initialisation or None,
                    "layers": [dataclasses.asdict(layer) for layer in model.layers],
                    "beyond_n_ctx": self.seq_len > model.subject.spec.n_ctx,
                    "total_params": model.params.total,
                    "active_params": model.params.active,
                    "component_params": dict(model.params.by_component),
                    "forward_multiplications": model.forward,
                    "forward_flops": 2 * model.forward,
                    "training_flops": 6 * model.forward,
                    "decode_step_multiplications": model.decode_step,
                    "weight_bytes_bf16": 2 * model.params.total,
                    "cache_bytes_bf16": model.cache_bytes,
                }
                for model in self.models
            ],
        }

    def _firsts(self) -> range:
        """The first of each few models that fit on a page side by side."""
        return range(0, len(self.models), _ABREAST)

    def _title(self, title: str, which: range) -> str:
        return title if len(self.models) <= _ABREAST else f"{title}, models {which.start + 1} to {which.stop}"

    def _columns(self, first: str, kind: Kind, which: range) -> tuple[Column, ...]:
        own = tuple(
            Column(f"model {at}", Given(self.models[number].name), kind, keep=9) for at, number in enumerate(which)
        )
        return (Column("what", first, keep=9), *own)

    def _row(self, what: str, cells: Sequence[Cell], role: Role = "row") -> Row:
        return Row({"what": what, **{f"model {at}": cell for at, cell in enumerate(cells)}}, role)

    def _structure(self, which: range) -> Table:
        models, rows = [self.models[number] for number in which], []
        for name in self.differing:
            values = [getattr(model.subject.spec, name) for model in models]
            rows.append(self._row(_LABELS.get(name, name.replace("_", " ")), [_said(name, value) for value in values]))
        if len({model.initialisation for model in self.models}) > 1:
            rows.append(self._row("initialisation σ", [model.initialisation or "not recorded" for model in models]))
        n_alike = len(self.models[0].subject.spec.to_dict()) - len(self.differing)
        notes = [f"{n_alike} fields of the spec are alike; --json lists them all."]
        notes += [f"{model.name}: {note}" for model in models for note in model.subject.notes()]
        if not rows:
            rows.append(self._row("nothing: the specs are the same", []))
        columns = self._columns("field", "text", which)
        return Table(self._title("What differs in structure", which), columns, tuple(rows), tuple(notes))

    def _layers(self) -> Table:
        rows = tuple(
            Row(
                {
                    "model": model.name,
                    "block": layer.title,
                    "mask": layer.mask,
                    "cross": "to the encoder's output" if layer.cross_attention else "none",
                    "parts": layer.parts,
                    "copies": layer.copies,
                    "params": layer.params,
                }
            )
            for model in self.models
            for layer in model.layers
        )
        columns = (
            Column("model", "model", keep=9),
            Column("block", "block", keep=9),
            Column("mask", "mask", keep=8),
            Column("cross", "cross-attention", keep=8),
            Column("parts", "parts", "count", keep=7),
            Column("copies", "blocks", "count", keep=5),
            Column("params", "parameters each", "count", keep=4),
        )
        note = "A part is a sublayer: attention, cross-attention, or the MLP."
        return Table("Blocks", columns, rows, (note,))

    def _params(self, which: range) -> Table:
        models = [self.models[number] for number in which]
        by_model = [model.params.by_component for model in models]
        present = [key for key in COMPONENTS if any(components.get(key) for components in by_model)]
        rows = [self._row(COMPONENTS[key], [components.get(key, 0) for components in by_model]) for key in present]
        rows.append(self._row("total", [model.params.total for model in models], "total"))
        if any(model.params.active is not None for model in self.models):
            rows.append(self._row("active in each token", [m.params.active or m.params.total for m in models]))
        return Table(self._title("Parameters", which), self._columns("component", "count", which), tuple(rows))

    def _work(self) -> Table:
        rows = tuple(
            Row(
                {
                    "model": model.name,
                    "forward": model.forward,
                    "token": self._per_token(model),
                    "decode": model.decode_step,
                    "training": 6 * model.forward,
                }
            )
            for model in self.models
        )
        columns = (
            Column("model", "model", keep=9),
            Column("forward", "multiplications, forward", "count", keep=8),
            Column("decode", "multiplications, one decode step", "count", keep=7),
            Column("training", "FLOPs, forward + backward", "count", keep=6),
            Column("token", "FLOPs per token, forward", "count", keep=5),
        )
        notes = [
            f"Forward: n = {self.seq_len:,} tokens; decode step: one new token that attends to {self.seq_len:,}.",
            "Backward costs twice the forward pass: a product for each of its two factors' gradients.",
            *self._remarks(),
        ]
        return Table("Work", columns, rows, tuple(notes))

    def _per_token(self, model: Compared) -> int | None:
        """FLOPs of each token, where all of them are of one kind and cost the same."""
        both = model.subject.spec.architecture == "encoder_decoder"
        each, rest = divmod(2 * model.forward, self.seq_len)
        return None if both or rest else each

    def _remarks(self) -> Iterator[str]:
        """What the figures of some models do not say themselves."""
        for model in self.models:
            spec = model.subject.spec
            if self.seq_len > spec.n_ctx:
                yield f"n = {self.seq_len:,} is beyond the n_ctx = {spec.n_ctx:,} of {model.name}: as if it were n."
            if model.decode_step is None:
                yield f"{model.name} predicts no next token, and keeps no cache."
            elif 0 < spec.window < self.seq_len:
                yield f"{model.name} needs less of both where a cache keeps its window alone: tfinspect flops --passes."

    def _memory(self) -> Table:
        rows = tuple(
            Row(
                {
                    "model": model.name,
                    "bytes": 2 * model.params.total,
                    "weights": 2 * model.params.total,
                    "cache": model.cache_bytes,
                    "cache_short": model.cache_bytes,
                }
            )
            for model in self.models
        )
        columns = (
            Column("model", "model", keep=9),
            Column("bytes", "bytes of the weights", "bytes", keep=7),
            Column("weights", "weights", "binary", keep=8),
            Column("cache", "bytes of the KV cache", "bytes", keep=6),
            Column("cache_short", "KV cache", "binary", keep=8),
        )
        note = f"bf16 or fp16: 2 bytes each number. KV cache of one sequence of {self.seq_len:,} positions."
        return Table("Memory", columns, rows, (note,))


def _said(name: str, value: object) -> str:
    """A value of a field in words."""
    if (name, value) in _WORDS and not isinstance(value, bool):
        return _WORDS[name, value]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.10g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
