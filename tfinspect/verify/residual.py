"""Claims about the residual path, on the residual stream of the torch core itself.

The stream is x_0, x_1, ..., x_M: after the embedding, and after each of the M = 2L sublayers. A tap reads it, and a tap
puts another x_l in its place, so that ∂x_M/∂x_l is the derivative of the very code that runs. Jacobians of a sublayer
alone, J_l, D_l and K_l, are taken from the modules; all are matrices over the n·d numbers of a text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import functional

from tfinspect.model.transformer import Block, Transformer
from tfinspect.results.checks import Figure, Findings, Matrix
from tfinspect.spec import ModelSpec
from tfinspect.verify.difference import largest
from tfinspect.verify.draws import Draws
from tfinspect.verify.kept import transformer
from tfinspect.verify.layer_norm import rows_of
from tfinspect.verify.propositions import Settings

__all__ = ["eight_terms", "gradients", "post_norm", "pre_norm"]

Build: TypeAlias = Callable[[ModelSpec, Draws], Transformer]
Map: TypeAlias = Callable[[Tensor], Tensor]

#: Two blocks, so four sublayers; Jacobians are [T·d, T·d] with T·d = 8.
PRE: Final = ModelSpec(vocab_size=11, n_ctx=7, d_model=4, n_layers=2, n_heads=2, d_ff=9, activation="gelu")
POST: Final = PRE.replace(placement="post", final_norm=False)
T: Final = 2
#: The models whose gradients are measured at initialisation.
DEEP: Final = ModelSpec(vocab_size=97, n_ctx=32, d_model=64, n_layers=12, n_heads=4, d_ff=256, activation="relu")
AT_START: Final = {"Pre-LN": DEEP, "Post-LN": DEEP.replace(placement="post", final_norm=False)}


class Stream:
    """A tap that reads a forward pass, and changes it on request.

    put: another tensor in the place of the one of that name.  detach: sublayers through which no gradient passes.
    bare: the residual additions are left out; only what a sublayer gives goes on.
    """

    sees_scores = True  # attention as written, for derivatives as exact as the rest

    def __init__(self, *, put: tuple[str, Tensor] | None = None, detach: bool = False, bare: bool = False) -> None:
        self.seen: dict[str, Tensor] = {}
        self.put, self.detach, self.bare, self.place = put, detach, bare, ""

    def __call__(self, name: str, tensor: Tensor, dims: str) -> Tensor:
        full = self.place + name
        if self.bare and name in ("resid_mid", "resid_out"):
            tensor = self.seen[self.place + ("attn.out" if name == "resid_mid" else "mlp.out")]
        if self.detach and name == "out":
            tensor = tensor.detach()
        if self.put is not None and self.put[0] == full:
            tensor = self.put[1].view_as(tensor)
        self.seen[full] = tensor
        return tensor

    def within(self, place: str) -> Stream:
        """The same listener, for names inside a place."""
        inner = Stream(put=self.put, detach=self.detach, bare=self.bare)
        inner.seen, inner.place = self.seen, f"{self.place}{place}."
        return inner


class Path:
    """The residual stream of a model over one text, x_0 to x_M, each as a vector of T·d numbers."""

    def __init__(self, model: Transformer, tokens: Tensor, *, bare: bool = False) -> None:
        self.model, self.tokens, self.bare = model, tokens, bare
        ends = ("resid_mid", "resid_out") if model.spec.placement == "pre" else ("norm1", "norm2")
        self.points = ["embed.sum", *(f"blocks.{i}.{end}" for i in range(len(model.blocks)) for end in ends)]
        seen = self.run()
        self.x = [seen[point].detach().flatten() for point in self.points]

    def run(self, put: tuple[str, Tensor] | None = None, detach: bool = False) -> dict[str, Tensor]:
        """Every named tensor of one forward pass."""
        stream = Stream(put=put, detach=detach, bare=self.bare)
        self.model(self.tokens, stream)
        return stream.seen

    def derivative(self, low: int, high: int, *, detach: bool = False) -> Tensor:
        """∂x_high/∂x_low, by autograd through the model's own forward pass."""
        return jacobian(lambda x: self.run((self.points[low], x), detach)[self.points[high]].flatten(), self.x[low])

    def sublayer(self, k: int) -> tuple[Map, Map]:
        """What the k-th sublayer computes, from 1, and its layer norm, both on vectors."""
        block = cast("Block", self.model.blocks[(k - 1) // 2])
        part, norm = (block.attn, block.norm1) if k % 2 else (block.mlp, block.norm2)
        shape = (1, self.tokens.shape[1], self.model.spec.d_model)
        return lambda x: part(x.view(shape), Stream()).flatten(), lambda x: norm(x.view(shape)).flatten()


def pre_norm(settings: Settings, build: Build = transformer, spec: ModelSpec = PRE) -> Findings:
    """A4.1 for Pre-LN: the stream as a sum, and its derivative as a product and as 2^(M − l) terms."""
    draws, tolerance = Draws(settings), settings.tolerance(1e-11)
    sums, products, expansions, cut = [], [], [], []
    terms: list[tuple[str, Tensor]] = []
    for _ in range(settings.trials):
        path = Path(build(spec, draws), draws.ids(spec.vocab_size, 1, T))
        last = len(path.x) - 1
        parts = {k: inner(*path.sublayer(k)) for k in range(1, last + 1)}
        sums.append(path.x[last] - path.x[0] - sum(G(path.x[k - 1]) for k, G in parts.items()))
        J = {k: jacobian(G, path.x[k - 1]) for k, G in parts.items()}
        for low in range(last):
            measured = path.derivative(low, last)
            above = {k: J[k] for k in range(low + 1, last + 1)}
            products.append(measured - product([identity(j) + j for j in above.values()]))
            terms = terms if low else expanded(above)
            expansions.append(measured - sum(term for _, term in expanded(above)))
        alone = path.derivative(0, last, detach=True)
        cut.append(alone - identity(alone))
    pure = sum(torch.equal(term, identity(term)) for _, term in terms)
    return Findings(
        (
            Figure("x_M − x_0 − ΣG_l(x_{l−1})", largest(sums), 0.0, tolerance),
            Figure("∂x_M/∂x_l − (I + J_M)…(I + J_{l+1}), any l", largest(products), 0.0, tolerance),
            Figure("∂x_M/∂x_l − the expansion, any l", largest(expansions), 0.0, tolerance),
            Figure(f"terms, M = {last} and l = 0", len(terms), 2**last),
            Figure("terms that are I", pure, 1),
            Figure("∂x_M/∂x_0 − I, no gradient through sublayers", largest(cut), 0.0),
        ),
        (Matrix(f"Terms of ∂x_{last}/∂x_0, last input", sizes(terms), (), ("term", "Frobenius norm")),),
        (f"A model of {last} sublayers, {T} tokens and d = {spec.d_model}; the largest absolute value of each.",),
    )


def post_norm(settings: Settings, build: Build = transformer, spec: ModelSpec = POST) -> Findings:
    """A4.1 for Post-LN: the derivative as a product of K(I + D), and its term without D, which is no identity."""
    draws, tolerance = Draws(settings), settings.tolerance(1e-11)
    products, cut, from_identity = [], [], []
    for _ in range(settings.trials):
        path = Path(build(spec, draws), draws.ids(spec.vocab_size, 1, T))
        last = len(path.x) - 1
        D, K = {}, {}
        for k in range(1, last + 1):
            (part, norm), x = path.sublayer(k), path.x[k - 1]
            D[k], K[k] = jacobian(part, x), jacobian(norm, (x + part(x)).detach())
        for low in range(last):
            above = range(low + 1, last + 1)
            products.append(path.derivative(low, last) - product([K[k] @ (identity(D[k]) + D[k]) for k in above]))
            free = product([K[k] for k in above])
            cut.append(path.derivative(low, last, detach=True) - free)
            from_identity.append(free - identity(free))
    nearest = min(largest(difference) for difference in from_identity)
    return Findings(
        (
            Figure("∂x_M/∂x_l − K_M(I + D_M)…K_{l+1}(I + D_{l+1}), any l", largest(products), 0.0, tolerance),
            Figure("K_M…K_{l+1} − ∂x_M/∂x_l, no gradient through sublayers", largest(cut), 0.0, tolerance),
            Figure("K_M…K_{l+1} − I, nearest of all l", nearest, 0.0, 1e-3, differs=True),
        ),
        (Matrix("K_M…K_1, last input", rows_of(product([K[k] for k in range(1, last + 1)]))),),
        (f"A model of {last} sublayers, {T} tokens and d = {spec.d_model}; the largest absolute value of each.",),
    )


def eight_terms(settings: Settings, build: Build = transformer, spec: ModelSpec = PRE) -> Findings:
    """A11.3: the terms of ∂x_3/∂x_0 by name, with their norms; without residual additions only J3J2J1 remains."""
    draws, tolerance = Draws(settings), settings.tolerance(1e-11)
    whole, bare, apart, rows = [], [], [], []
    for _ in range(settings.trials):
        model, tokens = build(spec, draws), draws.ids(spec.vocab_size, 1, T)
        path, without = Path(model, tokens), Path(model, tokens, bare=True)
        J, alone = ({k: jacobian(inner(*p.sublayer(k)), p.x[k - 1]) for k in (1, 2, 3)} for p in (path, without))
        terms, measured = expanded(J), path.derivative(0, 3)
        whole.append(measured - sum(term for _, term in terms))
        bare.append(without.derivative(0, 3) - product(list(alone.values())))
        apart.append(measured - product(list(J.values())))
        rows.append(sizes(terms))
    return Findings(
        (
            Figure("terms", " + ".join(name for name, _ in terms), "I + J1 + J2 + J3 + J2J1 + J3J1 + J3J2 + J3J2J1"),
            Figure("∂x_3/∂x_0 − their sum", largest(whole), 0.0, tolerance),
            Figure("without residuals: ∂x_3/∂x_0 − J3J2J1", largest(bare), 0.0, tolerance),
            Figure("with residuals: ∂x_3/∂x_0 − J3J2J1", largest(apart), 0.0, 1e-3, differs=True, detail=True),
        ),
        (Matrix("Terms and their size, first input", rows[0], (), ("term", "Frobenius norm")),),
    )


def gradients(settings: Settings, specs: Mapping[str, ModelSpec] = AT_START) -> Findings:
    """A4.2: the norm of the loss's gradient in each block at initialisation; a measurement, and no claim."""
    norms = {name: gradient_norms(spec, settings) for name, spec in specs.items()}
    blocks = range(max(map(len, norms.values())))
    return Findings(
        tuple(
            Figure(f"{name}: {words}", value)
            for name, found in norms.items()
            for words, value in (("first block", found[0]), ("last block", found[-1]))
        ),
        (
            Matrix(
                "Gradient norm of the MLP's second matrix, by block",
                tuple((block, *(found[block] for found in norms.values())) for block in blocks),
                column_labels=("block", *norms),
            ),
        ),
        (
            "Matrices drawn with variance 1/d_in, gains 1, biases 0; the loss of the next token over random ids.",
            "What the expansion says is no theorem about training. Xiong et al. (2020) report larger gradients near "
            "the output for Post-LN at initialisation.",
        ),
    )


def gradient_norms(spec: ModelSpec, settings: Settings) -> list[float]:
    """The gradient's norm at the second matrix of each block's MLP."""
    draws = Draws(settings)
    model = transformer(spec, draws)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.fill_(1.0 if name.endswith("weight") else 0.0)
    tokens = draws.ids(spec.vocab_size, 4, spec.n_ctx)
    logits = model(tokens)[:, :-1]
    matrices = [model.get_parameter(f"blocks.{i}.mlp.down.weight") for i in range(spec.n_layers)]
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    return [float(gradient.norm()) for gradient in torch.autograd.grad(loss, matrices)]


def jacobian(f: Map, x: Tensor) -> Tensor:
    """The derivative of f at x, all rows in one backward pass."""
    matrix: Tensor = functional.jacobian(f, x, vectorize=True)
    return matrix


def inner(part: Map, norm: Map) -> Map:
    """G = F∘N of a Pre-LN sublayer."""
    return lambda x: part(norm(x))


def expanded(J: Mapping[int, Tensor]) -> list[tuple[str, Tensor]]:
    """(I + J_M)…(I + J_{l+1}) multiplied out, term by term: fewer factors first."""
    terms: list[tuple[str, Tensor]] = [("I", identity(next(iter(J.values()))))]
    for k, matrix in J.items():
        terms += [(f"J{k}{name.removeprefix('I')}", matrix @ term) for name, term in terms]
    return sorted(terms, key=lambda term: (term[0].count("J"), term[0]))


def product(factors: Sequence[Tensor]) -> Tensor:
    """Factors in the order in which their maps are applied: the last stands leftmost."""
    return functools.reduce(lambda so_far, factor: factor @ so_far, factors)


def identity(like: Tensor) -> Tensor:
    """I, as large as another matrix."""
    return torch.eye(len(like), dtype=like.dtype)


def sizes(terms: Sequence[tuple[str, Tensor]]) -> tuple[tuple[str, float], ...]:
    """Each term with its Frobenius norm."""
    return tuple((name, float(term.norm())) for name, term in terms)
