"""Every operator that torch dispatches: its work where it is a product, and what it is where it is none.

An operator without a formula counts as zero in torch, in silence: in torch 2.13 that is fused attention on the CPU, the
fused encoder layers, recurrent layers, and products with a vector. `FORMULAS` adds those. Beyond that, each operator
that runs has to be known here as a product (it has a formula), as elementwise work (its output elements are tallied
apart) or as movement (views, copies, look-ups, constants). Whatever is none of these is reported as uncounted, and the
figure is "at least".

Unit: FLOPs, two for each multiplication with its addition. Causal attention counts in full, which is what runs.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from tfinspect.measured.dispatch import Watcher, without_compiler

__all__ = ["ELEMENTWISE", "FORMULAS", "MOVEMENT", "Call", "Shape", "Tally", "first_shape", "operator", "tally"]

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


def _mm(a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    return 2 * math.prod(a) * b[-1]


def _addmm(added: Shape, a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    return 2 * math.prod(a) * b[-1]


def _addmv(added: Shape, matrix: Shape, vector: Shape, *_: Any, **__: Any) -> int:
    return 2 * math.prod(matrix)


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


def _recurrent_layer(inputs: Shape, to_gates: Shape, back_to_gates: Shape, *_: Any, **__: Any) -> int:
    """One direction of one LSTM layer in one call: at each step both matrices, of the input and of the state before."""
    return 2 * math.prod(inputs[:-1]) * (math.prod(to_gates) + math.prod(back_to_gates))


def _cudnn_rnn(inputs: Shape, weights: Iterable[Any], *_: Any, **__: Any) -> int:
    """All layers and directions of an LSTM, a GRU or an RNN in one call: at each step each matrix once."""
    shapes = [tuple(getattr(weight, "shape", weight)) for weight in weights]
    return 2 * math.prod(inputs[:-1]) * sum(math.prod(shape) for shape in shapes if len(shape) == 2)


def _grouped_mm(a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    """Rows in groups, each by the matrix of its group; where both are grouped already, one product for each group."""
    groups = a[0] if len(a) == len(b) == 3 else 1
    return 2 * groups * a[-2] * a[-1] * b[-1]


def _known(**formulas: Callable[..., int]) -> dict[Any, Callable[..., int]]:
    """By operator, for those that this torch has."""
    return {getattr(aten, name): shapes_to_flops for name, shapes_to_flops in formulas.items() if hasattr(aten, name)}


#: What torch's own table lacks, by operator; each takes shapes in the place of tensors.
FORMULAS: Final[Mapping[Any, Callable[..., int]]] = _known(
    _scaled_dot_product_flash_attention_for_cpu=_attention,
    _scaled_dot_product_flash_attention_for_cpu_backward=_attention_backward,
    _scaled_dot_product_fused_attention_overrideable=_attention,
    _transformer_encoder_layer_fwd=_encoder_layer,
    _native_multi_head_attention=_multi_head_attention,
    mkldnn_rnn_layer=_recurrent_layer,
    _cudnn_rnn=_cudnn_rnn,
    _grouped_mm=_grouped_mm,
    dot=_dot,
    vdot=_dot,
    mv=_mv,
    addmv=_addmv,
    addmv_=_addmv,
    addmm_=_addmm,
    _addmm_activation=_addmm,
    baddbmm_=_addmm,
    addbmm=_addmm,
    addbmm_=_addmm,
    addr=_addr,
    addr_=_addr,
    _int_mm=_mm,
)

#: Elementwise work and reductions, by the key under which their output elements are tallied.
ELEMENTWISE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("native_layer_norm", "rms_norm", "_fused_rms_norm"), "norm"),
    **dict.fromkeys(("_softmax", "_safe_softmax"), "softmax"),
    **dict.fromkeys(("gelu", "relu", "silu"), "activation"),
    **dict.fromkeys(("add", "sub", "mul", "div", "neg", "pow", "sin", "cos", "exp", "sqrt", "rsqrt", "tanh"), "other"),
    **dict.fromkeys(("sigmoid", "sub_", "abs", "clamp", "log", "log_softmax", "rsub", "square"), "other"),
    **dict.fromkeys(("mean", "sum", "amax", "maximum", "minimum", "native_dropout"), "other"),
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit_no_training", "native_group_norm"), "norm"),
    **dict.fromkeys(("_native_batch_norm_legit", "cudnn_batch_norm", "_batch_norm_with_update"), "norm"),
    **dict.fromkeys(("_log_softmax", "logsumexp", "cumsum", "cumprod", "var", "std", "var_mean", "std_mean"), "other"),
    **dict.fromkeys(("max", "min", "aminmax", "prod", "norm", "linalg_vector_norm", "any", "all", "glu"), "other"),
    **dict.fromkeys(("floor_divide", "floor_divide_", "embedding_renorm_"), "other"),
    **dict.fromkeys(("max_pool2d_with_indices", "max_pool3d_with_indices", "mkldnn_max_pool2d"), "other"),
    **dict.fromkeys(("avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"), "other"),
    **dict.fromkeys(("adaptive_max_pool2d", "adaptive_max_pool3d", "grid_sampler_2d", "max_pool2d"), "other"),
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_prelu_kernel"), "other"),
    **dict.fromkeys(
        ("upsample_bilinear2d", "upsample_linear1d", "upsample_bicubic2d", "upsample_trilinear3d"), "other"
    ),
    **dict.fromkeys(("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_nearest_exact2d"), "other"),
    **dict.fromkeys(
        ("_embedding_bag", "_embedding_bag_forward_only", "index_add", "index_add_", "scatter_add"), "other"
    ),
    **dict.fromkeys(("scatter_add_", "scatter_reduce", "scatter_reduce_", "_thnn_fused_lstm_cell", "renorm"), "other"),
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward", "mse_loss", "smooth_l1_loss", "huber_loss"), "other"),
    **dict.fromkeys(("binary_cross_entropy", "_thnn_fused_gru_cell", "rrelu_with_noise", "logcumsumexp"), "other"),
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
    # of models that are no Transformers
    "_assert_async", "_nested_tensor_from_mask", "_nested_tensor_from_mask_left_aligned", "_padded_dense_to_nested",
    "_nested_from_padded", "_unique2", "argsort", "as_strided", "as_strided_", "bernoulli_", "bucketize",
    "channel_shuffle", "col2im", "constant_pad_nd", "convert_element_type", "cummax", "equal", "exponential_", "eye",
    "flip", "gather", "histc", "im2col", "index_copy", "index_copy_", "index_fill", "index_fill_", "index_put_",
    "is_same_size", "isin", "lift", "lift_fresh_copy", "linspace", "logspace", "masked_scatter", "masked_select",
    "max_unpool2d", "median", "multinomial", "new_empty_strided", "new_full", "new_ones", "nonzero", "normal",
    "normal_", "pixel_shuffle", "pixel_unshuffle", "rand_like", "randint_like", "randn_like", "random_", "randperm",
    "reflection_pad1d", "reflection_pad2d", "repeat", "repeat_interleave", "replication_pad1d", "replication_pad2d",
    "replication_pad3d", "resize_", "roll", "rot90", "scatter_", "searchsorted", "select_scatter", "set_",
    "slice_scatter", "sym_size", "sym_stride", "tril_indices", "triu_indices", "unfold", "uniform_", "unique_dim",
    "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "view_as_complex", "view_as_real",
))
# fmt: on


#: Tags by which torch says that an operator is elementwise work; the second one is not in every release.
_NO_PRODUCT: Final = frozenset(("Tag.pointwise", "Tag.reduction"))


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
    no_product = short in ELEMENTWISE or short in MOVEMENT or name.startswith("profiler.") or _says_so(packet)
    return Operator(name, flops, flops is not None or no_product)


def _says_so(packet: Any) -> bool:
    """Whether torch itself calls an operator pointwise, a reduction, or a view."""
    overloads = [getattr(packet, name) for name in packet.overloads()] if hasattr(packet, "overloads") else []
    tags = {str(tag) for overload in overloads for tag in overload.tags}
    return bool(tags & _NO_PRODUCT) or any(getattr(overload, "is_view", False) for overload in overloads)


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
    """Shape of an operator's output, or of its first where it has several; () where there is no shape."""
    if isinstance(result, Tensor):
        try:
            return () if result.is_nested else tuple(result.shape)
        except RuntimeError:  # a lazy parameter on its way
            return ()
    outputs = result if isinstance(result, tuple | list) else ()
    return next((first_shape(r) for r in outputs if isinstance(r, Tensor)), ())
