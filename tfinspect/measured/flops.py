"""The work of the torch model of a spec, as the dispatcher sees it: forward, one decode step, forward and backward.

Unit: FLOPs, two for each multiplication with its addition. Causal attention counts in full, which is what runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import Tensor

from tfinspect.errors import InputError
from tfinspect.measured.operators import ELEMENTWISE, Tally, tally
from tfinspect.measured.surroundings import plain_torch
from tfinspect.model.build import Model, build
from tfinspect.model.cache import Cache
from tfinspect.model.positions import causal_mask
from tfinspect.model.tap import SILENT, Tap
from tfinspect.spec import LARGEST_SIZE, ModelSpec

__all__ = [
    "Measurement",
    "backward",
    "backward_model",
    "causal_pairs",
    "count",
    "count_model",
    "decode_step",
    "unmeasurable",
]


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The work of one forward pass of the torch model."""

    flops: int
    """FLOPs of all matrix products."""
    by_component: Mapping[str, int]
    """FLOPs by key of the closed form: "projections", "scores", "mix" (weights·V), "mlp", "head" ..."""
    evaluations: Mapping[str, int]
    """Output elements of elementwise work: "norm", "softmax" (of scores), "gates" (softmax of a router), "activation",
    "products" (with a gate), "residual", "other"."""
    coverage: tuple[int, int]
    """(operators accounted for, operators that ran)."""
    uncounted: tuple[str, ...]
    """Operators that nobody counted."""


AttentionKind: TypeAlias = Literal["eager", "fused"]
GradMode: TypeAlias = Literal["grad", "no_grad", "inference_mode"]


@plain_torch()
def count(
    spec: ModelSpec,
    *,
    batch: int = 1,
    seq_len: int,
    source_len: int | None = None,
    attention: AttentionKind = "fused",
    grad: GradMode = "no_grad",
    head: Literal["all", "last"] = "all",
) -> Measurement:
    """FLOPs of one forward pass of the torch model of a spec, run on the meta device: no memory, no arithmetic.

    An encoder–decoder reads source_len positions besides, by default as many. Beyond n_ctx the position table is
    extended to seq_len; look-ups are no products, so that no figure changes.
    """
    model = build(spec.replace(n_ctx=max(spec.n_ctx, seq_len, source_len or 0)), device="meta")
    return count_model(
        model, batch=batch, seq_len=seq_len, source_len=source_len, attention=attention, grad=grad, head=head
    )


def count_model(
    model: Model,
    *,
    batch: int = 1,
    seq_len: int,
    source_len: int | None = None,
    attention: AttentionKind = "fused",
    grad: GradMode = "no_grad",
    head: Literal["all", "last"] = "all",
) -> Measurement:
    """FLOPs of one forward pass of a built model, on the device where it is."""
    tap: Tap = _SeesScores() if attention == "eager" else SILENT
    ids = _inputs(model, batch, seq_len, source_len)
    with _GRAD_MODES[grad]():
        ran = tally(lambda: model(*ids[:1], tap, last_only=head == "last", source=ids[1]))
    return _measurement(ran)


@plain_torch()
def decode_step(spec: ModelSpec, *, keys: int, batch: int = 1, source_len: int | None = None) -> Measurement:
    """FLOPs of one new token that attends to so many keys, itself included, on the meta device.

    The keys and values of a source, by default as long, are in the cache and made no more.

    Raises:  InputError for an encoder, whose positions all change with each new one.
    """
    if not spec.causal:
        raise InputError("an encoder has no decode step: each new position changes all others", "choose a decoder")
    n_source = (keys if source_len is None else source_len) if spec.architecture == "encoder_decoder" else 0
    model = build(spec.replace(n_ctx=max(spec.n_ctx, keys, n_source)), device="meta")
    tokens = torch.zeros((batch, 1), dtype=torch.long, device="meta")
    cache = Cache.blank(spec, batch=batch, n_past=keys - 1, n_source=n_source)
    with torch.no_grad():
        return _measurement(tally(lambda: model(tokens, _SeesScores(), cache)))


