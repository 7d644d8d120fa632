"""Strategies of model specs: valid ones whose sizes all differ, and single fields that no spec accepts."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from tfinspect.spec import CHOICES, ModelSpec

__all__ = ["invalid_fields", "specs"]

#: Sizes of tables and hidden layers: primes, none of which divides a width below.
PRIMES = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43)


@st.composite
def specs(draw: st.DrawFn) -> ModelSpec:
    """Small valid specs over every choice; V, n_ctx, d and d_ff differ, so that no swapped axis can pass."""
    positions = draw(st.sampled_from(CHOICES["positions"]))
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
        placement=draw(st.sampled_from(CHOICES["placement"])),
        final_norm=draw(st.booleans()),
        activation=draw(st.sampled_from(CHOICES["activation"])),
        positions=positions,
        tied_head=draw(st.booleans()),
        bias=draw(st.booleans()),
    )


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
    )
