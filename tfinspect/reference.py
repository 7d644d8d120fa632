"""The forward pass in NumPy float64, written from the definitions.

A second implementation: it shares no line with the torch core, only the names of parameters and of tensors, so that
where the two agree, a mistake would have to have been made twice. `forward` gives every named tensor; `named_tensors`
gives them one by one, and costs no more than what is taken from it.

    weights   parameters by their names in the torch core: "blocks.0.attn.q.weight" [d_out, d_in]
    at        where a part stands: "blocks.0.attn"; what it makes is named below that

A part yields each tensor with its name, and returns what the pass goes on with.

Source:  chapter A, 2.1 to 2.3 and 8.2; chapter B, 15.2 to 15.6; Vaswani et al. 2017 (sinusoidal, encoder–decoder);
         norms: Ba et al. 2016 (layer norm), Zhang and Sennrich 2019 (RMSNorm), Henry et al. 2020 (QK norm);
         positions: Raffel et al. 2020 (relative bias), Su et al. 2021 (RoPE), Press et al. 2022 (ALiBi);
         curves: Hendrycks and Gimpel 2016 (GELU, SiLU), Shazeer 2020 (gates);
         attention: Ainslie et al. 2023 (groups), Beltagy et al. 2020 (windows), Wang and Komatsuzaki 2021 (parallel);
         experts: Jiang et al. 2024 (routing), Dai et al. 2024 (shared); Devlin et al. 2019 (MLM head, pooler).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfinspect.errors import InputError
from tfinspect.spec import GATES, ModelSpec

__all__ = ["forward", "named_tensors"]

Array: TypeAlias = NDArray[Any]
Weights: TypeAlias = Mapping[str, Array]
Part: TypeAlias = Generator[tuple[str, Array], None, Array]
Sublayer: TypeAlias = Callable[[Array], Part]
#: A norm by its name in the block: ("norm1", x).
NamedNorm: TypeAlias = Callable[[str, Array], Part]
#: The sublayers of a block in order, each with the name of the sum that it is added to.
Sublayers: TypeAlias = Sequence[tuple[str, Sublayer]]


def forward(spec: ModelSpec, weights: Weights, tokens: Array, source: Array | None = None) -> dict[str, Array]:
    """Every named tensor of one forward pass, by the name of its tap: "blocks.0.attn.scores", "logits".

    Shapes:  tokens [B, T] and, for an encoder–decoder, source [B, M], integers below V; weights of any float dtype;
             results float64, as `dims` of the taps say.
    Units:   masked scores are −∞.
    Raises:  InputError for an encoder–decoder without a source, and for a source that no encoder reads.
    Agrees:  the torch core, tensor by tensor: to 1e-10 where it runs in float64.
    """
    return dict(named_tensors(spec, weights, tokens, source))


def named_tensors(
    spec: ModelSpec, weights: Weights, tokens: Array, source: Array | None = None
) -> Iterator[tuple[str, Array]]:
    """The tensors of `forward` with their names, each made when it is asked for."""
    x = yield from hidden_states(spec, weights, tokens, source)
    if spec.head != "none":
        yield from head(spec, weights, x)
    if spec.pooler:
        yield "pooled", np.tanh(linear(x[:, 0], weights, "pooler"))  # [B, d_model]


def hidden_states(spec: ModelSpec, weights: Weights, tokens: Array, source: Array | None) -> Part:
    """[B, T] to what the head reads, [B, T, d_model]."""
    if spec.architecture != "encoder_decoder":
        if source is not None:
            raise InputError("a model of one stack reads no source", "leave out the source")
        yield "tokens", tokens
        return (yield from stack(spec, weights, tokens, ""))
    if source is None:
        raise InputError("an encoder-decoder reads a source besides its tokens", "give the source")
    yield "source.tokens", source
    memory = yield from stack(spec, weights, source, "encoder.")
    yield "tokens", tokens
    return (yield from stack(spec, weights, tokens, "decoder.", memory))


def stack(spec: ModelSpec, weights: Weights, ids: Array, place: str, memory: Array | None = None) -> Part:
    """[B, T] to [B, T, d_model]: embedding, blocks, last norm; the blocks read memory [B, M, d_model] where given."""
    x = yield from embedding(spec, weights, ids, f"{place}embed")
    causal = spec.causal and place != "encoder."
    bias: Array | float = 0.0
    if spec.positions == "relative":
        bias = relative_bias(spec, weights[f"{place}relative.weight"], ids.shape[1], causal=causal)
    for layer in range(spec.n_encoder_layers if place == "encoder." else spec.n_layers):
        at = f"{place}blocks.{layer}"
        added = mask(spec, ids.shape[1], spec.window_of(layer), causal=causal) + bias
        attend = partial(attention, spec, weights, at=f"{at}.attn", added=added)
        feed = partial(experts if spec.has_experts(layer) else mlp, spec, weights, at=f"{at}.mlp")
        sublayers: Sublayers = [("resid_mid", attend), ("resid_out", feed)]
        if memory is not None:
            cross = partial(attention, spec, weights, at=f"{at}.cross", memory=memory)
            sublayers = [("resid_self", attend), ("resid_cross", cross), ("resid_out", feed)]
        x = yield from BLOCKS[spec.placement](x, at, partial(norm, spec, weights, at), sublayers)
    if spec.final_norm:
        x = yield from norm(spec, weights, place.removesuffix("."), "final_norm", x)
    return x


def embedding(spec: ModelSpec, weights: Weights, ids: Array, at: str) -> Part:
    """[B, T] to [B, T, d_model]: a row of E for each token, and what is added to it; every token is of type 0."""
    x = in_float64(token_table(spec, weights)[ids])
    yield f"{at}.tokens", x
    if spec.embed_scale:
        x = x * math.sqrt(spec.d_model)
        yield f"{at}.scaled", x
    n = ids.shape[1]
    added: list[Array] = []
    if spec.positions == "learned":
        table = weights[f"{at}.positions.weight"]
        added.append(in_float64(table[spec.position_offset : spec.position_offset + n]))
    if spec.positions == "sinusoidal":
        added.append(sinusoids(n, spec.d_model))
    if added:
        yield f"{at}.positions", added[0]
    if spec.n_token_types:
        added.append(in_float64(weights[f"{at}.types.weight"][np.zeros_like(ids)]))
        yield f"{at}.types", added[-1]
    if added:
        for rows in added:
            x = x + rows
        yield f"{at}.sum", x
    if spec.embed_norm:
        x = yield from norm(spec, weights, at, "norm", x)
    return x


def head(spec: ModelSpec, weights: Weights, x: Array) -> Part:
    """[B, T, d_model] to logits [B, T, V]; in BERT's head through a layer, its curve and a norm first."""
    if spec.head == "mlm":
        x = linear(x, weights, "mlm.dense")
        yield "mlm.dense", x
        x = curve(spec)(x)
        yield "mlm.activated", x
        x = yield from norm(spec, weights, "mlm", "norm", x)
    table = token_table(spec, weights) if spec.tied_head else weights["head.weight"]
    logits: Array = x @ in_float64(table).T
    if spec.head_bias:
        logits = logits + weights["head.bias"]
    yield "logits", logits
    return logits


