"""The claims, in the order of the sources: id, words, formula, and the function that puts each to the test.

A check is a function of `Settings`, and of the parts that it tests, with the right ones as defaults; a test hands it a
broken part and sees it fail. Checks are named here and imported when they run, so that the list needs no torch.
"""

from __future__ import annotations

import dataclasses
import importlib
import time
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

from tfinspect.errors import InputError
from tfinspect.results.checks import Checked, Claim, Findings

__all__ = ["PROPOSITIONS", "DType", "Proposition", "Settings", "chosen", "run"]

DType: TypeAlias = Literal["float64", "float32"]

#: Rounding unit of float32 over that of float64: 2^-24 / 2^-53.
COARSER: Final = 2.0**29


@dataclasses.dataclass(frozen=True)
class Settings:
    """How checks are run."""

    seed: int = 0
    """Seed of everything random."""
    dtype: DType = "float64"
    trials: int = 5
    """Random inputs per check, where a check draws any."""

    def tolerance(self, in_float64: float, order: float = 1.0) -> float:
        """A tolerance stated for float64, widened for float32 by the ratio of the two formats' precision.

        The order is the power of the rounding unit that the error follows: 1 for plain arithmetic, 2/3 for central
        differences at their best step, 1/2 for second differences at theirs.
        """
        return in_float64 if self.dtype == "float64" else in_float64 * COARSER**order


@dataclasses.dataclass(frozen=True)
class Proposition(Claim):
    """One claim with the check that puts it to the test."""

    check: str
    """Where the check is, under `tfinspect.verify`: "layer_norm:jacobian"."""

    def function(self) -> Callable[[Settings], Findings]:
        """The check itself."""
        module, _, name = self.check.partition(":")
        function: Callable[[Settings], Findings] = getattr(importlib.import_module(f"tfinspect.verify.{module}"), name)
        return function


