"""What generation costs with a KV cache and without it, step by step.

A step gives one token. T positions go through the model and attend to S keys each, and the head runs at the last one:

    with the cache      first step   T = S = n, the prompt
                        later steps  T = 1, S = n + 1, n + 2, …
    without it          every step   T = S = n, n + 1, n + 2, …

Attention counts in full, as it runs, under a window too. Without windows, and started from one token, the steps with a
cache add up to the causal half of a whole pass, because each position attends only to what is there.
"""

from __future__ import annotations

import functools

from tfinspect.closed_form.formula import gathered, letters, value
from tfinspect.closed_form.products import LOOP, products
from tfinspect.spec import ModelSpec

__all__ = ["cache_bytes", "cache_formula", "step", "step_formula", "with_cache", "without_cache"]


@functools.lru_cache(maxsize=16)
def step_formula(spec: ModelSpec, batch: int = 1) -> str:
    """The multiplications of one step in letters."""
    done = tuple(products(spec, LOOP))
    terms = []
    for stack, letter in dict.fromkeys((p.stack, p.letter) for p in done if p.stack):
        inside = [p for p in done if p.stack == stack]
        matrices = [p.formula for p in inside if p.part == "linear"]
        attention = gathered(" + ".join(p.formula for p in inside if p.part == "quadratic"))
        terms.append(f"{letter}·({' + '.join((*matrices, attention))})")
    formula = " + ".join((*terms, *(p.formula for p in done if not p.stack)))
    return formula if batch == 1 else f"B·({formula})"


def step(spec: ModelSpec, *, queries: int, keys: int, batch: int = 1) -> int:
    """Multiplications of one step: T = queries new positions attend to S = keys, logits at the last.

    Units:   multiplications of matrix products; FLOPs = 2 x.
    Agrees:  measured.generation.work, exactly, for every decoder.
    """
    bound = {**letters(spec, batch=batch), "T": queries, "S": keys}
    return value(step_formula(spec, batch), bound)


def with_cache(spec: ModelSpec, *, prompt_len: int, n_new: int, batch: int = 1) -> tuple[int, ...]:
    """Multiplications of each step where keys and values are kept: the prompt, then one position at a time."""
    return tuple(
        step(spec, queries=1 if past else prompt_len, keys=prompt_len + past, batch=batch) for past in range(n_new)
    )


def without_cache(spec: ModelSpec, *, prompt_len: int, n_new: int, batch: int = 1) -> tuple[int, ...]:
    """Multiplications of each step where all positions are computed again."""
    lengths = range(prompt_len, prompt_len + n_new)
    return tuple(step(spec, queries=length, keys=length, batch=batch) for length in lengths)


def cache_formula(spec: ModelSpec, number_bytes: int = 4) -> str:
    """The bytes of a cache in letters."""
    heads = "h" if spec.n_kv_heads == spec.n_heads else "h_kv"
    return f"2·L·B·{heads}·S·d_head·{number_bytes}"


def cache_bytes(spec: ModelSpec, *, keys: int, batch: int = 1, number_bytes: int = 4) -> int:
    """Bytes of keys and values of S = keys positions, in every layer.

    Agrees:  model.cache.Cache.n_bytes, exactly.
    """
    return value(cache_formula(spec, number_bytes), {**letters(spec, batch=batch), "S": keys})
