"""Models side by side."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.specs import specs
from tfinspect.errors import CheckFailed
from tfinspect.inspectors.compare import checked, compare, require
from tfinspect.inspectors.flops import flops
from tfinspect.inspectors.params import params
from tfinspect.presets import PRESETS
from tfinspect.spec import ModelSpec


@given(specs(), specs(), st.integers(1, 7))
@settings(max_examples=60, deadline=None)
def test_each_figure_is_the_one_that_the_model_has_alone(left: ModelSpec, right: ModelSpec, n: int) -> None:
    report = compare([left, right], seq_len=n)
    require(report)
    for spec, model in zip((left, right), report.models, strict=True):
        assert model.params.total == params(spec, check=False).total
        assert model.forward == flops(spec, seq_len=n, check=False).multiplications
        assert sum(layer.copies for layer in model.layers) == spec.n_layers + spec.n_encoder_layers
        assert sum(layer.copies * layer.params for layer in model.layers) <= model.params.total
    differing = {name for name, value in left.to_dict().items() if right.to_dict()[name] != value} - {"bias"}
    assert set(report.differing) == differing
    structure = report.tables()[0]
    assert len(structure.rows) == max(1, len(differing))


def test_models_of_one_name_are_told_apart_by_their_places() -> None:
    small = PRESETS["gpt2"].spec.replace(n_layers=2)
    report = compare([small, PRESETS["gpt2"], small.replace(n_layers=3)], seq_len=2)
    assert [model.name for model in report.models] == ["custom (1)", "gpt2", "custom (3)"]
    assert len({agreement.quantity for agreement in report.agreements}) == len(report.agreements)


def test_a_model_is_like_itself() -> None:
    report = compare([PRESETS["gpt2"], PRESETS["gpt2"]], check=False)
    assert report.differing == ()
    assert report.tables()[0].rows[0].cells["what"] == "nothing: the specs are the same"


def test_the_default_n_is_the_shortest_context() -> None:
    report = compare([PRESETS["gpt2"], PRESETS["gpt1"]], check=False)
    assert (report.seq_len, report.seq_len_is_shortest) == (512, True)


def test_a_figure_that_differs_fails() -> None:
    report = compare([PRESETS["tiny-568"], PRESETS["gpt1"]], seq_len=3, check=False)
    first = dataclasses.replace(report.models[0], forward=report.models[0].forward + 1)
    wrong = checked(dataclasses.replace(report, models=(first, report.models[1])))
    with pytest.raises(CheckFailed, match="tiny-568: FLOPs of the forward pass"):
        require(wrong)
