"""Claims about layer norm hold, and are refuted by norms that are wrong in one way each."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from tests.verify.broken import failing
from tfinspect.verify import layer_norm
from tfinspect.verify.propositions import PROPOSITIONS, Proposition, Settings

CLAIMS = [p for p in PROPOSITIONS if p.check.startswith("layer_norm:")]
SETTINGS = Settings(trials=2)


def scaled(x: Tensor, sigma: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    return gain * x / sigma + shift


def centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def unbiased(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    """Divides by d − 1, as torch.std does unless told otherwise."""
    return scaled(centred(x), x.std(-1, keepdim=True), gain, shift)


def root_mean_square(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    """RMSNorm: the mean stays."""
    return scaled(x, x.square().mean(-1, keepdim=True).sqrt(), gain, shift)


def with_epsilon(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    """GPT-2's epsilon in the place of 0."""
    return torch.nn.functional.layer_norm(x, x.shape[-1:], gain, shift, 1e-5)


def undivided(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    return scaled(centred(x), torch.ones(()), gain, shift)


def shift_before_gain(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    return gain * (layer_norm.core(x, torch.ones_like(x), torch.zeros_like(x)) + shift)


def not_a_number(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    return x * torch.nan


@pytest.mark.parametrize("settings", [Settings(seed=s, dtype=t, trials=n) for s, t, n in (
    (0, "float64", 5), (1, "float64", 20), (-7, "float64", 1), (0, "float32", 5), (2**70, "float32", 20),
)])  # fmt: skip
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_the_claim_holds(claim: Proposition, settings: Settings) -> None:
    found = claim.function()(settings)
    assert failing(found) == []
    assert found.outcome == "pass"


@pytest.mark.breaks("A3.1.1", "A11.2")
def test_a_norm_that_keeps_the_mean_is_moved_by_a_shift() -> None:
    assert "largest |LN(ax + b1) − LN(x)|" in failing(layer_norm.invariance(SETTINGS, root_mean_square))
    assert "largest |LN(2.5x − 7) − LN(x)|, any γ and β" in failing(
        layer_norm.gain_and_shift(SETTINGS, root_mean_square)
    )


@pytest.mark.breaks("A3.1.1")
@pytest.mark.parametrize("norm", [with_epsilon, undivided, not_a_number])
def test_invariance_is_refuted_by(norm: layer_norm.Norm) -> None:
    assert "largest |LN(ax + b1) − LN(x)|" in failing(layer_norm.invariance(SETTINGS, norm))


@pytest.mark.breaks("A3.1.1")
def test_another_norm_than_the_definition_is_seen_beside_it() -> None:
    """Dividing by d − 1 keeps the invariance; only the second path tells."""
    assert failing(layer_norm.invariance(SETTINGS, unbiased)) == ["largest |torch core − NumPy by definition|"]


@pytest.mark.breaks("A3.1.2")
def test_an_unbiased_variance_shortens_the_output() -> None:
    assert failing(layer_norm.moments(SETTINGS, unbiased)) == ["largest |variance − 1|", "largest |norm − √d|"]


@pytest.mark.breaks("A3.1.2")
def test_a_norm_that_keeps_the_mean_has_the_length_but_not_the_moments() -> None:
    found = failing(layer_norm.moments(SETTINGS, root_mean_square))
    assert found == ["largest |mean|", "largest |variance − 1|"]


@pytest.mark.breaks("A3.2")
@pytest.mark.parametrize("norm", [unbiased, root_mean_square, undivided, not_a_number])
def test_the_worked_example_is_refuted_by(norm: layer_norm.Norm) -> None:
    assert "LN(x)" in failing(layer_norm.example(SETTINGS, norm))


def test_the_worked_example_has_the_figures_of_the_sources() -> None:
    # Chapter A, example 3.2.
    figures = {f.name: f.value for f in layer_norm.example(SETTINGS).figures}
    assert figures["LN(x)"] == "(-1.0690, -0.5345, 0.0000, 1.6036)"
    assert figures["σ of x"] == pytest.approx(3.5**0.5)
    assert figures["variance of 3x + 5"] == pytest.approx(9 * 3.5)
    assert figures["norm"] == pytest.approx(2)


@pytest.mark.breaks("A11.2")
@pytest.mark.parametrize("norm", [unbiased, root_mean_square, shift_before_gain, not_a_number])
def test_gain_and_shift_are_refuted_by(norm: layer_norm.Norm) -> None:
    assert failing(layer_norm.gain_and_shift(SETTINGS, norm)) != []


@pytest.mark.breaks("A3.3")
@pytest.mark.parametrize(
    ("norm", "names"),
    [
        (unbiased, {"J by formula − autograd", "J by formula − central differences", "singular values of σJ"}),
        (root_mean_square, {"J by formula − autograd", "J·1", "singular values of σJ", "J at d = 2"}),
        (with_epsilon, {"J by formula − autograd", "J·(x − mean)", "J(ax) − J(x)/a", "J at d = 2"}),
        (not_a_number, {"J by formula − autograd", "J·1", "J at d = 2", "outputs at d = 2"}),
    ],
)
def test_the_jacobian_is_refuted_by(norm: layer_norm.Norm, names: set[str]) -> None:
    assert names <= set(failing(layer_norm.jacobian(SETTINGS, norm)))


@pytest.mark.breaks("A3.3")
def test_a_formula_without_its_last_term_is_refuted_by_both_other_ways() -> None:
    def mean_only(x: Tensor) -> Tensor:
        return (torch.eye(len(x), dtype=x.dtype) - 1 / len(x)) / x.std(correction=0)

    found = failing(layer_norm.jacobian(SETTINGS, formula=mean_only))
    assert found == ["J by formula − central differences", "J by formula − autograd"]


@pytest.mark.breaks("A3.1.2", "A3.2", "A3.3", "A11.2")
def test_a_wrong_norm_is_refuted_in_float32_too() -> None:
    rough = dataclasses.replace(SETTINGS, dtype="float32")
    for check in (layer_norm.moments, layer_norm.example, layer_norm.gain_and_shift, layer_norm.jacobian):
        assert failing(check(rough, unbiased)) != []


def test_each_input_shows_its_singular_values() -> None:
    jacobian, spectra = layer_norm.jacobian(Settings(trials=3)).matrices
    assert len(jacobian.rows) == 6
    assert [len(row) for row in spectra.rows] == [6] * 3
    for row in spectra.rows:
        assert row == pytest.approx([1, 1, 1, 1, 0, 0], abs=1e-12)
