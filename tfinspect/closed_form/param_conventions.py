"""How else parameters are counted: what is left out, counted twice, or taken for something else.

Every piece is a formula of the ledger's own parts, so that each convention holds for every model:

    E, P, tables     V·d, n_ctx·d, ...           biases     of linear maps, and of norms
    matrices         of the blocks               gains      of norms
    head             V·d where it is untied      not parameters at all: mask buffers, the twin of a tied head

Source:  cases that people met: karpathy/nanoGPT #209 and #322 (without positions), TylerYep/torchinfo #377 (tied head
         twice), EleutherAI/cookbook #36 (two matrices of three), NVIDIA/Megatron-LM #51 (padded vocabulary),
         meta-llama/llama #1111 (keys and values in full).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

from tfinspect.closed_form.flops import active_params
from tfinspect.closed_form.formula import letters, value
from tfinspect.closed_form.params import ledger
from tfinspect.closed_form.readings import Change, Factor, Ground, distinct
from tfinspect.closed_form.structure import Gain, Matrix, Table, after, before_all, closing_norms, stacks
from tfinspect.errors import InputError
from tfinspect.results.reconcile import Convention
from tfinspect.spec import ModelSpec

__all__ = ["START", "grounds", "is_gpt2_kind", "pieces", "variants"]

START: Final = "parameters, each counted once"

#: Multiples that vocabularies are padded to.
PADDED_TO: Final = (64, 128, 256)
#: Rows of GPT-2's tokenizer; nearby tables are this one with rows added.
GPT2_ROWS: Final = 50_257
#: Lengths that position tables usually have.
USUAL_LENGTHS: Final = (512, 1_024, 2_048, 4_096)

#: An activation with one matrix more, and with one fewer.
_GATED: Final = {"gelu": "geglu", "gelu_tanh": "geglu_tanh", "silu": "swiglu", "relu": "swiglu"}
_PLAIN: Final = {"geglu": "gelu", "geglu_tanh": "gelu_tanh", "swiglu": "silu"}

_FORMATS: Final = (("fp32", 4), ("bf16 or fp16", 2), ("int8", 1))


def grounds(spec: ModelSpec, *, batch_tokens: int, tokens: int | None) -> Iterator[Ground]:
    """Parameters as they are, and under each convention that changes the model."""
    factors = tuple(_factors(batch_tokens, tokens))
    own = _total(spec)
    yield Ground("parameters", START, own, own, (), distinct(_changes(spec)), factors)
    seen = {own}
    for convention, other in (*variants(spec), *_longer_tables(spec)):
        total = _total(other)
        if total not in seen:
            seen.add(total)
            yield Ground("parameters", START, own, total, (convention,), distinct(_changes(other)), factors)
    bound = letters(spec)
    for convention, formula in _wholes(spec):
        yield Ground("parameters", START, own, value(formula, bound), (convention,), (), factors)


def variants(spec: ModelSpec) -> Iterator[tuple[Convention, ModelSpec]]:
    """Models that this one is taken for, each different from it."""
    for key, words, changes in _variants(spec):
        try:
            other = spec.replace(**changes)
        except InputError:  # not every model can be changed so
            continue
        if other != spec:
            yield Convention(key, words), other


def pieces(spec: ModelSpec) -> dict[str, str]:
    """The parameters of a model in pieces that conventions tell apart, as formulas; together they are all."""
    found: dict[str, list[str]] = {}

    def add(piece: str, formula: str, letter: str = "") -> None:
        found.setdefault(piece, []).append(f"{letter}·{formula}" if letter else formula)

    for part in before_all(spec):
        if isinstance(part, Table):
            add(part.component, part.numbers)
        elif isinstance(part, Gain):
            _add_norm(add, part, "outer")
    for stack in stacks(spec):
        for block_part in stack.parts:
            if isinstance(block_part, Gain):
                _add_norm(add, block_part, "block", stack.letter)
                continue
            add(f"{block_part.component} weights", block_part.weights, stack.letter)
            if block_part.bias:
                which = "qkv" if block_part.path.endswith((".q", ".k", ".v")) else "other"
                add(f"{which} biases", block_part.biases, stack.letter)
    for gain in closing_norms(spec):
        _add_norm(add, gain, "outer")
    for matrix in after(spec):
        if matrix.path != "head" or not spec.tied_head:
            add(matrix.component, matrix.weights)
        if matrix.bias:
            add("head biases" if matrix.path == "head" else matrix.component, matrix.biases)
    return {piece: " + ".join(formulas) for piece, formulas in found.items()}


def _add_norm(add: Any, gain: Gain, where: str, letter: str = "") -> None:
    add(f"{where} gains", gain.width, letter)
    if gain.bias:
        add(f"{where} norm biases", gain.width, letter)


def _total(spec: ModelSpec) -> int:
    return sum(term.params for term in ledger(spec))


_LINEAR: Final = ("qkv biases", "other biases")
_NORM_BIASES: Final = ("block norm biases", "outer norm biases")
_GAINS: Final = ("block gains", "outer gains")
_TABLES: Final = ("tokens", "positions", "types", "relative")
_HEAD: Final = ("head", "head biases")

#: Key, words, pieces that are left out, and who leaves them out.
_LEFT_OUT: Final[tuple[tuple[str, str, tuple[str, ...], str], ...]] = (
    ("no-positions", "the position table left out", ("positions",), "as nanoGPT prints it"),
    ("no-token-table", "the token table left out", ("tokens",), ""),
    ("no-tables", "all embedding tables left out", _TABLES, ""),
    ("no-tables-no-head", "all embedding tables and the head left out", (*_TABLES, *_HEAD), ""),
    ("no-head", "the head left out", _HEAD, ""),
    ("no-qkv-biases", "biases of Q, K and V left out", ("qkv biases",), ""),
    ("no-linear-biases", "biases of linear maps left out", _LINEAR, ""),
    ("no-norm-biases", "biases of norms left out", _NORM_BIASES, ""),
    ("no-biases", "all biases left out, of norms too", (*_LINEAR, *_NORM_BIASES, "head biases"), ""),
    ("no-norms", "norms left out", (*_GAINS, *_NORM_BIASES), ""),
    ("no-outer-norms", "norms outside the blocks left out", ("outer gains", "outer norm biases"), ""),
    (
        "no-biases-no-norms",
        "all biases and norms left out",
        (*_LINEAR, *_GAINS, *_NORM_BIASES, "head biases"),
        "",
    ),
    ("no-router", "routers left out", ("router weights",), ""),
    ("no-pooler", "the pooler left out", ("pooler",), ""),
    ("no-types", "the token-type table left out", ("types",), ""),
)


def _changes(spec: ModelSpec) -> Iterator[Change]:
    bound, parts = letters(spec), pieces(spec)
    amounts = {piece: value(formula, bound) for piece, formula in parts.items()}

    def change(key: str, words: str, touched: tuple[str, ...], formula: str, sign: int, source: str = "") -> Change:
        by = sign * value(formula, bound)
        return Change(Convention(key, words, source), frozenset(touched), by, formula)

    if spec.tied_head and spec.head != "none":
        words = "the tied head counted a second time"
        yield change("tied-head-twice", words, ("twin", "tokens"), "V·d", 1, "torchinfo 1.8.0")
    for key, words, pieces_left_out, source in _LEFT_OUT:
        present = tuple(piece for piece in pieces_left_out if piece in parts)
        by = sum(amounts[piece] for piece in present)
        if present and by:
            formula = " + ".join(parts[piece] for piece in present)
            yield Change(Convention(key, words, source), frozenset(present), -by, formula)
    rest = tuple(piece for piece in parts if not piece.endswith(" weights"))
    if rest:
        words = "only the matrices of the blocks"
        formula = " + ".join(parts[piece] for piece in rest)
        yield change("only-matrices", words, rest, formula, -1, "N of Kaplan et al. 2020")
    in_blocks = " + ".join(parts[p] for p in ("block gains", "block norm biases") if p in parts)
    words = "norms of the blocks counted twice"
    yield change("norms-twice", words, ("block gains", "block norm biases"), in_blocks, 1, "EleutherAI's formula")
    if spec.causal:
        each, masks = "L·n_ctx²", "the causal mask of each block counted"
        yield change("masks", masks, ("masks",), each, 1, "old GPT-2 checkpoints hold it")
        stored = f"{masks}, and the number for masked scores"
        yield change("masks-and-number", stored, ("masks",), f"{each} + L", 1)
    if spec.positions != "learned":
        yield change("positions-added", "a position table counted that it has not", ("positions",), "n_ctx·d", 1)
    if spec.positions == "rope" and spec.rope_dim % 2 == 0:
        formula = f"L·{spec.rope_dim // 2}"
        yield change("rope-buffers", "frequencies of RoPE counted in each block", ("frequencies",), formula, 1)
    if spec.n_experts > spec.n_experts_per_token:
        idle = active_params(spec) - _total(spec)
        words = f"{spec.n_experts_per_token} of {spec.n_experts} experts counted, as each token meets"
        touched = frozenset({"experts weights", "other biases"} if spec.mlp_bias else {"experts weights"})
        yield Change(Convention("active", words), touched, idle)


def _wholes(spec: ModelSpec) -> Iterator[tuple[Convention, str]]:
    """Formulas that stand for the whole model."""
    if spec.architecture != "encoder_decoder":
        yield Convention("12Ld2", "12·L·d²: no embedding, no bias, no norm, d_ff = 4d"), "12·L·d²"
        yield Convention("12Ld2-and-table", "12·L·d² + V·d: no bias, no norm, d_ff = 4d"), "12·L·d² + V·d"
    kinds = stacks(spec)
    if len(kinds) == 1:
        (stack,) = kinds
        numbers = [
            part.numbers if isinstance(part, Gain) else f"{part.weights} + {part.biases}" for part in stack.parts
        ]
        yield Convention("one-block", "one block alone"), " + ".join(numbers)
    if not spec.n_experts and is_gpt2_kind(spec):
        words = "only the head and the norms, the rest unknown to it"
        yield Convention("thop", words, "thop"), "V·d + (2·L + 1)·2·d" if spec.final_norm else "V·d + 2·L·2·d"
    elif spec.head == "lm" and not spec.tied_head:
        linear = [f"{s.letter}·{part.weights}" for s in kinds for part in s.parts if isinstance(part, Matrix)]
        linear += [f"{s.letter}·{part.biases}" for s in kinds for part in s.parts if isinstance(part, Matrix)]
        words = "linear layers alone, head included, no table and no norm"
        yield Convention("linear-layers", words, "thop, where norms are not torch's own"), " + ".join([*linear, "V·d"])


def is_gpt2_kind(spec: ModelSpec) -> bool:
    """Whether a model is of GPT-2's own kind, whose linear layers transformers calls Conv1D."""
    plain = ModelSpec()
    same = ("architecture", "placement", "norm", "positions", "position_offset", "head", "tied_head", "head_bias")
    return (
        all(getattr(spec, name) == getattr(plain, name) for name in same)
        and spec.bias
        and spec.norm_bias
        and not spec.gated
        and not spec.n_experts
        and spec.n_kv_heads == spec.n_heads
        and spec.d_attn == spec.d_model
        and not (spec.embed_norm or spec.qk_norm or spec.n_token_types or spec.pooler)
    )


