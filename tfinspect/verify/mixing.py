"""Which positions see which: MLP and layer norm act row by row, attention alone mixes, and a mask makes it causal.

Jacobians and differences are held against 0 itself, not against a small number: what does not enter a sum cannot change
it by a rounding. Only passes that sum in another order, over other rows or another length, are given a tolerance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from tfinspect.model.cache import NO_PAST, Past
from tfinspect.model.encoder_decoder import encoder_block
from tfinspect.model.tap import SILENT, Tap
from tfinspect.model.transformer import BLOCKS, MLP, Attention, Block, LayerNorm, Transformer
from tfinspect.presets import PRESETS
from tfinspect.results.checks import Figure, Findings, Matrix
from tfinspect.spec import ModelSpec, Placement
from tfinspect.verify.difference import largest
from tfinspect.verify.draws import Draws
from tfinspect.verify.kept import Kept, transformer
from tfinspect.verify.propositions import Settings

__all__ = ["RowWise", "causal_block", "causal_blocks", "causal_model", "equivariance", "row_wise", "unmasked"]

Rows: TypeAlias = Callable[[Tensor], Tensor]
"""A part, from [T, d_model] to [T, d_model]."""
BuildBlock: TypeAlias = Callable[[ModelSpec, Draws], Block]
BuildModel: TypeAlias = Callable[[ModelSpec, Draws], Transformer]

#: Small, with sizes that all differ.
SMALL: Final = ModelSpec(vocab_size=13, n_ctx=9, d_model=6, n_layers=2, n_heads=3, d_ff=10, activation="gelu")
PLACEMENTS: Final[tuple[Placement, ...]] = ("pre", "post")
#: Rows that the parts are given.
T: Final = 5


def causal_block(spec: ModelSpec, draws: Draws) -> Block:
    """A block of the model."""
    return draws.filled(BLOCKS[spec.placement](spec))


def unmasked_block(spec: ModelSpec, draws: Draws) -> Block:
    """A block in which every position sees every other."""
    return draws.filled(encoder_block(spec))


def unmasked(spec: ModelSpec, draws: Draws) -> Transformer:
    """A model in which every position sees every other."""
    model = transformer(spec, draws)
    for attention in (m for m in model.modules() if isinstance(m, Attention)):
        attention.causal = False
    return model


def without_attention(spec: ModelSpec, draws: Draws) -> Transformer:
    """A model whose blocks have no attention: row-wise maps, positions and sums alone."""
    model = transformer(spec, draws)
    for block in model.blocks:
        block.attn = _Nothing()
    return model


class _Nothing(nn.Module):
    """In the place of attention: nothing is gathered."""

    def forward(self, x: Tensor, tap: Tap, past: Past = NO_PAST, bias: Tensor | None = None) -> Tensor:
        return torch.zeros_like(x)


def mlp(draws: Draws) -> Rows:
    """The MLP of a block."""
    part = draws.filled(MLP(SMALL))
    return lambda rows: part(rows[None], SILENT)[0]


def norm(draws: Draws) -> Rows:
    """A layer norm."""
    return draws.filled(LayerNorm(SMALL.d_model, eps=SMALL.norm_eps, bias=True))


def attention(draws: Draws) -> Rows:
    """Causal attention."""
    part = draws.filled(Attention(SMALL))
    return lambda rows: part(rows[None], Kept())[0]


@dataclasses.dataclass(frozen=True)
class RowWise:
    """The parts that A7.1 speaks of."""

    mlp: Callable[[Draws], Rows] = mlp
    norm: Callable[[Draws], Rows] = norm
    attention: Callable[[Draws], Rows] = attention
    model: BuildModel = without_attention


def row_wise(settings: Settings, parts: RowWise = RowWise()) -> Findings:  # frozen
    """A7.1: ∂(row i)/∂(row j) of MLP, layer norm and attention, and a model without attention."""
    draws = Draws(settings)
    x = draws.normal(T, SMALL.d_model)
    built = {"MLP": parts.mlp(draws), "layer norm": parts.norm(draws), "attention": parts.attention(draws)}
    between = {name: between_rows(part, x) for name, part in built.items()}
    apart = {name: largest(found - found.diagonal().diag()) for name, found in between.items()}
    others, itself, position = _dependence(parts.model(SMALL, draws), draws)
    figures = (
        Figure("largest |∂row i/∂row j|, i ≠ j: MLP", apart["MLP"], 0.0),
        Figure("layer norm", apart["layer norm"], 0.0),
        Figure("attention", apart["attention"], 0.0, 1e-6, differs=True),
        Figure("model without attention: change by other tokens", others, 0.0),
        Figure("smallest change by a row's own token", itself, 0.0, 1e-6, differs=True, detail=True),
        Figure("smallest change by its own position", position, 0.0, 1e-6, differs=True, detail=True),
    )
    return Findings(figures, tuple(_matrix(f"{name}: largest |∂row i/∂row j|", m) for name, m in between.items()))


def equivariance(settings: Settings, block: BuildBlock = unmasked_block, model: BuildModel = unmasked) -> Findings:
    """A7.2.1: permuted rows give permuted rows in an unmasked block; not so in a model with learned positions.

    The model is unmasked too, so that positions alone tell one order from another.
    """
    draws, tolerance = Draws(settings), settings.tolerance(1e-13)
    figures = []
    for placement in PLACEMENTS:
        layer = block(SMALL.replace(placement=placement), draws)
        moved = []
        for _ in range(settings.trials):
            x, order = draws.normal(1, T, SMALL.d_model), _order(draws)
            moved.append(layer(x[:, order], SILENT) - layer(x, SILENT)[:, order])
        figures.append(Figure(f"{placement}-LN block: largest |B(PX) − P·B(X)|", largest(moved), 0.0, tolerance))
    for positions in ("none", "learned"):
        whole = model(SMALL.replace(positions=positions), draws)
        same, tokens = positions == "none", torch.arange(T)[None]
        orders = [_order(draws) for _ in range(settings.trials)]
        found = largest(whole(tokens[:, order]) - whole(tokens)[:, order] for order in orders)
        name = "model without positions" if same else "model with learned positions"
        figures.append(Figure(name, found, 0.0, tolerance if same else 1e-3, differs=not same, detail=same))
    return Findings(tuple(figures))


def causal_blocks(settings: Settings, block: BuildBlock = causal_block) -> Findings:
    """A7.2.2: in a causal block, row i neither moves with any later row nor has a gradient with it."""
    draws = Draws(settings)
    figures, matrices = [], []
    past = torch.ones(T, T, dtype=torch.bool).tril()
    for placement in PLACEMENTS:
        layer = block(SMALL.replace(placement=placement), draws)
        x = draws.normal(T, SMALL.d_model)
        between = between_rows(lambda rows, layer=layer: layer(rows[None], Kept())[0], x)  # type: ignore[misc]
        moved = largest(_moved_by_later(layer, x, first) for first in range(1, T))
        figures += [
            Figure(f"{placement}-LN: largest |∂row i/∂row j|, j > i", largest(between[~past]), 0.0),
            Figure("smallest, j ≤ i", float(between[past].min()), 0.0, 1e-9, differs=True, detail=True),
            Figure("change of the rows before a new one", moved, 0.0),
        ]
        matrices.append(_matrix(f"{placement}-LN: largest |∂row i/∂row j|", between))
    return Findings(tuple(figures), tuple(matrices))


@torch.no_grad()
def causal_model(
    settings: Settings,
    model: BuildModel = transformer,
    spec: ModelSpec = PRESETS["tiny-568"].spec,
    tokens: Sequence[int] = (3, 1, 4, 1, 5, 9),
    changed: Sequence[int] = (3, 1, 4, 1, 2, 6),
) -> Findings:
    """A7.2.3: the chapter's example: two tokens replaced at the end, and every prefix on its own.

    Both forms of attention are run: the one whose scores can be seen, and the fused kernel.
    """
    whole = model(spec, Draws(settings))
    before, after, n = torch.tensor([tokens]), torch.tensor([changed]), len(tokens)
    first = next(i for i, (a, b) in enumerate(zip(tokens, changed, strict=True)) if a != b)
    moved, apart = [], []
    for tap in (SILENT, Kept()):
        logits = whole(before, tap)[0]
        moved.append(whole(after, tap)[0] - logits)
        apart += [whole(before[:, : i + 1], tap)[0, -1] - logits[i] for i in range(n)]
    leaks = torch.zeros(n, n, dtype=logits.dtype)
    for j in range(n):
        other = before.clone()
        other[0, j] = (tokens[j] + 1) % spec.vocab_size
        leaks[:, j] = (whole(other) - whole(before))[0].abs().amax(dim=-1)
    figures = (
        Figure(f"change of rows 1 to {first}", largest(m[:first] for m in moved), 0.0),
        Figure(f"change of rows {first + 1} to {n}", largest(m[first:] for m in moved), 0.0, 1e-3, differs=True),
        Figure("rows that a later token moves", int(leaks.triu(1).count_nonzero()), 0, detail=True),
        Figure("largest |prefix on its own − whole|", largest(apart), 0.0, settings.tolerance(1e-13)),
    )
    return Findings(figures, (_matrix("Change of the logits at i by a new token at j", leaks),))


def between_rows(part: Rows, x: Tensor) -> Tensor:
    """The largest |∂ entry of row i / ∂ entry of row j|, [T, T]."""
    full: Tensor = jacobian(part, x)  # [T, d_model, T, d_model]
    return full.abs().amax(dim=(1, 3))


@torch.no_grad()
def _moved_by_later(layer: Block, x: Tensor, first: int) -> Tensor:
    """How far each of the rows before `first` move when those from it on are replaced."""
    other = x.clone()
    other[first:] += 1
    return (layer(other[None], SILENT) - layer(x[None], SILENT))[0, :first]


@torch.no_grad()
def _dependence(model: Transformer, draws: Draws) -> tuple[float, float, float]:
    """Largest change of a row of logits by other tokens; smallest by its own token, and by its own position."""
    tokens = draws.ids(model.spec.vocab_size, 1, T)
    logits, others, itself = model(tokens), [], []
    for i in range(T):
        new = (tokens + 1) % model.spec.vocab_size
        itself_kept, itself_new = new.clone(), tokens.clone()
        itself_kept[0, i], itself_new[0, i] = tokens[0, i], new[0, i]
        others.append((model(itself_kept) - logits)[0, i])
        itself.append((model(itself_new) - logits)[0, i].abs().max())
    repeated = model(tokens[:, :1].expand(1, T))[0]
    apart = [(repeated[i] - repeated[j]).abs().max() for i in range(T) for j in range(i)]
    return largest(others), float(torch.stack(itself).min()), float(torch.stack(apart).min())


def _order(draws: Draws) -> list[int]:
    """T rows in an order that is not theirs."""
    order = draws.normal(T).argsort().tolist()
    return order if order != sorted(order) else order[::-1]


def _matrix(title: str, values: Tensor) -> Matrix:
    numbers = range(1, len(values) + 1)
    rows = tuple(tuple(row) for row in values.tolist())
    return Matrix(title, rows, tuple(f"row {i}" for i in numbers), tuple(f"{j}" for j in numbers))
