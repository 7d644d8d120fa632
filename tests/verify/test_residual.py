"""Claims about the residual path hold, and are refuted by blocks that lack it or place their norms otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.verify.broken import NoResidual, failing, with_blocks
from tfinspect.model.tap import Tap
from tfinspect.model.transformer import PostNormBlock, PreNormBlock, Transformer
from tfinspect.results.checks import Findings
from tfinspect.spec import ModelSpec
from tfinspect.verify import residual
from tfinspect.verify.draws import Draws
from tfinspect.verify.kept import transformer
from tfinspect.verify.propositions import PROPOSITIONS, Proposition, Settings

CLAIMS = [p for p in PROPOSITIONS if p.check.startswith("residual:") and p.id != "A4.2"]
SETTINGS = Settings(trials=1)


class HalfResidual(PreNormBlock):
    """The stream is halved before the MLP adds to it."""

    def forward(self, x: Tensor, tap: Tap, *past: object) -> Tensor:
        u = tap("resid_mid", x + self.attn(self.norm1(x), tap.within("attn")), "B T d_model")
        return tap("resid_out", u / 2 + self.mlp(self.norm2(u), tap.within("mlp")), "B T d_model")


class NormedStream(PreNormBlock):
    """The stream itself is normalised, as in Post-LN, under the names of Pre-LN."""

    def forward(self, x: Tensor, tap: Tap, *past: object) -> Tensor:
        u = tap("resid_mid", self.norm1(x + self.attn(x, tap.within("attn"))), "B T d_model")
        return tap("resid_out", self.norm2(u + self.mlp(u, tap.within("mlp"))), "B T d_model")


class PostWithoutResidual(PostNormBlock):
    def forward(self, x: Tensor, tap: Tap, *past: object) -> Tensor:
        u = tap("norm1", self.norm1(self.attn(x, tap.within("attn"))), "B T d_model")
        return tap("norm2", self.norm2(self.mlp(u, tap.within("mlp"))), "B T d_model")


class PreUnderOtherNames(PostNormBlock):
    """Norms before the parts, under the names of Post-LN."""

    def forward(self, x: Tensor, tap: Tap, *past: object) -> Tensor:
        u = tap("norm1", x + self.attn(self.norm1(x), tap.within("attn")), "B T d_model")
        return tap("norm2", u + self.mlp(self.norm2(u), tap.within("mlp")), "B T d_model")


def with_a_nan(spec: ModelSpec, draws: Draws) -> Transformer:
    model = transformer(spec, draws)
    with torch.no_grad():
        model.embed.tokens.weight.fill_(torch.nan)
    return model


@pytest.mark.parametrize("settings", [Settings(), Settings(seed=-7, trials=2), Settings(seed=2**70, dtype="float32")])
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_the_claim_holds(claim: Proposition, settings: Settings) -> None:
    found = claim.function()(settings)
    assert failing(found) == []
    assert found.outcome == "pass"


@pytest.mark.breaks("A4.1.pre")
@pytest.mark.parametrize("blocks", [NoResidual, HalfResidual, NormedStream])
def test_pre_norm_is_refuted_by(blocks: type[PreNormBlock]) -> None:
    found = failing(residual.pre_norm(SETTINGS, with_blocks(blocks)))
    assert {"x_M − x_0 − ΣG_l(x_{l−1})", "∂x_M/∂x_l − the expansion, any l"} <= set(found)
    assert "∂x_M/∂x_0 − I, no gradient through sublayers" in found


@pytest.mark.breaks("A4.1.post")
@pytest.mark.parametrize("blocks", [PostWithoutResidual, PreUnderOtherNames])
def test_post_norm_is_refuted_by(blocks: type[PostNormBlock]) -> None:
    assert len(failing(residual.post_norm(SETTINGS, with_blocks(blocks)))) >= 2  # type: ignore[arg-type]


@pytest.mark.breaks("A4.1.post")
def test_norms_that_let_everything_through_leave_the_identity() -> None:
    """With no norm on the path Post-LN is Pre-LN without norms, and K_M…K_{l+1} is I."""

    def build(spec: ModelSpec, draws: Draws) -> Transformer:
        model = transformer(spec, draws)
        for block in model.blocks:
            block.norm1, block.norm2 = torch.nn.Identity(), torch.nn.Identity()
        return model

    assert failing(residual.post_norm(SETTINGS, build)) == ["K_M…K_{l+1} − I, nearest of all l"]


@pytest.mark.breaks("A11.3")
@pytest.mark.parametrize("blocks", [NoResidual, HalfResidual, NormedStream])
def test_the_eight_terms_are_refuted_by(blocks: type[PreNormBlock]) -> None:
    assert "∂x_3/∂x_0 − their sum" in failing(residual.eight_terms(SETTINGS, with_blocks(blocks)))


@pytest.mark.breaks("A4.1.pre", "A11.3")
@pytest.mark.parametrize("check", [residual.pre_norm, residual.eight_terms])
def test_post_ln_is_no_pre_ln(check: Callable[..., Findings]) -> None:
    assert failing(check(SETTINGS, spec=residual.POST)) != []


@pytest.mark.breaks("A4.1.pre", "A4.1.post", "A11.3")
def test_a_nan_refutes_each_claim() -> None:
    for check in (residual.pre_norm, residual.post_norm, residual.eight_terms):
        assert failing(check(SETTINGS, with_a_nan)) != []


def test_the_expansion_has_each_choice_of_sublayers_once() -> None:
    # Chapter A, exercise 11.3.
    numbers = {k: torch.tensor([[float(p)]]) for k, p in ((1, 2), (2, 3), (3, 5))}
    terms = residual.expanded(numbers)
    assert [name for name, _ in terms] == ["I", "J1", "J2", "J3", "J2J1", "J3J1", "J3J2", "J3J2J1"]
    assert [float(term) for _, term in terms] == [1, 2, 3, 5, 6, 10, 15, 30]
    assert sum(float(term) for _, term in terms) == (1 + 2) * (1 + 3) * (1 + 5)


def test_gradients_at_initialisation_are_measured_and_claim_nothing() -> None:
    found = residual.gradients(SETTINGS)
    assert found.outcome == "measured"
    (matrix,) = found.matrices
    assert matrix.column_labels == ("block", "Pre-LN", "Post-LN")
    assert [row[0] for row in matrix.rows] == list(range(residual.DEEP.n_layers))
    norms = [float(norm) for row in matrix.rows for norm in row[1:]]
    assert all(math.isfinite(norm) and norm > 0 for norm in norms)
    assert len(set(norms)) == len(norms)


def test_gradients_follow_the_model_that_is_measured() -> None:
    short = {name: spec.replace(n_layers=2) for name, spec in residual.AT_START.items()}
    assert len(residual.gradients(SETTINGS, short).matrices[0].rows) == 2
    swapped = {"Pre-LN": residual.AT_START["Post-LN"], "Post-LN": residual.AT_START["Pre-LN"]}
    straight, crossed = (residual.gradients(SETTINGS, s).figures for s in (residual.AT_START, swapped))
    assert [f.value for f in straight] == [f.value for f in (*crossed[2:], *crossed[:2])]
