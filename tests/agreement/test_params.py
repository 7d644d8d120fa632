"""Two counts of parameters: the ledger, and the torch model's own tensors."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from tests.specs import specs
from tfinspect.cli.app import main
from tfinspect.closed_form import params as closed_form
from tfinspect.closed_form.formula import letters, value
from tfinspect.errors import CheckFailed, InputError
from tfinspect.inspectors import params as inspector
from tfinspect.inspectors.params import checked, params, require
from tfinspect.measured.params import count
from tfinspect.presets import PRESETS
from tfinspect.results.params import ParamTensor, ParamTerm
from tfinspect.spec import ModelSpec


@given(specs())
@settings(max_examples=500, deadline=None)
def test_closed_form_and_torch_agree(spec: ModelSpec) -> None:
    report = params(spec, per_tensor=True)
    assert [agreement.verdict for agreement in report.agreements] == ["agree"] * (1 + len(report.by_component) + 1)
    measured = count(spec)
    assert report.tensors is not None
    assert [(t.name, t.shape, t.params) for t in report.tensors] == list(measured.tensors)
    ties = [(alias, t.name) for t in report.tensors if t.alias for alias in t.alias.split(" = ")]
    assert ties == list(measured.ties)


@pytest.mark.parametrize("name", PRESETS)
def test_they_agree_on_every_preset(name: str) -> None:
    require(params(PRESETS[name].spec))


@given(specs())
def test_every_way_to_sum_gives_the_total(spec: ModelSpec) -> None:
    report = params(spec, check=False, per_tensor=True)
    assert report.tensors is not None
    n_tensors = closed_form.n_tensors(spec)
    assert sum(report.by_component.values()) == report.total
    assert (sum(t.params for t in report.tensors), len(report.tensors)) == (report.total, n_tensors)
    outside = sum(term.params for term in report.terms if not term.per_block)
    assert outside + sum(kind.copies * kind.params for kind in report.blocks) == report.total
    assert sum(kind.copies for kind in report.blocks) == spec.n_layers + spec.n_encoder_layers


@given(specs())
def test_each_formula_is_worth_the_figure_beside_it(spec: ModelSpec) -> None:
    report, bound = params(spec, check=False), letters(spec)
    assert value(report.model_formula, bound) == report.total
    for kind in report.blocks:
        assert value(kind.formula, bound) == kind.params
        assert value(kind.letter, bound) == kind.copies
        assert sum(term.each for term in report.terms if term.block == kind.title) == kind.params
    for component, figure in report.by_component.items():
        assert value(report.formula(component) or "0", bound) == figure
    for named in report.other_counts:
        assert value(named.formula, bound) == named.params


@given(specs())
def test_shares_sum_to_one_and_what_is_shown_changes_no_total(spec: ModelSpec) -> None:
    brief, full = params(spec, check=False), params(spec, check=False, per_tensor=True)
    shares = [component["share"] for component in brief.to_dict()["components"]]
    assert sum(shares) == pytest.approx(1, abs=1e-12)
    printed = [row.cells["share"] for row in full.tables()[0].rows]
    assert [*shares, 1.0] == printed
    assert brief.to_dict() == {**full.to_dict(), "tensors": None}
    json.dumps(full.to_dict(), allow_nan=False)


def test_an_unlike_closed_form_is_reported() -> None:
    report = params(ModelSpec(), check=False)
    forgotten = dataclasses.replace(report, terms=tuple(t for t in report.terms if t.title != "MLP: their biases"))
    verdicts = {a.quantity: a.verdict for a in checked(forgotten).agreements}
    assert verdicts["parameters"] == verdicts["parameters, MLP"] == "differ"
    assert verdicts["parameters, attention"] == "agree"
    with pytest.raises(CheckFailed, match=r"closed form 124,393,728, measured 124,439,808; 1 more"):
        require(checked(forgotten))


def test_terms_that_trade_places_are_reported_although_the_total_agrees() -> None:
    report = params(ModelSpec(), check=False)
    other = {"mlp": "norms", "norms": "mlp"}
    swapped = dataclasses.replace(
        report, terms=tuple(dataclasses.replace(t, component=other.get(t.component, t.component)) for t in report.terms)
    )
    verdicts = {a.quantity: a.verdict for a in checked(swapped).agreements}
    assert verdicts["parameters"] == "agree"
    assert verdicts["parameters, MLP"] == verdicts["parameters, layer norms"] == "differ"


def test_a_transposed_matrix_is_reported_although_the_total_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    right = closed_form.tensors

    def transposed(spec: ModelSpec) -> Iterator[ParamTensor]:
        for tensor in right(spec):
            in_block = tensor.name.startswith("blocks.")
            yield dataclasses.replace(tensor, shape=tensor.shape[::-1]) if in_block else tensor

    monkeypatch.setattr(closed_form, "tensors", transposed)
    agreements = params(ModelSpec(bias=False)).agreements
    assert agreements[0].verdict == "agree"
    assert (agreements[-1].verdict, agreements[-1].closed_form, agreements[-1].measured) == ("differ", 99, 75)


def test_the_program_exits_with_1_where_the_two_differ(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = closed_form.ledger

    def wrong(spec: ModelSpec) -> tuple[ParamTerm, ...]:
        return (*right(spec), ParamTerm("head", "a bias that no model has", "1", 1))

    monkeypatch.setattr(inspector.closed_form, "ledger", wrong)
    assert main(["params", "--preset", "tiny-568"]) == 1
    out, err = capsys.readouterr()
    assert "differ" in out
    assert err.startswith("error: parameters: closed form 569, measured 568; 1 more")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (ModelSpec(n_layers=10**8), "1,600,000,004 tensors one by one"),
        (ModelSpec(vocab_size=2**31 - 1, d_model=2**31 - 1, n_heads=1), "more bytes than torch can index"),
    ],
)
def test_what_torch_cannot_build_is_said_not_to_be_measured(spec: ModelSpec, reason: str) -> None:
    (agreement,) = params(spec).agreements
    assert (agreement.verdict, agreement.failed) == ("not measured", False)
    assert reason in agreement.reason


def test_a_list_too_long_to_print_is_refused() -> None:
    with pytest.raises(InputError, match="would list 1,600,000,004 tensors"):
        params(ModelSpec(n_layers=10**8), check=False, per_tensor=True)


@pytest.mark.parametrize("expected", [-1, True, 1.0])
def test_only_a_count_can_be_expected(expected: object) -> None:
    with pytest.raises(InputError, match="--expect"):
        params(ModelSpec(), check=False, expect=expected)  # type: ignore[arg-type]
