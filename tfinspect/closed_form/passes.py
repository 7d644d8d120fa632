"""One pass of each kind: a prompt of n tokens, one new token that attends to n keys, and a step of training.

    prompt        every product over n rows, the head at the last
    new token     rows 1, pairs n; the keys and values of the others, and of a source, are in the cache
    training      3 x the forward pass: each product A·B brings dA = dC·Bᵀ and dB = Aᵀ·dC on the way back

A cache holds 2·L·B·h_kv·n·d_head numbers, and as many of the source, m for n, under cross-attention.

Source:  Kaplan et al. (2020), 2.1, for twice the forward pass on the way back; Dao (2023), 2.3.2, for QKᵀ made again.
"""

from __future__ import annotations

import dataclasses

from tfinspect.closed_form.flops import priced, terms
from tfinspect.closed_form.formula import gathered, letters, value
from tfinspect.closed_form.products import DECODE, products, times
from tfinspect.results.passes import CacheSize, Passes, PassWork
from tfinspect.results.work import FlopTerm
from tfinspect.spec import ModelSpec

__all__ = ["passes"]


def passes(spec: ModelSpec, *, seq_len: int, batch: int = 1, source_len: int | None = None) -> Passes:
    """The work of each kind of pass, and what a cache holds after n positions.

    Units:   multiplications; FLOPs = 2 x. Attention in full.
    Agrees:  measured.flops.count, decode_step and backward, exactly, for every spec.
    """
    m = seq_len if source_len is None else source_len
    bound = letters(spec, batch=batch, seq_len=seq_len, source_len=m)
    forward = terms(spec, seq_len=seq_len, batch=batch, source_len=m)
    made_again = sum(term.multiplications for term in forward if term.component in ("scores", "cross_scores"))
    training = PassWork("training", f"training, forward and backward, n = {seq_len:,}", tuple(map(_thrice, forward)))
    if not spec.causal:
        once = PassWork("forward", f"forward pass, n = {seq_len:,}", forward)
        return Passes((once, training), (), made_again)
    prompt = terms(spec, seq_len=seq_len, batch=batch, source_len=m, head="last")
    source = f", after a source of {m:,}" if spec.architecture == "encoder_decoder" else ""
    keys = f"{seq_len:,} {'key' if seq_len == 1 else 'keys'}"
    works = (
        PassWork("prefill", f"prefill of n = {seq_len:,}{source}", prompt),
        PassWork("decode", f"decode step, one token that attends to n = {keys}", priced(products(spec, DECODE), bound)),
        training,
    )
    beyond = max(0, seq_len - spec.window) if spec.window else 0
    spared = 2 * batch * spec.d_attn * beyond * _n_windowed(spec)
    return Passes(works, tuple(_caches(spec, bound)), made_again, spared)


def _thrice(term: FlopTerm) -> FlopTerm:
    """A product and the two that it brings on the way back."""
    formula = f"3·{term.formula}" if term.part == "head" else gathered(f"3·({term.formula})")
    return dataclasses.replace(term, formula=formula, each=3 * term.each)


def _caches(spec: ModelSpec, bound: dict[str, int]) -> list[CacheSize]:
    heads = "h" if spec.n_kv_heads == spec.n_heads else "h_kv"

    def cache(title: str, blocks: str, positions: str) -> CacheSize:
        formula = times("2", blocks, "B" if bound["B"] != 1 else "1", heads, positions, "d_head")
        return CacheSize(title, formula, value(formula, bound))

    sizes = [cache("all positions", "L", "n")]
    n_windowed = _n_windowed(spec)
    if n_windowed == spec.n_layers and bound["w"] < bound["n"]:
        sizes.append(cache("what the window needs", "L", "w"))
    elif n_windowed and bound["w"] < bound["n"]:
        needed = f"({n_windowed}·w + {spec.n_layers - n_windowed}·n)"
        sizes.append(cache("what the windows need", "1", needed))
    if spec.architecture == "encoder_decoder":
        sizes.append(cache("the source", "L", "m"))
    return sizes


def _n_windowed(spec: ModelSpec) -> int:
    return spec.n_windowed(range(spec.n_layers))
