"""The work and the shapes of every family, as they run: by hand for each part, and over generated specs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from tests.specs import specs
from tfinspect.errors import InputError
from tfinspect.measured import flops as measured
from tfinspect.measured import shapes
from tfinspect.model.build import build
from tfinspect.presets import PRESETS
from tfinspect.spec import ModelSpec

SMALL: dict[str, Any] = {
    "vocab_size": 17, "n_ctx": 16, "d_model": 12, "n_layers": 2, "n_heads": 6, "d_ff": 20, "d_head": 3,
}  # fmt: skip
N, M, BATCH = 5, 7, 2


@given(specs())
@settings(max_examples=40)
def test_every_product_is_counted_whatever_the_device_and_the_kernel(spec: ModelSpec) -> None:
    sizes = {"batch": BATCH, "seq_len": N, "source_len": M}
    eager = measured.count(spec, attention="eager", grad="grad", **sizes)
    real, fused = (measured.count_model(build(spec), attention=kind, **sizes) for kind in ("eager", "fused"))
    assert real.evaluations == eager.evaluations
    for run in (eager, real, fused):
        assert run.uncounted == ()
        assert run.coverage[0] == run.coverage[1]
        assert run.by_component == eager.by_component
        assert sum(run.by_component.values()) == run.flops


@given(specs())
@settings(max_examples=60)
def test_backward_is_twice_the_forward_pass(spec: ModelSpec) -> None:
    # Each product x·W has two gradients of the same size, and so has each product of two activations.
    forward = measured.count(spec, batch=BATCH, seq_len=N, source_len=M)
    both = measured.backward(spec, batch=BATCH, seq_len=N, source_len=M)
    assert both.flops == 3 * forward.flops
    assert both.uncounted == ()


def test_a_fused_kernel_makes_the_scores_once_more_on_the_way_back() -> None:
    model = build(ModelSpec(**SMALL, n_kv_heads=2))
    forward = measured.count_model(model, seq_len=N)
    eager, fused = (measured.backward_model(model, seq_len=N, attention=kind) for kind in ("eager", "fused"))
    assert eager.flops == 3 * forward.flops
    assert fused.flops == 3 * forward.flops + forward.by_component["scores"]


@given(specs())
@settings(max_examples=40)
def test_a_pass_has_the_same_shapes_with_values_and_without(spec: ModelSpec) -> None:
    ids = [[i % spec.vocab_size for i in range(N)]] * BATCH
    source = [[i % spec.vocab_size for i in range(M)]] * BATCH if spec.architecture == "encoder_decoder" else ()
    real, meta = (shapes.trace(spec, ids, source=source, meta=meta) for meta in (False, True))
    seen = [[(t.name, t.dims, t.shape, t.dtype) for t in traced.tensors] for traced in (real, meta)]
    assert seen[0] == seen[1]
    assert real.params == meta.params
    assert len({t.name for t in real.tensors}) == len(real.tensors)


def multiplications(spec: ModelSpec, **sizes: int) -> dict[str, int]:
    """By component, of one sequence; what is 0 left out."""
    run = measured.count(spec, seq_len=N, **sizes)
    return {key: flops // 2 for key, flops in run.by_component.items() if flops}


def test_grouped_keys_shrink_two_projections_and_leave_scores_as_they_are() -> None:
    # Q and O: 6·3 = 18 wide, K and V: 2·3 = 6 wide; scores and mix: n²·18 in each block.
    found = multiplications(ModelSpec(**SMALL, n_kv_heads=2, window=2))
    assert found == {
        "projections": 2 * N * 12 * (2 * 18 + 2 * 6),
        "scores": 2 * N * N * 18,
        "mix": 2 * N * N * 18,
        "mlp": 2 * N * 2 * 12 * 20,
        "head": N * 12 * 17,
    }


def test_a_gate_is_a_third_matrix() -> None:
    assert multiplications(ModelSpec(**SMALL, activation="swiglu"))["mlp"] == 2 * N * 3 * 12 * 20


def test_each_token_pays_for_its_experts_the_router_and_the_shared_one() -> None:
    # One block of two is dense; in the other 3 of 5 experts of width 8, gated, and one shared of width 2·8.
    spec = ModelSpec(
        **SMALL,
        activation="swiglu",
        n_experts=5,
        n_experts_per_token=3,
        n_shared_experts=2,
        d_expert=8,
        n_dense_layers=1,
    )
    found = multiplications(spec)
    assert found["mlp"] == N * 3 * 12 * 20
    assert found["router"] == N * 12 * 5
    assert found["experts"] == N * 3 * (3 * 12 * 8)
    assert found["shared"] == N * 3 * 12 * 16


def test_berts_head_and_pooler() -> None:
    found = multiplications(ModelSpec(**SMALL, architecture="encoder", head="mlm", pooler=True))
    assert found["head"] == N * 12 * 12 + N * 12 * 17
    assert found["pooler"] == 12 * 12


def test_cross_attention_reads_the_source_and_the_target() -> None:
    # Two blocks in each stack: 4 square-ish maps over M rows in the encoder, over N in the decoder; across, Q and O
    # over N rows, K and V over M, and N·M pairs.
    found = multiplications(ModelSpec(**SMALL, architecture="encoder_decoder", positions="relative"), source_len=M)
    assert found == {
        "projections": 2 * (M + N) * 4 * 12 * 18,
        "scores": 2 * (M * M + N * N) * 18,
        "mix": 2 * (M * M + N * N) * 18,
        "cross_projections": 2 * (2 * N + 2 * M) * 12 * 18,
        "cross_scores": 2 * N * M * 18,
        "cross_mix": 2 * N * M * 18,
        "mlp": 2 * (M + N) * 2 * 12 * 20,
        "head": N * 12 * 17,
    }


@pytest.mark.parametrize(("keys", "expected"), [(1, 123_550_464), (1_024, 142_406_400)])
def test_a_decode_step_of_gpt2_small(keys: int, expected: int) -> None:
    # 12·(12·768² + 2·768·S) + 768·50,257 multiplications.
    step = measured.decode_step(PRESETS["gpt2"].spec, keys=keys)
    assert step.flops == 2 * expected
    assert step.uncounted == ()


@given(specs().filter(lambda spec: spec.causal))
@settings(max_examples=30)
def test_decode_steps_add_up_to_the_causal_half_of_a_pass(spec: ModelSpec) -> None:
    # What works position by position is the same; of n² pairs in self-attention a position sees those up to its own.
    whole = measured.count(spec, seq_len=N, source_len=M).by_component
    steps = [measured.decode_step(spec, keys=keys, source_len=M).by_component for keys in range(1, N + 1)]
    found = {key: sum(step.get(key, 0) for step in steps) for key in whole}
    decoder_part = {"scores": N * (N + 1) // 2, "mix": N * (N + 1) // 2}
    for key, pairs in decoder_part.items():
        assert found[key] == 2 * spec.n_layers * pairs * spec.d_attn, key
    for key in ("router", "experts", "shared", "head", "cross_scores", "cross_mix"):
        assert found.get(key, 0) == whole.get(key, 0), key
    if spec.architecture == "decoder":
        assert found["projections"] == whole["projections"]
        assert found["mlp"] == whole["mlp"]
    else:  # the encoder is not run again, and the keys and values of its output are held
        assert found["cross_projections"] == 2 * spec.n_layers * N * 2 * spec.d_model * spec.d_attn


def test_an_encoder_has_no_decode_step() -> None:
    with pytest.raises(InputError, match="an encoder has no decode step"):
        measured.decode_step(ModelSpec(**SMALL, architecture="encoder"), keys=3)


def test_the_mask_of_a_window_lets_a_band_through() -> None:
    # n ≥ w: w·n − w·(w − 1)/2 pairs.
    spec = ModelSpec(**SMALL)
    assert measured.causal_pairs(spec, 1_000, window=300) == 300 * 1_000 - 300 * 299 // 2
    assert measured.causal_pairs(spec, 200, window=300) == measured.causal_pairs(spec, 200) == 200 * 201 // 2


def test_experts_by_the_ten_thousand_are_not_built() -> None:
    spec = ModelSpec(**SMALL, n_experts=20_000, n_experts_per_token=1)
    assert "experts" in (measured.unmeasurable(spec, 1, 16) or "")
    assert measured.unmeasurable(spec.replace(n_experts=128), 1, 16) is None
    both = ModelSpec(**SMALL, architecture="encoder_decoder")
    assert measured.unmeasurable(both, 1, 16) is None
    assert "scores" in (measured.unmeasurable(both, 1, 16, source_len=10**12) or "")
