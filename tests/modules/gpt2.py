"""GPT-2 in plain PyTorch, as a user writes it: what its published counts are held against."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["GPT2"]


class Attention(nn.Module):
    def __init__(self, d: int, n_heads: int, *, fused: bool) -> None:
        super().__init__()
        self.n_heads, self.fused = n_heads, fused
        self.c_attn = nn.Linear(d, 3 * d)
        self.c_proj = nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tensor:
        B, T, d = x.shape
        q, k, v = (t.view(B, T, self.n_heads, -1).transpose(1, 2) for t in self.c_attn(x).split(d, dim=2))
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            later = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
            scores = q @ k.mT / (d // self.n_heads) ** 0.5  # [B, h, T, T]
            mixed = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        return self.c_proj(mixed.transpose(1, 2).reshape(B, T, d))


class Block(nn.Module):
    def __init__(self, d: int, n_heads: int, *, fused: bool) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(d)
        self.attn = Attention(d, n_heads, fused=fused)
        self.ln_2 = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(approximate="tanh"), nn.Linear(4 * d, d))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """Small without arguments; the causal mask is no buffer unless it is asked for, as the first release had it."""

    def __init__(
        self,
        n_layers: int = 12,
        d: int = 768,
        n_heads: int = 12,
        *,
        vocab_size: int = 50_257,
        n_ctx: int = 1_024,
        tied: bool = True,
        fused: bool = True,
        mask_buffers: bool = False,
    ) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocab_size, d)
        self.wpe = nn.Embedding(n_ctx, d)
        self.h = nn.ModuleList(Block(d, n_heads, fused=fused) for _ in range(n_layers))
        self.ln_f = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, vocab_size, bias=False)
        if tied:
            self.lm_head.weight = self.wte.weight
        if mask_buffers:
            for block in self.h:
                block.attn.register_buffer("bias", torch.ones(1, 1, n_ctx, n_ctx).tril())

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))
