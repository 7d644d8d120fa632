"""How else the work of a pass is counted: what is left out, charged besides, or given per token or per training step.

    products      all n² pairs, or those that the mask lets through; with or without head, QKᵀ, weights·V
    look-up       nothing, or n·V·d as if it were a product
    elementwise   nothing, or a constant for each element of norms, softmax, activation, residual, bias
    unit          a multiplication, or 2 FLOPs; a pass, a token, a sequence, a training step

What counters charge besides products they charge in their own unit: the same constant stands beside multiplications
and beside FLOPs.

Source:  cases that people met: pytorch/pytorch #195460 (fused attention counted 0), huggingface/trl #6709 (look-up as
         a product), AI-Hypercomputer/maxtext #1988 (causal half). Constants of elementwise work are those of the
         counters' own source: fvcore, llm-flops, ptflops, thop, torchinfo, torchprofile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final

from tfinspect.closed_form.elementwise import elementwise
from tfinspect.closed_form.flops import priced, terms
from tfinspect.closed_form.formula import letters, value
from tfinspect.closed_form.param_conventions import is_gpt2_kind, variants
from tfinspect.closed_form.params import ledger
from tfinspect.closed_form.products import DECODE, products
from tfinspect.closed_form.readings import Change, Factor, Ground, distinct
from tfinspect.closed_form.rules import rules
from tfinspect.closed_form.structure import Matrix, after, stacks
from tfinspect.results.reconcile import Convention, Unit
from tfinspect.results.work import FlopTerm
from tfinspect.spec import ModelSpec

__all__ = ["STARTS", "grounds"]

STARTS: Final[Mapping[Unit, str]] = {
    "multiplications": "multiplications of one forward pass",
    "FLOPs": "FLOPs of one forward pass",
}

#: FLOPs of each unit in a multiplication.
_UNITS: Final[tuple[tuple[Unit, int], ...]] = (("multiplications", 1), ("FLOPs", 2))

#: Lengths that a figure without its n is likely to be for.
USUAL_LENGTHS: Final = (1, 128, 256, 512, 1_024, 2_048, 4_096)

_SELF: Final = ("scores", "mix")
_CROSS: Final = ("cross_scores", "cross_mix")

#: Key, words, products that are left out, and who leaves them out.
_LEFT_OUT: Final[tuple[tuple[str, str, tuple[str, ...], str], ...]] = (
    (
        "no-attention-products",
        "QKᵀ and weights·V left out",
        (*_SELF, *_CROSS),
        "as torch counts fused attention on a CPU",
    ),
    ("no-scores", "QKᵀ left out", ("scores", "cross_scores"), ""),
    ("no-mix", "weights·V left out", ("mix", "cross_mix"), ""),
    ("no-head", "the head left out", ("head",), ""),
    ("no-pooler", "the pooler left out", ("pooler",), ""),
    ("no-router", "routers left out", ("router",), ""),
)

#: Key, words, products that are all that is counted.
_ONLY: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("only-attention-products", "only QKᵀ and weights·V", (*_SELF, *_CROSS)),
    ("only-head", "only the head", ("head",)),
    ("only-mlp", "only the MLPs", ("mlp", "experts", "shared", "router")),
    ("only-projections", "only Q, K, V and O", ("projections", "cross_projections")),
)

#: Key, what is charged for each element of it, how much, and who charges so.
_CHARGED: Final[tuple[tuple[str, str, int, str], ...]] = (
    ("norm", "norms", 1, ""),
    ("norm", "norms", 2, ""),
    ("norm", "norms", 4, "thop"),
    ("norm", "norms", 5, "fvcore"),
    ("softmax", "softmax", 1, ""),
    ("softmax", "softmax", 5, ""),
    ("activation", "activations", 1, ""),
    ("residual", "residual additions", 1, ""),
)


def grounds(spec: ModelSpec, *, seq_len: int, batch: int, tokens: int | None, other_lengths: bool) -> Iterator[Ground]:
    """Work as it is, and under each convention that changes the model, the pass, or all of it."""
    own = _products(spec, seq_len, batch)
    factors = _Factors(seq_len * batch, batch, tokens)
    settings: list[tuple[tuple[Convention, ...], ModelSpec, int, int]] = [((), spec, seq_len, batch)]
    settings += [((convention,), other, seq_len, batch) for convention, other in variants(spec)]
    if batch > 1:
        n = batch * seq_len
        words = f"all {n:,} tokens as one sequence, not {batch:,} of {seq_len:,}"
        settings.append(((Convention("one-sequence", words),), spec, n, 1))
    for n in USUAL_LENGTHS if other_lengths else ():
        if n != seq_len and n <= spec.n_ctx:
            settings.append(((Convention(f"n-{n}", f"n = {n:,}, not {seq_len:,}"),), spec, n, batch))
    seen: set[int] = set()
    for made_by, other, n, b in settings:
        done = _products(other, n, b)
        if _sum(done) in seen and made_by:
            continue
        seen.add(_sum(done))
        changes = distinct(_changes(other, n, b, done))
        besides = tuple(_besides(other, n, b))
        for unit, times in _UNITS:
            yield Ground(
                unit,
                STARTS[unit],
                times * _sum(own),
                times * _sum(done),
                made_by,
                (*(_scaled(change, times) for change in changes), *(c for c, units in besides if unit in units)),
                tuple(factors.of(unit, n * b)),
            )
    for convention, units, figure in _wholes(spec, seq_len, batch):
        for unit, times in _UNITS:
            if unit in units:
                start = STARTS[unit]
                yield Ground(unit, start, times * _sum(own), times * figure, (convention,), (), tuple(factors.of(unit)))
    if seq_len:
        for rule in rules(spec, seq_len=seq_len, batch=batch).rules:
            if rule.formula in ("2·N", "6·N·D"):  # parameters under any convention, times 2 or 6
                continue
            meaning = f", {rule.meaning}" if rule.meaning else ""
            convention = Convention(f"rule {rule.name}", f"{rule.scope.title}: {rule.formula}{meaning}", rule.source)
            per_token = tuple(factors.spans("FLOPs")) if rule.scope.title.startswith("training") else ()
            yield Ground("FLOPs", STARTS["FLOPs"], 2 * _sum(own), rule.flops, (convention,), (), per_token)


def _products(spec: ModelSpec, n: int, batch: int) -> tuple[FlopTerm, ...]:
    return terms(spec, seq_len=n, batch=batch, source_len=n)


def _sum(done: Iterable[FlopTerm]) -> int:
    return sum(term.multiplications for term in done)


def _written(done: Iterable[FlopTerm]) -> str:
    """Multiplications of all copies, in letters."""
    return " + ".join(f"{term.letter}·({term.formula})" if term.letter else term.formula for term in done)


def _scaled(change: Change, times: int) -> Change:
    """A change of multiplications as one of another unit."""
    if times == 1:
        return change
    formula = f"{times}·({change.formula})" if change.formula else ""
    return Change(change.convention, change.pieces, times * change.by, formula)


def _changes(spec: ModelSpec, n: int, batch: int, done: tuple[FlopTerm, ...]) -> Iterator[Change]:
    """Products that are left out, halved, or added, in multiplications."""
    present = {term.component for term in done}

    def out(key: str, words: str, touched: Iterable[str], source: str = "") -> Iterator[Change]:
        gone = present.intersection(touched)
        left = [term for term in done if term.component in gone]
        if _sum(left):
            pieces = {*gone, "lookup"} if "head" in gone else gone  # the two cancel: a head charged elsewhere
            yield Change(Convention(key, words, source), frozenset(pieces), -_sum(left), _written(left))

    for key, words, touched, source in _LEFT_OUT:
        yield from out(key, words, touched, source)
    for key, words, kept in _ONLY:
        if present.intersection(kept):
            yield from out(key, words, present.difference(kept))
    full = [term for term in done if term.component in _SELF]
    if spec.causal and _sum(full):
        halved = terms(spec, seq_len=n, batch=batch, source_len=n, causal="half")
        by = _sum(term for term in halved if term.component in _SELF) - _sum(full)
        pairs = "n(n + 1)/2 pairs of QKᵀ and weights·V, as the mask lets through"
        if by:
            yield Change(Convention("causal-half", pairs), frozenset(_SELF), by)
        if _sum(full) % 2 == 0:
            words = "half of n² pairs of QKᵀ and weights·V"
            yield Change(Convention("half-of-n2", words), frozenset(_SELF), -_sum(full) // 2, f"({_written(full)})/2")
    if "head" in present and n > 1:
        last = terms(spec, seq_len=n, batch=batch, source_len=n, head="last")
        by = _sum(term for term in last if term.component == "head") - _sum(t for t in done if t.component == "head")
        yield Change(Convention("last-head", "the head at the last position alone"), frozenset({"head"}), by)
    bound = letters(spec, batch=batch, seq_len=n, source_len=n)
    lookup = _times_batch("n·V·d", batch)
    words = "the look-up of tokens charged as a product"
    yield Change(Convention("lookup", words), frozenset({"lookup"}), value(lookup, bound), lookup)


def _besides(spec: ModelSpec, n: int, batch: int) -> Iterator[tuple[Change, tuple[Unit, ...]]]:
    """Elementwise work that is charged besides, and beside which unit."""
    both: tuple[Unit, ...] = ("multiplications", "FLOPs")
    bound = letters(spec, batch=batch, seq_len=n, source_len=n)
    found = {work.component: work for work in elementwise(spec, seq_len=n, batch=batch, source_len=n)}
    for component, words, times, source in _CHARGED:
        if component in found and found[component].evaluations:
            work = found[component]
            formula = work.formula if times == 1 else f"{times}·({work.formula})"
            words = f"{words} charged, {times} for each element"
            made = Convention(f"{component}-{times}", words, source)
            yield Change(made, frozenset({component}), times * work.evaluations, formula), both
    everything = sum(work.evaluations for work in found.values())
    if everything:
        words = "all elementwise work charged, 1 for each element"
        formula = " + ".join(work.formula for work in found.values())
        yield Change(Convention("elementwise", words), frozenset(found), everything, formula), both
    biases = _bias_additions(spec, batch)
    if biases:
        made = Convention("bias-additions", "additions of biases charged, 1 for each element")
        yield Change(made, frozenset({"bias"}), value(biases, bound), biases), both
    for convention, unit, charged in _of_counters(spec, batch, {key: work.formula for key, work in found.items()}):
        formula = " + ".join(charged.values())
        yield Change(convention, frozenset({*charged, "residual"}), value(formula, bound), formula), (unit,)


def _of_counters(
    spec: ModelSpec, batch: int, work: Mapping[str, str]
) -> Iterator[tuple[Convention, Unit, dict[str, str]]]:
    """What some counters charge besides products, all together, by what they charge it for."""
    if spec.architecture != "decoder" or spec.n_experts:
        return
    norm, softmax, activation = (work.get(key, "0") for key in ("norm", "softmax", "activation"))
    charged = {
        "norm": f"{6 if spec.norm == 'layernorm' else 4}·({norm})",
        "softmax": f"5·({softmax})",
        "activation": f"{8 if spec.gated else 2}·({activation})",
    }
    if spec.positions == "learned":
        charged["positions"] = _times_batch("n·d", batch)
    if spec.positions == "rope":
        charged["positions"] = _times_batch("6·L·n·(h + h_kv)·d_head", batch)
    words = "softmax, norms and activations charged, each with a constant of its own"
    yield Convention("llm-flops", words, "llm-flops"), "FLOPs", charged
    if spec.norm != "layernorm":
        return
    words = "norms and softmax charged, 1 for each element"
    yield Convention("ptflops", words, "ptflops by modules"), "multiplications", {"norm": norm, "softmax": softmax}
    if spec.activation == "gelu_tanh":
        inside = {"norm": norm, "activation": f"4·({activation})"}
        words = "norms charged 1 for each element, and the 4 multiplications of GELU written out"
        yield Convention("torchprofile-fused", words, "torchprofile, fused attention"), "multiplications", inside
        words += ", and the scale of the scores"
        yield Convention("torchprofile", words, "torchprofile"), "multiplications", {**inside, "softmax": softmax}


def _bias_additions(spec: ModelSpec, batch: int) -> str:
    """One addition for each element that a linear map with a bias makes; empty where none has one."""
    found = [
        f"{stack.letter}·{part.rows}·{part.out}"
        for stack in stacks(spec)
        for part in stack.parts
        if isinstance(part, Matrix) and part.bias
    ]
    found += [f"{'1' if matrix.path == 'pooler' else 'n'}·{matrix.out}" for matrix in after(spec) if matrix.bias]
    return _times_batch(" + ".join(found), batch) if found else ""


def _times_batch(formula: str, batch: int) -> str:
    return formula if batch == 1 else f"B·({formula})"


def _wholes(spec: ModelSpec, n: int, batch: int) -> Iterator[tuple[Convention, tuple[Unit, ...], int]]:
    """Figures of another pass or another counter, in multiplications."""
    both: tuple[Unit, ...] = ("multiplications", "FLOPs")
    bound = letters(spec, batch=batch, seq_len=n, source_len=n)
    done = _products(spec, n, batch)
    kinds = stacks(spec)
    if len(kinds) == 1:
        yield Convention("one-block", "one block alone"), both, sum(t.each for t in done if t.stack == kinds[0].title)
    if spec.causal and n:
        keys = f"{n:,} {'key' if n == 1 else 'keys'}"
        words = f"one new token that attends to {keys}, the others in a cache"
        yield Convention("decode", words), both, _sum(priced(products(spec, DECODE), bound))
    if spec.architecture != "decoder" or spec.n_experts or spec.head != "lm":
        return
    weights = sum(term.params for term in ledger(spec))
    linear = " + ".join(
        f"{stack.letter}·({part.weights} + {part.biases})"
        for stack in kinds
        for part in stack.parts
        if isinstance(part, Matrix)
    )
    head = "V·d + V" if spec.head_bias else "V·d"
    rest = weights - value(linear, bound) - (0 if spec.tied_head else value(head, bound))
    if not is_gpt2_kind(spec):
        per_row = value(f"{linear} + {head}", bound) + rest
        words = "each weight once for each sequence, whatever its length"
        yield Convention("torchinfo-1.8.0", words, "torchinfo 1.8.0"), both[:1], batch * per_row
        per_position = n * value(f"{linear} + {head}", bound) + rest
        words = "each linear layer, biases too, for each position; tables and norms once; no product of attention"
        yield Convention("torchinfo", words, "torchinfo, unreleased"), both[:1], batch * per_position
        return
    by_width = "(3·d·d + 3·d)·3·d + (d·d + d)·d + (d·d_ff + d_ff)·d_ff + (d_ff·d + d)·d"
    conv1d = value(f"L·({by_width})", bound) + rest
    words = "weights of Conv1D times the layer's width, tables and norms once, no product of attention"
    once = f"{words}, the head once for each sequence"
    yield Convention("torchinfo-1.8.0", once, "torchinfo 1.8.0"), both[:1], batch * (conv1d + value(head, bound))
    yield (
        Convention("torchinfo", words, "torchinfo, unreleased"),
        both[:1],
        batch * (conv1d + value(f"n·({head})", bound)),
    )
    norms = 2 * spec.n_layers + spec.final_norm
    only = "only the head, and norms at 4 for each element; Conv1D and tables unknown to it"
    yield Convention("thop", only, "thop"), both[:1], batch * n * (value(head, bound) + 4 * norms * spec.d_model)


class _Factors:
    """What a figure of a pass is multiplied by: the way back, tokens, sequences."""

    def __init__(self, batch_tokens: int, batch: int, tokens: int | None) -> None:
        self.batch_tokens, self.batch, self.tokens = batch_tokens, batch, tokens

    def of(self, unit: Unit, batch_tokens: int | None = None) -> Iterator[Factor]:
        """All factors of a figure in this unit, over a pass of so many tokens."""
        words = "forward and backward, three times the forward pass"
        yield Factor(Convention("backward", words), "backward", Fraction(3), unit, "× 3")
        if unit == "FLOPs":
            doubled = Convention("doubled", "doubled once more, as if FLOPs were multiplications")
            yield Factor(doubled, "doubled", Fraction(2), unit, "× 2")
        yield from self.spans(unit, batch_tokens)

    def spans(self, unit: Unit, batch_tokens: int | None = None) -> Iterator[Factor]:
        """What else than the whole pass a figure is given for."""
        n_tokens = self.batch_tokens if batch_tokens is None else batch_tokens
        if n_tokens > 1:
            per_token = Convention("per-token", "for each token, not for the pass")
            yield Factor(per_token, "span", Fraction(1, n_tokens), unit, "/ n" if self.batch == 1 else "/ (B·n)")
        if self.batch > 1:
            yield Factor(
                Convention("per-sequence", "for one sequence of the batch"),
                "span",
                Fraction(1, self.batch),
                unit,
                "/ B",
            )
        if self.tokens is not None and n_tokens:
            every = Convention("all-tokens", f"for all {self.tokens:,} training tokens")
            yield Factor(
                every, "span", Fraction(self.tokens, n_tokens), unit, "× D/n" if self.batch == 1 else "× D/(B·n)"
            )
