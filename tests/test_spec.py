"""What a spec accepts, what it refuses and in which words, and what is derived where a user leaves something out."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.specs import invalid_fields, specs
from tfinspect.errors import InputError
from tfinspect.presets import PRESETS, preset
from tfinspect.sources.resolve import resolve
from tfinspect.spec import ModelSpec, derive


def test_the_default_is_gpt2_small() -> None:
    # openai/gpt-2, hparams.json of the 124M model
    spec = ModelSpec()
    assert (spec.vocab_size, spec.n_ctx, spec.d_model, spec.n_heads, spec.n_layers) == (50_257, 1_024, 768, 12, 12)
    assert (spec.d_ff, spec.d_head) == (3_072, 64)
    assert preset("gpt2").spec == spec


@given(specs())
def test_a_spec_is_what_it_was_made_of(spec: ModelSpec) -> None:
    assert ModelSpec(**spec.to_dict()) == spec
    assert spec.replace() == spec
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.d_model = 1  # type: ignore[misc]


@given(specs())
def test_generated_sizes_differ(spec: ModelSpec) -> None:
    assert len({spec.vocab_size, spec.n_ctx, spec.d_model, spec.d_ff}) == 4
    assert spec.summary().count(";") == 1


@given(invalid_fields())
def test_one_invalid_field_is_refused_in_one_line(field: tuple[str, Any]) -> None:
    name, value = field
    with pytest.raises(InputError) as refused:
        ModelSpec(**{name: value})
    assert name.removeprefix("n_") in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1 or isinstance(value, str)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("width", "heads", "remainder", "near"),
    [
        (1_600, 48, 16, "40 or 50"),  # 1600 mod 48 = 16; 40 and 50 divide
        (770, 12, 2, "11 or 14"),
    ],
)
def test_heads_that_do_not_divide_name_the_remainder_and_the_nearest_divisors(
    width: int, heads: int, remainder: int, near: str
) -> None:
    with pytest.raises(InputError, match=rf"{width} mod {heads} = {remainder}") as refused:
        ModelSpec(d_model=width, n_heads=heads)
    assert near in refused.value.hint


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"positions": "rope", "d_model": 9, "n_heads": 3}, "d_head = 9/3 = 3 is odd"),
        ({"positions": "sinusoidal", "d_model": 9, "n_heads": 3}, "d_model = 9 is odd"),
    ],
)
def test_positions_in_pairs_need_an_even_width(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        ModelSpec(**fields)
    assert words in str(refused.value)


def test_a_width_alone_keeps_the_ratio_of_the_mlp_and_the_width_of_a_head() -> None:
    spec, rules = derive(ModelSpec(), {"d_model": 1_024})
    assert (spec.d_ff, spec.n_heads) == (4_096, 16)
    assert rules == ("d_ff = 4·d = 4096", "heads = d/64 = 16")


def test_a_width_that_64_does_not_divide_keeps_the_number_of_heads() -> None:
    spec, rules = derive(ModelSpec(), {"d_model": 780})
    assert (spec.n_heads, spec.d_ff) == (12, 3_120)
    assert "heads = 12 (d/64 is not whole)" in rules


def test_a_derived_width_that_is_too_large_is_not_blamed_on_the_user() -> None:
    with pytest.raises(InputError, match="the d_ff that follows from --d 600000000 is 2400000000") as refused:
        derive(ModelSpec(), {"d_model": 600_000_000})
    assert refused.value.hint == "give --d-ff, or a smaller --d"
    assert derive(ModelSpec(), {"d_model": 600_000_000, "d_ff": 1})[0].d_ff == 1


@pytest.mark.parametrize("value", [10**400, -(10**400), float("inf"), float("nan"), "1e-5", True, None])
def test_an_epsilon_is_a_finite_number(value: Any) -> None:
    with pytest.raises(InputError, match=r"norm_eps \(--eps\) must be at least 0 and below 1,000,000") as refused:
        ModelSpec(norm_eps=value)
    assert len(str(refused.value)) < 120


def test_no_rule_no_heads() -> None:
    with pytest.raises(InputError, match="no number of heads follows from --d 770"):
        derive(ModelSpec(), {"d_model": 770})


@given(specs(), st.data())
def test_what_a_user_gives_is_what_the_spec_has(spec: ModelSpec, data: st.DataObject) -> None:
    fields = {name: value for name, value in dataclasses.asdict(spec).items() if name not in ("norm_eps", "dropout")}
    made, rules = derive(ModelSpec(), fields)
    assert made == spec
    assert rules == ()


def test_a_spec_that_equals_a_preset_is_that_preset() -> None:
    source = resolve(d_model=1_024, n_layers=24)
    assert (source.name, source.spec) == ("gpt2-medium", PRESETS["gpt2-medium"].spec)
    assert source.derived == ("d_ff = 4·d = 4096", "heads = d/64 = 16")
    assert resolve("gpt2", d_model=768, n_layers=12).name == "gpt2"
    assert resolve(tied_head=False).name == "custom"


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean gpt2-xl"):
        preset("gpt2-xxl")


@pytest.mark.parametrize(
    ("name", "given_fields"),
    [
        ("mixtral-8x7b", {"n_experts": 0}),
        ("gemma2-2b", {"window": 0}),
        ("opt-125m", {"positions": "rope"}),
        ("bert-base", {"architecture": "decoder"}),
        ("bert-base", {"head": "none", "pooler": True}),
    ],
)
def test_what_hangs_on_a_feature_goes_with_it(name: str, given_fields: dict[str, Any]) -> None:
    spec, _ = derive(PRESETS[name].spec, given_fields)
    assert {field: getattr(spec, field) for field in given_fields} == given_fields


@given(st.integers(0, 30), st.integers(1, 30), st.integers(0, 7))
def test_windowed_blocks_are_counted_as_they_are_listed(first: int, n: int, every: int) -> None:
    spec = ModelSpec(window=5, global_every=every)
    layers = range(first, first + n)
    assert spec.n_windowed(layers) == sum(spec.window_of(layer) > 0 for layer in layers)


@pytest.mark.parametrize("value", [0, 0.5, -1, float("inf"), "10000"])
def test_angles_have_a_base_of_at_least_1(value: Any) -> None:
    with pytest.raises(InputError, match=r"rope_base \(--rope-base\) must be finite and at least 1"):
        ModelSpec(rope_base=value)
