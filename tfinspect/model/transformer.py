"""A decoder-only Transformer, in the order in which a textbook teaches it.

    1  text becomes token ids                          tokens            [B, T]
    2  each id picks a row of the token table E        embed.tokens      [B, T, d_model]
    3  positions are added                             embed.sum         [B, T, d_model]
    4  attention: each position gathers from the ones before it          (in each of L blocks)
           Q, K, V                                     attn.q, .k, .v    [B, h, T, d_head]
           scores = Q·Kᵀ/√d_head + causal mask         attn.scores       [B, h, T, S]
           weights = softmax(scores), row by row       attn.weights      [B, h, T, S]
           heads = weights·V, concatenated, times W_O  attn.out          [B, T, d_model]
    5  the first residual addition                     resid_mid         [B, T, d_model]
    6  the MLP, position by position, and the second   mlp.hidden        [B, T, d_ff]
                                                       resid_out         [B, T, d_model]
    7  after L blocks, a last layer norm               final_norm        [B, T, d_model]
    8  logits = H·Eᵀ                                   logits            [B, T, V]

Parts come before the wholes that use them; those that work position by position are in `layers.py`. What varies
between models is chosen once, where a part is made: another norm, a gate in the MLP, fewer heads of keys, another order
of the same parts. A part that a model lacks is None. Every named tensor passes a tap (see `tap.py`), which says its
shape. Parameters are left unfilled here; `build.py` fills them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfinspect.dims import heads_axis, kv_heads
from tfinspect.model import positions
from tfinspect.model.cache import NO_PAST, Cache, Past
from tfinspect.model.extras import Experts, MaskedHead, RelativeBias
from tfinspect.model.layers import ACTIVATIONS, MLP, LayerNorm, Linear, RMSNorm, Table, mlp, norm
from tfinspect.model.tap import SILENT, Tap
from tfinspect.spec import ModelSpec

__all__ = [
    "ACTIVATIONS",
    "BLOCKS",
    "MLP",
    "Attention",
    "Block",
    "Embedding",
    "LayerNorm",
    "Linear",
    "RMSNorm",
    "Stack",
    "Table",
    "Transformer",
    "head",
]


class Embedding(nn.Module):
    """Steps 2 and 3: a row of E for each token, and whatever the model adds to it before the first block.

    RoPE, ALiBi and a relative bias add nothing here: their positions enter in attention.
    """

    def __init__(self, spec: ModelSpec, tokens: Table | None = None) -> None:
        super().__init__()
        self.tokens = Table(spec.vocab_size, spec.d_model) if tokens is None else tokens
        learned = spec.positions == "learned"
        self.positions = Table(spec.n_ctx + spec.position_offset, spec.d_model) if learned else None
        self.types = Table(spec.n_token_types, spec.d_model) if spec.n_token_types else None
        self.norm = norm(spec) if spec.embed_norm else None
        self.dropout = nn.Dropout(spec.dropout)
        self.scale = math.sqrt(spec.d_model) if spec.embed_scale else None
        self.offset = spec.position_offset
        rows: dict[str, Callable[[int, int, Tensor, int], Tensor]]
        rows = {"learned": self.learned_rows, "sinusoidal": positions.sinusoidal_table}
        self.rows = rows.get(spec.positions)

    def forward(self, tokens: Tensor, tap: Tap, n_past: int) -> Tensor:
        x = tap("tokens", self.tokens(tokens), "B T d_model")
        if self.scale is not None:
            x = tap("scaled", x * self.scale, "B T d_model")
        if self.rows is not None:
            x = x + tap("positions", self.rows(tokens.shape[1], x.shape[2], x, n_past), "T d_model")
        if self.types is not None:
            x = x + tap("types", self.types(torch.zeros_like(tokens)), "B T d_model")
        if self.rows is not None or self.types is not None:
            x = tap("sum", x, "B T d_model")
        if self.norm is not None:
            x = tap("norm", self.norm(x), "B T d_model")
        return self.dropout(x)

    def learned_rows(self, n: int, d_model: int, like: Tensor, first: int) -> Tensor:
        """Rows of the position table P, [n, d_model], from position `first` on."""
        assert self.positions is not None
        return self.positions.weight[self.offset + first : self.offset + first + n]


class Attention(nn.Module):
    """Step 4: multi-head self-attention, from [B, T, d_model] to [B, T, d_model]; causal unless told otherwise.

    With fewer heads of keys than of queries, each key head serves h/h_kv query heads.
    """

    def __init__(self, spec: ModelSpec, *, causal: bool = True, window: int = 0, positions_enter: bool = True) -> None:
        super().__init__()
        self.q = Linear(spec.d_model, spec.d_attn, bias=spec.qkv_bias)
        self.k = Linear(spec.d_model, spec.d_kv, bias=spec.qkv_bias)
        self.v = Linear(spec.d_model, spec.d_kv, bias=spec.qkv_bias)
        self.q_norm = norm(spec, spec.d_head) if spec.qk_norm else _as_it_is
        self.k_norm = norm(spec, spec.d_head) if spec.qk_norm else _as_it_is
        self.out = Linear(spec.d_attn, spec.d_model, bias=spec.out_bias)
        self.d_head, self.causal, self.window, self.dropout = spec.d_head, causal, window, spec.dropout
        self.divisor = math.sqrt(spec.d_head) if spec.scale_scores else 1.0
        self.spread = _spread(spec.n_heads // spec.n_kv_heads)
        self.slopes = positions.alibi_slopes(spec.n_heads) if spec.positions == "alibi" else None
        turns = spec.positions == "rope" and positions_enter
        self.turn = partial(positions.rotate, width=spec.rope_dim, base=spec.rope_base) if turns else _unturned
        self.key_dims, self.concat_dims = f"B {kv_heads(spec)} S d_head", f"B T {heads_axis(spec)}"

    def forward(self, x: Tensor, tap: Tap, past: Past = NO_PAST, bias: Tensor | None = None) -> Tensor:
        q = tap("q", self.turn(self.q_norm(self.split(self.q(x))), past.n_past), "B h T d_head")
        k = self.turn(self.k_norm(self.split(self.k(x))), past.n_past)
        k = tap("k", past.keys(k), self.key_dims)
        v = tap("v", past.values(self.split(self.v(x))), self.key_dims)
        return self.mix(q, k, v, tap, bias)

    def split(self, x: Tensor) -> Tensor:
        """[B, T, h·d_head] to [B, h, T, d_head]."""
        return x.unflatten(2, (-1, self.d_head)).transpose(1, 2)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, tap: Tap, bias: Tensor | None = None) -> Tensor:
        """Values gathered by weights, heads side by side, and W_O."""
        attend = self.eager if tap.sees_scores else self.fused
        heads = tap("heads", attend(q, self.spread(k), self.spread(v), tap, bias), "B h T d_head")
        concat = tap("concat", heads.transpose(1, 2).flatten(2), self.concat_dims)
        return tap("out", self.out(concat), "B T d_model")

    def eager(self, q: Tensor, k: Tensor, v: Tensor, tap: Tap, bias: Tensor | None) -> Tensor:
        """Each equation of the textbook as a tensor of its own, for whoever wants to see scores and weights."""
        scores = q @ k.mT / self.divisor
        mask = self.mask(q, k, bias)
        scores = tap("scores", scores if mask is None else scores + mask, "B h T S")
        weights = tap("weights", scores.softmax(dim=-1), "B h T S")
        return F.dropout(weights, self.dropout, self.training) @ v

    def fused(self, q: Tensor, k: Tensor, v: Tensor, tap: Tap, bias: Tensor | None) -> Tensor:
        """The same in one kernel, which never holds [B, h, T, S]."""
        plain = self.slopes is None and bias is None and not self.window and q.shape[2] == k.shape[2]
        own_mask = self.causal and plain  # the kernel's own mask covers no other case
        mask = None if own_mask else self.mask(q, k, bias)
        dropout = self.dropout if self.training else 0.0
        scale = 1 / self.divisor
        return F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=own_mask, scale=scale)

    def mask(self, q: Tensor, k: Tensor, bias: Tensor | None) -> Tensor | None:
        """What is added to the scores; None for nothing."""
        if not self.causal:
            return bias
        mask = positions.causal_mask(q.shape[2], k.shape[2], q, self.slopes, self.window)
        return mask if bias is None else mask + bias


def _spread(n_queries: int) -> Callable[[Tensor], Tensor]:
    """Each key head n_queries times, [B, h_kv, S, d_head] to [B, h, S, d_head]."""
    return partial(torch.repeat_interleave, repeats=n_queries, dim=1) if n_queries > 1 else _as_it_is


def _as_it_is(x: Tensor) -> Tensor:
    return x


def _unturned(x: Tensor, first: int) -> Tensor:
    return x


class Block(nn.Module):
    """The parts of a block: two sublayers, their norms, one residual stream."""

    n_norms, sandwich = 2, False

    def __init__(self, spec: ModelSpec, layer: int = 0, *, causal: bool = True) -> None:
        super().__init__()
        self.norm1 = norm(spec)
        self.attn = Attention(spec, causal=causal, window=spec.window_of(layer))
        if self.sandwich:
            self.norm1_out = norm(spec)
        if self.n_norms > 1:
            self.norm2 = norm(spec)
        self.mlp = Experts(spec) if spec.has_experts(layer) else mlp(spec)
        if self.sandwich:
            self.norm2_out = norm(spec)
        self.dropout = nn.Dropout(spec.dropout)


class PreNormBlock(Block):
    """U = X + MHA(LN1(X)), Y = U + MLP(LN2(U)): GPT-2."""

    def forward(self, x: Tensor, tap: Tap, past: Past = NO_PAST, bias: Tensor | None = None) -> Tensor:
        normed = tap("norm1", self.norm1(x), "B T d_model")
        u = tap("resid_mid", x + self.dropout(self.attn(normed, tap.within("attn"), past, bias)), "B T d_model")
        normed = tap("norm2", self.norm2(u), "B T d_model")
        return tap("resid_out", u + self.dropout(self.mlp(normed, tap.within("mlp"))), "B T d_model")


class PostNormBlock(Block):
    """U = LN1(X + MHA(X)), Y = LN2(U + MLP(U)): Vaswani et al., GPT-1, BERT."""

    def forward(self, x: Tensor, tap: Tap, past: Past = NO_PAST, bias: Tensor | None = None) -> Tensor:
        summed = tap("resid_mid", x + self.dropout(self.attn(x, tap.within("attn"), past, bias)), "B T d_model")
        u = tap("norm1", self.norm1(summed), "B T d_model")
        summed = tap("resid_out", u + self.dropout(self.mlp(u, tap.within("mlp"))), "B T d_model")
        return tap("norm2", self.norm2(summed), "B T d_model")


class SandwichBlock(Block):
    """U = X + LN1'(MHA(LN1(X))), Y = U + LN2'(MLP(LN2(U))): Gemma 2."""

    sandwich = True

    def forward(self, x: Tensor, tap: Tap, past: Past = NO_PAST, bias: Tensor | None = None) -> Tensor:
        normed = tap("norm1", self.norm1(x), "B T d_model")
        delta = tap("norm1_out", self.norm1_out(self.attn(normed, tap.within("attn"), past, bias)), "B T d_model")
        u = tap("resid_mid", x + self.dropout(delta), "B T d_model")
        normed = tap("norm2", self.norm2(u), "B T d_model")
        delta = tap("norm2_out", self.norm2_out(self.mlp(normed, tap.within("mlp"))), "B T d_model")
        return tap("resid_out", u + self.dropout(delta), "B T d_model")


class ParallelBlock(Block):
    """Y = X + MHA(LN1(X)) + MLP(LN2(X)): GPT-NeoX."""

    def forward(self, x: Tensor, tap: Tap, past: Past = NO_PAST, bias: Tensor | None = None) -> Tensor:
        normed = tap("norm1", self.norm1(x), "B T d_model")
        attended = self.dropout(self.attn(normed, tap.within("attn"), past, bias))
        changed = self.dropout(self.mlp(self.second_norm(x, normed, tap), tap.within("mlp")))
        return tap("resid_out", x + attended + changed, "B T d_model")

    def second_norm(self, x: Tensor, normed: Tensor, tap: Tap) -> Tensor:
        """What the MLP reads."""
        return tap("norm2", self.norm2(x), "B T d_model")


class ParallelOneNormBlock(ParallelBlock):
    """Y = X + MHA(LN1(X)) + MLP(LN1(X)): Falcon, Phi."""

    n_norms = 1

    def second_norm(self, x: Tensor, normed: Tensor, tap: Tap) -> Tensor:
        return normed


BLOCKS: dict[str, type[Block]] = {
    "pre": PreNormBlock,
    "post": PostNormBlock,
    "sandwich": SandwichBlock,
    "parallel": ParallelBlock,
    "parallel_one_norm": ParallelOneNormBlock,
}


class Stack(nn.Module):
    """Steps 2 to 7: token ids [B, T] to the residual stream [B, T, d_model] after the last block and its norm."""

    def __init__(
        self, spec: ModelSpec, blocks: Sequence[nn.Module], *, causal: bool, tokens: Table | None = None
    ) -> None:
        super().__init__()
        self.embed = Embedding(spec, tokens)
        self.relative = RelativeBias(spec, causal=causal) if spec.positions == "relative" else None
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = norm(spec) if spec.final_norm else None

    def hidden(self, tokens: Tensor, tap: Tap, cache: Cache | None, *memory: Tensor) -> Tensor:
        """The stream after all blocks; memory, where there is any, is what each block attends to besides."""
        pasts = cache.layers if cache is not None else (NO_PAST,) * len(self.blocks)
        n_past = pasts[0].n_past
        x = self.embed(tokens, tap.within("embed"), n_past)
        bias = None if self.relative is None else self.relative(tokens.shape[1], n_past)
        for i, (block, past) in enumerate(zip(self.blocks, pasts, strict=True)):
            x = block(x, *memory, tap.within(f"blocks.{i}"), past, bias)
        return x if self.final_norm is None else tap("final_norm", self.final_norm(x), "B T d_model")


class Transformer(Stack):
    """The whole: token ids [B, T] to logits [B, T, V]."""

    def __init__(self, spec: ModelSpec) -> None:
        block = BLOCKS[spec.placement]
        super().__init__(spec, [block(spec, i, causal=spec.causal) for i in range(spec.n_layers)], causal=spec.causal)
        self.spec = spec
        self.mlm = MaskedHead(spec) if spec.head == "mlm" else None
        self.head = None if spec.head == "none" else head(spec, self.embed.tokens)
        self.pooler = Linear(spec.d_model, spec.d_model, bias=True) if spec.pooler else None

    def forward(
        self,
        tokens: Tensor,
        tap: Tap = SILENT,
        cache: Cache | None = None,
        *,
        last_only: bool = False,
        source: None = None,
    ) -> Tensor:
        """Logits [B, T, V], or [B, 1, V] of the last position where that is all that is asked for.

        Without a head, the last hidden state. With a cache, the tokens follow on the positions in it, and join them.

        Shapes:  tokens [B, T], int64, 1 ≤ T and past positions + T ≤ n_ctx; there is no source to read.
        """
        x = hidden = self.hidden(tap("tokens", tokens, "B T"), tap, cache)
        positions = "1" if last_only else "T"
        if last_only:
            x = x[:, -1:]
        if self.mlm is not None:
            x = self.mlm(x, tap.within("mlm"), f"B {positions} d_model")
        if self.head is not None:
            x = tap("logits", self.head(x), f"B {positions} V")
        if self.pooler is not None:
            tap("pooled", self.pooler(hidden[:, 0]).tanh(), "B d_model")
        return x


def head(spec: ModelSpec, tokens: Table) -> Linear:
    """Step 8: the output head, with the token table itself where it is tied."""
    return Linear(spec.d_model, spec.vocab_size, bias=spec.head_bias, weight=tokens.weight if spec.tied_head else None)