def pre_norm_block(x: Array, at: str, norm: NamedNorm, sublayers: Sublayers) -> Part:
    """[B, T, d_model] to the same: X + Sublayer(LN(X)), sublayer after sublayer."""
    for number, (total, sublayer) in enumerate(sublayers, start=1):
        x = x + (yield from sublayer((yield from norm(f"norm{number}", x))))
        yield f"{at}.{total}", x
    return x


def post_norm_block(x: Array, at: str, norm: NamedNorm, sublayers: Sublayers) -> Part:
    """[B, T, d_model] to the same: LN(X + Sublayer(X)), sublayer after sublayer."""
    for number, (total, sublayer) in enumerate(sublayers, start=1):
        x = x + (yield from sublayer(x))
        yield f"{at}.{total}", x
        x = yield from norm(f"norm{number}", x)
    return x


def sandwich_block(x: Array, at: str, norm: NamedNorm, sublayers: Sublayers) -> Part:
    """[B, T, d_model] to the same: X + LN'(Sublayer(LN(X))), sublayer after sublayer."""
    for number, (total, sublayer) in enumerate(sublayers, start=1):
        delta = yield from sublayer((yield from norm(f"norm{number}", x)))
        x = x + (yield from norm(f"norm{number}_out", delta))
        yield f"{at}.{total}", x
    return x