@plain_torch()
def backward(spec: ModelSpec, *, seq_len: int, batch: int = 1, source_len: int | None = None) -> Tally:
    """FLOPs of forward and backward together, attention equation by equation, on the meta device."""
    model = build(spec.replace(n_ctx=max(spec.n_ctx, seq_len, source_len or 0)), device="meta")
    return backward_model(model, batch=batch, seq_len=seq_len, source_len=source_len)


def backward_model(
    model: Model,
    *,
    batch: int = 1,
    seq_len: int,
    source_len: int | None = None,
    attention: AttentionKind = "eager",
) -> Tally:
    """FLOPs of forward and backward together of a built model; the loss is the sum of all that it gives.

    A fused kernel keeps no scores and makes them once more on the way back. The meta device has no such kernel.
    """
    tap = _KeepsPooled(sees_scores=attention == "eager")
    tokens, source = _inputs(model, batch, seq_len, source_len)

    def both() -> None:
        outputs = [model(tokens, tap, source=source), *tap.pooled]
        torch.stack([output.sum() for output in outputs]).sum().backward()

    with torch.enable_grad():
        return tally(both)


def _inputs(model: Model, batch: int, seq_len: int, source_len: int | None) -> tuple[Tensor, Tensor | None]:
    """Token ids without meaning, and a source where the model reads one."""
    device = next(model.parameters()).device
    tokens = torch.zeros((batch, seq_len), dtype=torch.long, device=device)
    if model.spec.architecture != "encoder_decoder":
        return tokens, None
    n_source = seq_len if source_len is None else source_len
    return tokens, torch.zeros((batch, n_source), dtype=torch.long, device=device)


def _measurement(ran: Tally) -> Measurement:
    """What ran, by component."""
    keys = ("norm", "softmax", "gates", "activation", "products", "residual", "other")
    evaluations = Counter(dict.fromkeys(keys, 0))
    for module, calls in itertools.groupby(ran.calls, key=lambda call: call.module):
        place, _, part = module.rpartition(".")
        if "norm" in part:
            *_, last = calls  # one kernel, or several that end in the norm's output
            evaluations["norm"] += math.prod(last.shape)
            continue
        for call in calls:
            key = _elementwise(call.operator.removeprefix("aten."), place, part)
            if key is not None:
                evaluations[key] += math.prod(call.shape)
    return Measurement(ran.flops, _by_component(ran), dict(evaluations), ran.coverage, ran.uncounted)


def _elementwise(operator: str, place: str, part: str) -> str | None:
    """The key of an elementwise operator that ran in a part of some place; None for any other operator."""
    key = ELEMENTWISE.get(operator)
    if key == "softmax" and part not in ("attn", "cross"):
        return "gates"  # a router's, over the experts that it chose
    if key == "other" and place.endswith("blocks"):
        return "residual"  # what a block itself does is to add
    if operator == "mul" and (part in ("mlp", "shared") or place.endswith("experts")):
        return "products"  # a gate and what it lets through
    return key


@plain_torch()
def causal_pairs(spec: ModelSpec, seq_len: int, window: int = 0) -> int | None:
    """How many (query, key) pairs the model's own mask lets through, of a window or none; None beyond 16,384 positions.

    The mask is the same in every block without a window; `ModelSpec.window_of` says which block has one.
    """
    if seq_len > 16_384:
        return None
    like = torch.empty(0)
    rows = (range(seq_len)[i : i + 256] for i in range(0, seq_len, 256))
    return sum(int((causal_mask(len(r), r.stop, like, window=window) == 0).sum()) for r in rows)


