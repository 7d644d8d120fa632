"""One training step: closed forms, hand-made figures and the real step agree, and a figure that is off is seen."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.specs import decoder_specs
from tfinspect.closed_form import train_step as closed_form
from tfinspect.inspectors.train_step import agreements, train_step
from tfinspect.measured import train_step as measured
from tfinspect.presets import PRESETS
from tfinspect.results.train_step import Held, Optimizer
from tfinspect.spec import ModelSpec

GPT2 = PRESETS["gpt2"].spec
TINY = PRESETS["tiny-568"].spec
IDS = [[3, 1, 4, 1, 5, 9]]
SGD = Optimizer("sgd", 1e-3)
ADAMW = Optimizer("adamw", 1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01)


@st.composite
def steps(draw: st.DrawFn) -> tuple[ModelSpec, list[list[int]], dict[str, Any]]:
    spec = draw(decoder_specs()).replace(dropout=draw(st.sampled_from((0.0, 0.0, 0.25))))
    rows = draw(st.lists(st.lists(st.integers(0, spec.vocab_size - 1), min_size=2, max_size=7), min_size=1, max_size=3))
    optimizer = draw(
        st.sampled_from(({"optimizer": "adamw"}, {"optimizer": "sgd"}, {"optimizer": "sgd", "momentum": 0.9}))
    )
    return spec, rows, optimizer


@settings(max_examples=80)
@given(steps(), st.integers(0, 2**32))
def test_each_figure_of_a_step_agrees(step: tuple[ModelSpec, list[list[int]], dict[str, Any]], seed: int) -> None:
    spec, rows, optimizer = step
    report = train_step(spec, ids=rows, pad=True, seed=seed, **optimizer)
    assert [a for a in report.agreements if a.verdict != "agree"] == []
    names = [a.quantity for a in report.agreements]
    assert len(names) == len(set(names)) >= 13


FEATURES: dict[str, dict[str, Any]] = {
    "gpt2": {},
    "post": {"placement": "post"},
    "sandwich": {"placement": "sandwich"},
    "parallel": {"placement": "parallel"},
    "one norm": {"placement": "parallel_one_norm"},
    "rms norm": {"norm": "rmsnorm"},
    "sandwich of rms norms": {"norm": "rmsnorm", "placement": "sandwich"},
    "gated": {"activation": "swiglu"},
    "relu": {"activation": "relu"},
    "shared key heads": {"n_kv_heads": 1},
    "wide heads": {"d_head": 6},
    "qk norm": {"qk_norm": True},
    "qk rms norm of shared key heads": {"qk_norm": True, "norm": "rmsnorm", "n_kv_heads": 1},
    "rope": {"positions": "rope"},
    "partial rope": {"positions": "rope", "d_head": 6, "rope_dim": 2},
    "relative bias": {"positions": "relative", "n_buckets": 8, "max_distance": 20},
    "alibi": {"positions": "alibi"},
    "window": {"window": 2},
    "embedding norm and scale": {"embed_norm": True, "embed_scale": True},
    "dropout": {"dropout": 0.25},
    "experts": {"n_experts": 3, "n_experts_per_token": 2, "n_shared_experts": 2, "n_dense_layers": 1},
}
#: Those that make nothing of another size: a mask is a constant, and a sum has the size of its norm.
AS_MUCH = ("gpt2", "post", "alibi", "window", "shared key heads")


@pytest.mark.parametrize("feature", FEATURES)
def test_what_is_kept_for_backward_is_known_for_each_feature(feature: str) -> None:
    spec = TINY.replace(**FEATURES[feature])
    report = train_step(spec, ids=[[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
    told = {a.quantity: a for a in report.agreements}
    assert {a.verdict for a in told.values()} == {"agree"}
    assert "bytes kept for backward" in told
    # A router that leaves an expert without a row leaves it without tensors; nothing is claimed of their number.
    assert ("tensors kept for backward" in told) == (feature != "experts") == (report.n_kept_tensors is not None)
    as_much = sum(term.n_bytes for term in report.kept) == sum(t.n_bytes for t in closed_form.kept(TINY, 2, 6))
    assert as_much == (feature in AS_MUCH)


def test_the_bytes_of_gpt2_small() -> None:
    # 124,439,808 parameters (chapter A, 5.3) of 4 bytes; AdamW: two moments, and a counter for each of 196 tensors
    # (12 blocks of 16, E, P, and the final norm's two).
    assert closed_form.gradient_bytes(GPT2) == 4 * 124_439_808
    assert closed_form.state_bytes(GPT2, ADAMW) == 8 * 124_439_808 + 4 * 196
    assert closed_form.state_bytes(GPT2, SGD) == 0
    assert closed_form.state_bytes(GPT2, dataclasses.replace(SGD, momentum=0.9)) == 4 * 124_439_808


def test_attention_weights_are_what_grows_with_the_square_of_n() -> None:
    once, twice = (closed_form.kept(GPT2, 1, n) for n in (512, 1_024))
    factors = {a.title: b.n_bytes / a.n_bytes for a, b in zip(once, twice, strict=True)}
    assert factors.pop("attention weights") == 4
    assert factors.pop("number of predictions") == 1
    assert all(2 <= factor < 2.01 for factor in factors.values())
    assert next(t for t in twice if t.title == "attention weights").n_bytes == 12 * 12 * 1_024**2 * 4


#: A change of one measured figure, and the claim that it refutes.
WRONG = (
    (lambda ran: {"stages": (_other_parameters(ran.stages[0]), *ran.stages[1:])}, "leave every parameter"),
    (lambda ran: {"stages": (*ran.stages[:-1], _other_parameters(ran.stages[-1]))}, "leave every parameter"),
    (lambda ran: {"stages": _at(ran, "step", gradients_sha256="0" * 64)}, "steps that change a gradient"),
    (lambda ran: {"uncleared": 1}, "after zero_grad"),
    (lambda ran: {"losses": dataclasses.replace(ran.losses, n_predictions=6)}, "predictions"),
    (lambda ran: {"losses": dataclasses.replace(ran.losses, from_logits=ran.losses.from_probabilities)}, "loss"),
    (lambda ran: {"losses": dataclasses.replace(ran.losses, from_logits=math.nan)}, "loss"),
    (lambda ran: {"stages": _at(ran, "loss", kept=Held(39, 4_372))}, "tensors kept for backward"),
    (lambda ran: {"stages": _at(ran, "loss", kept=Held(38, 4_376))}, "bytes kept for backward"),
    (lambda ran: {"stages": _at(ran, "backward", kept=Held(1, 4))}, "bytes kept after backward"),
    (lambda ran: {"gradients": (_gradient(ran.gradients[0], shape=(4, 10)), *ran.gradients[1:])}, "name and shape"),
    (lambda ran: {"stages": _at(ran, "backward", gradients=Held(36, 2_268))}, "bytes of the gradients"),
    (lambda ran: {"doubling": 0.01}, "gradients add up"),
    (lambda ran: {"doubling": math.nan}, "gradients add up"),
    (lambda ran: {"tied": dataclasses.replace(ran.tied, difference=0.01)}, "∂L/∂E_in"),
    (lambda ran: {"updates": (dataclasses.replace(ran.updates[0], deviation=1e-5), *ran.updates[1:])}, "its formula"),
    (lambda ran: {"updates": (dataclasses.replace(ran.updates[0], elements=41), *ran.updates[1:])}, "parameters"),
    (lambda ran: {"stages": (*ran.stages[:-1], _with(ran.stages[-1], state=Held(108, 0)))}, "bytes of adamw state"),
    (lambda ran: {"gradients": tuple(_named(ran, "embed.positions.weight", rows=6))}, "rows of P"),
    (lambda ran: {"gradients": tuple(_named(ran, "final_norm.weight", norm=0.0))}, "final layer norms"),
    (lambda ran: {"gradients": tuple(_named(ran, "blocks.1.", norm=0.0))}, "blocks that a gradient reaches"),
    (
        lambda ran: {"tied": dataclasses.replace(ran.tied, look_up=dataclasses.replace(ran.tied.look_up, rows=5))},
        "rows of E",
    ),
)


@pytest.mark.parametrize(("change", "claim"), WRONG, ids=[f"{n}: {claim}" for n, (_, claim) in enumerate(WRONG)])
def test_a_figure_that_is_off_refutes_its_claim_and_no_other(change: Any, claim: str) -> None:
    report = train_step(TINY, ids=IDS)
    ran = measured.train_step(TINY, IDS, lengths=[6], optimizer=report.optimizer)
    assert {a.verdict for a in agreements(report, ran, [6])} == {"agree"}
    wrong = dataclasses.replace(ran, **change(ran))
    gradients = tuple(
        dataclasses.replace(g, norm=w.norm) for g, w in zip(report.gradients, wrong.gradients, strict=True)
    )
    told = agreements(dataclasses.replace(report, gradients=gradients), wrong, [6])
    (refuted,) = [a for a in told if a.verdict != "agree"]
    assert claim in refuted.quantity


def test_every_claim_is_refuted_by_some_figure() -> None:
    claims = {claim for _, claim in WRONG}
    for agreement in train_step(TINY, ids=IDS).agreements:
        assert any(claim in agreement.quantity for claim in claims), agreement.quantity


def _with(stage: Any, **changes: Any) -> Any:
    return dataclasses.replace(stage, **changes)


def _other_parameters(stage: Any) -> Any:
    return _with(stage, parameters_sha256="0" * 64)


def _at(ran: Any, name: str, **changes: Any) -> tuple[Any, ...]:
    return tuple(_with(stage, **changes) if stage.name == name else stage for stage in ran.stages)


def _gradient(gradient: Any, **changes: Any) -> Any:
    return dataclasses.replace(gradient, **changes)


def _named(ran: Any, name: str, **changes: Any) -> Any:
    return (_gradient(g, **changes) if g.name.startswith(name) else g for g in ran.gradients)
