"""FLOPs as the dispatcher sees them: torch's own counter with its blind spots closed, and every operator accounted for.

An operator without a formula counts as zero in torch, in silence: in torch 2.13 that is fused attention on the CPU, the
fused encoder layers, and products with a vector. `FORMULAS` adds those. Beyond that, each operator that runs has to be
known here as a product (it has a formula), as elementwise work (its output elements are tallied apart) or as movement
(views, copies, look-ups, constants). Whatever is none of these is reported as uncounted, and the figure is "at least".

Unit: FLOPs, two for each multiplication with its addition. Causal attention counts in full, which is what runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from tfinspect.errors import InputError
from tfinspect.measured.dispatch import Watcher, without_compiler
from tfinspect.measured.surroundings import plain_torch
from tfinspect.model.build import Model, build
from tfinspect.model.cache import Cache
from tfinspect.model.positions import causal_mask
from tfinspect.model.tap import SILENT, Tap
from tfinspect.spec import LARGEST_SIZE, ModelSpec

__all__ = [
    "FORMULAS",
    "Call",
    "Measurement",
    "Tally",
    "backward",
    "backward_model",
    "causal_pairs",
    "count",
    "count_model",
    "decode_step",
    "operator",
    "tally",
    "unmeasurable",
]

aten = torch.ops.aten
Shape = tuple[int, ...]


def _attention(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    """Q·Kᵀ and weights·V for [B, h, T, d_head], [B, h, S, d_head], [B, h, S, d_v]."""
    batch, n_heads, n_queries, d_head = query
    return 2 * batch * n_heads * n_queries * key[2] * (d_head + value[3])


def _attention_backward(grad: Shape, query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    """Scores again, then the gradients of weights, V, Q and K: five products."""
    batch, n_heads, n_queries, d_head = query
    return 2 * batch * n_heads * n_queries * key[2] * (3 * d_head + 2 * value[3])


def _dot(a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    return 2 * a[0]


def _mv(matrix: Shape, vector: Shape, *_: Any, **__: Any) -> int:
    return 2 * math.prod(matrix)


def _addmv(added: Shape, matrix: Shape, vector: Shape, *_: Any, **__: Any) -> int:
    return 2 * math.prod(matrix)


def _addbmm(added: Shape, a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    return 2 * math.prod(a) * b[-1]


def _addr(added: Shape, a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    return 2 * a[0] * b[0]


def _encoder_layer(src: Shape, d_model: int, n_heads: int, *rest: Any, **__: Any) -> int:
    """A whole nn.TransformerEncoderLayer in one call: Q, K, V, output, two attention products, MLP."""
    batch, n = src[:2]
    d_ff = rest[12][0]  # the first MLP matrix, [d_ff, d_model]
    return 2 * batch * (n * (4 * d_model**2 + 2 * d_model * d_ff) + 2 * n * n * d_model)


def _multi_head_attention(query: Shape, key: Shape, value: Shape, d_model: int, *_: Any, **__: Any) -> int:
    """A whole nn.MultiheadAttention in one call."""
    batch, n = query[:2]
    n_keys = key[1]
    projections = 2 * (n + n_keys) * d_model**2
    return 2 * batch * (projections + 2 * n * n_keys * d_model)


def _known(**formulas: Callable[..., int]) -> dict[Any, Callable[..., int]]:
    """By operator, for those that this torch has."""
    return {getattr(aten, name): shapes_to_flops for name, shapes_to_flops in formulas.items() if hasattr(aten, name)}


#: What torch's own table lacks, by operator; each takes shapes in the place of tensors.
FORMULAS: Final[Mapping[Any, Callable[..., int]]] = _known(
    _scaled_dot_product_flash_attention_for_cpu=_attention,
    _scaled_dot_product_flash_attention_for_cpu_backward=_attention_backward,
    _transformer_encoder_layer_fwd=_encoder_layer,
    _native_multi_head_attention=_multi_head_attention,
    dot=_dot,
    vdot=_dot,
    mv=_mv,
    addmv=_addmv,
    addbmm=_addbmm,
    addr=_addr,
)

#: Elementwise work and reductions, by the key under which their output elements are tallied.
ELEMENTWISE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("native_layer_norm", "rms_norm", "_fused_rms_norm"), "norm"),
    **dict.fromkeys(("_softmax", "_safe_softmax"), "softmax"),
    **dict.fromkeys(("gelu", "relu", "silu"), "activation"),
    **dict.fromkeys(("add", "sub", "mul", "div", "neg", "pow", "sin", "cos", "exp", "sqrt", "rsqrt", "tanh"), "other"),
    **dict.fromkeys(("sigmoid", "sub_", "abs", "clamp", "log", "log_softmax", "rsub", "square"), "other"),
    **dict.fromkeys(("mean", "sum", "amax", "maximum", "minimum", "native_dropout"), "other"),
    # backward
    **dict.fromkeys(("native_layer_norm_backward", "_fused_rms_norm_backward", "_softmax_backward_data"), "other"),
    **dict.fromkeys(("gelu_backward", "silu_backward", "threshold_backward", "tanh_backward", "add_"), "other"),
    **dict.fromkeys(("native_dropout_backward", "embedding_dense_backward"), "other"),
}

#: Operators that move, select or make values, and compute nothing.
# fmt: off
MOVEMENT: Final = frozenset((
    "_index_put_impl_", "_local_scalar_dense", "_reshape_alias", "_to_copy", "_unsafe_view", "alias", "arange",
    "argmax", "argmin", "bernoulli", "bincount", "bitwise_and", "bitwise_not", "cat", "clone", "copy", "copy_",
    "detach", "detach_", "embedding", "empty", "empty_like", "empty_strided", "eq", "expand", "fill", "fill_",
    "full", "full_like", "ge", "gt", "index", "index_put", "index_select", "item", "le", "lift_fresh",
    "logical_and", "logical_not", "lt", "masked_fill", "masked_fill_", "new_empty", "new_zeros", "ones",
    "ones_like", "permute", "rand", "randint", "randn", "reshape", "scalar_tensor", "scatter", "select",
    "select_backward", "slice", "slice_backward", "sort", "split", "split_with_sizes", "squeeze", "stack", "t",
    "topk", "transpose", "tril", "triu", "unbind", "unsqueeze", "view", "where", "zero_", "zeros", "zeros_like",
))
# fmt: on


class Call(NamedTuple):
    """One operator that ran."""

    operator: str
    """Its name, "aten.addmm"."""
    module: str
    """Path of the innermost module that was running, "Transformer.blocks.0.attn"; "Global" outside any."""
    shape: Shape
    """Shape of its first output."""
    flops: int
    """FLOPs by its formula; 0 for elementwise work and movement."""


@dataclasses.dataclass(frozen=True)
class Tally:
    """What ran inside one `tally`."""

    flops: int
    """FlopCounterMode's total with FORMULAS added."""
    by_operator: Mapping[str, int]
    """FLOPs by operator, "aten.addmm"."""
    calls: tuple[Call, ...]
    """Every operator that ran, in order."""
    uncounted: tuple[str, ...]
    """Operators that nobody counted, each once."""

    @property
    def coverage(self) -> tuple[int, int]:
        """(calls that were accounted for, calls)."""
        return sum(call.operator not in self.uncounted for call in self.calls), len(self.calls)


