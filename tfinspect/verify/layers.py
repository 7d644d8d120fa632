"""Kinds of layer, told by what a built layer has and does: parts, masks, cross-attention, and where its norms stand."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Final, TypeAlias

import torch
from torch import Tensor, nn

from tfinspect.model.encoder_decoder import CrossAttention, DecoderBlock, encoder_block
from tfinspect.model.tap import SILENT
from tfinspect.model.transformer import BLOCKS, MLP, Attention, Block, LayerNorm, Transformer
from tfinspect.presets import PRESETS
from tfinspect.results.checks import Figure, Findings, Matrix
from tfinspect.spec import ModelSpec
from tfinspect.verify.difference import largest
from tfinspect.verify.draws import Draws
from tfinspect.verify.kept import Kept, transformer
from tfinspect.verify.propositions import Settings

__all__ = ["kinds", "placements"]

Layer: TypeAlias = Callable[[ModelSpec], nn.Module]
BuildModel: TypeAlias = Callable[[ModelSpec, Draws], Transformer]

SMALL: Final = ModelSpec(n_ctx=9, d_model=6, n_layers=1, n_heads=3, d_ff=10, activation="relu", placement="post")
#: Positions of the sequence, and of the encoder's output that a decoder reads.
T: Final = 5
S: Final = 4
LABELS: Final = ("encoder", "decoder", "decoder-only")


def decoder_only(spec: ModelSpec) -> Block:
    """A layer of GPT-2."""
    return BLOCKS["pre"](spec)


def kinds(
    settings: Settings, encoder: Layer = encoder_block, decoder: Layer = DecoderBlock, only: Layer = decoder_only
) -> Findings:
    """A8.2: the layers of encoder, decoder and decoder-only model, each built and run."""
    draws = Draws(settings)
    x, memory = draws.normal(1, T, SMALL.d_model), draws.normal(1, S, SMALL.d_model)
    figures, rows = [], []
    claimed = (("none", "no", 2), ("causal", "yes", 3), ("causal", "no", 2))
    for name, make, (mask, crosses, n_parts) in zip(LABELS, (encoder, decoder, only), claimed, strict=True):
        layer, kept = draws.filled(make(SMALL)), Kept()
        parts = {part_name: part for part_name, part in layer.named_children() if isinstance(part, Attention | MLP)}
        reads_memory = "memory" in inspect.signature(layer.forward).parameters
        with torch.no_grad():
            layer(x, memory, kept) if reads_memory else layer(x, kept)
            moved = largest(layer(x, memory + x[:, :S], SILENT) - layer(x, memory, SILENT)) if reads_memory else 0.0
        ran = [path.removesuffix(".out") for path in kept.tensors if path.endswith(".out")]
        future = float(kept["attn.weights"].triu(1).max())
        figures += [
            Figure(f"{name}: mask", _mask(future), mask),
            Figure("cross-attention", "yes" if moved > 1e-6 else "no", crosses),
            Figure("parts", len(parts), n_parts),
            Figure("parts that ran", len(ran), n_parts, detail=True),
            Figure("MLPs", sum(isinstance(part, MLP) for part in parts.values()), 1, detail=True),
        ]
        if cross := [part for part in parts.values() if isinstance(part, CrossAttention)]:
            figures += _source_of_keys(cross[0], x, memory)
        rows.append((future, moved, len(parts), ", ".join(ran)))
    columns = ("weight on the future", "moved by the encoder", "parts", "in order")
    return Findings(tuple(figures), (Matrix("What each layer did", tuple(rows), LABELS, columns),))


def _mask(future: float) -> str:
    """What the largest weight on a later position says of the mask."""
    return "causal" if future == 0 else "none" if future > 0 else "no numbers"


@torch.no_grad()
def _source_of_keys(cross: CrossAttention, x: Tensor, memory: Tensor) -> tuple[Figure, ...]:
    """Where cross-attention has its keys and values from, and whether it masks any."""
    here, there = Kept(), Kept()
    cross(x, memory, here)
    cross(x + 1, memory, there)
    from_decoder = largest(here[name] - there[name] for name in ("k", "v"))
    return (
        Figure("change of its keys and values with the decoder's rows", from_decoder, 0.0, detail=True),
        Figure("its smallest weight", float(here["weights"].min()), 0.0, 1e-9, differs=True, detail=True),
    )


def placements(
    settings: Settings,
    gpt1: ModelSpec = PRESETS["gpt1"].spec,
    gpt2: ModelSpec = PRESETS["gpt2"].spec,
    model: BuildModel = transformer,
) -> Findings:
    """B15.1.2: where the norms of GPT-1 and GPT-2 stand, seen on what goes into and out of each part.

    Each model is run at 24 features and 2 blocks, its architecture as published.
    """
    tolerance = settings.tolerance(1e-12)
    figures: list[Figure] = []
    for name, spec in (("GPT-1", gpt1), ("GPT-2", gpt2)):
        built = model(spec.replace(vocab_size=50, n_ctx=16, d_model=24, d_ff=96, n_layers=2), draws := Draws(settings))
        post, pre, added, normed = _distances(built, draws.ids(50, 1, T))
        is_gpt2 = name == "GPT-2"
        figures += [
            Figure(f"{name}: from LN(x + F(x))", post, 0.0, 1e-3 if is_gpt2 else tolerance, differs=is_gpt2),
            Figure("from x + F(LN(x))", pre, 0.0, tolerance if is_gpt2 else 1e-3, differs=not is_gpt2),
            Figure("change before the head", added, 0.0, 1e-3 if is_gpt2 else 0.0, differs=is_gpt2),
        ]
        if is_gpt2:
            figures.append(Figure("head reads LN(X): difference", normed, 0.0, tolerance, detail=True))
    figures += [
        Figure("rows of E, GPT-2 against GPT-1", gpt2.vocab_size, gpt1.vocab_size, differs=True, detail=True),
        Figure("positions, GPT-2 against GPT-1", gpt2.n_ctx, gpt1.n_ctx, differs=True, detail=True),
    ]
    notes = ("GPT-2 changed the initialisation as well; a pass over drawn weights says nothing of that.",)
    return Findings(tuple(figures), notes=notes)


@torch.no_grad()
def _distances(model: Transformer, tokens: Tensor) -> tuple[float, float, float, float]:
    """How far the blocks are from Post-LN and from Pre-LN, and the head's input from the stream and from its norm.

    What goes in and out is seen by hooks, and each norm is computed here, by definition.
    """
    seen: dict[str, tuple[Tensor, Tensor]] = {}

    def see(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        return lambda module, args, out: seen.update({name: (args[0], out)})

    for name, module in model.named_modules():
        module.register_forward_hook(see(name))
    model(tokens)
    post, pre = [], []
    norms = {name: module for name, module in model.named_modules() if isinstance(module, LayerNorm)}
    for i in range(len(model.blocks)):
        x, y = seen[f"blocks.{i}"]
        norm1, norm2 = norms[f"blocks.{i}.norm1"], norms[f"blocks.{i}.norm2"]
        (attn_in, attn_out), (mlp_in, mlp_out) = seen[f"blocks.{i}.attn"], seen[f"blocks.{i}.mlp"]
        u = _normed(x + attn_out, norm1)
        post += [attn_in - x, mlp_in - u, y - _normed(u + mlp_out, norm2)]
        u = x + attn_out
        pre += [attn_in - _normed(x, norm1), mlp_in - _normed(u, norm2), y - u - mlp_out]
    stream, read = seen[f"blocks.{len(model.blocks) - 1}"][1], seen["head"][0]
    normed = math.inf if model.final_norm is None else largest(read - _normed(stream, model.final_norm))
    return largest(post), largest(pre), largest(read - stream), normed


def _normed(x: Tensor, norm: nn.Module) -> Tensor:
    """Layer norm by definition, with the gain and bias of a norm of the model."""
    deviation = x - x.mean(dim=-1, keepdim=True)
    assert isinstance(norm, LayerNorm)
    y = deviation / ((deviation**2).mean(dim=-1, keepdim=True) + norm.eps).sqrt() * norm.weight
    return y if norm.bias is None else y + norm.bias
