"""Claims about parameters and multiplications hold for the models they name, and fail for others."""

from __future__ import annotations

import dataclasses

import pytest

from tests.verify.broken import failing
from tfinspect.measured import flops
from tfinspect.measured.flops import Measurement
from tfinspect.model.build import build
from tfinspect.model.transformer import Transformer
from tfinspect.presets import PRESETS
from tfinspect.spec import ModelSpec
from tfinspect.verify import counts
from tfinspect.verify.propositions import Settings

SETTINGS = Settings()
GPT2 = PRESETS["gpt2"].spec


def with_other_head(spec: ModelSpec) -> Transformer:
    return build(spec.replace(tied_head=not spec.tied_head), device="meta")


def without_biases(spec: ModelSpec) -> Transformer:
    return build(spec.replace(bias=False), device="meta")


def without_final_norm(spec: ModelSpec) -> Transformer:
    return build(spec.replace(final_norm=False), device="meta")


def narrow_mlp(spec: ModelSpec, **how: object) -> Measurement:
    return flops.count(spec.replace(d_ff=2 * spec.d_model), **how)  # type: ignore[arg-type]


def blind_to_attention(spec: ModelSpec, **how: object) -> Measurement:
    """A counter that has no formula for attention, as torch's own has none for its fused kernel on the CPU."""
    counted = flops.count(spec, **how)  # type: ignore[arg-type]
    return dataclasses.replace(counted, by_component={**counted.by_component, "scores": 0, "mix": 0})


@pytest.mark.breaks("A5.1")
@pytest.mark.parametrize("model", [with_other_head, without_biases, without_final_norm])
def test_the_formula_is_not_that_of_another_model(model: counts.Build) -> None:
    assert len(failing(counts.formula(SETTINGS, model))) >= 4


def test_the_formula_is_tried_on_as_many_specs_as_asked_for() -> None:
    found = counts.formula(Settings(trials=40, seed=9))
    assert found.outcome == "pass"
    assert all("of 40 specs" in figure.name for figure in found.figures[:4])


@pytest.mark.breaks("A5.2", "A5.3", "A5.4", "A11.1", "B15.7")
@pytest.mark.parametrize(
    ("check", "spec", "wrong"),
    [
        (counts.worked_example, PRESETS["tiny-568"].spec.replace(d_ff=15), "MLP of a block"),
        (counts.worked_example, PRESETS["tiny-568"].spec.replace(tied_head=False), "model"),
        (counts.gpt2_small, GPT2.replace(n_layers=11), "all blocks"),
        (counts.gpt2_small, GPT2.replace(positions="rope"), "position table"),
        (counts.exercise, PRESETS["tiny-272256"].spec.replace(vocab_size=1_001), "token table"),
        (counts.by_component, GPT2.replace(d_ff=2_048), "MLP, %"),
        (counts.published, GPT2.replace(vocab_size=40_570), "in millions"),  # 117.0 million parameters
    ],
)
def test_counts_of_another_model_fail(check: counts.Check, spec: ModelSpec, wrong: str) -> None:
    assert wrong in failing(check(SETTINGS, spec=spec))


@pytest.mark.breaks("B15.7")
@pytest.mark.parametrize(
    ("model", "wrong"),
    [(with_other_head, "output head"), (without_final_norm, "layer norms"), (without_biases, "millions")],
)
def test_components_of_a_model_built_otherwise_fail(model: counts.Build, wrong: str) -> None:
    assert wrong in failing(counts.by_component(SETTINGS, model=model))


@pytest.mark.breaks("A5.3")
def test_a_ledger_that_counts_another_model_is_seen() -> None:
    assert "closed form" not in failing(counts.gpt2_small(SETTINGS, model=without_biases))
    assert "closed form" in failing(counts.gpt2_small(SETTINGS, spec=GPT2.replace(bias=False)))


@pytest.mark.breaks("A6.1")
@pytest.mark.parametrize(
    ("count", "wrong"), [(narrow_mlp, "linear part at n = 1,024"), (blind_to_attention, "quadratic part")]
)
def test_work_counted_otherwise_fails(count: counts.Count, wrong: str) -> None:
    assert wrong in failing(counts.work(SETTINGS, count=count))


@pytest.mark.breaks("A11.4")
@pytest.mark.parametrize("count", [narrow_mlp, blind_to_attention])
def test_work_that_grows_otherwise_fails(count: counts.Count) -> None:
    assert "n = 6d: T(2n)/T(n)" in failing(counts.doubling(SETTINGS, count=count))