PROPOSITIONS: Final[tuple[Proposition, ...]] = (
    Proposition(
        "A3.1.1",
        "layer norm ignores scale and shift",
        "Scaling all components by a > 0 and adding b to each leaves the layer norm as it is, for any gain and shift.",
        "LN(a·x + b·1) = LN(x)",
        "chapter A, proposition 3.1 (1)",
        "layer_norm:invariance",
    ),
    Proposition(
        "A3.1.2",
        "the output has mean 0, variance 1, norm √d",
        "With γ = 1 and β = 0 the output of layer norm has mean 0, variance 1 and norm √d, whatever the input was: it "
        "lies on a sphere, orthogonal to the vector of ones.",
        "y = LN(x): mean(y) = 0, var(y) = 1, ‖y‖ = √d",
        "chapter A, proposition 3.1 (2)",
        "layer_norm:moments",
    ),
    Proposition(
        "A3.2",
        "(1, 2, 3, 6) and 3x + 5 have one layer norm",
        "x = (1, 2, 3, 6) has mean 3, variance 3.5 and σ = 1.8708; 3x + 5 has mean 14, variance 31.5 and σ = 5.6125. "
        "Both have the same layer norm, of length 2.",
        "LN(x) = (−2, −1, 0, 3)/1.8708 = (−1.0690, −0.5345, 0, 1.6036)",
        "chapter A, example 3.2",
        "layer_norm:example",
    ),
    Proposition(
        "A3.3",
        "the Jacobian of layer norm is a projection over σ",
        "With γ = 1 and β = 0 the Jacobian takes two directions away, 1 and x − mean, and divides the rest by σ. σJ "
        "has the singular value 1 d − 2 times and 0 twice, J(ax) = J(x)/a, and at d = 2 nothing is left of J.",
        "J = (I − 11ᵀ/d − yyᵀ/d)/σ",
        "chapter A, proposition 3.3",
        "layer_norm:jacobian",
    ),
    Proposition(
        "A4.1.pre",
        "Pre-LN keeps a path that no sublayer is on",
        "The stream ends as its start plus what each sublayer adds. Its derivative is a product of I + J_k, which "
        "multiplies out into 2^(M − l) terms, of which exactly one is I.",
        "x_M = x_0 + ΣG_l(x_{l−1}); ∂x_M/∂x_l = (I + J_M)…(I + J_{l+1}) = I + ΣJ_k + ΣJ_k·J_j + …",
        "chapter A, proposition 4.1, Pre-LN",
        "residual:pre_norm",
    ),
    Proposition(
        "A4.1.post",
        "Post-LN has layer norms on every path",
        "Each step of the stream has the derivative K(I + D), with K that of the layer norm. The term without any D is "
        "the product of the K, which is not I.",
        "∂x_M/∂x_l = K_M(I + D_M)…K_{l+1}(I + D_{l+1}), without D: K_M…K_{l+1}",
        "chapter A, proposition 4.1, Post-LN",
        "residual:post_norm",
    ),
    Proposition(
        "A4.2",
        "gradients at initialisation, Pre-LN and Post-LN",
        "The expansion says which terms there are, and not how large their sum is or how well a model trains. How "
        "large gradients are at initialisation is measured here, block by block, and nothing is claimed of it.",
        "‖∂loss/∂W₂‖ in each block",
        "chapter A, remark 4.2; Xiong et al. 2020",
        "residual:gradients",
    ),
    Proposition(
        "A5.1",
        "the formula counts every parameter",
        "A decoder-only model with a tied head and learned positions has as many parameters as the formula says; "
        "no position table takes n_ctx·d off, an untied head adds V·d, and a block with d_ff = 4d has 12d² + 13d.",
        "V·d + n_ctx·d + L·(4d² + 4d + 2·d·d_ff + d_ff + d + 4d) + 2d",
        "chapter A, theorem 5.1",
        "counts:formula",
    ),
    Proposition(
        "A5.2",
        "the worked example has 568 parameters",
        "With V = 10, d = 4, d_ff = 16, L = 2 and n_ctx = 8 the parts have 40, 32, twice 244 and 8 parameters; a "
        "block's attention has 80 of them, its MLP 148, its two norms 16.",
        "40 + 32 + 2·244 + 8 = 568",
        "chapter A, example 5.2",
        "counts:worked_example",
    ),
    Proposition(
        "A5.3",
        "GPT-2 Small has 124,439,808 parameters",
        "With V = 50,257, d = 768, L = 12, d_ff = 3,072 and n_ctx = 1,024 the formula gives 124,439,808, in which each "
        "block has 7,087,872.",
        "38,597,376 + 786,432 + 12·7,087,872 + 1,536 = 124,439,808",
        "chapter A, example 5.3",
        "counts:gpt2_small",
    ),
    Proposition(
        "A5.4",
        "the paper's 117M is not the count",
        "Table 2 of Radford et al. (2019) gives 117M for a model that has 124,439,808 parameters. OpenAI's repository "
        "notes that the original counts were wrong; neither says how 117M arose.",
        "124,439,808 ≠ 117M",
        "chapter A, remark 5.4; chapter B, 15.7",
        "counts:published",
    ),
    Proposition(
        "A6.1",
        "a block costs 12nd² + 2n²d multiplications",
        "Projections and MLP cost 4nd² + 2n·d·d_ff, scores and mixing 2n²d. With d_ff = 4d the first part is the "
        "larger below n = 6d. The model costs L blocks and n·d·V; activations (n·d_ff) and softmax (h·n²) count apart.",
        "4·n·d² + 2·n²·d + 2·n·d·d_ff, with d_ff = 4d: 12·n·d² + 2·n²·d",
        "chapter A, proposition 6.1",
        "counts:work",
    ),
    Proposition(
        "A7.1",
        "MLP and layer norm act row by row",
        "Row i of the output of an MLP or a layer norm depends on row i of the input alone; attention alone mixes "
        "rows. A model without attention gives at position i what token i and the position say, and nothing else.",
        "∂(row i)/∂(row j) = 0 for i ≠ j",
        "chapter A, proposition 7.1",
        "mixing:row_wise",
    ),
    Proposition(
        "A7.2.1",
        "an unmasked block is permutation equivariant",
        "Permuting the rows that go into an unmasked block, Pre-LN or Post-LN, permutes the rows that come out. A "
        "model that adds learned positions has no such symmetry.",
        "B(P·X) = P·B(X)",
        "chapter A, proposition 7.2 (1)",
        "mixing:equivariance",
    ),
    Proposition(
        "A7.2.2",
        "a causal block looks at no later row",
        "In a block with a causal mask, Pre-LN or Post-LN, row i of the output depends on rows 1 to i of the input and "
        "on no later one.",
        "∂(row i)/∂(row j) = 0 for j > i",
        "chapter A, proposition 7.2 (2)",
        "mixing:causal_blocks",
    ),
    Proposition(
        "A7.2.3",
        "the logits at i depend on the first i tokens alone",
        "New tokens at positions 5 and 6 leave the logits at 1 to 4 exactly as they were, and the logits at i are the "
        "last logits of the prefix of length i.",
        "Z(t_1 … t_n)_i = Z(t_1 … t_i)_i",
        "chapter A, proposition 7.2 (3) and section 9",
        "mixing:causal_model",
    ),
    Proposition(
        "A8.1.1",
        "a ReLU MLP is affine on each of few regions",
        "Which units are active divides the input space into at most 2^d_ff convex regions, and on each the MLP is an "
        "affine map. Units x1, x2 and x1 + x2 − 1 show 7 of the 8 patterns; 001 cannot occur.",
        "g(x) = W₂·D·(W₁·x + b₁) + b₂, D = diag(pattern)",
        "chapter A, proposition 8.1 (1) and section 9",
        "mlp:regions",
    ),
    Proposition(
        "A8.1.2",
        "GELU is curved on every interval",
        "The second derivative of GELU is (2 − t²)φ(t), which is 0 at −√2 and √2 and nowhere else: on no interval is "
        "GELU an affine map.",
        "GELU″(t) = (2 − t²)·φ(t)",
        "chapter A, proposition 8.1 (2)",
        "mlp:curvature",
    ),
    Proposition(
        "A8.2",
        "three kinds of layer have 2, 3 and 2 parts",
        "An encoder layer has no mask and no cross-attention: 2 parts. A decoder layer has a causal mask and "
        "cross-attention, whose keys and values come from the encoder's output: 3 parts. A layer of a decoder-only "
        "model has a causal mask and no cross-attention: 2 parts.",
        "attention + MLP; attention + cross-attention + MLP; attention + MLP",
        "chapter A, remark 8.2",
        "layers:kinds",
    ),
    Proposition(
        "A11.1",
        "the exercise's model has 272,256 parameters",
        "With V = 1,000, d = 64, L = 4, d_ff = 4d and n_ctx = 128 the parts have 64,000, 8,192, four times 49,984 and "
        "128 parameters; the token table holds 23.5 % of the whole.",
        "64,000 + 8,192 + 4·49,984 + 128 = 272,256",
        "chapter A, exercise 11.1",
        "counts:exercise",
    ),
    Proposition(
        "A11.2",
        "γ = g1 and β = b1 set mean b and variance g²",
        "With all gains g and all shifts b the output has mean b, variance g² and norm √(d(g² + b²)). Whatever γ and β "
        "are, scale and shift of the input do not matter.",
        "y = g·LN(x) + b: mean(y) = b, var(y) = g², ‖y‖ = √(d(g² + b²))",
        "chapter A, exercise 11.2",
        "layer_norm:gain_and_shift",
    ),
    Proposition(
        "A11.3",
        "three sublayers make eight terms",
        "For M = 3 and l = 0 the derivative has eight terms, one for each choice of passing a sublayer or going round "
        "it. Without residual additions only the last remains.",
        "I + J1 + J2 + J3 + J2J1 + J3J1 + J3J2 + J3J2J1",
        "chapter A, exercise 11.3",
        "residual:eight_terms",
    ),
    Proposition(
        "A11.4",
        "doubling n costs 16/7, 3 and 252/66 times the work",
        "A block with d_ff = 4d costs (12d + 4n)/(6d + n) times as much at 2n as at n: about 2.29 at n = d, 3 at n = "
        "6d and about 3.82 at n = 60d.",
        "T(2n)/T(n) = (12d + 4n)/(6d + n)",
        "chapter A, exercise 11.4",
        "counts:doubling",
    ),
    Proposition(
        "B15.1.2",
        "GPT-1 norms the sum, GPT-2 the input",
        "GPT-1 normalises after each addition and has no final norm; GPT-2 normalises what each part reads and the "
        "last stream. They differ in vocabulary, context length and initialisation too.",
        "GPT-1: LN(x + F(x)); GPT-2: x + F(LN(x)), then a final LN",
        "chapter B, 15.1.2",
        "layers:placements",
    ),
    Proposition(
        "B15.2.1",
        "step 1: the sample text has these 16 ids",
        "GPT-2's byte-level BPE gives the sample text 16 ids. A character can take several tokens, and a token can "
        "hold part of a character.",
        "text → ids [B, T]",
        "chapter B, 15.2.1",
        "passes:tokens",
    ),
    Proposition(
        "B15.2.2",
        "step 2: an id picks its row of E",
        "The vector of a token is its row of the token table, the same wherever the token stands.",
        "X[b, t] = E[id(b, t)]",
        "chapter B, 15.2.2",
        "passes:token_vectors",
    ),
    Proposition(
        "B15.2.3",
        "step 3: each position adds its row of P",
        "The first T rows of the position table are added to every text of the batch. Dropout acts on the sum in "
        "training mode and not in evaluation mode.",
        "X[b, t] = E[id(b, t)] + P[t]",
        "chapter B, 15.2.3",
        "passes:positions",
    ),
    Proposition(
        "B15.3.1",
        "step 4: weights see the past and sum to 1",
        "In each head, weights on later positions are exactly 0, the own position has one above 0, and each row sums "
        "to 1. The heads stand side by side, and W_O mixes them.",
        "softmax(Q·Kᵀ/√d_head + mask)·V, the heads side by side, times W_O",
        "chapter B, 15.3.1",
        "passes:attention",
    ),
    Proposition(
        "B15.3.2",
        "step 5: U is the stream and what attention adds",
        "The attention's output is added to the stream that the block was given.",
        "U = X + MHA(LN1(X))",
        "chapter B, 15.3.2",
        "passes:first_residual",
    ),
    Proposition(
        "B15.3.3",
        "step 6: the MLP widens to 3,072 and adds to U",
        "At each position the MLP goes from 768 features to 3,072, through GELU, and back; its output is added to U.",
        "Y = U + MLP(LN2(U))",
        "chapter B, 15.3.3",
        "passes:mlp",
    ),
    Proposition(
        "B15.4",
        "step 7: 12 blocks of one shape, then a norm",
        "Each block takes and gives [B, T, 768] with parameters of its own; the last stream goes through the final "
        "layer norm.",
        "X_0 → block 1 → … → block 12 → X_12, H = LN(X_12)",
        "chapter B, 15.4",
        "passes:stack",
    ),
    Proposition(
        "B15.5",
        "step 8: logits are products with the rows of E",
        "The head's matrix is the token table itself, so that logit i is the inner product of H and row i of E. "
        "Generation reads the last position.",
        "logits = H·Eᵀ",
        "chapter B, 15.5",
        "passes:logits",
    ),
    Proposition(
        "B15.5.1",
        "the loss compares logits with the next token",
        "The loss is the mean of −log softmax at the token that follows, over all positions but the last. It takes "
        "logits; probabilities in their place give another number.",
        "loss = cross-entropy(logits[:, :−1], tokens[:, 1:])",
        "chapter B, 15.5.1",
        "training:loss",
    ),
    Proposition(
        "B15.5.2",
        "greedy takes the largest logit, sampling draws",
        "Greedy choice takes the argmax of the last logits. Sampling divides them by the temperature, applies softmax, "
        "keeps the k likeliest or the smallest set that reaches p, and draws.",
        "id = argmax(z), or id ~ top-p(top-k(softmax(z/T)))",
        "chapter B, 15.5.2",
        "choosing:choosing",
    ),
    Proposition(
        "B15.6",
        "every tensor has its shape, in torch as in NumPy",
        "All named tensors of GPT-2 Small have the shape that the steps give them: the stream keeps 768 features, "
        "while heads, scores and the hidden layer have widths of their own. Two implementations agree on every value.",
        "[B, T, 768] between blocks; [B, 12, T, 64], [B, 12, T, T], [B, T, 3072] inside",
        "chapter B, 15.6",
        "passes:every_tensor",
    ),
    Proposition(
        "B15.7",
        "the MLPs hold 45.5 % of GPT-2 Small",
        "Of about 124.4 million parameters the token table holds 31.0 %, positions 0.6 %, attention 22.8 %, MLPs 45.5 "
        "%, the 25 layer norms less than 0.1 %, and the shared head none of its own.",
        "31.0 % + 0.6 % + 22.8 % + 45.5 % + < 0.1 %",
        "chapter B, 15.7",
        "counts:by_component",
    ),
    Proposition(
        "B15.8",
        "only the optimizer's step changes parameters",
        "Forward, loss and backward leave every parameter as it is; backward accumulates gradients, step applies them, "
        "zero_grad clears them. The tied table gets the sum of the gradients of its two uses, and gradients reach the "
        "final norm, every block and the positions.",
        "∂L/∂E = ∂L/∂E as input + ∂L/∂E as head",
        "chapter B, 15.8",
        "training:stages",
    ),
)


