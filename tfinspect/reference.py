"""The forward pass in NumPy float64, written from the definitions.

A second implementation: it shares no line with the torch core, only the names of parameters and of tensors, so that
where the two agree, a mistake would have to have been made twice. `forward` gives every named tensor; `named_tensors`
gives them one by one, and costs no more than what is taken from it.

    weights   parameters by their names in the torch core: "blocks.0.attn.q.weight" [d_out, d_in]
    at        where a part stands: "blocks.0.attn"; what it makes is named below that

A part yields each tensor with its name, and returns what the pass goes on with.

Source:  chapter A, 2.1 to 2.3; chapter B, 15.2 to 15.6; Vaswani et al. 2017 (sinusoidal), Su et al. 2021 (RoPE),
         Press et al. 2022 (ALiBi), Hendrycks and Gimpel 2016 (GELU).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfinspect.spec import ModelSpec

__all__ = ["forward", "named_tensors"]

Array: TypeAlias = NDArray[Any]
Weights: TypeAlias = Mapping[str, Array]
Part: TypeAlias = Generator[tuple[str, Array], None, Array]


def forward(spec: ModelSpec, weights: Weights, tokens: Array) -> dict[str, Array]:
    """Every named tensor of one forward pass, by the name of its tap: "blocks.0.attn.scores", "logits".

    Shapes:  tokens [B, T], integers below V; weights of any float dtype; results float64, as `dims` of the taps say.
    Units:   masked scores are −∞.
    Agrees:  the torch core, tensor by tensor: to 1e-10 where it runs in float64.
    """
    return dict(named_tensors(spec, weights, tokens))


def named_tensors(spec: ModelSpec, weights: Weights, tokens: Array) -> Iterator[tuple[str, Array]]:
    """The tensors of `forward` with their names, each made when it is asked for."""
    yield "tokens", tokens
    x = yield from embedding(spec, weights, tokens)
    block = {"pre": pre_norm_block, "post": post_norm_block}[spec.placement]
    for layer in range(spec.n_layers):
        x = yield from block(spec, weights, x, f"blocks.{layer}")
    if spec.final_norm:
        x = layer_norm(x, weights, "final_norm", spec.norm_eps)
        yield "final_norm", x
    table = weights["embed.tokens.weight" if spec.tied_head else "head.weight"]
    yield "logits", x @ in_float64(table).T  # [B, T, V]


def embedding(spec: ModelSpec, weights: Weights, tokens: Array) -> Part:
    """[B, T] to [B, T, d_model]: a row of E for each token, and a row for its position where positions are added."""
    x = in_float64(weights["embed.tokens.weight"][tokens])
    yield "embed.tokens", x
    n = tokens.shape[1]
    if spec.positions == "learned":
        rows = in_float64(weights["embed.positions.weight"][:n])
    elif spec.positions == "sinusoidal":
        rows = sinusoids(n, spec.d_model)
    else:
        return x
    yield "embed.positions", rows
    yield "embed.sum", x + rows
    return x + rows


def pre_norm_block(spec: ModelSpec, weights: Weights, x: Array, at: str) -> Part:
    """[B, T, d_model] to the same: U = X + MHA(LN1(X)), Y = U + MLP(LN2(U))."""
    normed = layer_norm(x, weights, f"{at}.norm1", spec.norm_eps)
    yield f"{at}.norm1", normed
    u = x + (yield from attention(spec, weights, normed, f"{at}.attn"))
    yield f"{at}.resid_mid", u
    normed = layer_norm(u, weights, f"{at}.norm2", spec.norm_eps)
    yield f"{at}.norm2", normed
    y = u + (yield from mlp(spec, weights, normed, f"{at}.mlp"))
    yield f"{at}.resid_out", y
    return y


def post_norm_block(spec: ModelSpec, weights: Weights, x: Array, at: str) -> Part:
    """[B, T, d_model] to the same: U = LN1(X + MHA(X)), Y = LN2(U + MLP(U))."""
    total = x + (yield from attention(spec, weights, x, f"{at}.attn"))
    yield f"{at}.resid_mid", total
    u = layer_norm(total, weights, f"{at}.norm1", spec.norm_eps)
    yield f"{at}.norm1", u
    total = u + (yield from mlp(spec, weights, u, f"{at}.mlp"))
    yield f"{at}.resid_out", total
    y = layer_norm(total, weights, f"{at}.norm2", spec.norm_eps)
    yield f"{at}.norm2", y
    return y


def attention(spec: ModelSpec, weights: Weights, x: Array, at: str) -> Part:
    """[B, T, d_model] to the same: softmax(Q·Kᵀ/√d_head + mask)·V in each head, the heads side by side, times W_O."""
    q, k, v = (heads_apart(linear(x, weights, f"{at}.{name}"), spec.n_heads) for name in "qkv")  # [B, h, T, d_head]
    if spec.positions == "rope":
        q, k = turned(q), turned(k)
    yield f"{at}.q", q
    yield f"{at}.k", k
    yield f"{at}.v", v
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(spec.d_head) + mask(spec, x.shape[1])  # [B, h, T, T]
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
    """[B, T, d_model] to the same, over [B, T, d_ff]."""
    hidden = linear(x, weights, f"{at}.up")
    yield f"{at}.hidden", hidden
    activated = ACTIVATIONS[spec.activation](hidden)
    yield f"{at}.activated", activated
    out = linear(activated, weights, f"{at}.down")
    yield f"{at}.out", out
    return out


def linear(x: Array, weights: Weights, name: str) -> Array:
    """x·Wᵀ + b over the last axis; b where there is one."""
    y: Array = x @ in_float64(weights[f"{name}.weight"]).T
    return y + weights[f"{name}.bias"] if f"{name}.bias" in weights else y


def layer_norm(x: Array, weights: Weights, name: str, eps: float) -> Array:
    """γ·(x − mean)/√(variance + ε) + β over the last axis; the variance is the mean of the squared deviations."""
    deviation = x - x.mean(axis=-1, keepdims=True)
    y: Array = deviation / np.sqrt((deviation**2).mean(axis=-1, keepdims=True) + eps) * weights[f"{name}.weight"]
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


def relu(x: Array) -> Array:
    """max(0, x)."""
    return np.where(x > 0, x, 0.0)


ACTIVATIONS: Final[Mapping[str, Callable[[Array], Array]]] = {"gelu": gelu, "gelu_tanh": gelu_tanh, "relu": relu}


def mask(spec: ModelSpec, n: int) -> Array:
    """What scores are added to: 0, or ALiBi's −slope·distance, up to the own position; −∞ after it; [1 or h, T, T]."""
    asking, answering = np.indices((n, n))
    slope = np.array(slopes(spec.n_heads) if spec.positions == "alibi" else [0.0])
    return np.where(answering > asking, -np.inf, slope[:, None, None] * (answering - asking))


