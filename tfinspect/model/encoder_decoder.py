"""Layers of the 2017 encoder–decoder, out of the same parts, plus cross-attention.

    encoder layer    self-attention without a mask, MLP                               2 parts
    decoder layer    causal self-attention, cross-attention to the encoder, MLP       3 parts
    decoder-only     causal self-attention, MLP (`transformer.Block`)                 2 parts

Source:  Vaswani et al. 2017, 3.1 and 3.2.3; chapter A, 8.2.
"""

from __future__ import annotations

from torch import Tensor

from tfinspect.model.cache import NO_PAST, Past
from tfinspect.model.tap import Tap
from tfinspect.model.transformer import BLOCKS, Attention, Block, LayerNorm
from tfinspect.spec import ModelSpec

__all__ = ["CrossAttention", "DecoderBlock", "encoder_block"]


def encoder_block(spec: ModelSpec) -> Block:
    """An encoder layer [B, T, d_model] to [B, T, d_model]: every position sees every other."""
    return BLOCKS[spec.placement](spec, causal=False)


class CrossAttention(Attention):
    """Queries from the decoder, keys and values from the encoder's output [B, S, d_model]; nothing is masked."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec, causal=False)

    def across(self, x: Tensor, memory: Tensor, tap: Tap) -> Tensor:
        """[B, T, d_model] that gathered from memory [B, S, d_model]."""
        q = tap("q", self.split(self.q(x)), "B h T d_head")
        k = tap("k", self.split(self.k(memory)), "B h S d_head")
        v = tap("v", self.split(self.v(memory)), "B h S d_head")
        return self.mix(q, k, v, tap)


class DecoderBlock(Block):
    """A decoder layer of an encoder–decoder, Post-LN as in 2017: each of three parts, added, then normalised."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec, causal=True)
        self.cross = CrossAttention(spec)
        self.norm3 = LayerNorm(spec.d_model, eps=spec.norm_eps, bias=spec.bias)

    def forward(self, x: Tensor, memory: Tensor, tap: Tap, past: Past = NO_PAST) -> Tensor:
        summed = tap("resid_self", x + self.dropout(self.attn(x, tap.within("attn"), past)), "B T d_model")
        u = tap("norm1", self.norm1(summed), "B T d_model")
        summed = tap("resid_cross", u + self.dropout(self.cross.across(u, memory, tap.within("cross"))), "B T d_model")
        w = tap("norm2", self.norm2(summed), "B T d_model")
        summed = tap("resid_out", w + self.dropout(self.mlp(w, tap.within("mlp"))), "B T d_model")
        return tap("norm3", self.norm3(summed), "B T d_model")
