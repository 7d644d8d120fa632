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
)


def chosen(ids: Iterable[str]) -> tuple[Proposition, ...]:
    """The propositions of these ids, or those below them ("A3" is A3.1.1 to A3.3), in the order of the sources.

    Raises:  InputError for an id that names none.
    """
    wanted = [i.upper() for i in ids]
    for i in wanted:
        if not any(_within(p.id, i) for p in PROPOSITIONS):
            raise InputError(f"no claim has the id {i!r}", f"known: {', '.join(p.id for p in PROPOSITIONS)}")
    return tuple(p for p in PROPOSITIONS if not wanted or any(_within(p.id, i) for i in wanted))


def run(proposition: Proposition, settings: Settings) -> Checked:
    """One claim put to the test."""
    check = proposition.function()  # imports torch, the first time
    begin = time.perf_counter()
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
