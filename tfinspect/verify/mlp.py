"""Claims about what an MLP can represent: flat pieces with ReLU, a curve everywhere with GELU."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import torch
from torch import Tensor

from tfinspect.model.transformer import ACTIVATIONS, MLP
from tfinspect.results.checks import Figure, Findings, Matrix
from tfinspect.spec import Activation, ModelSpec
from tfinspect.verify.difference import largest
from tfinspect.verify.draws import Draws
from tfinspect.verify.kept import Kept
from tfinspect.verify.propositions import Settings

__all__ = ["curvature", "regions", "three_lines", "wider"]

Build: TypeAlias = Callable[[Draws], MLP]
Curve: TypeAlias = Callable[[Tensor], Tensor]

#: The square [−3, 3]² is looked at with this many points a side; by a random MLP with fewer.
SIDE: Final = 601
SIDE_OF_RANDOM: Final = 101
#: Hidden units of a random MLP.
WIDTH_OF_RANDOM: Final = 6
#: Pairs of points in one region whose midpoints are looked at.
PAIRS: Final = 2_000
#: Points of a region that its affine map is fitted to; it is held against all.
FITTED: Final = 200
#: The stretch on which GELU″ is looked at, and how finely; beyond it, rounding reaches GELU″ in float32.
REACH: Final = 4.0
STEP: Final = 0.01


def three_lines(draws: Draws, activation: Activation = "relu") -> MLP:
    """The chapter's MLP: hidden units x1, x2 and x1 + x2 − 1; what it makes of them is drawn."""
    mlp = draws.filled(MLP(_plane(3, activation)))
    with torch.no_grad():
        mlp.up.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
        mlp.up.bias.copy_(torch.tensor([0.0, 0.0, -1.0]))  # type: ignore[union-attr]  # the spec has biases
    return mlp


def wider(draws: Draws, activation: Activation = "relu") -> MLP:
    """An MLP whose every parameter is drawn."""
    return draws.filled(MLP(_plane(WIDTH_OF_RANDOM, activation)))


def regions(settings: Settings, mlp: Build = three_lines, random_mlp: Build = wider) -> Findings:
    """A8.1.1: which patterns of active units occur, and whether the MLP is affine on each and each is convex."""
    draws, tolerance = Draws(settings), settings.tolerance(1e-11)
    plane = _Plane(mlp(draws), SIDE, draws)
    pieces = list(plane.pieces())
    found = [piece.pattern for piece in pieces]
    possible = [f"{code:0{len(found[0])}b}" for code in range(2 ** len(found[0]))]
    drawn = [list(_Plane(random_mlp(draws), SIDE_OF_RANDOM, draws).pieces()) for _ in range(settings.trials)]
    most = max(map(len, drawn))
    figures = (
        Figure(f"patterns of {len(possible)}", len(found), 7),
        Figure("missing", ", ".join(pattern for pattern in possible if pattern not in found), "001"),
        Figure("off an affine map, any region", largest(piece.residual for piece in pieces), 0.0, tolerance),
        Figure("slope − W₂·D·W₁", largest(p.slope - p.claimed for p in pieces), 0.0, tolerance, detail=True),
        Figure("midpoints outside their region", sum(piece.bent for piece in pieces), 0),
        Figure(
            f"random MLPs, {WIDTH_OF_RANDOM} units: off an affine map",
            largest(piece.residual for each in drawn for piece in each),
            0.0,
            tolerance,
            detail=True,
        ),
        Figure("random MLPs: most regions", most, detail=True),
        Figure(f"random MLPs: regions beyond 2^{WIDTH_OF_RANDOM}", max(0, most - 2**WIDTH_OF_RANDOM), 0, detail=True),
    )
    rows = tuple((p.pattern, p.n_points, largest(p.residual), *p.slope.flatten().tolist()) for p in pieces)
    labels = ("pattern", "points", "off affine", "∂y1/∂x1", "∂y1/∂x2", "∂y2/∂x1", "∂y2/∂x2")
    return Findings(figures, (Matrix(f"Regions on a grid of {SIDE} × {SIDE} points", rows, (), labels),))


