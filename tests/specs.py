"""Strategies of model specs: valid ones whose sizes all differ, and single fields that no spec accepts."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from tfinspect.spec import CHOICES, ModelSpec

__all__ = ["decoder_specs", "invalid_fields", "plain_specs", "specs"]

#: Sizes of tables and hidden layers: primes, none of which divides a width below.
PRIMES = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43)


@st.composite
def plain_specs(draw: st.DrawFn) -> ModelSpec:
    """Small valid specs with the features of GPT-2's own kind alone; V, n_ctx, d and d_ff differ."""
    positions = draw(st.sampled_from(("learned", "sinusoidal", "rope", "alibi", "none")))
    d_heads = (2, 4, 6, 10) if positions in ("rope", "sinusoidal") else (1, 2, 3, 5, 7)
    n_heads, d_head = draw(st.sampled_from((1, 2, 3, 5))), draw(st.sampled_from(d_heads))
    d_model = n_heads * d_head
    primes = [p for p in PRIMES if p != d_model]
    vocab_size, n_ctx, d_ff = draw(st.lists(st.sampled_from(primes), min_size=3, max_size=3, unique=True))
    return ModelSpec(
        vocab_size=vocab_size,
        n_ctx=n_ctx,
        d_model=d_model,
        n_layers=draw(st.integers(1, 3)),
        n_heads=n_heads,
        d_ff=draw(st.sampled_from((d_ff, 4 * d_model))),
        placement=draw(st.sampled_from(("pre", "post"))),
        final_norm=draw(st.booleans()),
        activation=draw(st.sampled_from(("gelu", "gelu_tanh", "relu"))),
        positions=positions,
        tied_head=draw(st.booleans()),
        bias=draw(st.booleans()),
    )


@st.composite
def specs(draw: st.DrawFn, architectures: tuple[str, ...] = CHOICES["architecture"]) -> ModelSpec:
    """Small valid specs over every feature of every architecture; sizes differ, so that no swapped axis can pass."""
    architecture: Any = draw(st.sampled_from(architectures))
    decoder, both = architecture == "decoder", architecture == "encoder_decoder"
    known = [p for p in CHOICES["positions"] if decoder or p != "alibi"]
    positions: Any = draw(st.sampled_from(known))
    even = positions in ("rope", "sinusoidal")
    d_head = draw(st.sampled_from((2, 4, 6) if even else (1, 2, 3, 5)))
    n_kv_heads, group = draw(st.sampled_from((1, 2, 3))), draw(st.sampled_from((1, 2, 3)))
    n_heads = n_kv_heads * group
    d_attn = n_heads * d_head
    d_model = d_attn if d_attn > 2 and draw(st.booleans()) else draw(st.sampled_from((8, 14)))
    primes = [p for p in PRIMES if p != d_model]
    sizes = draw(st.lists(st.sampled_from(primes), min_size=5, max_size=5, unique=True))
    vocab_size, n_ctx, d_ff, d_expert, _ = sizes
    n_layers = draw(st.integers(1, 3))
    norm: Any = draw(st.sampled_from(CHOICES["norm"]))
    head: Any = draw(
        st.sampled_from({"decoder": ("lm", "lm", "none"), "encoder": CHOICES["head"]}.get(architecture, ("lm",)))
    )
    fields: dict[str, Any] = {}
    if positions == "rope":
        fields["rope_dim"] = draw(st.sampled_from(range(2, d_head + 1, 2)))
    if positions == "learned":
        fields["position_offset"] = draw(st.sampled_from((0, 2)))
    if positions == "relative":
        fields |= {"n_buckets": 8, "max_distance": draw(st.sampled_from((9, 20)))}
    if decoder and draw(st.booleans()):
        fields["window"] = draw(st.sampled_from((1, 2, 5)))
        fields["global_every"] = draw(st.sampled_from((0, 2)))
    if architecture != "encoder_decoder" and draw(st.booleans()):
        n_experts = draw(st.sampled_from((1, 2, 5)))
        fields |= {
            "n_experts": n_experts,
            "n_experts_per_token": draw(st.integers(1, n_experts)),
            "n_shared_experts": draw(st.sampled_from((0, 1, 2))),
            "d_expert": draw(st.sampled_from((d_expert, d_ff))),
            "n_dense_layers": draw(st.integers(0, n_layers - 1)),
        }
    if architecture == "encoder":
        fields |= {"n_token_types": draw(st.sampled_from((0, 2))), "pooler": draw(st.booleans())}
    if both:
        fields["n_encoder_layers"] = draw(st.integers(1, 2))
    if head == "lm":
        fields["head_bias"] = draw(st.booleans())
    return ModelSpec(
        vocab_size=vocab_size,
        n_ctx=n_ctx,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        d_head=d_head,
        d_ff=draw(st.sampled_from((d_ff, 4 * d_model))),
        architecture=architecture,
        placement=draw(st.sampled_from(("pre", "post") if both else CHOICES["placement"])),
        norm=norm,
        final_norm=draw(st.booleans()),
        activation=draw(st.sampled_from(CHOICES["activation"])),
        positions=positions,
        embed_scale=draw(st.booleans()),
        embed_norm=draw(st.booleans()),
        qk_norm=draw(st.booleans()),
        scale_scores=draw(st.booleans()),
        head=head,
        tied_head=draw(st.booleans()),
        qkv_bias=draw(st.booleans()),
        out_bias=draw(st.booleans()),
        mlp_bias=draw(st.booleans()),
        norm_bias=norm == "layernorm" and draw(st.booleans()),
        **fields,
    )


def decoder_specs() -> st.SearchStrategy[ModelSpec]:
    """Small valid specs of causal decoders with a head, over every feature that they have."""
    return specs(architectures=("decoder",)).filter(lambda spec: spec.head == "lm")


def invalid_fields() -> st.SearchStrategy[tuple[str, Any]]:
    """(field, value) such that GPT-2 Small with that one field is no model."""
    sizes = st.sampled_from(("vocab_size", "n_ctx", "d_model", "n_layers", "n_heads", "d_ff"))
    no_size = (
        st.integers(max_value=0) | st.integers(min_value=2**31) | st.booleans() | st.floats() | st.text() | st.none()
    )
    switches = st.sampled_from(("final_norm", "tied_head", "bias"))
    no_switch = st.integers() | st.text() | st.none()
    choices = st.sampled_from(sorted(CHOICES))
    words = {word for known in CHOICES.values() for word in known}
    return st.one_of(
        st.tuples(sizes, no_size),
        st.tuples(switches, no_switch),
        st.tuples(choices, st.text().filter(lambda word: word not in words)),
        st.tuples(st.just("dropout"), st.floats(min_value=1) | st.floats(max_value=-1e-9) | st.just(math.nan)),
        st.tuples(st.just("norm_eps"), st.floats(max_value=-1e-9) | st.just(math.inf) | st.just(math.nan)),
        st.tuples(st.just("n_heads"), st.integers(1, 768).filter(lambda n_heads: 768 % n_heads > 0)),
        st.tuples(st.just("n_kv_heads"), st.integers(1, 24).filter(lambda n_kv_heads: 12 % n_kv_heads > 0)),
    )
