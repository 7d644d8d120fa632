"""The parameters of a decoder-only Transformer, term by term, as formulas in V, n_ctx, d, d_ff and L.

    V·d + n_ctx·d + L·(4d² + 4d + 2·d·d_ff + d_ff + d + 4d) + 2d        (GPT-2; with d_ff = 4d a block has 12d² + 13d)
    no n_ctx·d without a learned position table; + V·d with an untied head; no 2d without a final norm;
    without biases 4d, d_ff + d and half of each norm fall away. Pre- and Post-LN have the same parameters.

Source:  chapter A, 5.1 and 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from tfinspect.closed_form.formula import letters, value
from tfinspect.dims import bind, sizes
from tfinspect.results.params import NamedCount, ParamTensor, ParamTerm
from tfinspect.spec import ModelSpec

__all__ = ["block_formula", "ledger", "model_formula", "n_tensors", "other_counts", "tensors"]

#: Linear maps of a block: path, and axes of the weight [out, in].
_LINEAR: Final = (
    ("attn.q", "d_model d_model"),
    ("attn.k", "d_model d_model"),
    ("attn.v", "d_model d_model"),
    ("attn.out", "d_model d_model"),
    ("mlp.up", "d_ff d_model"),
    ("mlp.down", "d_model d_ff"),
)


def ledger(spec: ModelSpec) -> tuple[ParamTerm, ...]:
    """Every term of the parameter count, in reading order.

    Agrees:  measured.params.count, by component, for every spec.
    """
    bound = letters(spec)

    def term(component: str, title: str, formula: str, *, per_block: bool = False) -> ParamTerm:
        copies = spec.n_layers if per_block else 1
        return ParamTerm(component, title, formula, value(formula, bound), copies, per_block)

    terms = [term("tokens", "token table E", "V·d")]
    if spec.positions == "learned":
        terms.append(term("positions", "position table P", "n_ctx·d"))
    terms.append(term("attention", "attention: weights of Q, K, V, O", "4d²", per_block=True))
    if spec.bias:
        terms.append(term("attention", "attention: their biases", "4d", per_block=True))
    terms.append(term("mlp", "MLP: two weights", "2·d·d_ff", per_block=True))
    if spec.bias:
        terms.append(term("mlp", "MLP: their biases", "d_ff + d", per_block=True))
    gains = "gains and biases" if spec.bias else "gains"
    terms.append(term("norms", f"two layer norms: {gains}", "4d" if spec.bias else "2d", per_block=True))
    if spec.final_norm:
        terms.append(term("norms", f"final layer norm: {gains}", "2d" if spec.bias else "d"))
    if not spec.tied_head:
        terms.append(term("head", "output head", "V·d"))
    return tuple(terms)


def block_formula(spec: ModelSpec) -> str:
    """Parameters of one block with like terms gathered: 12d² + 13d where d_ff = 4d and biases are on."""
    if spec.d_ff == 4 * spec.d_model:
        return "12d² + 13d" if spec.bias else "12d² + 2d"
    return "4d² + 2·d·d_ff + d_ff + 9d" if spec.bias else "4d² + 2·d·d_ff + 2d"


def model_formula(spec: ModelSpec) -> str:
    """Parameters of the model with like terms gathered inside the block."""
    terms = ["V·d" if spec.tied_head else "2·V·d"]
    if spec.positions == "learned":
        terms.append("n_ctx·d")
    terms.append(f"L·({block_formula(spec)})")
    if spec.final_norm:
        terms.append("2d" if spec.bias else "d")
    return " + ".join(terms)


def other_counts(spec: ModelSpec) -> tuple[NamedCount, ...]:
    """Counts that leave embeddings, or more, out.

    Source:  the count without positions is the one that nanoGPT prints; Kaplan et al. (2020), table 1, call the
             matrices of the blocks N.
    """
    blocks = f"L·({block_formula(spec)})"
    final = (" + 2d" if spec.bias else " + d") if spec.final_norm else ""
    head = "V·d" if spec.tied_head else "2·V·d"
    matrices = "12·L·d²" if spec.d_ff == 4 * spec.d_model else "L·(4d² + 2·d·d_ff)"
    counts = [
        ("blocks and final norm: no table, no head" if final else "blocks: no table, no head", blocks + final),
        ("matrices of the blocks: no bias or norm", matrices),
    ]
    if spec.positions == "learned":
        counts.insert(0, ("all but the position table", f"{head} + {blocks}{final}"))
    bound = letters(spec)
    return tuple(NamedCount(label, formula, value(formula, bound)) for label, formula in counts)


def n_tensors(spec: ModelSpec) -> int:
    """How many parameter tensors the model has, a tied head counted with the token table."""
    per_linear = 2 if spec.bias else 1
    outside = 1 + (spec.positions == "learned") + (not spec.tied_head) + per_linear * spec.final_norm
    return outside + spec.n_layers * per_linear * (len(_LINEAR) + 2)


def tensors(spec: ModelSpec) -> Iterator[ParamTensor]:
    """Every parameter tensor with its shape, in the order of the forward pass.

    Agrees:  measured.params.count, by name and shape, for every spec.
    """
    bound = bind(spec, 1, 1)

    def tensor(name: str, dims: str, alias: str = "") -> ParamTensor:
        shape = sizes(dims, bound)
        return ParamTensor(name, dims, shape, math.prod(shape), alias)

    def with_bias(path: str, dims: str) -> Iterator[ParamTensor]:
        yield tensor(f"{path}.weight", dims)
        if spec.bias:
            yield tensor(f"{path}.bias", dims.split()[0])

    yield tensor("embed.tokens.weight", "V d_model", "head.weight" if spec.tied_head else "")
    if spec.positions == "learned":
        yield tensor("embed.positions.weight", "n_ctx d_model")
    for layer in range(spec.n_layers):
        block = f"blocks.{layer}"
        yield from with_bias(f"{block}.norm1", "d_model")
        for path, dims in _LINEAR[:4]:
            yield from with_bias(f"{block}.{path}", dims)
        yield from with_bias(f"{block}.norm2", "d_model")
        for path, dims in _LINEAR[4:]:
            yield from with_bias(f"{block}.{path}", dims)
    if spec.final_norm:
        yield from with_bias("final_norm", "d_model")
    if not spec.tied_head:
        yield tensor("head.weight", "V d_model")
