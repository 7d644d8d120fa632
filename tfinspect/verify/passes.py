"""The forward pass, step by step: shapes on GPT-2 Small, values on a narrow model of the same kind.

Values are held against the step's equation, and against the pass in NumPy, which shares no line with the torch model.
GPT-2 Small itself is run on the meta device: every shape is real, and no memory is taken.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import torch
from torch import Tensor

from tfinspect import reference, tokenizer
from tfinspect.closed_form.shapes import expected
from tfinspect.dims import bind, brackets, sizes
from tfinspect.measured import shapes
from tfinspect.model.transformer import Transformer
from tfinspect.presets import PRESETS
from tfinspect.results.checks import Figure, Findings, Matrix
from tfinspect.results.tokens import CharPart
from tfinspect.spec import ModelSpec
from tfinspect.verify.difference import largest
from tfinspect.verify.draws import Draws
from tfinspect.verify.kept import Kept, transformer
from tfinspect.verify.propositions import Settings

__all__ = [
    "attention",
    "every_tensor",
    "first_residual",
    "logits",
    "mlp",
    "positions",
    "stack",
    "token_vectors",
    "tokens",
]

BuildModel: TypeAlias = Callable[[ModelSpec, Draws], Transformer]
Step: TypeAlias = Callable[..., Findings]

#: The chapter's sample text and its ids.
TEXT: Final = "蒔絵師が硯箱を"
IDS: Final = (164, 240, 242, 163, 113, 113, 30585, 104, 35585, 163, 94, 107, 163, 106, 109, 31758)

SMALL: Final = PRESETS["gpt2"].spec
#: The same architecture and vocabulary, narrow enough for float64.
NARROW: Final = SMALL.replace(d_model=24, d_ff=96, n_layers=2)
#: The sample text's ids, and the same in reverse.
BATCH: Final = (IDS, IDS[::-1])
B: Final = len(BATCH)
T: Final = len(IDS)


def tokens(settings: Settings, encode: Callable[[bytes], list[int]] = tokenizer.encode) -> Findings:
    """B15.2.1, step 1: the ids of the sample text, and what its tokens hold."""
    data = TEXT.encode()
    ids = encode(data)
    merged = [i for _, piece in tokenizer.pretokens(data) for i in tokenizer.merge(piece)[1]]
    laid_out = tokenizer.Tokens(data, tuple(ids))
    partial = [[part for part in token.parts if isinstance(part, CharPart)] for token in laid_out]
    cut = {part.char_index for parts in partial for part in parts}
    figures = (
        Figure("ids", _listed(ids), _listed(IDS)),
        Figure("ids by merging, pair by pair", _listed(merged), _listed(IDS), detail=True),
        Figure("bytes that come back", tokenizer.decode(ids).hex(" "), data.hex(" "), detail=True),
        Figure("characters that take several tokens", len(cut), 0, differs=True),
        Figure("tokens that hold part of one", sum(map(bool, partial)), 0, differs=True),
    )
    rows = tuple((token.id, token.data.hex(" "), ", ".join(map(str, token.parts))) for token in laid_out)
    return Findings(figures, (Matrix("Tokens", rows, column_labels=("id", "bytes", "holds")),))


def token_vectors(settings: Settings, model: BuildModel = transformer) -> Findings:
    """B15.2.2, step 2: each id picks its row of E, whatever stands around it."""
    run = _run(settings, model)
    x = run.kept["embed.tokens"]
    rows = run.model.get_parameter("embed.tokens.weight")
    picked = largest(x[b, t] - rows[BATCH[b][t]] for b in range(B) for t in range(T))
    alike = [x[b, t] for b in range(B) for t in range(T) if BATCH[b][t] == 163]
    figures = (
        _shape("tokens", (B, T)),
        _shape("embed.tokens", (B, T, 768)),
        Figure("largest |vector − row of E|", picked, 0.0),
        Figure("token 163 in 6 places: difference", largest(a - alike[0] for a in alike), 0.0, detail=True),
        run.against_numpy("embed.tokens"),
    )
    return Findings(figures)


def positions(settings: Settings, model: BuildModel = transformer) -> Findings:
    """B15.2.3, step 3: a row of P is added to each position of every text; dropout acts in training mode only."""
    run = _run(settings, model)
    x, added = run.kept["embed.sum"], run.model.get_parameter("embed.positions.weight")[:T]
    idle, active = _dropout(settings, model)
    figures = (
        _shape("embed.positions", (T, 768)),
        _shape("embed.sum", (B, T, 768)),
        Figure("largest |X − (row of E + row of P)|", largest(x - (run.kept["embed.tokens"] + added)), 0.0),
        Figure("change by dropout in evaluation mode", idle, 0.0, detail=True),
        Figure("in training mode", active, 0.0, 1e-3, differs=True, detail=True),
        run.against_numpy("embed.positions", "embed.sum"),
    )
    return Findings(figures)


def attention(settings: Settings, model: BuildModel = transformer) -> Findings:
    """B15.3.1, step 4: LN1, Q, K, V, scores under the causal mask, weights, heads side by side, W_O."""
    run = _run(settings, model)
    weights = torch.stack([run.kept[f"blocks.{i}.attn.weights"] for i in range(NARROW.n_layers)])
    q, k, scores = (run.kept[f"blocks.0.attn.{name}"] for name in ("q", "k", "scores"))
    visible = torch.ones(T, T, dtype=torch.bool).tril()
    products = (torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(NARROW.d_head) - scores)[..., visible]
    names = ("norm1", "attn.q", "attn.k", "attn.v", "attn.scores", "attn.weights", "attn.heads", "attn.concat")
    figures = (
        *(_shape(f"blocks.0.attn.{name}", (B, 12, T, 64), shown=name == "q") for name in ("q", "k", "v")),
        _shape("blocks.0.attn.scores", (B, 12, T, T)),
        _shape("blocks.0.attn.weights", (B, 12, T, T), shown=False),
        _shape("blocks.0.attn.heads", (B, 12, T, 64), shown=False),
        _shape("blocks.0.attn.concat", (B, T, 768), shown=False),
        _shape("blocks.0.attn.out", (B, T, 768), shown=False),
        Figure("largest weight on the future", largest(weights.triu(1)), 0.0),
        Figure("smallest on the own position", float(weights.diagonal(dim1=-2, dim2=-1).min()), 0.0, differs=True),
        Figure("largest |row sum − 1|", largest(weights.sum(dim=-1) - 1), 0.0, settings.tolerance(1e-14)),
        Figure("largest |scores − QKᵀ/√d_head|", largest(products), 0.0, settings.tolerance(1e-13), detail=True),
        run.against_numpy(*run.in_blocks(*names, "attn.out")),
    )
    shown = weights[0, 0, 0, :6, :6].tolist()
    return Findings(figures, (Matrix("Weights of block 0, head 0: first 6 positions", tuple(map(tuple, shown))),))


def first_residual(settings: Settings, model: BuildModel = transformer) -> Findings:
    """B15.3.2, step 5: U = X + delta; what bypasses the attention is the current stream."""
    run = _run(settings, model)
    stream = ["embed.sum", *run.in_blocks("resid_out")][:-1]
    apart = largest(
        run.kept[f"blocks.{i}.resid_mid"] - run.kept[x] - run.kept[f"blocks.{i}.attn.out"] for i, x in enumerate(stream)
    )
    figures = (
        _shape("blocks.0.resid_mid", (B, T, 768)),
        Figure("largest |U − X − delta|", apart, 0.0, settings.tolerance(1e-14)),
        run.against_numpy(*run.in_blocks("resid_mid")),
    )
    return Findings(figures)


def mlp(settings: Settings, model: BuildModel = transformer) -> Findings:
    """B15.3.3, step 6: 768 to 3,072, GELU, back to 768, and Y = U + delta."""
    run = _run(settings, model)
    apart = []
    for i in range(NARROW.n_layers):
        y, u, delta = (run.kept[f"blocks.{i}.{name}"] for name in ("resid_out", "resid_mid", "mlp.out"))
        apart.append(y - u - delta)
    hidden, activated = run.kept["blocks.0.mlp.hidden"], run.kept["blocks.0.mlp.activated"]
    gelu = hidden * (1 + torch.tanh(math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3))) / 2
    figures = (
        _shape("blocks.0.mlp.hidden", (B, T, 3_072)),
        _shape("blocks.0.mlp.activated", (B, T, 3_072), shown=False),
        _shape("blocks.0.mlp.out", (B, T, 768), shown=False),
        _shape("blocks.0.resid_out", (B, T, 768)),
        Figure(
            "largest |activated − GELU|",
            largest(activated - gelu),
            0.0,
            settings.tolerance(1e-13),
            detail=True,
        ),
        Figure("largest |Y − U − delta|", largest(apart), 0.0, settings.tolerance(1e-14)),
        run.against_numpy(*run.in_blocks("norm2", "mlp.hidden", "mlp.activated", "mlp.out", "resid_out")),
    )
    notes = ("GELU in the tanh form, which the released checkpoints use; the chapters define it as t·Φ(t).",)
    return Findings(figures, notes=notes)


def stack(settings: Settings, model: BuildModel = transformer) -> Findings:
    """B15.4, step 7: 12 blocks of one shape, each with parameters of its own, then the final layer norm."""
    run = _run(settings, model)
    outs = [shape for name, shape in _gpt2_small().items() if name.endswith(".resid_out")]
    owned = [{id(p) for p in block.parameters()} for block in run.model.blocks]
    shared = sum(map(len, owned)) - len(set().union(*owned))
    figures = (
        Figure("blocks", len(outs), 12),
        Figure("shapes of their outputs", ", ".join({brackets(shape) for shape in outs}), brackets((B, T, 768))),
        _shape("final_norm", (B, T, 768)),
        Figure("parameters that blocks share", shared, 0, detail=True),
        run.against_numpy(*run.in_blocks("resid_out"), "final_norm"),
    )
    return Findings(figures)


def logits(settings: Settings, model: BuildModel = transformer) -> Findings:
    """B15.5, step 8: logits = H·Eᵀ with the token table itself; generation reads the last position."""
    run = _run(settings, model)
    found, table = run.kept["logits"], run.model.get_parameter("embed.tokens.weight")
    products = found - torch.einsum("btd,vd->btv", run.kept["final_norm"], table)
    last = found[:, -1]
    figures = (
        _shape("logits", (B, T, 50_257)),
        Figure("largest |logits − H·Eᵀ|", largest(products), 0.0, settings.tolerance(1e-12)),
        Figure("matrix of the head", "E" if run.model.get_parameter("head.weight") is table else "its own", "E"),
        Figure("last position", brackets(last.shape), brackets((B, 50_257)), detail=True),
        Figure("chosen ids", brackets(last.argmax(dim=-1).shape), brackets((B,)), detail=True),
        run.against_numpy("logits"),
    )
    return Findings(figures)


def every_tensor(settings: Settings, spec: ModelSpec = SMALL, model: BuildModel = transformer) -> Findings:
    """B15.6: all tensors of GPT-2 Small have the shape that the steps give them, and torch and NumPy agree on each."""
    run = _run(settings, model)
    found = {t.name: t.shape for t in shapes.trace(spec, BATCH, meta=True).tensors}
    bound = bind(SMALL, B, T)
    planned = {row.name: sizes(row.dims, bound) for row in expected(SMALL, B, T)}
    wrong = sum(found.get(name) != planned.get(name) for name in found.keys() | planned.keys())
    stream = {shape[-1] for name, shape in found.items() if name.endswith(("embed.sum", "resid_mid", "resid_out"))}
    inside = {shape[-1] for name, shape in found.items() if name.endswith((".q", ".weights", ".hidden"))}
    figures = (
        Figure("named tensors", len(found), len(planned)),
        Figure("of another shape than the steps say", wrong, 0),
        Figure("widths of the stream", _listed(sorted(stream)), "768"),
        Figure("widths inside a block", _listed(sorted(inside)), "16 64 3072", detail=True),
        Figure("tensors that one pass lacks", len(run.kept.tensors.keys() ^ run.theirs.keys()), 0, detail=True),
        run.against_numpy(*run.theirs),
    )
    return Findings(figures)


@dataclasses.dataclass(frozen=True)
class _Run:
    """One pass of a narrow model over the batch, in torch and in NumPy."""

    model: Transformer
    kept: Kept
    theirs: dict[str, Tensor]
    """The tensors of the NumPy pass."""
    tolerance: float

    def in_blocks(self, *names: str) -> list[str]:
        """These tensors of every block."""
        return [f"blocks.{i}.{name}" for i in range(NARROW.n_layers) for name in names]

    def against_numpy(self, *names: str) -> Figure:
        """How far torch and NumPy are apart in these tensors; equal infinities are no difference."""
        apart = []
        for name in names:
            ours, theirs = self.kept[name].double(), self.theirs[name].double()
            apart.append(torch.where(ours == theirs, 0.0, ours - theirs))
        return Figure("largest |torch − NumPy|", largest(apart), 0.0, self.tolerance)


@torch.no_grad()
def _run(settings: Settings, model: BuildModel) -> _Run:
    built, kept = model(NARROW, Draws(settings)), Kept()
    batch = torch.tensor(BATCH)
    built(batch, kept)
    weights = {name: parameter.numpy() for name, parameter in built.state_dict().items()}
    theirs = reference.forward(NARROW, weights, batch.numpy())
    return _Run(built, kept, {n: torch.from_numpy(t) for n, t in theirs.items()}, settings.tolerance(1e-12))


@torch.no_grad()
def _dropout(settings: Settings, model: BuildModel) -> tuple[float, float]:
    """How far a dropout of one half moves X in evaluation mode and in training mode."""
    plain, dropping = (model(NARROW.replace(dropout=p), Draws(settings)) for p in (0.0, 0.5))
    batch = torch.tensor(BATCH)
    x = plain.embed(batch, Kept(), 0)
    idle = largest(dropping.embed(batch, Kept(), 0) - x)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed & (2**63 - 1))
        return idle, largest(dropping.train().embed(batch, Kept(), 0) - x)


@functools.cache
def _gpt2_small() -> dict[str, tuple[int, ...]]:
    """Shapes of every named tensor of GPT-2 Small over the batch, from a pass without memory."""
    return {tensor.name: tensor.shape for tensor in shapes.trace(SMALL, BATCH, meta=True).tensors}


def _shape(name: str, claimed: tuple[int, ...], *, shown: bool = True) -> Figure:
    return Figure(name.removeprefix("blocks.0."), brackets(_gpt2_small()[name]), brackets(claimed), detail=not shown)


def _listed(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))