def chosen(ids: Iterable[str]) -> tuple[Proposition, ...]:
    """The propositions of these ids, or those below them ("A3" is A3.1.1 to A3.3), in the order of the sources.

    Raises:  InputError for an id that names none.
    """
    wanted = []
    for given in ids:
        wanted.append(given.upper())
        if not any(_within(p.id, wanted[-1]) for p in PROPOSITIONS):
            raise InputError(
                f"no claim has the id {given!r}", "--list shows the ids; checks of a model of your own need --module"
            )
    return tuple(p for p in PROPOSITIONS if not wanted or any(_within(p.id, i) for i in wanted))


def run(proposition: Proposition, settings: Settings) -> Checked:
    """One claim put to the test."""
    check = proposition.function()  # imports torch, the first time
    from tfinspect.measured.surroundings import plain_torch
    from tfinspect.verify.threads import one_thread

    begin = time.perf_counter()
    with one_thread(), plain_torch():
        findings = check(settings)
    return Checked(
        id=proposition.id,
        claim=proposition.claim,
        statement=proposition.statement,
        formula=proposition.formula,
        source=proposition.source,
        dtype=settings.dtype,
        findings=findings,
        seconds=time.perf_counter() - begin,
    )


def _within(known: str, wanted: str) -> bool:
    return known.upper() == wanted or known.upper().startswith(f"{wanted}.")
