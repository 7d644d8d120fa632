"""Claims about layer norm, on the torch core's own and, beside it, on NumPy by definition; ε = 0 throughout."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.functional import jacobian as autograd

from tfinspect.model.transformer import LayerNorm
from tfinspect.results.checks import Figure, Findings, Matrix
from tfinspect.verify.difference import largest
from tfinspect.verify.draws import Draws
from tfinspect.verify.propositions import Settings

__all__ = [
    "Norm",
    "by_definition",
    "closed_jacobian",
    "core",
    "example",
    "gain_and_shift",
    "invariance",
    "jacobian",
    "moments",
]

Norm: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""x [..., d], γ [d], β [d] to γ·(x − mean)/σ + β [..., d]."""

#: Widths that the checks of outputs go through in turn, from the narrowest that layer norm says anything about.
WIDTHS: Final = (2, 4, 64, 768)
WIDTHS_SAID: Final = ", ".join(map(str, WIDTHS))
#: Width at which Jacobians are taken: small enough to be shown.
D: Final = 6


def core(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    """The layer norm of the torch core."""
    norm = LayerNorm(x.shape[-1], eps=0.0, bias=True)
    norm.weight, norm.bias = (nn.Parameter(t, requires_grad=False) for t in (gain, shift))
    return norm(x)


def by_definition(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    """The definition in NumPy: mean and biased variance over the features."""
    vector, g, b = (t.detach().numpy() for t in (x, gain, shift))
    deviation = vector - vector.mean(axis=-1, keepdims=True)
    sigma = np.sqrt((deviation**2).mean(axis=-1, keepdims=True))
    return torch.from_numpy(g * deviation / sigma + b)


def closed_jacobian(x: Tensor) -> Tensor:
    """(I − 11ᵀ/d − yyᵀ/d)/σ [d, d], for γ = 1 and β = 0."""
    d, deviation = len(x), x - x.mean()
    sigma = deviation.square().mean().sqrt()
    y = deviation / sigma
    return (torch.eye(d, dtype=x.dtype) - 1 / d - torch.outer(y, y) / d) / sigma


def invariance(settings: Settings, norm: Norm = core) -> Findings:
    """A3.1.1: LN(ax + b1) = LN(x), for random a > 0, b, γ and β at several widths."""
    draws, tolerance = Draws(settings), settings.tolerance(1e-11)
    moved, flipped, apart = [], [], []
    for d in WIDTHS * settings.trials:
        x, gain, shift = spread(draws, d), draws.normal(d), draws.normal(d)
        a, b = 10.0 ** draws.between(-1, 1), draws.between(-5, 5)
        y = norm(x, gain, shift)
        moved.append(norm(a * x + b, gain, shift) - y)
        flipped.append(norm(-a * x + b, gain, shift) - y)
        apart.append(y - by_definition(x, gain, shift))
    return Findings(
        (
            Figure("largest |LN(ax + b1) − LN(x)|", largest(moved), 0.0, tolerance),
            Figure("largest |torch core − NumPy by definition|", largest(apart), 0.0, tolerance, detail=True),
            Figure("largest |LN(−ax + b1) − LN(x)|, were a < 0", largest(flipped), 0.0, 1e-3, True, detail=True),
        ),
        notes=(f"d = {WIDTHS_SAID}; a from 0.1 to 10, b from −5 to 5, γ and β at random.",),
    )


def moments(settings: Settings, norm: Norm = core) -> Findings:
    """A3.1.2: mean 0, variance 1 and norm √d of the output, for γ = 1 and β = 0."""
    draws, tolerance = Draws(settings), settings.tolerance(1e-11)
    outputs = [plain(norm)(spread(draws, d)) for d in WIDTHS * settings.trials]
    return Findings(
        (
            Figure("largest |mean|", largest(y.mean() for y in outputs), 0.0, tolerance),
            Figure("largest |variance − 1|", largest(y.var(correction=0) - 1 for y in outputs), 0.0, tolerance),
            Figure("largest |norm − √d|", largest(y.norm() - math.sqrt(len(y)) for y in outputs), 0.0, tolerance),
        ),
        notes=(f"d = {WIDTHS_SAID}.",),
    )


def example(settings: Settings, norm: Norm = core) -> Findings:
    """A3.2: x = (1, 2, 3, 6) and 3x + 5. Mean and σ are read off the output: y is (x − mean)/σ."""
    x = torch.tensor([1.0, 2.0, 3.0, 6.0], dtype=Draws(settings).dtype)
    exact, rounded = settings.tolerance(1e-11), 5e-5  # the sources print four decimals
    figures, outputs = [], []
    for name, vector, mean, variance, sigma in (("x", x, 3.0, 3.5, 1.8708), ("3x + 5", 3 * x + 5, 14.0, 31.5, 5.6125)):
        y = plain(norm)(vector)
        outputs.append(y)
        slope = float((vector[-1] - vector[0]) / (y[-1] - y[0]))
        figures += [
            Figure(f"mean of {name}", float(vector[0] - slope * y[0]), mean, exact),
            Figure(f"variance of {name}", slope**2, variance, exact),
            Figure(f"σ of {name}", slope, sigma, rounded),
        ]
    first, second = outputs
    figures += [
        Figure("LN(x)", decimals(first), "(-1.0690, -0.5345, 0.0000, 1.6036)"),
        Figure("LN(3x + 5)", decimals(second), decimals(first)),
        Figure("norm", float(first.norm()), 2.0, exact),
    ]
    return Findings(tuple(figures))


def gain_and_shift(settings: Settings, norm: Norm = core) -> Findings:
    """A11.2: mean b, variance g² and norm √(d(g² + b²)) for γ = g1, β = b1; A3.1.1 for any γ and β."""
    draws, tolerance = Draws(settings), settings.tolerance(1e-11)
    off, moved, rows = [], [], []
    for d in WIDTHS * settings.trials:
        x, g, b = spread(draws, d), draws.between(0.2, 3), draws.between(-2, 2)
        y = norm(x, torch.full_like(x, g), torch.full_like(x, b))
        found = torch.stack([y.mean(), y.var(correction=0), y.norm()])
        claimed = torch.tensor([b, g * g, math.sqrt(d * (g * g + b * b))], dtype=x.dtype)
        off.append(found - claimed)
        rows.append((d, g, b, *torch.stack([found, claimed], dim=1).flatten().tolist()))
        gain, shift = draws.normal(d), draws.normal(d)
        moved.append(norm(2.5 * x - 7, gain, shift) - norm(x, gain, shift))
    mean, variance, length = torch.stack(off).unbind(dim=1)
    labels = ("d", "g", "b", "mean", "= b", "variance", "= g²", "norm", "= √(d(g²+b²))")
    return Findings(
        (
            Figure("largest |mean − b|", largest(mean), 0.0, tolerance),
            Figure("largest |variance − g²|", largest(variance), 0.0, tolerance),
            Figure("largest |norm − √(d(g² + b²))|", largest(length), 0.0, tolerance),
            Figure("largest |LN(2.5x − 7) − LN(x)|, any γ and β", largest(moved), 0.0, tolerance),
        ),
        (Matrix("Measured, and beside it what is claimed", tuple(rows[: len(WIDTHS)]), column_labels=labels),),
    )


def jacobian(settings: Settings, norm: Norm = core, formula: Callable[[Tensor], Tensor] = closed_jacobian) -> Findings:
    """A3.3: the closed form against autograd and central differences; null directions, projection, scaling, d = 2."""
    draws, f = Draws(settings), plain(norm)
    from_differences, from_autograd, shift, scale, kept, scaled = [], [], [], [], [], []
    jacobians, spectra = [], []
    for _ in range(settings.trials):
        x = spread(draws, D)
        deviation = x - x.mean()
        sigma = deviation.square().mean().sqrt()
        J = autograd(f, x)
        jacobians.append(J)
        from_autograd.append(formula(x) - J)
        from_differences.append(formula(x) - differences(f, x))
        shift.append(J.sum(dim=1))
        scale.append(J @ deviation)
        v = draws.normal(D)
        v = v - v.mean() - (v @ deviation) / deviation.square().sum() * deviation
        kept.append(sigma * (J @ v) - v)
        a = draws.between(0.5, 4)
        scaled.append(autograd(f, a * x) - J / a)
        spectra.append(torch.linalg.svdvals((sigma * J).nan_to_num()))  # a NaN fails by the differences above
    narrow, outputs = two_components(draws.dtype, f)
    tolerance = settings.tolerance(1e-12)
    figures = (
        Figure("J by formula − central differences", largest(from_differences), 0.0, settings.tolerance(1e-8, 2 / 3)),
        Figure("J by formula − autograd", largest(from_autograd), 0.0, tolerance),
        Figure("J·1", largest(shift), 0.0, tolerance),
        Figure("J·(x − mean)", largest(scale), 0.0, tolerance),
        Figure("singular values of σJ", counted(spectra, settings.tolerance(1e-10)), f"1 × {D - 2}, 0 × 2"),
        Figure("σJv − v for v orthogonal to 1 and x − mean", largest(kept), 0.0, tolerance, detail=True),
        Figure("J(ax) − J(x)/a", largest(scaled), 0.0, tolerance),
        Figure("J at d = 2", narrow, 0.0, tolerance),
        Figure("outputs at d = 2", outputs, "(1.0000, -1.0000), (-1.0000, 1.0000)", detail=True),
    )
    return Findings(
        figures,
        (
            Matrix("J by autograd, first input", rows_of(jacobians[0])),
            Matrix("Singular values of σJ, a row for each input", rows_of(torch.stack(spectra))),
        ),
        (f"d = {D} unless said. Differences and products with J: the largest absolute value over all inputs.",),
    )


def two_components(dtype: torch.dtype, f: Callable[[Tensor], Tensor]) -> tuple[float, str]:
    """The largest entry of J, and the outputs, for x = (3, 1) and x = (1, 3)."""
    inputs = [torch.tensor(pair, dtype=dtype) for pair in ([3.0, 1.0], [1.0, 3.0])]
    return largest(autograd(f, x) for x in inputs), ", ".join(decimals(f(x)) for x in inputs)


def differences(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The Jacobian by central differences, at the step where truncation and rounding meet: ε^(1/3)."""
    step = torch.finfo(x.dtype).eps ** (1 / 3)
    columns = [(f(x + h) - f(x - h)) / (2 * step) for h in step * torch.eye(len(x), dtype=x.dtype)]
    return torch.stack(columns, dim=1)


def counted(spectra: list[Tensor], near: float) -> str:
    """How many singular values are 1 and 0, and how many neither; each differing count once."""
    said = []
    for values in spectra:
        ones, zeros = int((values - 1).abs().le(near).sum()), int(values.abs().le(near).sum())
        other = len(values) - ones - zeros
        said.append(f"1 × {ones}, 0 × {zeros}" + f", neither × {other}" * bool(other))
    return "; ".join(dict.fromkeys(said))


def plain(norm: Norm) -> Callable[[Tensor], Tensor]:
    """The norm with γ = 1 and β = 0."""
    return lambda x: norm(x, torch.ones_like(x), torch.zeros_like(x))


def spread(draws: Draws, d: int) -> Tensor:
    """A random vector whose σ is at least 1/2, so that rounding is not magnified."""
    x = draws.normal(d)
    deviation = x - x.mean()
    sigma = deviation.square().mean().sqrt()
    return x if sigma >= 0.5 else x.mean() + deviation / sigma


def decimals(vector: Tensor) -> str:
    """A vector with four decimals, as the sources print it; no zero has a sign."""
    return f"({', '.join(f'{round(float(value), 4) + 0.0:.4f}' for value in vector)})"


def rows_of(matrix: Tensor) -> tuple[tuple[float, ...], ...]:
    """A matrix as rows of numbers."""
    return tuple(tuple(row) for row in matrix.tolist())
