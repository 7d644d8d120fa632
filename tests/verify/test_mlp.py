"""Claims about MLPs hold, and are refuted by other activations and other lines."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.verify.broken import failing
from tfinspect.model.transformer import MLP
from tfinspect.verify import mlp
from tfinspect.verify.draws import Draws
from tfinspect.verify.propositions import PROPOSITIONS, Proposition, Settings

CLAIMS = [p for p in PROPOSITIONS if p.check.startswith("mlp:")]
SETTINGS = Settings(trials=1)
OFF = "off an affine map, any region"


def other_lines(draws: Draws) -> MLP:
    """x1 + x2 + 1 in the place of x1 + x2 − 1: now it is 110 that cannot occur."""
    made = mlp.three_lines(draws)
    with torch.no_grad():
        made.up.bias.copy_(torch.tensor([0.0, 0.0, 1.0]))
    return made


def parallel_lines(draws: Draws) -> MLP:
    """x1, x1 − 1 and x1 − 2: four regions side by side."""
    made = mlp.three_lines(draws)
    with torch.no_grad():
        made.up.weight.copy_(torch.tensor([[1.0, 0.0]] * 3))
        made.up.bias.copy_(torch.tensor([0.0, -1.0, -2.0]))
    return made


class Bent(MLP):
    """Hidden units over the square of the input: regions with curved borders."""

    def forward(self, x: Tensor, tap: object) -> Tensor:
        return super().forward(x.square(), tap)  # type: ignore[arg-type]


def curved_borders(draws: Draws) -> MLP:
    made = mlp.three_lines(draws)
    made.__class__ = Bent
    return made


def with_a_nan(draws: Draws) -> MLP:
    made = mlp.three_lines(draws)
    with torch.no_grad():
        made.down.weight.fill_(torch.nan)
    return made


@pytest.mark.parametrize("settings", [Settings(), Settings(seed=-7, trials=2), Settings(seed=2**70, dtype="float32")])
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_the_claim_holds(claim: Proposition, settings: Settings) -> None:
    found = claim.function()(settings)
    assert failing(found) == []
    assert found.outcome == "pass"


@pytest.mark.breaks("A8.1.1")
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
def test_gelu_is_affine_on_no_region(activation: mlp.Activation) -> None:
    drawn = partial(mlp.wider, activation=activation)
    found = failing(mlp.regions(SETTINGS, partial(mlp.three_lines, activation=activation), drawn))
    assert found == [OFF, "slope − W₂·D·W₁", "random MLPs, 6 units: off an affine map"]


@pytest.mark.breaks("A8.1.1")
def test_other_lines_miss_another_pattern() -> None:
    found = mlp.regions(SETTINGS, other_lines)
    assert failing(found) == ["missing"]
    assert {f.name: f.value for f in found.figures}["missing"] == "110"


@pytest.mark.breaks("A8.1.1")
def test_parallel_lines_make_four_regions() -> None:
    found = mlp.regions(SETTINGS, parallel_lines)
    assert failing(found) == ["patterns of 8", "missing"]
    assert [row[0] for row in found.matrices[0].rows] == ["000", "100", "110", "111"]


@pytest.mark.breaks("A8.1.1")
def test_curved_borders_make_regions_that_are_not_convex() -> None:
    assert "midpoints outside their region" in failing(mlp.regions(SETTINGS, curved_borders))


@pytest.mark.breaks("A8.1.1")
def test_a_nan_is_on_no_affine_map() -> None:
    assert OFF in failing(mlp.regions(SETTINGS, with_a_nan))


def test_each_point_of_the_grid_is_in_one_region() -> None:
    (matrix,) = mlp.regions(SETTINGS).matrices
    assert sum(int(row[1]) for row in matrix.rows) == 601**2


@pytest.mark.breaks("A8.1.2")
@pytest.mark.parametrize(
    ("curve", "names"),
    [
        (F.relu, {"GELU″ by autograd − (2 − t²)φ(t)", "changes of sign", "at"}),
        (partial(F.gelu, approximate="tanh"), {"GELU″ by autograd − (2 − t²)φ(t)"}),
        (F.silu, {"GELU″ by autograd − (2 − t²)φ(t)", "at"}),
        (lambda t: F.gelu(t) * torch.nan, {"GELU″ by autograd − (2 − t²)φ(t)", "changes of sign"}),
    ],
)
def test_curvature_is_refuted_by(curve: mlp.Curve, names: set[str]) -> None:
    assert names <= set(failing(mlp.curvature(SETTINGS, curve)))


@pytest.mark.breaks("A8.1.2")
def test_relu_is_flat_on_an_interval() -> None:
    assert any(name.startswith("smallest |GELU″|") for name in failing(mlp.curvature(SETTINGS, F.relu)))


@pytest.mark.breaks("A8.1.2")
def test_the_tanh_form_is_told_apart_in_float32() -> None:
    rough = Settings(dtype="float32")
    assert "GELU″ by autograd − (2 − t²)φ(t)" in failing(mlp.curvature(rough, partial(F.gelu, approximate="tanh")))