def parallel_block(x: Array, at: str, norm: NamedNorm, sublayers: Sublayers) -> Part:
    """[B, T, d_model] to the same: X + MHA(LN1(X)) + MLP(LN2(X))."""
    (_, attend), (total, feed) = sublayers
    delta = yield from attend((yield from norm("norm1", x)))
    y = x + delta + (yield from feed((yield from norm("norm2", x))))
    yield f"{at}.{total}", y
    return y


def parallel_block_of_one_norm(x: Array, at: str, norm: NamedNorm, sublayers: Sublayers) -> Part:
    """[B, T, d_model] to the same: X + MHA(LN(X)) + MLP(LN(X))."""
    (_, attend), (total, feed) = sublayers
    normed = yield from norm("norm1", x)
    y = x + (yield from attend(normed)) + (yield from feed(normed))
    yield f"{at}.{total}", y
    return y


BLOCKS: Final[Mapping[str, Callable[[Array, str, NamedNorm, Sublayers], Part]]] = {
    "pre": pre_norm_block,
    "post": post_norm_block,
    "sandwich": sandwich_block,
    "parallel": parallel_block,
    "parallel_one_norm": parallel_block_of_one_norm,
}


def attention(
    spec: ModelSpec, weights: Weights, x: Array, at: str, added: Array | float = 0.0, memory: Array | None = None
) -> Part:
    """[B, T, d_model] to the same: softmax(Q·Kᵀ/√d_head + added)·V in each head, the heads side by side, times W_O.

    Keys and values are of x, or of memory [B, M, d_model], where no position is turned.
    """
    answering = x if memory is None else memory
    q = heads_apart(linear(x, weights, f"{at}.q"), spec.n_heads)  # [B, h, T, d_head]
    k, v = (heads_apart(linear(answering, weights, f"{at}.{name}"), spec.n_kv_heads) for name in "kv")
    if spec.qk_norm:
        q, k = (normalised(spec, weights, f"{at}.{name}_norm", x) for name, x in (("q", q), ("k", k)))
    if spec.positions == "rope" and memory is None:
        q, k = (turned(x, spec.rope_dim, spec.rope_base) for x in (q, k))
    yield f"{at}.q", q
    yield f"{at}.k", k
    yield f"{at}.v", v
    k, v = (np.repeat(x, spec.n_heads // spec.n_kv_heads, axis=1) for x in (k, v))  # [B, h, S, d_head]
    products = q @ k.swapaxes(-1, -2)  # [B, h, T, S]
    scores = (products / math.sqrt(spec.d_head) if spec.scale_scores else products) + added
    yield f"{at}.scores", scores
    chosen = softmax(scores)
    yield f"{at}.weights", chosen
    yield f"{at}.heads", chosen @ v
    concat = heads_together(chosen @ v)
    yield f"{at}.concat", concat
    out = linear(concat, weights, f"{at}.out")
    yield f"{at}.out", out
    return out


def mlp(spec: ModelSpec, weights: Weights, x: Array, at: str) -> Part:
    """[B, T, d_model] to the same: act(X·W_up)·W_down, or (act(X·W_gate) ⊙ X·W_up)·W_down."""
    if spec.gated:
        gate = linear(x, weights, f"{at}.gate")
        yield f"{at}.gate", gate
    hidden = linear(x, weights, f"{at}.up")
    yield f"{at}.hidden", hidden
    activated = curve(spec)(gate) * hidden if spec.gated else curve(spec)(hidden)
    yield f"{at}.activated", activated
    out = linear(activated, weights, f"{at}.down")
    yield f"{at}.out", out
    return out


def experts(spec: ModelSpec, weights: Weights, x: Array, at: str) -> Part:
    """[B, T, d_model] to the same: of E MLPs the k with the largest logits, weighted by the softmax of those k.

    Every expert reads every token here, and what the router did not choose is dropped.
    """
    logits = linear(x, weights, f"{at}.router")  # [B, T, E]
    yield f"{at}.router", logits
    chosen = np.argsort(-logits, axis=-1, kind="stable")[..., : spec.n_experts_per_token]  # [B, T, k]
    gates = softmax(np.take_along_axis(logits, chosen, axis=-1))
    yield f"{at}.gates", gates
    of_all = [returned(mlp(spec, weights, x, f"{at}.experts.{j}")) for j in range(spec.n_experts)]
    of_chosen = np.take_along_axis(np.stack(of_all, axis=2), chosen[..., None], axis=2)  # [B, T, k, d_model]
    yield f"{at}.experts", of_chosen
    out: Array = (gates[..., None] * of_chosen).sum(axis=2)  # [B, T, d_model]
    if spec.n_shared_experts:
        shared = returned(mlp(spec, weights, x, f"{at}.shared"))
        yield f"{at}.shared", shared
        out = out + shared
    yield f"{at}.out", out
    return out


def returned(part: Part) -> Array:
    """What a part returns, with nothing on the way named."""
    while True:
        try:
            next(part)
        except StopIteration as end:
            result: Array = end.value
            return result


def token_table(spec: ModelSpec, weights: Weights) -> Array:
    """E, [V, d_model]; the two stacks of an encoder–decoder read the same one."""
    return weights[f"{'encoder.' * (spec.architecture == 'encoder_decoder')}embed.tokens.weight"]


def linear(x: Array, weights: Weights, name: str) -> Array:
    """x·Wᵀ + b over the last axis; b where there is one."""
    y: Array = x @ in_float64(weights[f"{name}.weight"]).T
    return y + weights[f"{name}.bias"] if f"{name}.bias" in weights else y


def norm(spec: ModelSpec, weights: Weights, place: str, name: str, x: Array) -> Part:
    """A norm that is a named tensor of its own."""
    path = f"{place}.{name}".removeprefix(".")
    y = normalised(spec, weights, path, x)
    yield path, y
    return y


def normalised(spec: ModelSpec, weights: Weights, name: str, x: Array) -> Array:
    """γ·(x − mean)/√(variance + ε) + β over the last axis; γ·x/√(mean of x² + ε) for RMSNorm.

    The variance is the mean of the squared deviations, and β is there where it has a tensor.
    """
    deviation = x if spec.norm == "rmsnorm" else x - x.mean(axis=-1, keepdims=True)
    spread = np.sqrt((deviation**2).mean(axis=-1, keepdims=True) + spec.norm_eps)
    y: Array = deviation / spread * weights[f"{name}.weight"]
    return y + weights[f"{name}.bias"] if f"{name}.bias" in weights else y


def softmax(x: Array) -> Array:
    """Positive parts of one along the last axis; exactly 0 where x is −∞."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    parts: Array = powers / powers.sum(axis=-1, keepdims=True)
    return parts


def gelu(x: Array) -> Array:
    """x·Φ(x), with Φ the distribution function of the standard normal."""
    phi: Array = (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) / 2
    return x * phi


def gelu_tanh(x: Array) -> Array:
    """The approximation of x·Φ(x) by a hyperbolic tangent."""
    phi: Array = (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    return x * phi


def silu(x: Array) -> Array:
    """x/(1 + e^−x), the logistic function written as a hyperbolic tangent, which no x overflows."""
    sigma: Array = (1 + np.tanh(x / 2)) / 2
    return x * sigma


def relu(x: Array) -> Array:
    """max(0, x)."""
    return np.where(x > 0, x, 0.0)


CURVES: Final[Mapping[str, Callable[[Array], Array]]] = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
    "relu": relu,
}


def curve(spec: ModelSpec) -> Callable[[Array], Array]:
    """The activation, or what a gated one sends its gate through."""
    return CURVES[GATES.get(spec.activation, spec.activation)]


def mask(spec: ModelSpec, n: int, window: int, *, causal: bool) -> Array:
    """What scores are added to: 0, or ALiBi's −slope·distance; −∞ at keys that are not seen; [1 or h, T, T].

    Not seen are, where causal, later keys, and those that a window > 0 leaves behind.
    """
    asking, answering = np.indices((n, n))
    slope = np.array(slopes(spec.n_heads) if spec.positions == "alibi" else [0.0])
    unseen = np.logical_or(causal and answering > asking, window and answering <= asking - window)
    return np.where(unseen, -np.inf, slope[:, None, None] * (answering - asking))


def slopes(n_heads: int) -> list[float]:
    """ALiBi's slope of each head: 2^(−8/h) and its powers; every second one of twice the power of two fills up."""
    if math.log2(n_heads).is_integer():
        return [(2 ** (-8 / n_heads)) ** i for i in range(1, n_heads + 1)]
    below = 2 ** (n_heads.bit_length() - 1)
    return slopes(below) + slopes(2 * below)[: 2 * (n_heads - below) : 2]


def relative_bias(spec: ModelSpec, table: Array, n: int, *, causal: bool) -> Array:
    """[h, T, T]: a row of the table for the distance of each key, a column for each head."""
    asking, answering = np.indices((n, n))
    rows = buckets(asking - answering, spec.n_buckets, spec.max_distance, both_ways=not causal)
    biases: Array = in_float64(table[rows]).transpose(2, 0, 1)
    return biases


def buckets(back: Array, n_buckets: int, max_distance: int, *, both_ways: bool) -> Array:
    """The bucket of each number of steps back to a key: T5's, to whole numbers exactly.

    Of n buckets, the first half hold one distance each; in the second half each begins (max_distance/(n/2))^(2/n)
    times as far as the one before, and the last has no end. Steps ahead have n buckets of their own where both ways
    are seen, and share the one of distance 0 otherwise.
    """
    n = n_buckets // 2 if both_ways else n_buckets
    single, wide = n // 2, n - n // 2
    powers = [single ** (wide - j) * max_distance**j for j in range(wide)]  # of where each wide bucket begins
    begins = [bisect_left(range(max_distance), power, key=lambda distance: distance**wide) for power in powers]
    distance = np.abs(back) if both_ways else np.maximum(back, 0)
    found: Array = np.searchsorted([*range(single), *begins], distance, side="right") - 1
    return found + n * (back < 0) if both_ways else found


def sinusoids(n: int, width: int) -> Array:
    """[n, width]: feature 2i is sin(position/10000^(2i/width)), feature 2i + 1 the cosine of the same."""
    table = np.empty((n, width))
    table[:, 0::2], table[:, 1::2] = np.sin(angles(n, width, 10_000)), np.cos(angles(n, width, 10_000))
    return table


def turned(x: Array, width: int, base: float) -> Array:
    """RoPE on the first `width` features of each head: i and i + width/2 are a complex number, turned by the angle."""
    half = width // 2
    y = (x[..., :half] + 1j * x[..., half:width]) * np.exp(1j * angles(x.shape[-2], width, base))
    return np.concatenate((y.real, y.imag, x[..., width:]), axis=-1)


def angles(n: int, width: int, base: float) -> Array:
    """[n, width/2]: position/base^(2i/width)."""
    return np.array([[position / base ** (2 * i / width) for i in range(width // 2)] for position in range(n)])


def heads_apart(x: Array, n_heads: int) -> Array:
    """[B, T, h·d_head] to [B, h, T, d_head]."""
    return np.stack(np.split(x, n_heads, axis=-1), axis=1)


def heads_together(x: Array) -> Array:
    """[B, h, T, d_head] to [B, T, h·d_head]."""
    return np.concatenate(list(x.swapaxes(0, 1)), axis=-1)


def in_float64(x: Array) -> Array:
    """The same numbers with 53 bits."""
    return x.astype(np.float64, copy=False)
