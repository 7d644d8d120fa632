"""Generation with a cache and without it, and its work by formula and by torch's counter; each check can fail."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.model.test_transformer import in_float64
from tests.specs import decoder_specs
from tfinspect.closed_form import generation as closed_form
from tfinspect.inspectors.generate import generate
from tfinspect.measured.generation import decode, replay, work
from tfinspect.measured.operators import tally
from tfinspect.model.cache import LayerCache
from tfinspect.presets import PRESETS
from tfinspect.results.generation import Generation, Sampling
from tfinspect.spec import ModelSpec

TINY = PRESETS["tiny-568"].spec
SAMPLINGS = st.sampled_from(
    (Sampling(), Sampling(1.0), Sampling(0.7, top_k=4), Sampling(1.3, top_p=0.8), Sampling(1.0, top_k=6, top_p=0.9))
)


def prompts(spec: ModelSpec, prompt_len: int, batch: int = 2) -> Tensor:
    draws = torch.Generator().manual_seed(prompt_len)
    return torch.randint(spec.vocab_size, (batch, prompt_len), generator=draws)


@given(decoder_specs(), SAMPLINGS, st.integers(1, 5), st.integers(1, 6), st.integers(0, 3))
@settings(max_examples=60)
def test_the_decode_loop_gives_the_same_ids_and_logits_with_and_without_a_cache(
    spec: ModelSpec, sampling: Sampling, prompt_len: int, n_new: int, seed: int
) -> None:
    model, prompt = in_float64(spec, scale=3.0), prompts(spec, prompt_len)
    kept, again = (
        decode(model, prompt, n_new=n_new, sampling=sampling, seed=seed, cached=cached) for cached in (True, False)
    )
    assert torch.equal(kept.tokens, again.tokens)
    torch.testing.assert_close(kept.logits, again.logits, rtol=0, atol=1e-10)


@given(decoder_specs(), SAMPLINGS, st.booleans(), st.integers(1, 5), st.integers(1, 6))
@settings(max_examples=60)
def test_the_replay_finds_what_the_other_loop_gives(
    spec: ModelSpec, sampling: Sampling, cached: bool, prompt_len: int, n_new: int
) -> None:
    model, prompt = in_float64(spec, scale=3.0), prompts(spec, prompt_len)
    ran, other = (decode(model, prompt, n_new=n_new, sampling=sampling, seed=5, cached=c) for c in (cached, not cached))
    found = replay(ran)
    assert (found.n_choices, found.n_same, found.n_ties, found.n_allowed) == (2 * n_new, 2 * n_new, 0, 2 * n_new)
    assert found.difference == pytest.approx((ran.logits - other.logits).abs().max().item(), abs=1e-10)
    assert found.difference < 1e-10
    assert found.dtype == "float64"
    assert found.cache_bytes == 2 * spec.n_layers * 2 * (prompt_len + n_new - 1) * spec.d_kv * 8


@given(
    decoder_specs(), st.sampled_from((0.0, 1.0)), st.booleans(), st.integers(1, 4), st.integers(1, 5), st.integers(1, 2)
)
@settings(max_examples=25)
def test_every_figure_of_a_generation_agrees_for_every_spec(
    spec: ModelSpec, temperature: float, cache: bool, prompt_len: int, n_new: int, batch: int
) -> None:
    ids = prompts(spec, prompt_len, batch).tolist()
    report = generate(spec, ids=ids, max_new=n_new, temperature=temperature, cache=cache, every_step=True)
    assert [a.verdict for a in report.agreements] == ["agree"] * 6
    same, _, chosen, kept, again, held = report.agreements
    assert same.closed_form == chosen.closed_form == batch * n_new
    assert (kept.closed_form, again.closed_form) == (report.with_cache, report.without_cache)
    assert held.closed_form == closed_form.cache_bytes(spec, keys=prompt_len + n_new - 1, batch=batch)


@pytest.mark.parametrize("cached", [True, False])
def test_the_work_that_is_counted_by_shapes_is_the_work_of_the_loop(cached: bool) -> None:
    spec = TINY.replace(n_ctx=32)
    model, prompt = in_float64(spec), prompts(spec, 3)
    ran = tally(lambda: decode(model, prompt, n_new=5, sampling=Sampling(1.0, top_k=4, top_p=0.9), cached=cached))
    cost = closed_form.with_cache if cached else closed_form.without_cache
    assert ran.flops == 2 * sum(cost(spec, prompt_len=3, n_new=5, batch=2))


def test_torch_counts_one_token_of_gpt2_small_through_the_cache() -> None:
    # 12·(12·768² + 2·t·768) + 768·50257 multiplications at t keys.
    gpt2 = PRESETS["gpt2"].spec
    for keys, multiplications in ((1, 123_550_464), (1_024, 142_406_400)):
        ran = work(gpt2, [(1, keys)])
        assert (ran.flops, ran.uncounted) == (2 * multiplications, ())


def verdicts(report: Generation) -> list[str]:
    return [agreement.verdict for agreement in report.agreements]


@pytest.mark.parametrize("cache", [True, False])
def test_a_cache_that_mixes_up_its_positions_is_seen(monkeypatch: pytest.MonkeyPatch, cache: bool) -> None:
    keys = LayerCache.keys
    monkeypatch.setattr(LayerCache, "keys", lambda self, new: keys(self, new).flip(2))
    report = generate(TINY, ids=[[3, 1, 4]], max_new=5, cache=cache)
    assert verdicts(report)[1] == "differ"


def test_a_cache_of_another_size_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = LayerCache.keys

    def twice(self: LayerCache, new: Tensor) -> Tensor:
        held = keys(self, new)
        self.held_keys = held.double()
        return held.float()

    monkeypatch.setattr(LayerCache, "keys", twice)
    assert verdicts(generate(TINY, ids=[[3, 1, 4]], max_new=1))[5] == "differ"


def test_a_wrong_formula_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_form, "step_formula", lambda spec, batch=1: "L·(4·T·d² + 2·T·d·d_ff + T·S·d) + d·V")
    assert verdicts(generate(TINY, ids=[[3, 1, 4]], max_new=4))[3:5] == ["differ", "differ"]


def test_choices_that_were_not_made_are_seen() -> None:
    ran = decode(in_float64(TINY), torch.tensor([[3, 1, 4]]), n_new=4, sampling=Sampling())
    other = ran.tokens.clone()
    other[0, -1] = (other[0, -1] + 1) % 10  # the last choice feeds no later step
    found = replay(dataclasses.replace(ran, tokens=other))
    assert (found.n_choices, found.n_same, found.n_ties, found.n_allowed) == (4, 3, 0, 3)
    assert found.difference < 1e-10


def test_a_tie_may_fall_either_way_and_is_counted_as_one() -> None:
    model = in_float64(TINY)
    with torch.no_grad():
        model.head.weight.zero_()  # so that every logit is 0
    ran = decode(model, torch.tensor([[3]]), n_new=1, sampling=Sampling())
    assert ran.new_ids == [[0]]
    found = replay(dataclasses.replace(ran, tokens=torch.tensor([[3, 5]])))
    assert (found.n_same, found.n_ties, found.n_allowed) == (0, 1, 1)