def tally(run: Callable[[], object]) -> Tally:
    """The FLOPs of whatever `run` does, on any device, in the grad mode that it is called in."""
    counter = FlopCounterMode(display=False, custom_mapping=dict(FORMULAS))
    calls: list[Call] = []
    uncounted: dict[str, None] = {}

    def watch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        known = operator(getattr(func, "_overloadpacket", func))
        module = max(counter.mod_tracker.parents, key=len)
        flops = known.flops(args, result) if known.flops else 0
        calls.append(Call(known.name, module, first_shape(result), flops))
        if not known.accounted_for:
            uncounted[known.name] = None

    # The counter is entered last and so asked first; what it passes on, decomposed, is what the watcher sees.
    with without_compiler(), Watcher(watch), counter:
        run()
    counts = counter.get_flop_counts().get("Global", {})
    by_operator = {str(packet): flops for packet, flops in counts.items()}
    return Tally(counter.get_total_flops(), by_operator, tuple(calls), tuple(uncounted))


@dataclasses.dataclass(frozen=True, slots=True)
class Operator:
    """What is known of one operator."""

    name: str
    """ "aten.addmm"."""
    flops: Callable[[tuple[Any, ...], Any], int] | None
    """FLOPs of a call from its arguments and its result, by torch's own formula or ours; None for no product."""
    accounted_for: bool
    """Whether it is known as a product, as elementwise work or as movement."""


@functools.cache
def operator(packet: Any) -> Operator:
    """What is known of an operator that the dispatcher met."""
    name, short = str(packet), str(packet).removeprefix("aten.")
    flops = _of_shapes(FORMULAS[packet]) if packet in FORMULAS else _of_torch(flop_registry.get(packet))
    return Operator(name, flops, flops is not None or short in ELEMENTWISE or short in MOVEMENT)


def _of_shapes(formula: Callable[..., int]) -> Callable[[tuple[Any, ...], Any], int]:
    def flops(args: tuple[Any, ...], result: Any) -> int:
        shapes = [a.shape if isinstance(a, Tensor) else a for a in args]
        return formula(*shapes, out_shape=first_shape(result))

    return flops


def _of_torch(formula: Any) -> Callable[[tuple[Any, ...], Any], int] | None:
    """A formula of torch's table; the one of shapes that it wraps, where it says so, spares a walk through a call."""
    if formula is None:
        return None
    if inner := getattr(formula, "__wrapped__", None):
        return _of_shapes(inner)
    return lambda args, result: formula(*args, out_val=result)


def first_shape(result: Any) -> Shape:
    """Shape of an operator's output, or of its first where it has several; () for none."""
    if isinstance(result, Tensor):
        return tuple(result.shape)
    outputs = result if isinstance(result, tuple | list) else ()
    return next((tuple(r.shape) for r in outputs if isinstance(r, Tensor)), ())


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
