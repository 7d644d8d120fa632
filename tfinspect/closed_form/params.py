"""The parameters of a Transformer, term by term, as formulas in letters.

    V·d + n_ctx·d + L·(4d² + 4d + 2·d·d_ff + d_ff + d + 4d) + 2d        (GPT-2; with d_ff = 4d a block has 12d² + 13d)

Every other model differs in its parts, which `structure` lists: no n_ctx·d without a learned table, + V·d with an
untied head, 2·d·h_kv·d_head for grouped keys and values, 3·d·d_ff for a gated MLP, E times that for experts. Pre- and
Post-LN have the same parameters.

Source:  chapter A, 5.1 and 5.2; for the other families, the papers that `presets` names.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tfinspect.closed_form.formula import gathered, letters, value
from tfinspect.closed_form.structure import (
    Gain,
    Matrix,
    Part,
    Stack,
    Table,
    after,
    before,
    before_all,
    closing_norms,
    norm_in_words,
    stacks,
)
from tfinspect.dims import bind, sizes
from tfinspect.results.params import COMPONENTS, BlockKind, NamedCount, ParamTensor, ParamTerm
from tfinspect.spec import ModelSpec

__all__ = ["blocks", "ledger", "model_formula", "n_tensors", "other_counts", "tensors", "unindexable"]

#: torch counts the bytes of a tensor, four for each float32 element, in a signed 64-bit integer.
MOST_BYTES: Final = 2**63 - 1

#: Norms outside the blocks by their names, in words.
_NORM_TITLES: Final = {
    "embed.norm": "embedding",
    "final_norm": "final",
    "mlm.norm": "MLM head's",
    "encoder.embed.norm": "encoder's embedding",
    "decoder.embed.norm": "decoder's embedding",
    "encoder.final_norm": "encoder's final",
    "decoder.final_norm": "decoder's final",
}
_AFTER_TITLES: Final = {"mlm.dense": "MLM head: its d×d layer", "head": "output head", "pooler": "pooler"}
_HOW_MANY: Final = ("no", "one", "two", "three", "four", "five", "six")


def ledger(spec: ModelSpec) -> tuple[ParamTerm, ...]:
    """Every term of the parameter count, in reading order.

    Agrees:  measured.params.count, by component, for every spec.
    """
    bound = letters(spec)

    def term(component: str, title: str, formula: str) -> ParamTerm:
        return ParamTerm(component, title, formula, value(formula, bound))

    outside = before_all(spec)
    terms = [term(part.component, part.title, part.numbers) for part in outside if isinstance(part, Table)]
    for stack in stacks(spec):
        for component, title, formula in _block(spec, stack):
            each = value(formula, bound)
            terms.append(ParamTerm(component, title, formula, each, stack.copies, True, stack.title, stack.letter))
    gains = [part for part in outside if isinstance(part, Gain)]
    for gain in (*gains, *closing_norms(spec)):
        title = f"{_NORM_TITLES[gain.path]} {norm_in_words(spec)}: {_gains(gain)}"
        terms.append(term("norms", title, _sum([gain.numbers])))
    for matrix in after(spec):
        numbers = [*([] if _is_tied(spec, matrix) else [matrix.weights]), *([matrix.biases] if matrix.bias else [])]
        if numbers:
            only_bias = ": its biases, the matrix is E" if _is_tied(spec, matrix) else ""
            terms.append(term(matrix.component, _AFTER_TITLES[matrix.path] + only_bias, _sum(numbers)))
    return tuple(terms)


def blocks(spec: ModelSpec) -> tuple[BlockKind, ...]:
    """Each kind of block with its parameters, like terms gathered: 12d² + 13d where d_ff = 4d and biases are on."""
    bound, kinds = letters(spec), []
    for stack in stacks(spec):
        formula = _of_block(spec, stack)
        kinds.append(BlockKind(stack.title, stack.letter, formula, value(formula, bound), stack.copies))
    return tuple(kinds)


def model_formula(spec: ModelSpec) -> str:
    """Parameters of the model with like terms gathered inside each kind of block."""
    return " + ".join([*_tables(spec), *_stacks(spec), *_norms_outside(spec), *_ends(spec)])


def other_counts(spec: ModelSpec) -> tuple[NamedCount, ...]:
    """Counts that leave embeddings, or more, out; and those that take part in each token.

    Source:  the count without positions is the one that nanoGPT prints; Kaplan et al. (2020), table 1, call the
             matrices of the blocks N; Jiang et al. (2024), section 2.1, distinguish total and active parameters.
    """
    in_blocks, final = _stacks(spec), _norms_outside(spec, only_final=True)
    matrices = [_times(stack, _sum([m.weights for m in _matrices(stack)], spec)) for stack in stacks(spec)]
    counts = [
        ("blocks and final norm: no table, no head" if final else "blocks: no table, no head", in_blocks + final),
        ("matrices of the blocks: no bias or norm", matrices),
    ]
    ends = _ends(spec)
    if ends or (spec.head != "none" and not spec.tied_head):
        counts.insert(0, ("all but the head" + " and pooler" * spec.pooler, _without_head(spec)))
    if spec.positions == "learned":
        rest = [*_tables(spec, without="positions"), *in_blocks, *_norms_outside(spec), *ends]
        counts.insert(0, ("all but the position table", rest))
    if spec.n_experts:
        label = f"active in each token: {spec.n_experts_per_token} of {spec.n_experts} experts"
        active = [*_tables(spec), *_stacks(spec, active=True), *_norms_outside(spec), *ends]
        counts.insert(0, (label, active))
    bound = letters(spec)
    written = [(label, " + ".join(terms)) for label, terms in counts]
    return tuple(NamedCount(label, formula, value(formula, bound)) for label, formula in written)


def n_tensors(spec: ModelSpec) -> int:
    """How many parameter tensors the model has, a tied head counted with the token table."""
    outside = sum(1 if isinstance(part, Table) else _n_tensors(part) for part in before_all(spec))
    norms = sum(_n_tensors(gain) for gain in closing_norms(spec))
    ends = sum(_n_tensors(matrix) - _is_tied(spec, matrix) for matrix in after(spec))
    return outside + norms + ends + sum(stack.copies * sum(map(_n_tensors, stack.parts)) for stack in stacks(spec))


def unindexable(spec: ModelSpec) -> str:
    """What is too large for torch to index, among the parameter tensors; empty where nothing is."""
    one_expert = {**letters(spec), "E": 1}
    sizes_of = [value(m.weights, one_expert) for stack in stacks(spec) for m in _matrices(stack)]
    sizes_of += [value(part.numbers, one_expert) for part in before_all(spec) if isinstance(part, Table)]
    largest = max(*sizes_of, spec.n_experts * spec.d_model)
    if 4 * largest <= MOST_BYTES:
        return ""
    return f"a tensor of {largest:,} float32 elements has more bytes than torch can index"


def tensors(spec: ModelSpec) -> Iterator[ParamTensor]:
    """Every parameter tensor with its shape, in the order of the modules.

    Agrees:  measured.params.count, by name and shape, for every spec.
    """
    bound = bind(spec, 1, 1)

    def tensor(name: str, dims: str, alias: str = "") -> ParamTensor:
        shape = sizes(dims, bound)
        return ParamTensor(name, dims, shape, math.prod(shape), alias)

    def of(part: Part, path: str, alias: bool = False) -> Iterator[ParamTensor]:
        if isinstance(part, Table):
            yield tensor(path, part.dims, part.alias)
            return
        if not alias:
            yield tensor(f"{path}.weight", part.dims)
        if part.bias:
            yield tensor(f"{path}.bias", part.dims.split()[0])

    both = spec.architecture == "encoder_decoder"
    closing = {gain.path: gain for gain in closing_norms(spec)}
    for at in ("encoder", "decoder") if both else ("",):
        for part in before(spec, at):
            yield from of(part, part.path)
        for stack in stacks(spec):
            if both and not stack.path.startswith(at):
                continue
            for layer in stack.layers:
                for part, path in _unfolded(stack.parts):
                    yield from of(part, f"{stack.path}.{layer}.{path}")
        final = f"{at}.final_norm" if both else "final_norm"
        if final in closing:
            yield from of(closing[final], final)
    for matrix in after(spec):
        yield from of(matrix, matrix.path, _is_tied(spec, matrix))
        if matrix.path == "mlm.dense":
            yield from of(closing["mlm.norm"], "mlm.norm")


def _block(spec: ModelSpec, stack: Stack) -> Iterator[tuple[str, str, str]]:
    """(component, title, formula) of each term of one block."""
    for component in COMPONENTS:
        matrices = [matrix for matrix in _matrices(stack) if matrix.component == component]
        gains = [part for part in stack.parts if isinstance(part, Gain) and part.component == component]
        if matrices:
            yield component, _weights_title(spec, component, len(matrices)), _sum([m.weights for m in matrices])
        if any(matrix.bias for matrix in matrices):
            yield component, f"{_TITLES[component]}: their biases", _sum([m.biases for m in matrices])
        if gains and component == "norms":
            title = f"{_HOW_MANY[len(gains)]} {norm_in_words(spec)}{'s' * (len(gains) > 1)}: {_gains(gains[0])}"
            yield component, title, _sum([gain.numbers for gain in gains])
        elif gains:
            yield component, f"{_TITLES[component]}: norms of Q and K", _sum([gain.numbers for gain in gains])


_TITLES: Final = {
    "attention": "attention",
    "cross": "cross-attention",
    "mlp": "MLP",
    "router": "router",
    "experts": "experts",
    "shared": "shared expert",
}


def _weights_title(spec: ModelSpec, component: str, n_matrices: int) -> str:
    if component in ("attention", "cross"):
        return f"{_TITLES[component]}: weights of Q, K, V, O"
    if component == "router":
        return "router: one row for each expert"
    which = f"{spec.n_experts} experts" if component == "experts" else _TITLES[component]
    each = " each" if component == "experts" else ""
    return f"{which}: {_HOW_MANY[n_matrices]} weights{each}"


def _of_block(spec: ModelSpec, stack: Stack, *, active: bool = False) -> str:
    numbers = []
    for part in stack.parts:
        if isinstance(part, Gain):
            numbers.append(part.numbers)
        else:
            both = f"{part.weights} + {part.biases}"
            numbers.append(both.replace("E·", "k·") if active and part.component == "experts" else both)
    return _sum(numbers, spec)


def _tables(spec: ModelSpec, *, without: str = "") -> list[str]:
    """Numbers of all tables but those of one component, an untied head's with those of E."""
    tables = [part for part in before_all(spec) if isinstance(part, Table) and part.component != without]
    untied = ["V·d"] if spec.head != "none" and not spec.tied_head else []
    return [_sum([*(table.numbers for table in tables), *untied])]