def curvature(settings: Settings, gelu: Curve = ACTIVATIONS["gelu"]) -> Findings:
    """A8.1.2: GELU″(t) = (2 − t²)φ(t), by autograd and by differences; zero only at ±√2, and on no interval."""
    dtype = Draws(settings).dtype
    t = STEP * torch.arange(-round(REACH / STEP), round(REACH / STEP) + 1, dtype=dtype)
    claimed, found = _claimed_curvature(t), _second_derivative(gelu, t)
    h = torch.finfo(dtype).eps ** 0.25
    by_differences = (gelu(t + h) - 2 * gelu(t) + gelu(t - h)) / h**2
    zeros = [_zero(gelu, t[i], t[i + 1]) for i in range(len(t) - 1) if found[i] * found[i + 1] < 0]
    flattest = float(found[:-1].unfold(0, 10, 10).abs().amax(dim=1).min())
    return Findings(
        (
            Figure("GELU″ by autograd − (2 − t²)φ(t)", largest(found - claimed), 0.0, settings.tolerance(1e-12)),
            Figure(
                "by second differences − (2 − t²)φ(t)",
                largest(by_differences - claimed),
                0.0,
                settings.tolerance(1e-6, 1 / 2),
            ),
            Figure("changes of sign", len(zeros), 2),
            Figure("at", ", ".join(f"{zero:.4f}" for zero in zeros), f"{-math.sqrt(2):.4f}, {math.sqrt(2):.4f}"),
            Figure(
                f"smallest |GELU″| that an interval of width {10 * STEP:g} reaches",
                flattest,
                0.0,
                settings.tolerance(1e-12),
                differs=True,
            ),
        ),
        (
            Matrix(
                "GELU″ beside its formula",
                tuple((float(t[i]), float(found[i]), float(claimed[i])) for i in range(0, len(t), 50)),
                column_labels=("t", "by autograd", "(2 − t²)φ(t)"),
            ),
        ),
        (f"{len(t)} points on [−{REACH:g}, {REACH:g}]; φ is the density of the standard normal distribution.",),
    )


@dataclasses.dataclass(frozen=True)
class _Piece:
    """One region: where the same units are active."""

    pattern: str
    """1 for each active unit: "101"."""
    n_points: int
    residual: Tensor
    """What the MLP makes of the region's points, less the affine map that fits some of them [N, d]."""
    slope: Tensor
    """Slope of that map [d, d]."""
    claimed: Tensor
    """W₂·D·W₁, with D the pattern on a diagonal: the slope that the proof gives [d, d]."""
    bent: int
    """Pairs of points in the region whose midpoint is outside."""


class _Plane:
    """The square as an MLP divides it."""

    def __init__(self, mlp: MLP, side: int, draws: Draws) -> None:
        line = torch.linspace(-3, 3, side, dtype=draws.dtype)
        self.mlp, self.draws, self.points = mlp, draws, torch.cartesian_prod(line, line)
        self.hidden, self.outputs = self._run(self.points)
        self.clear = self.hidden.abs().gt(1e-4).all(dim=1)  # of a border, where rounding decides on the side

    def pieces(self) -> Iterator[_Piece]:
        """Each region that has a point, in the order of the patterns."""
        code = self._code(self.hidden)
        for each in code.bincount().nonzero().flatten().tolist():
            inside = code == each
            x = torch.nn.functional.pad(self.points[inside], (0, 1), value=1.0)  # [N, d + 1]
            some = self.draws.ids(len(x), FITTED)
            fitted = torch.linalg.pinv(x[some]) @ self.outputs[inside][some]  # [d + 1, d]
            pattern = f"{each:0{self.hidden.shape[1]}b}"
            active = torch.diag(torch.tensor([float(unit) for unit in pattern], dtype=self.draws.dtype))
            yield _Piece(
                pattern,
                len(x),
                x @ fitted - self.outputs[inside],
                fitted[:-1].T,
                self.mlp.down.weight.detach() @ active @ self.mlp.up.weight.detach(),
                self._bent(inside, each),
            )

    def _bent(self, inside: Tensor, code: int) -> int:
        """How many midpoints of two points inside, both clear of the border, are outside."""
        points = self.points[inside & self.clear]
        if not len(points):
            return 0
        middles, _ = self._run(points[self.draws.ids(len(points), 2, PAIRS)].mean(dim=0))
        return int((self._code(middles) != code).sum())

    def _run(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden units before the activation [N, d_ff], and outputs [N, d]."""
        kept = Kept()
        with torch.no_grad():
            outputs = self.mlp(points[None], kept)[0]
        return kept["hidden"][0], outputs

    @staticmethod
    def _code(hidden: Tensor) -> Tensor:
        """The pattern of each row as a number, the first unit its highest bit."""
        return (hidden > 0).long() @ 2 ** torch.arange(hidden.shape[1] - 1, -1, -1)


def _plane(d_ff: int, activation: Activation) -> ModelSpec:
    return ModelSpec(d_model=2, n_heads=1, d_ff=d_ff, activation=activation)


def _claimed_curvature(t: Tensor) -> Tensor:
    return (2 - t**2) * torch.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)


def _second_derivative(curve: Curve, t: Tensor) -> Tensor:
    """By autograd, twice; 0 where the first derivative is constant."""
    t = t.detach().requires_grad_()
    (slope,) = torch.autograd.grad(curve(t).sum(), t, create_graph=True)
    if not slope.requires_grad:
        return torch.zeros_like(t)
    return torch.autograd.grad(slope.sum(), t)[0]


def _zero(curve: Curve, low: Tensor, high: Tensor) -> float:
    """Where the second derivative is 0 between two points of different sign, by halving."""
    sign = _second_derivative(curve, low) > 0
    for _ in range(40):
        middle = (low + high) / 2
        if (_second_derivative(curve, middle) > 0) == sign:
            low = middle
        else:
            high = middle
    return float(low)