def unmeasurable(spec: ModelSpec, batch: int, seq_len: int, source_len: int | None = None) -> str | None:
    """Why torch cannot run this size even without memory, or None where it can."""
    longest = max(seq_len, source_len or 0)
    rows = batch * longest
    widest_mlp = max(spec.d_ff, spec.n_experts_per_token * max(spec.d_expert, spec.d_model))
    d_out = max(spec.vocab_size, spec.d_ff, max(1, spec.n_shared_experts) * spec.d_expert, spec.d_attn, spec.d_model)
    largest = {
        "scores [B, h, T, S]": batch * spec.n_heads * longest**2,
        "logits [B, T, V]": rows * spec.vocab_size,
        "queries [B, h, T, d_head]": rows * spec.d_attn,
        "hidden [B, T, d_ff]": rows * max(widest_mlp, spec.n_shared_experts * spec.d_expert),
        "residual stream [B, T, d_model]": rows * spec.d_model,
        "a weight": spec.d_model * d_out,
        "the position table": (max(spec.n_ctx, longest) + spec.position_offset) * spec.d_model,
    }
    for what, elements in largest.items():
        if elements >= 2**60:  # bytes of 8 each have to fit in a signed 64-bit integer
            return f"{what} would have {elements:,} elements, more than torch can index"
    if longest > LARGEST_SIZE:
        return f"{longest:,} positions are more than the {LARGEST_SIZE:,} that a model can be built for"
    n_blocks = spec.n_layers + spec.n_encoder_layers
    if n_blocks > 1_000:
        return f"{n_blocks:,} layers take too long to build one by one"
    if n_blocks * spec.n_experts > 20_000:
        return f"{n_blocks * spec.n_experts:,} experts take too long to build one by one"
    return None


_GRAD_MODES: Final[Mapping[str, Callable[[], contextlib.AbstractContextManager[Any]]]] = {
    "grad": torch.enable_grad,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}


class _SeesScores:
    """Listens to nothing, but wants scores and weights to exist."""

    sees_scores = True

    def __call__(self, name: str, tensor: Tensor, dims: str) -> Tensor:
        return tensor

    def within(self, place: str) -> _SeesScores:
        return self


class _KeepsPooled:
    """Keeps what a pooler gives, which a model does not return."""

    def __init__(self, *, sees_scores: bool) -> None:
        self.sees_scores = sees_scores
        self.pooled: list[Tensor] = []

    def __call__(self, name: str, tensor: Tensor, dims: str) -> Tensor:
        if name == "pooled":
            self.pooled.append(tensor)
        return tensor

    def within(self, place: str) -> _KeepsPooled:
        return self


#: Components of the work by the place in a model that does it.
_PLACES: Final[Mapping[str, str]] = {
    "router": "router",
    "experts": "experts",
    "shared": "shared",
    "mlp": "mlp",
    "head": "head",
    "mlm": "head",
    "pooler": "pooler",
}


def _by_component(ran: Tally) -> dict[str, int]:
    """FLOPs by the module that ran them; inside attention, scores come before the softmax and the mix after it."""
    parts: Counter[str] = Counter(dict.fromkeys(("projections", "scores", "mix", "mlp", "head"), 0))
    softmax_done = False
    for call in ran.calls:
        place = call.module.split(".")
        softmax_done = ELEMENTWISE.get(call.operator.removeprefix("aten.")) == "softmax" or softmax_done
        attention = next((name for name in ("attn", "cross") if name in place), None)
        if attention is None:
            key = next((key for name, key in _PLACES.items() if name in place), None)
            if key is not None:
                parts[key] += call.flops
            continue
        own = "cross_" if attention == "cross" else ""
        if "scaled_dot_product" in call.operator:  # both products in one kernel, of the same size
            parts[f"{own}scores"] += call.flops // 2
            parts[f"{own}mix"] += call.flops // 2
        elif place[-1] == attention:
            parts[own + ("mix" if softmax_done else "scores")] += call.flops
        else:
            parts[f"{own}projections"] += call.flops
            softmax_done = False
    return dict(parts)