def _stacks(spec: ModelSpec, *, active: bool = False) -> list[str]:
    return [_times(stack, _of_block(spec, stack, active=active)) for stack in stacks(spec)]


def _norms_outside(spec: ModelSpec, *, only_final: bool = False) -> list[str]:
    gains = [gain for gain in closing_norms(spec) if gain.path.endswith("final_norm") or not only_final]
    if not only_final:
        gains += [part for part in before_all(spec) if isinstance(part, Gain)]
    return [_sum([gain.numbers for gain in gains])] if gains else []


def _ends(spec: ModelSpec) -> list[str]:
    """Head and pooler without the head's own table, which `_tables` has."""
    numbers = [
        matrix.biases if matrix.path == "head" else f"{matrix.weights} + {matrix.biases}" for matrix in after(spec)
    ]
    gathered_numbers = _sum(numbers) if numbers else "0"
    return [] if gathered_numbers == "0" else [gathered_numbers]


def _without_head(spec: ModelSpec) -> list[str]:
    bare = spec.replace(tied_head=True, head_bias=spec.head == "mlm")  # the head's own table stands among the tables
    norms = _norms_outside(bare.replace(head="lm", head_bias=False))
    return [*_tables(bare), *_stacks(bare), *norms]


def _unfolded(parts: Sequence[Matrix | Gain]) -> Iterator[tuple[Matrix | Gain, str]]:
    """Parts with their paths, experts one after the other."""
    for many, run in itertools.groupby(parts, key=lambda part: part.copies if isinstance(part, Matrix) else 1):
        group = list(run)
        for number in range(many):
            yield from ((part, part.path.format(number)) for part in group)


def _matrices(stack: Stack) -> list[Matrix]:
    return [part for part in stack.parts if isinstance(part, Matrix)]


def _is_tied(spec: ModelSpec, matrix: Matrix) -> bool:
    return matrix.path == "head" and spec.tied_head


def _n_tensors(part: Part) -> int:
    if isinstance(part, Table):
        return 1
    return (1 + part.bias) * (part.copies if isinstance(part, Matrix) else 1)


def _gains(gain: Gain) -> str:
    return "gains and biases" if gain.bias else "gains"


def _sum(numbers: Iterable[str], spec: ModelSpec | None = None) -> str:
    return gathered(" + ".join(numbers), spec)


def _times(stack: Stack, each: str) -> str:
    """A formula for each block of a stack."""
    return f"{stack.letter}·({each})" if " " in each else gathered(f"{stack.letter}·{each}")
