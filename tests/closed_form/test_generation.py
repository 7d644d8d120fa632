"""What generation costs, against facts of the field and against the closed form of a whole pass."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tests.specs import decoder_specs
from tfinspect.closed_form import flops
from tfinspect.closed_form.generation import cache_bytes, cache_formula, step, step_formula, with_cache, without_cache
from tfinspect.presets import PRESETS
from tfinspect.spec import ModelSpec

GPT2 = PRESETS["gpt2"].spec
BATCHES = st.sampled_from((1, 3))


def test_one_token_of_gpt2_small_through_the_cache() -> None:
    # 12·(12·768² + 2·t·768) + 768·50257 for one position that attends to t keys.
    assert step(GPT2, queries=1, keys=1) == 123_550_464
    assert step(GPT2, queries=1, keys=1_024) == 142_406_400


def test_1024_tokens_through_the_cache_cost_the_causal_half_of_one_pass() -> None:
    # The sum of the line above over t = 1 … 1024.
    assert sum(with_cache(GPT2, prompt_len=1, n_new=1_024)) == 136_169_914_368


def test_the_cache_of_gpt2_small_at_full_context_has_72_mib() -> None:
    # Keys and values: 2 · 12 layers · 1,024 positions · 768 features · 4 bytes.
    assert cache_bytes(GPT2, keys=1_024) == 75_497_472 == 72 * 2**20
    assert cache_bytes(GPT2, keys=1_024, batch=8, number_bytes=2) == 4 * 75_497_472


def test_the_cache_of_a_grouped_model_is_as_small_as_its_groups() -> None:
    # Llama 3 8B: 8 heads of keys for 32 of queries; 2 · 32 layers · 8 · 8,192 · 128 · 2 bytes are 1 GiB in bfloat16.
    llama = GPT2.replace(d_model=4_096, n_layers=32, n_heads=32, n_kv_heads=8, n_ctx=8_192)
    assert cache_bytes(llama, keys=8_192, number_bytes=2) == 2**30
    assert cache_formula(llama, 2) == "2·L·B·h_kv·S·d_head·2"
    assert cache_bytes(llama.replace(n_kv_heads=32), keys=8_192, number_bytes=2) == 4 * 2**30


def test_a_step_of_each_family_in_letters() -> None:
    assert step_formula(GPT2) == "L·(4·T·d² + 2·T·d·d_ff + 2·T·S·d) + d·V"
    assert step_formula(GPT2.replace(activation="swiglu"), 2) == "B·(L·(4·T·d² + 3·T·d·d_ff + 2·T·S·d) + d·V)"
    experts = GPT2.replace(n_experts=8, n_experts_per_token=2)
    assert step_formula(experts) == "L·(4·T·d² + T·d·E + 2·k·T·d·d_expert + 2·T·S·d) + d·V"


@given(decoder_specs(), st.integers(1, 40), BATCHES)
def test_from_one_token_the_steps_with_a_cache_add_up_to_the_causal_half(
    spec: ModelSpec, n_new: int, batch: int
) -> None:
    spec = spec.replace(window=0, global_every=0)  # a cache of this core holds all keys, and a step attends to them
    steps = with_cache(spec, prompt_len=1, n_new=n_new, batch=batch)
    assert sum(steps) == flops.multiplications(spec, seq_len=n_new, batch=batch, causal="half")


@given(decoder_specs(), st.integers(1, 40), st.integers(1, 20), BATCHES)
def test_a_step_without_a_cache_is_a_whole_pass_with_one_row_of_logits(
    spec: ModelSpec, prompt_len: int, n_new: int, batch: int
) -> None:
    steps = without_cache(spec, prompt_len=prompt_len, n_new=n_new, batch=batch)
    assert list(steps) == [
        flops.multiplications(spec, seq_len=prompt_len + past, batch=batch, head="last") for past in range(n_new)
    ]


@given(decoder_specs(), st.integers(1, 40), st.integers(2, 20), BATCHES)
def test_the_cache_saves_from_the_second_step_on(spec: ModelSpec, prompt_len: int, n_new: int, batch: int) -> None:
    kept = with_cache(spec, prompt_len=prompt_len, n_new=n_new, batch=batch)
    again = without_cache(spec, prompt_len=prompt_len, n_new=n_new, batch=batch)
    assert kept[0] == again[0]
    assert all(few < many for few, many in zip(kept[1:], again[1:], strict=True))
    # each later step has one position more to attend to, in two products of every layer
    assert {b - a for a, b in itertools.pairwise(kept[1:])} <= {batch * spec.n_layers * 2 * spec.d_attn}
