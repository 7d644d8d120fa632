"""The encoder–decoder: the same stack twice, the second with cross-attention in each block.

    encoder layer    self-attention without a mask, MLP                               2 parts
    decoder layer    causal self-attention, cross-attention to the encoder, MLP       3 parts
    decoder-only     causal self-attention, MLP (`transformer.Block`)                 2 parts

    source  [B, M] ──encoder──> memory [B, M, d_model]
    tokens  [B, T] ──decoder, which attends to memory──> [B, T, d_model] ──head──> logits [B, T, V]

Both stacks read one token table; positions, relative biases and norms are each stack's own.

Source:  Vaswani et al. 2017, 3.1 and 3.2.3; chapter A, 8.2; Lewis et al. 2020 (BART); Raffel et al. 2020 (T5).
"""

from __future__ import annotations

from torch import Tensor, nn

from tfinspect.errors import InputError
from tfinspect.model.cache import NO_PAST, Cache, Past
from tfinspect.model.layers import mlp, norm
from tfinspect.model.tap import SILENT, Renamed, Tap
from tfinspect.model.transformer import BLOCKS, Attention, Block, Stack, head
from tfinspect.spec import ModelSpec

__all__ = ["CrossAttention", "DecoderBlock", "EncoderDecoder", "PreNormDecoderBlock", "encoder_block"]


def encoder_block(spec: ModelSpec) -> Block:
    """An encoder layer [B, T, d_model] to [B, T, d_model]: every position sees every other."""
    return BLOCKS[spec.placement](spec, causal=False)


class CrossAttention(Attention):
    """Queries from the decoder, keys and values from the encoder's output [B, M, d_model]; nothing is masked."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec, causal=False, positions_enter=False)

    def forward(  # type: ignore[override]  # it reads two streams
        self, x: Tensor, memory: Tensor, tap: Tap, past: Past = NO_PAST
    ) -> Tensor:
        """[B, T, d_model] that gathered from memory [B, M, d_model], or from what the cache holds of it."""
        tap = Renamed(tap, {"S": "M"})
        q = tap("q", self.q_norm(self.split(self.q(x))), "B h T d_head")
        k = tap("k", past.keys(self.k_norm(self.split(self.k(memory)))), self.key_dims)
        v = tap("v", past.values(self.split(self.v(memory))), self.key_dims)
        return self.mix(q, k, v, tap)


class _ThreeParts(nn.Module):
    """Self-attention, cross-attention and MLP, a norm for each."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.norm1 = norm(spec)
        self.attn = Attention(spec)
        self.norm2 = norm(spec)
        self.cross = CrossAttention(spec)
        self.norm3 = norm(spec)
        self.mlp = mlp(spec)
        self.dropout = nn.Dropout(spec.dropout)


class DecoderBlock(_ThreeParts):
    """A decoder layer, Post-LN as in 2017: each of three parts, added, then normalised."""

    def forward(self, x: Tensor, memory: Tensor, tap: Tap, past: Past = NO_PAST, bias: Tensor | None = None) -> Tensor:
        summed = tap("resid_self", x + self.dropout(self.attn(x, tap.within("attn"), past, bias)), "B T d_model")
        u = tap("norm1", self.norm1(summed), "B T d_model")
        gathered = self.dropout(self.cross(u, memory, tap.within("cross"), past.source))
        summed = tap("resid_cross", u + gathered, "B T d_model")
        w = tap("norm2", self.norm2(summed), "B T d_model")
        summed = tap("resid_out", w + self.dropout(self.mlp(w, tap.within("mlp"))), "B T d_model")
        return tap("norm3", self.norm3(summed), "B T d_model")


class PreNormDecoderBlock(_ThreeParts):
    """A decoder layer, Pre-LN as in T5: each of three parts reads a normalised stream and is added to the bare one."""

    def forward(self, x: Tensor, memory: Tensor, tap: Tap, past: Past = NO_PAST, bias: Tensor | None = None) -> Tensor:
        normed = tap("norm1", self.norm1(x), "B T d_model")
        u = tap("resid_self", x + self.dropout(self.attn(normed, tap.within("attn"), past, bias)), "B T d_model")
        normed = tap("norm2", self.norm2(u), "B T d_model")
        gathered = self.dropout(self.cross(normed, memory, tap.within("cross"), past.source))
        w = tap("resid_cross", u + gathered, "B T d_model")
        normed = tap("norm3", self.norm3(w), "B T d_model")
        return tap("resid_out", w + self.dropout(self.mlp(normed, tap.within("mlp"))), "B T d_model")


DECODER_BLOCKS: dict[str, type[_ThreeParts]] = {"pre": PreNormDecoderBlock, "post": DecoderBlock}


class EncoderDecoder(nn.Module):
    """The whole: source ids [B, M] and token ids [B, T] to logits [B, T, V]."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        encoder = [encoder_block(spec) for _ in range(spec.n_encoder_layers)]
        decoder = [DECODER_BLOCKS[spec.placement](spec) for _ in range(spec.n_layers)]
        self.encoder = Stack(spec, encoder, causal=False)
        self.decoder = Stack(spec, decoder, causal=True, tokens=self.encoder.embed.tokens)
        self.head = head(spec, self.encoder.embed.tokens)

    def forward(
        self,
        tokens: Tensor,
        tap: Tap = SILENT,
        cache: Cache | None = None,
        *,
        last_only: bool = False,
        source: Tensor | None = None,
    ) -> Tensor:
        """Logits [B, T, V], or [B, 1, V] of the last position where that is all that is asked for.

        With a cache, the tokens follow on the positions in it; it holds what the decoder needs of the source, which is
        read in the first pass and left out later.

        Shapes:  tokens [B, T] and source [B, M], int64, neither longer than n_ctx.
        Raises:  InputError without a source, or with one where the cache holds another.
        """
        memory = self.read(source, len(tokens), tap, cache)
        x = self.decoder.hidden(tap("tokens", tokens, "B T"), tap.within("decoder"), cache, memory)
        if last_only:
            x = x[:, -1:]
        return tap("logits", self.head(x), "B 1 V" if last_only else "B T V")

    def read(self, source: Tensor | None, batch: int, tap: Tap, cache: Cache | None) -> Tensor:
        """Memory [B, M, d_model] of a source; [B, 0, d_model] where the cache holds its keys and values."""
        held = cache is not None and cache.n_source > 0
        if source is None and not held:
            raise InputError("an encoder-decoder reads a source besides its tokens", "give one")
        if source is not None and held:
            raise InputError("the cache holds the keys and values of a source already", "leave the source out")
        if source is None:
            weight = self.encoder.embed.tokens.weight
            return weight.new_empty((batch, 0, weight.shape[1]))
        source = tap("source.tokens", source, "B M")
        return self.encoder.hidden(source, Renamed(tap.within("encoder"), {"T": "M", "S": "M"}), None)
