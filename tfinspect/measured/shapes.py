"""The named tensors of a real forward pass, as a listening tap sees them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tfinspect.dims import bind, mismatch
from tfinspect.errors import CheckFailed
from tfinspect.measured import params, weights
from tfinspect.measured.dispatch import Watcher, without_compiler
from tfinspect.measured.operators import Call, first_shape, operator
from tfinspect.measured.surroundings import plain_torch
from tfinspect.model.build import Model, build
from tfinspect.results.trace import Candidate, Stats
from tfinspect.results.weights import Filled, Weights
from tfinspect.spec import ModelSpec

__all__ = ["Observed", "Recorder", "Traced", "statistics", "trace"]


@dataclasses.dataclass(frozen=True, slots=True)
class Observed:
    """One named tensor that a forward pass produced."""

    name: str
    """Path of its tap."""
    dims: str
    """Its shape in symbols, as the model says it; held against its sizes when it was seen."""
    shape: tuple[int, ...]
    dtype: str
    n_bytes: int
    stats: Stats | None
    """Statistics of its values, where they were asked for."""
    calls: tuple[Call, ...]
    """Operators that ran since the tensor before it, where they were asked for."""


@dataclasses.dataclass(frozen=True)
class Traced:
    """One forward pass."""

    tensors: tuple[Observed, ...]
    """Every named tensor, in the order in which they arose."""
    params: int
    """Unique parameters of the model that ran."""
    filled: Filled
    """Where their numbers come from, and their format."""
    uncounted: tuple[str, ...]
    """Operators that nobody counted, where operators were watched."""
    candidates: tuple[tuple[Candidate, ...], ...]
    """The likeliest next tokens after each text, where the last step was asked for."""


class Recorder:
    """A tap that writes down what passes, and insists that each tensor has the shape that it claims.

    It holds no tensor. Scores and weights are seen unless told otherwise.
    """

    sees_scores = True

    def __init__(self, bound: dict[str, int], *, stats: Callable[[str], bool] = lambda name: False) -> None:
        self.bound, self.wants_stats = bound, stats
        self.seen: list[Observed] = []
        self.pending: list[Call] = []
        self.uncounted: dict[str, None] = {}
        self._at_work = True
        self._right: set[tuple[str, torch.Size]] = set()  # (dims, shape) that were found to agree

    def __call__(self, name: str, tensor: Tensor, dims: str) -> Tensor:
        shape = tensor.shape
        if (dims, shape) not in self._right:
            if problem := mismatch(name, dims, shape, self.bound):
                raise CheckFailed(problem)
            self._right.add((dims, shape))
        calls, self.pending = tuple(self.pending), []
        self._at_work = False  # what statistics run is not the model's
        stats = statistics(tensor) if self.wants_stats(name) else None
        dtype = str(tensor.dtype).removeprefix("torch.")
        self.seen.append(Observed(name, dims, tuple(shape), dtype, tensor.nbytes, stats, calls))
        self._at_work = True
        return tensor

    def within(self, place: str) -> _Place:
        """The same record, for names inside a place."""
        return _Place(self, f"{place}.")

    def watch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """What a `Watcher` calls after each operator."""
        if not self._at_work:
            return
        known = operator(getattr(func, "_overloadpacket", func))
        flops = known.flops(args, result) if known.flops else 0
        self.pending.append(Call(known.name, "", first_shape(result), flops))
        if not known.accounted_for:
            self.uncounted[known.name] = None


class _Place:
    """A recorder seen from inside a block."""

    sees_scores = True

    def __init__(self, recorder: Recorder, prefix: str) -> None:
        self.recorder, self.prefix = recorder, prefix

    def __call__(self, name: str, tensor: Tensor, dims: str) -> Tensor:
        return self.recorder(self.prefix + name, tensor, dims)

    def within(self, place: str) -> _Place:
        return _Place(self.recorder, f"{self.prefix}{place}.")


@plain_torch()
def trace(
    spec: ModelSpec,
    ids: Sequence[Sequence[int]],
    *,
    lengths: Sequence[int] | None = None,
    seed: int = 0,
    source: Sequence[Sequence[int]] = (),
    given: Weights | None = None,
    dtype: str | None = None,
    meta: bool = False,
    ops: bool = False,
    stats: Callable[[str], bool] = lambda name: False,
    top: int = 0,
) -> Traced:
    """One forward pass over a batch of token ids, with every named tensor written down.

    Shapes:  ids [B, T], rows of one length; lengths [B], how many of each row are text (the rest is padding);
             source [B, M], what an encoder–decoder reads besides.
    Raises:  InputError as `weights.model` does; CheckFailed where a tensor has another shape than it claims.
    """
    batch, seq_len = len(ids), len(ids[0])
    if meta:
        model = build(spec, device="meta").to(getattr(torch, dtype or "float32"))
    else:
        longest = max(seq_len, len(source[0]) if source else 0)
        way_out = "--meta traces the shapes without memory"
        model = weights.model(spec, given, batch=batch, seq_len=longest, seed=seed, dtype=dtype, way_out=way_out)
    tokens, read = _ids(ids, meta), _ids(source, meta) if source else None
    recorder = Recorder(bind(spec, batch, seq_len, n_source=len(source[0]) if source else 0), stats=stats)
    candidates = run(model, tokens, recorder, lengths or [seq_len] * batch, ops=ops, top=top, source=read)
    filled = weights.filled(given, model)
    return Traced(tuple(recorder.seen), params.counted(model).total, filled, tuple(recorder.uncounted), candidates)


def _ids(rows: Sequence[Sequence[int]], meta: bool) -> Tensor:
    """Rows of ids as a tensor, without values on the meta device."""
    return torch.zeros((len(rows), len(rows[0])), dtype=torch.long, device="meta") if meta else torch.tensor(rows)


@torch.no_grad()
def run(
    model: Model,
    tokens: Tensor,
    recorder: Recorder,
    lengths: Sequence[int],
    *,
    ops: bool,
    top: int,
    source: Tensor | None = None,
) -> tuple[tuple[Candidate, ...], ...]:
    """The forward pass under a recorder, and the generation step after it where top > 0."""
    with without_compiler(), Watcher(recorder.watch) if ops else contextlib.nullcontext():
        logits = model(tokens, recorder, source=source)
        if not top:
            return ()
        last = torch.tensor(lengths) - 1
        tap = recorder.within("next")
        next_logits = tap("logits", logits[torch.arange(len(lengths)), last], "B V")
        tap("ids", next_logits.argmax(dim=-1), "B")
    chances, chosen = next_logits.double().softmax(dim=-1).topk(min(top, next_logits.shape[-1]), dim=-1)
    return tuple(
        tuple(Candidate(i, p) for i, p in zip(row_ids, row_chances, strict=True))
        for row_ids, row_chances in zip(chosen.tolist(), chances.tolist(), strict=True)
    )


def statistics(tensor: Tensor) -> Stats:
    """Mean, standard deviation and range over the finite values, in float64, and how many are not finite."""
    values = tensor.double().flatten()
    finite = values[values.isfinite()]
    n_non_finite = values.numel() - finite.numel()
    if not finite.numel():
        return Stats(None, None, None, None, n_non_finite)
    mean, std = finite.mean().item(), finite.std(correction=0).item()
    return Stats(mean, std, finite.min().item(), finite.max().item(), n_non_finite)