def slopes(n_heads: int) -> list[float]:
    """ALiBi's slope of each head: 2^(−8/h) and its powers; every second one of twice the power of two fills up."""
    if math.log2(n_heads).is_integer():
        return [(2 ** (-8 / n_heads)) ** i for i in range(1, n_heads + 1)]
    below = 2 ** (n_heads.bit_length() - 1)
    return slopes(below) + slopes(2 * below)[: 2 * (n_heads - below) : 2]


def sinusoids(n: int, width: int) -> Array:
    """[n, width]: feature 2i is sin(position/10000^(2i/width)), feature 2i + 1 the cosine of the same."""
    table = np.empty((n, width))
    table[:, 0::2], table[:, 1::2] = np.sin(angles(n, width)), np.cos(angles(n, width))
    return table


def turned(x: Array) -> Array:
    """RoPE on [B, h, T, d_head]: features i and i + d_head/2 are a complex number, turned by the position's angle."""
    half = x.shape[-1] // 2
    y = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles(x.shape[-2], x.shape[-1]))
    return np.concatenate((y.real, y.imag), axis=-1)


def angles(n: int, width: int) -> Array:
    """[n, width/2]: position/10000^(2i/width)."""
    return np.array([[position / 10_000 ** (2 * i / width) for i in range(width // 2)] for position in range(n)])


def heads_apart(x: Array, n_heads: int) -> Array:
    """[B, T, h·d_head] to [B, h, T, d_head]."""
    return np.stack(np.split(x, n_heads, axis=-1), axis=1)


def heads_together(x: Array) -> Array:
    """[B, h, T, d_head] to [B, T, h·d_head]."""
    return np.concatenate(list(x.swapaxes(0, 1)), axis=-1)


def in_float64(x: Array) -> Array:
    """The same numbers with 53 bits."""
    return x.astype(np.float64, copy=False)
