"""Everything in a forward pass that is no matrix product, in evaluated output elements.

    norms        2 for each block, and the last one      (2L + 1)·n·d
    softmax      of the scores                           L·h·n²
    activation   of the MLP's hidden layer               L·n·d_ff
    residual     additions to the stream                 2L·n·d
    gates        softmax over the k chosen experts       L·n·k
    products     of a gate with what it lets through     L·n·d_ff, and n·k·d for the outputs of experts

Parts of a block side by side may share a norm; sandwiched ones have two each; a block with cross-attention has three
parts. Not counted: biases, masks, scales, positions, dropout, sums over experts.

Agrees:  measured.flops.count (eager attention), exactly, for every spec.
"""

from __future__ import annotations

from typing import TypeGuard

from tfinspect.closed_form.flops import whole_text
from tfinspect.closed_form.formula import gathered, letters, value
from tfinspect.closed_form.products import Pass, pairs, times, windows
from tfinspect.closed_form.structure import Gain, Matrix, Part, Stack, before_all, closing_norms, norm_in_words, stacks
from tfinspect.results.work import Causal, Elementwise, Head
from tfinspect.spec import ModelSpec

__all__ = ["elementwise"]


def elementwise(
    spec: ModelSpec,
    *,
    seq_len: int,
    batch: int = 1,
    causal: Causal = "full",
    head: Head = "all",
    source_len: int | None = None,
) -> tuple[Elementwise, ...]:
    """Output elements of everything that is no matrix product, in the whole model.

    Units:   evaluated output elements.
    """
    m = seq_len if source_len is None else source_len
    bound = letters(spec, batch=batch, seq_len=seq_len, source_len=m)
    run = whole_text(spec, seq_len=seq_len, causal=causal, head=head)

    def work(component: str, title: str, formulas: list[str]) -> Elementwise:
        formula = " + ".join(formulas)
        if batch != 1:
            formula = f"B·({formula})" if len(formulas) > 1 else f"B·{formula}"
        return Elementwise(component, title, formula, value(formula, bound))

    found = (
        ("norm", _norms_title(spec), _norms(spec, run)),
        ("softmax", "softmax of the scores", _softmax(spec, run)),
        ("gates", "softmax of the router", _gates(spec)),
        ("activation", "activation of the MLP", _activations(spec, run)),
        ("products", "products with a gate", _products(spec)),
        ("residual", "residual additions", _residuals(spec)),
    )
    return tuple(work(component, title, list(formulas)) for component, title, formulas in found if formulas)


def _norms_title(spec: ModelSpec) -> str:
    inside = sum(stack.copies * sum(_is_norm(part) for part in stack.parts) for stack in stacks(spec))
    number = inside + sum(map(_is_norm, before_all(spec))) + len(closing_norms(spec))
    return f"{number:,} {norm_in_words(spec)}{'s' * (number > 1)}" + ", and of Q and K" * spec.qk_norm


def _norms(spec: ModelSpec, run: Pass) -> list[str]:
    """Norms over the stream, by the rows that they read, and then those of heads."""
    many: dict[str, list[str]] = {}
    for stack in stacks(spec):
        number = sum(map(_is_norm, stack.parts))
        many.setdefault(stack.rows, []).append(f"{number}·{stack.letter}")
    for gain in (*before_all(spec), *closing_norms(spec)):
        if _is_norm(gain):
            rows = run.head if gain.path.startswith("mlm.") else "m" if gain.path.startswith("encoder.") else "n"
            many.setdefault(rows, []).append("1")
    heads = []
    for stack in stacks(spec) if spec.qk_norm else ():
        for mixing in stack.mixing:
            same = mixing.queries == mixing.keys
            both = f"{mixing.queries}·(h + h_kv)" if same else f"({mixing.queries}·h + {mixing.keys}·h_kv)"
            heads.append(times(stack.letter, both, "d_head"))
    return [*_each(many, "d"), *heads]


def _softmax(spec: ModelSpec, run: Pass) -> list[str]:
    """Rows of scores of every head."""
    many: dict[str, list[str]] = {}
    for stack in stacks(spec):
        for mixing in stack.mixing:
            masks = windows(spec, stack, run) if mixing.path == "attn" else ((0, stack.copies),)
            for window, copies in masks:
                letter = stack.letter if len(masks) == 1 else str(copies)
                seen = pairs(mixing, run, window) if mixing.path == "attn" else f"{mixing.queries}·{mixing.keys}"
                many.setdefault(f"h·{seen}", []).append(letter)
    return _each(many)


def _gates(spec: ModelSpec) -> list[str]:
    return [times(stack.letter, "n", "k") for stack in stacks(spec) if _has_experts(stack)]


def _activations(spec: ModelSpec, run: Pass) -> list[str]:
    return _hidden(spec) + [times(run.head, "d")] * (spec.head == "mlm")


def _products(spec: ModelSpec) -> list[str]:
    """What a gated MLP lets through, and the outputs of experts times what the router gives each."""
    weighted = [times(stack.letter, "n", "k", "d") for stack in stacks(spec) if _has_experts(stack)]
    return [*(_hidden(spec) if spec.gated else []), *weighted]


def _hidden(spec: ModelSpec) -> list[str]:
    """Features of all hidden layers."""
    return [
        times(stack.letter, part.rows, part.out)
        for stack in stacks(spec)
        for part in stack.parts
        if isinstance(part, Matrix) and part.path.startswith("mlp.") and part.path.endswith("up")
    ]


def _residuals(spec: ModelSpec) -> list[str]:
    many: dict[str, list[str]] = {}
    for stack in stacks(spec):
        many.setdefault(stack.rows, []).append(f"{len(stack.mixing) + 1}·{stack.letter}")
    return _each(many, "d")


def _each(many: dict[str, list[str]], width: str = "1") -> list[str]:
    """Each kind of rows as often as its counts, put together, say: "(2L + 1)·n·d"."""
    written = []
    for rows, counts in many.items():
        number = gathered(" + ".join(counts))
        written.append(times(f"({number})" if " " in number else number, rows, width))
    return written


def _is_norm(part: Part) -> TypeGuard[Gain]:
    """Whether a part is a norm over the stream."""
    return isinstance(part, Gain) and part.width == "d"


def _has_experts(stack: Stack) -> bool:
    return any(isinstance(part, Matrix) and part.work == "experts" for part in stack.parts)
