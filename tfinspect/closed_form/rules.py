"""Rules of thumb for the work of a model, as their authors state them, and the exact figure that each stands for.

N parameters, D tokens; FLOPs. None of them knows grouped keys, gates or windows: what a rule says of a model that has
them is what a reader gets who applies it all the same.

    forward, each token      2·N                                         Brown et al. (2020), appendix D
    blocks, each token       2·N, N = 2·d·L·(2·d_attn + d_ff)            Kaplan et al. (2020), 2.1
    the same with context    2·N + 2·L·n·d_attn                          Kaplan et al. (2020), table 1 and 2.1
    training                 6·N·D                                       Brown et al., Kaplan et al.
                             D·(6·N + 12·L·H·Q·T)                        Chowdhery et al. (2022), appendix B (PaLM)
                             72·B·n·L·d²(1 + n/6d + V/12Ld)              Korthikanti et al. (2022), appendix A
    … with recomputation     96·B·n·L·d²(1 + n/6d + V/16Ld)              Narayanan et al. (2021), 5.1 (Megatron)
    training, term by term   3·(embeddings + L·(…) + logits)             Hoffmann et al. (2022), appendix F (Chinchilla)

In an encoder–decoder each parameter meets one half of the tokens (Brown et al., table D.1, on T5); in a mixture of
experts only the active ones count (the same table).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from tfinspect.closed_form.flops import active_params, multiplications, terms
from tfinspect.closed_form.formula import gathered, letters, ratio
from tfinspect.closed_form.params import ledger
from tfinspect.results.growth import whole
from tfinspect.results.rules import Rule, Rules, Scope
from tfinspect.spec import ModelSpec

__all__ = ["rules"]

_BROWN: Final = "Brown et al. 2020, appendix D"
_ACTIVE: Final = "Brown et al. 2020, table D.1, by active parameters"
_T5: Final = "Brown et al. 2020, table D.1, on T5"
_KAPLAN: Final = "Kaplan et al. 2020, section 2.1"
_CHINCHILLA: Final = "Hoffmann et al. 2022, appendix F"
_PALM: Final = "Chowdhery et al. 2022, appendix B"
_MEGATRON: Final = "Narayanan et al. 2021, section 5.1"
_KORTHIKANTI: Final = "Korthikanti et al. 2022, appendix A"

#: Half of Kaplan's N: the matrices of the blocks, as a model without gates and grouped keys has them.
_N_KAPLAN: Final = "d·L·(2·h·d_head + d_ff)"

#: Components that Kaplan's N leaves out: tables, and what reads them.
_NO_MATRIX_OF_BLOCKS: Final = ("tokens", "positions", "types", "relative", "head", "pooler")


def rules(spec: ModelSpec, *, seq_len: int, batch: int = 1, source_len: int | None = None) -> Rules:
    """Every rule that speaks of such a model, at n positions and B sequences.

    Units:   FLOPs; attention in full, except where a rule means the causal half. Exact at any size.
    """
    given = _Given.of(spec, seq_len, batch, seq_len if source_len is None else source_len)
    if spec.architecture == "encoder_decoder":
        return Rules(tuple(_of_two_stacks(given)))
    return Rules((*_by_parameters(given), *([] if spec.n_experts else _by_structure(given))))


@dataclasses.dataclass(frozen=True)
class _Given:
    """What rules are worked out from, and the exact figures that they stand for."""

    spec: ModelSpec
    seq_len: int
    batch: int
    bound: Mapping[str, int]
    """What each letter is worth; N is all parameters."""
    each: Scope
    training: Scope

    @classmethod
    def of(cls, spec: ModelSpec, n: int, batch: int, m: int) -> _Given:
        tokens = batch * (n + m if spec.architecture == "encoder_decoder" else n)
        forward = 2 * multiplications(spec, seq_len=n, batch=batch, source_len=m)
        n_params = sum(term.params for term in ledger(spec))
        return cls(
            spec=spec,
            seq_len=n,
            batch=batch,
            bound={**letters(spec, batch=batch, seq_len=n, source_len=m), "N": n_params, "D": tokens},
            each=Scope("forward, each token", whole(Fraction(forward, tokens))),
            training=Scope(f"training step, {tokens:,} {'token' if tokens == 1 else 'tokens'}", 3 * forward),
        )

    @property
    def n_params(self) -> int:
        """All parameters."""
        return self.bound["N"]

    def rule(
        self, name: str, formula: str, scope: Scope, source: str, meaning: str = "", *, n_params: int | None = None
    ) -> Rule:
        """A rule with its figure; n_params stands for N where not all parameters do."""
        bound = self.bound if n_params is None else {**self.bound, "N": n_params}
        return Rule(name, formula, whole(ratio(formula, bound)), scope, source, meaning)


def _of_two_stacks(given: _Given) -> Iterator[Rule]:
    """A parameter meets the tokens of one stack, half of all."""
    half = "as each parameter meets the tokens of one side"
    yield given.rule("N", "N", given.each, _T5, half)
    yield given.rule("3ND", "3·N·D", given.training, _T5, half)
    yield given.rule("6ND", "6·N·D", given.training, _BROWN, "as if each parameter met all tokens")


def _by_parameters(given: _Given) -> Iterator[Rule]:
    """2N for each token, and 6N with the way back, for each meaning of N."""
    spec, each, training = given.spec, given.each, given.training
    without = sum(term.params for term in ledger(spec) if term.component not in _NO_MATRIX_OF_BLOCKS)
    everything, rest = "N all parameters", "N without tables and head"
    yield given.rule("2N", "2·N", each, _BROWN, everything)
    active, met = active_params(spec), "N what a token meets"
    if spec.n_experts:
        yield given.rule("2N, active", "2·N", each, _ACTIVE, met, n_params=active)
    yield given.rule("6ND", "6·N·D", training, _BROWN, everything)
    if spec.n_experts:
        yield given.rule("6ND, active", "6·N·D", training, _ACTIVE, met, n_params=active)
    else:
        yield given.rule("6ND, no embeddings", "6·N·D", training, _KAPLAN, rest, n_params=without)


def _by_structure(given: _Given) -> Iterator[Rule]:
    """Rules that take a block for four d×d matrices and an MLP of two, with attention in full or in its causal half."""
    spec, training = given.spec, given.training
    n, batch = given.seq_len, given.batch
    tokens = batch * n
    blocks = [t for t in terms(spec, seq_len=n, batch=batch) if t.part != "head"]
    matrices = 2 * sum(t.multiplications for t in blocks if t.part == "linear")
    in_matrices = Scope("blocks' matrices, each token", whole(Fraction(matrices, tokens)))
    yield given.rule("Kaplan", f"4·{_N_KAPLAN}", in_matrices, _KAPLAN)
    if spec.causal:
        pairs = tokens * (n + 1) * spec.n_layers * spec.d_attn  # FLOPs of one product over n(n + 1)/2 pairs
        context = Scope("blocks, causal half, each token", whole(Fraction(matrices + 2 * pairs, tokens)))
        formula = f"4·{_N_KAPLAN} + 2·L·n·h·d_head"
        yield given.rule("Kaplan, with context", formula, context, _KAPLAN, "half of both products of attention")
    yield given.rule("Kaplan, 6ND", f"12·{_N_KAPLAN}·D", training, _KAPLAN, "without attention and head")
    palm = "D·(6·N + 12·L·h·d_head·n)"
    yield given.rule("PaLM", palm, training, _PALM, "N all parameters")
    if spec.positions == "learned":
        rows = (spec.n_ctx + spec.position_offset) * spec.d_model
        source = "nanoGPT, estimate_mfu, after PaLM"
        meaning = "N without the position table"
        yield given.rule("nanoGPT", palm, training, source, meaning, n_params=given.n_params - rows)
    if spec.head == "none":
        return
    yield given.rule("Chinchilla", _chinchilla(spec), training, _CHINCHILLA, "softmax and look-up included")
    formula = "72·B·n·L·d²·(1 + n/(6·d) + V/(12·L·d))"
    yield given.rule("Megatron", formula, training, _KORTHIKANTI)
    again = 2 * sum(t.multiplications for t in blocks)
    recomputed = Scope("training, blocks run twice", training.flops + again)
    formula = "96·B·n·L·d²·(1 + n/(6·d) + V/(16·L·d))"
    yield given.rule("Megatron, recomputing", formula, recomputed, _MEGATRON)


def _chinchilla(spec: ModelSpec) -> str:
    """Three forward passes: embeddings, Q, K and V, QKᵀ, softmax, weights·V, O, the MLP, and logits."""
    width = "d" if spec.d_attn == spec.d_model else "h·d_head"
    block = f"6·n·d·{width} + 2·n²·{width} + 3·h·n² + 2·n²·{width} + 2·n·d·{width} + 4·n·d·d_ff"
    return f"3·B·(4·n·d·V + L·({gathered(block)}))"