def _variants(spec: ModelSpec) -> Iterator[tuple[str, str, dict[str, Any]]]:
    rows: set[int] = {spec.vocab_size}
    for multiple_of in PADDED_TO:
        padded = -(-spec.vocab_size // multiple_of) * multiple_of
        if padded not in rows:
            rows.add(padded)
            words = f"a token table of {padded:,} rows, V padded to a multiple of {multiple_of}"
            yield f"padded-{multiple_of}", words, {"vocab_size": padded}
    if abs(spec.vocab_size - GPT2_ROWS) < 1_024 and GPT2_ROWS not in rows:
        yield "unpadded", f"a token table of {GPT2_ROWS:,} rows, as GPT-2's tokenizer has", {"vocab_size": GPT2_ROWS}
    if spec.n_kv_heads != spec.n_heads:
        words = f"keys and values with all {spec.n_heads} heads, not {spec.n_kv_heads}"
        yield "full-kv", words, {"n_kv_heads": spec.n_heads}
    if spec.n_heads * spec.d_head != spec.d_model and spec.d_model % spec.n_heads == 0:
        each = spec.d_model // spec.n_heads
        yield "d-head-by-rule", f"heads of d/h = {each:,}, not of {spec.d_head:,}", {"d_head": each}
    if spec.gated:
        yield "two-matrices", "an MLP of two matrices, not three", {"activation": _PLAIN[spec.activation]}
    else:
        yield "three-matrices", "an MLP of three matrices, not two", {"activation": _GATED[spec.activation]}
    widths = [("d-ff-4d", 4 * spec.d_model, "d_ff = 4d")]
    if spec.gated:
        widths.append(("d-ff-8d/3", 8 * spec.d_model // 3, "d_ff = 8d/3"))
    for key, width, words in widths:
        if spec.d_ff != width:
            yield key, f"{words} = {width:,}, not {spec.d_ff:,}", {"d_ff": width}
    if not spec.bias:
        added = {"qkv_bias": True, "out_bias": True, "mlp_bias": True}
        yield "biases-added", "a bias on every linear map of the blocks", added
    if spec.n_experts > 1:
        one = {"n_experts": 1, "n_experts_per_token": 1}
        yield "one-expert", f"one expert in a block, not {spec.n_experts:,}", one


def _longer_tables(spec: ModelSpec) -> Iterator[tuple[Convention, ModelSpec]]:
    """The same model with a position table of another length."""
    for rows in USUAL_LENGTHS if spec.positions == "learned" else ():
        if rows != spec.n_ctx:
            words = f"a position table of {rows:,} rows, not {spec.n_ctx:,}"
            yield Convention(f"positions-{rows}", words), spec.replace(n_ctx=rows)


def _factors(batch_tokens: int, tokens: int | None) -> Iterator[Factor]:
    for name, size in _FORMATS:
        each = f"{size} byte{'s' * (size > 1)}"
        yield Factor(
            Convention(f"bytes-{size}", f"in {name}, {each} each"), "unit", Fraction(size), "bytes", f"× {size}"
        )
    yield Factor(Convention("bytes-4-bit", "in 4 bits each"), "unit", Fraction(1, 2), "bytes", "/ 2")
    words = "weights, gradients and AdamW's moments in fp32, 16 bytes each"
    yield Factor(Convention("bytes-16", words), "unit", Fraction(16), "bytes", "× 16")
    yield Factor(Convention("2N", "two FLOPs each, for one token: 2N"), "unit", Fraction(2), "FLOPs", "× 2")
    training = "six FLOPs each, for one token of training: 6N"
    yield Factor(Convention("6N", training), "unit", Fraction(6), "FLOPs", "× 6")
    if batch_tokens > 1:
        for times, name in ((2, "2·N·n"), (6, "6·N·D, D")):
            words = f"{'two' if times == 2 else 'six'} FLOPs each, for {batch_tokens:,} tokens: {name} = B·n"
            by = Fraction(times * batch_tokens)
            key = "2ND" if times == 2 else "6ND"
            yield Factor(Convention(key, words), "unit", by, "FLOPs", f"× {times}·B·n")
    if tokens is not None and tokens != batch_tokens:
        for times in (2, 6):
            words = f"{'two' if times == 2 else 'six'} FLOPs each, for all training tokens: {times}·N·D"
            yield Factor(Convention(f"{times}ND-all", words), "unit", Fraction(times * tokens), "FLOPs", f"× {times}·D")
