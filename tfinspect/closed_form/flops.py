"""The scalar multiplications of one forward pass, term by term, as formulas in n, d, d_ff, V, L and B.

    projections Q, K, V, O   4·n·d²      each block      scores QKᵀ     n²·d         each block
    MLP                      2·n·d·d_ff  each block      weights·V      n²·d         each block
    output head              n·d·V       once            look-up        0

    With d_ff = 4d a block has 12·n·d² + 2·n²·d. The causal half replaces n² by n(n + 1)/2, the pairs that the mask lets
    through, and by w·n − w(w − 1)/2 under a window of w ≤ n; what runs is the full n². A batch multiplies everything by
    B. Kaplan et al. (2020), table 1, count per token, in FLOPs, and without the head; their context term 2·L·n·d is
    half of the full 4·L·n·d.

Every other model differs in its products, which `products` lists: 2·n·d·h_kv·d_head for grouped keys and values,
3·n·d·d_ff for a gated MLP, k times that for experts, n·m·d twice for cross-attention.

Source:  chapter A, 6.1 and exercise 11.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tfinspect.closed_form.formula import gathered, letters, ratio, value
from tfinspect.closed_form.params import ledger
from tfinspect.closed_form.products import Pass, Product, products
from tfinspect.closed_form.structure import Matrix, stacks
from tfinspect.results.growth import whole
from tfinspect.results.work import Causal, FlopTerm, Head, PerToken
from tfinspect.spec import ModelSpec

__all__ = ["active_params", "matrix_params", "multiplications", "per_token", "priced", "terms", "whole_text"]


def terms(
    spec: ModelSpec,
    *,
    seq_len: int,
    batch: int = 1,
    causal: Causal = "full",
    head: Head = "all",
    source_len: int | None = None,
) -> tuple[FlopTerm, ...]:
    """Every matrix product of one forward pass, in reading order, the head last.

    The encoder of an encoder–decoder reads source_len positions, by default as many as the decoder.

    Units:   multiplications; FLOPs = 2 x.
    Agrees:  measured.flops.count, exactly, in total and by component, for every spec.
    """
    run = whole_text(spec, seq_len=seq_len, causal=causal, head=head)
    m = seq_len if source_len is None else source_len
    return priced(products(spec, run), letters(spec, batch=batch, seq_len=seq_len, source_len=m))


def multiplications(
    spec: ModelSpec,
    *,
    seq_len: int,
    batch: int = 1,
    causal: Causal = "full",
    head: Head = "all",
    source_len: int | None = None,
) -> int:
    """Multiplications of the whole model."""
    run = terms(spec, seq_len=seq_len, batch=batch, causal=causal, head=head, source_len=source_len)
    return sum(term.multiplications for term in run)


def priced(done: Iterator[Product], bound: dict[str, int]) -> tuple[FlopTerm, ...]:
    """Products with what they cost over a batch."""

    def term(product: Product) -> FlopTerm:
        formula = product.formula
        if bound["B"] != 1:
            formula = f"B·({formula})" if " " in formula and "(" not in formula else f"B·{formula}"
        each = value(formula, bound)
        return FlopTerm(
            product.component, product.title, formula, each, product.copies, product.part, product.stack, product.letter
        )

    return tuple(term(product) for product in done)


def whole_text(spec: ModelSpec, *, seq_len: int, causal: Causal = "full", head: Head = "all") -> Pass:
    """A pass over all n positions of a text."""
    pairs = windowed = "n²"
    if causal == "half":
        pairs = windowed = "n(n + 1)/2"
        if spec.window and spec.window <= seq_len:
            windowed = "(w·n − w(w − 1)/2)"
    one = "1" if seq_len else "n"  # no position is the first or the last of none
    return Pass("n", pairs, windowed, "n" if head == "all" else one, pooled=one)


def active_params(spec: ModelSpec) -> int:
    """Parameters that take part in each token: of E experts, those that it goes through."""
    counted = ledger(spec)
    in_experts = sum(term.params for term in counted if term.component == "experts")
    return spec.active(sum(term.params for term in counted), in_experts)


def matrix_params(spec: ModelSpec, *, active: bool = False) -> int:
    """Parameters of the blocks' matrices: N of Kaplan et al. 2020, without embeddings, biases and norms.

    Of E experts, those that each token goes through, where only the active ones are asked for.
    """
    bound = letters(spec)
    return sum(
        stack.copies * value(part.weights, {**bound, "E": spec.n_experts_per_token} if spared else bound)
        for stack in stacks(spec)
        for part in stack.parts
        if isinstance(part, Matrix)
        for spared in [active and part.component == "experts"]
    )


def per_token(
    spec: ModelSpec, *, seq_len: int, causal: Causal = "full", head: Head = "all", source_len: int | None = None
) -> tuple[PerToken, ...]:
    """FLOPs of each token: matrices of the blocks, attention, and the head where it runs for each. Empty for n = 0.

    In an encoder–decoder a token of the source costs something of its own. Under a window the causal half is a mean
    over the n tokens.

    Source:  Kaplan et al. (2020), section 2.1: 2N for the matrices, and a context term that grows with n.
    """
    if seq_len == 0:
        return ()
    m = seq_len if source_len is None else source_len
    bound = letters(spec, seq_len=seq_len, source_len=m)
    shares = [
        ("matrices of the blocks", _matrices(spec, encoder=False)),
        ("attention, QKᵀ and weights·V", _attention(spec, seq_len=seq_len, causal=causal)),
    ]
    of_source = []
    if spec.architecture == "encoder_decoder":
        width = stacks(spec)[-1].mixing[1].width
        shares.append(("cross-attention, QKᵀ and weights·V", f"4·L·m·{width}"))
        made = [p.formula for p in products(spec, _ONE) if p.component == "cross_projections" and p.part == "source"]
        of_source += [
            ("source: matrices of the encoder", _matrices(spec, encoder=True)),
            ("source: attention of the encoder", f"4·L_enc·m·{width}"),
            ("source: cross K, V", gathered(f"2·L·({' + '.join(made)})")),
        ]
    if head == "all" and spec.head != "none":
        shares.append(("output head", "2·d·V + 2d²" if spec.head == "mlm" else "2·d·V"))

    def part(title: str, formula: str, source: bool) -> PerToken:
        return PerToken(title, formula, whole(ratio(formula, bound)), source)

    return (*(part(*share, False) for share in shares), *(part(*share, True) for share in of_source))


#: One position of each text.
_ONE: Final = Pass("1", "1", "1", "1", source="1")


def _matrices(spec: ModelSpec, *, encoder: bool) -> str:
    """FLOPs of one position in the matrices of the encoder, or of all other blocks."""
    inside = [stack for stack in stacks(spec) if stack.path.startswith("encoder") is encoder]
    sums = []
    for stack in inside:
        linear = [p.formula for p in products(spec, _ONE) if p.part == "linear" and p.stack == stack.title]
        each = gathered(" + ".join(linear), spec)
        sums.append(f"2·{stack.letter}·({each})" if " " in each else gathered(f"2·{stack.letter}·{each}"))
    return " + ".join(sums)


def _attention(spec: ModelSpec, *, seq_len: int, causal: Causal) -> str:
    """FLOPs of one position in QKᵀ and weights·V of self-attention."""
    last = stacks(spec)[-1]
    width = last.mixing[0].width
    if causal == "full" or not last.mixing[0].causal:
        return f"4·L·n·{width}"
    n_windowed = spec.n_windowed(range(spec.n_layers))
    if seq_len < spec.window or not n_windowed:
        return f"2·L·(n + 1)·{width}"
    windowed = f"(2·w·n − w(w − 1))·{width}/n"
    if n_windowed == spec.n_layers:
        return f"2·L·{windowed}"
    return f"2·{n_windowed}·{windowed} + 2·{spec.n_layers - n_windowed}·(n + 1)·{width}"
