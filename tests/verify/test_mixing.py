"""Claims about which positions see which: each is refuted by a part that mixes, peeks, or knows no positions."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from tests.verify.broken import (
    BackwardPositions,
    MaskAfterSoftmax,
    PeekingAttention,
    failing,
    with_attention,
    with_embedding,
)
from tfinspect.model.transformer import Attention, Block, Transformer
from tfinspect.spec import ModelSpec
from tfinspect.verify import mixing
from tfinspect.verify.draws import Draws
from tfinspect.verify.kept import transformer
from tfinspect.verify.mixing import RowWise
from tfinspect.verify.propositions import Settings

SETTINGS = Settings()


def mlp_with_a_bias_across_positions(draws: Draws) -> mixing.Rows:
    part = mixing.mlp(draws)
    return lambda rows: part(rows) + rows.mean(dim=0)


def norm_over_the_sequence(draws: Draws) -> mixing.Rows:
    return lambda rows: (rows - rows.mean(dim=0)) / rows.std(dim=0)


def nothing_gathered(draws: Draws) -> mixing.Rows:
    return lambda rows: 2 * rows


def without_attention_or_positions(spec: ModelSpec, draws: Draws) -> Transformer:
    return mixing.without_attention(spec.replace(positions="none"), draws)


def peeking_block(spec: ModelSpec, draws: Draws) -> Block:
    block = mixing.causal_block(spec, draws)
    block.attn.__class__ = PeekingAttention
    return block


def block_masked_after_the_softmax(spec: ModelSpec, draws: Draws) -> Block:
    block = mixing.causal_block(spec, draws)
    block.attn.__class__ = MaskAfterSoftmax
    return block


def with_a_nan(spec: ModelSpec, draws: Draws) -> Transformer:
    model = transformer(spec, draws)
    with torch.no_grad():
        model.get_parameter("blocks.1.mlp.down.bias")[0] = math.nan
    return model


def without_positions(spec: ModelSpec, draws: Draws) -> Transformer:
    return mixing.unmasked(spec.replace(positions="none"), draws)


@pytest.mark.breaks("A7.1")
@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ({"mlp": mlp_with_a_bias_across_positions}, "largest |∂row i/∂row j|, i ≠ j: MLP"),
        ({"norm": norm_over_the_sequence}, "layer norm"),
        ({"attention": nothing_gathered}, "attention"),
        ({"model": transformer}, "model without attention: change by other tokens"),
        ({"model": without_attention_or_positions}, "smallest change by its own position"),
    ],
)
def test_one_part_that_is_wrong_is_the_one_that_is_named(part: dict[str, mixing.Rows], wrong: str) -> None:
    parts = dataclasses.replace(RowWise(), **part)
    assert failing(mixing.row_wise(SETTINGS, parts)) == [wrong]


@pytest.mark.breaks("A7.2.1")
def test_a_masked_block_is_not_equivariant() -> None:
    found = failing(mixing.equivariance(SETTINGS, block=mixing.causal_block))
    assert found == ["pre-LN block: largest |B(PX) − P·B(X)|", "post-LN block: largest |B(PX) − P·B(X)|"]


@pytest.mark.breaks("A7.2.1")
def test_a_masked_model_is_not_equivariant() -> None:
    assert failing(mixing.equivariance(SETTINGS, model=transformer)) == ["model without positions"]


@pytest.mark.breaks("A7.2.1")
def test_a_model_that_lacks_its_positions_is_equivariant_after_all() -> None:
    assert failing(mixing.equivariance(SETTINGS, model=without_positions)) == ["model with learned positions"]


@pytest.mark.breaks("A7.2.2")
@pytest.mark.parametrize("block", [mixing.unmasked_block, peeking_block])
def test_a_block_that_sees_later_rows_is_not_causal(block: mixing.BuildBlock) -> None:
    found = failing(mixing.causal_blocks(SETTINGS, block))
    assert {"pre-LN: largest |∂row i/∂row j|, j > i", "change of the rows before a new one"} <= set(found)


@pytest.mark.breaks("A7.2.2")
def test_a_mask_after_the_softmax_leaks_through_the_denominator() -> None:
    assert "post-LN: largest |∂row i/∂row j|, j > i" in failing(
        mixing.causal_blocks(SETTINGS, block_masked_after_the_softmax)
    )


@pytest.mark.breaks("A7.2.3")
@pytest.mark.parametrize("model", [mixing.unmasked, with_attention(PeekingAttention), with_attention(MaskAfterSoftmax)])
def test_a_model_that_sees_later_tokens_moves_earlier_rows(model: mixing.BuildModel) -> None:
    found = failing(mixing.causal_model(SETTINGS, model))
    assert {"change of rows 1 to 4", "rows that a later token moves"} <= set(found)


def test_the_explanation_says_where_it_leaks() -> None:
    matrix = mixing.causal_model(SETTINGS, with_attention(PeekingAttention)).matrices[0]
    leaks = torch.tensor(matrix.rows) > 0
    assert leaks.diagonal(1).all()
    assert not torch.tensor(mixing.causal_model(SETTINGS).matrices[0].rows).triu(1).any()


def test_a_leak_from_layer_to_layer_reaches_as_many_positions_as_there_are_layers() -> None:
    """Two layers that each see one later token: row i depends on tokens up to i + 2."""
    matrix = mixing.causal_model(SETTINGS, with_attention(PeekingAttention)).matrices[0]
    leaks = torch.tensor(matrix.rows) > 0
    assert leaks.diagonal(2).all()
    assert not leaks.triu(3).any()


@pytest.mark.breaks("A7.2.3")
def test_positions_from_the_end_break_prefixes_and_nothing_else() -> None:
    found = failing(mixing.causal_model(SETTINGS, with_embedding(BackwardPositions)))
    assert found == ["largest |prefix on its own − whole|"]


@pytest.mark.breaks("A7.2.3")
def test_a_model_that_ignores_its_tokens_is_no_example() -> None:
    class Ignores(Attention):
        def forward(self, x: Tensor, *rest: object) -> Tensor:
            return torch.zeros_like(x)

    def model(spec: ModelSpec, draws: Draws) -> Transformer:
        built = with_attention(Ignores)(spec, draws)
        with torch.no_grad():
            built.get_parameter("embed.tokens.weight").zero_()
        return built

    assert failing(mixing.causal_model(SETTINGS, model)) == ["change of rows 5 to 6"]


@pytest.mark.breaks("A7.2.3")
def test_a_nan_is_no_agreement() -> None:
    assert len(failing(mixing.causal_model(SETTINGS, with_a_nan))) == 4
