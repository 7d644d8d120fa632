"""What the torch core computes, held against an implementation that is not ours and the textbook's equations."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from tests.specs import decoder_specs
from tfinspect.model.build import build
from tfinspect.model.transformer import ACTIVATIONS, BLOCKS, LayerNorm, Transformer
from tfinspect.spec import CHOICES, ModelSpec


class Listener:
    """Keeps every tensor that passes, by name."""

    def __init__(self, sees_scores: bool = True) -> None:
        self.sees_scores = sees_scores
        self.heard: dict[str, Tensor] = {}
        self.prefix = ""

    def __call__(self, name: str, tensor: Tensor, dims: str) -> Tensor:
        self.heard[self.prefix + name] = tensor
        return tensor

    def within(self, place: str) -> Listener:
        inside = Listener(self.sees_scores)
        inside.heard, inside.prefix = self.heard, f"{self.prefix}{place}."
        return inside


def random_ids(spec: ModelSpec, batch: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(spec.vocab_size, (batch, spec.n_ctx), generator=generator)


def in_float64(spec: ModelSpec, scale: float = 10.0) -> Transformer:
    """A model with weights large enough that every part of it matters."""
    model = build(spec, seed=7).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.mul_(scale)
            elif name.endswith("bias"):
                parameter.uniform_(-0.5, 0.5, generator=torch.Generator().manual_seed(len(name)))
    return model


@given(decoder_specs())
@settings(max_examples=60)
def test_fused_and_eager_attention_agree_to_rounding(spec: ModelSpec) -> None:
    model, tokens = in_float64(spec), random_ids(spec)
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), model(tokens, Listener()), rtol=0, atol=1e-10)


@given(decoder_specs())
@settings(max_examples=60)
def test_future_weights_are_exactly_zero_rows_sum_to_one_and_each_position_sees_itself(spec: ModelSpec) -> None:
    tap, tokens = Listener(), random_ids(spec)
    with torch.no_grad():
        in_float64(spec, scale=3.0)(tokens, tap)
    for i in range(spec.n_layers):
        unseen = torch.ones(spec.n_ctx, spec.n_ctx, dtype=torch.bool).triu(1)
        if window := spec.window_of(i):
            unseen |= torch.ones_like(unseen).tril(-window)
        scores, weights = (tap.heard[f"blocks.{i}.attn.{name}"] for name in ("scores", "weights"))
        assert (weights[..., unseen] == 0.0).all()
        assert (scores[..., unseen] == -math.inf).all()
        assert scores[..., ~unseen].isfinite().all()
        assert (weights.diagonal(dim1=-2, dim2=-1) > 0).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), rtol=0, atol=1e-12)


@given(decoder_specs())
@settings(max_examples=40)
def test_a_changed_tail_leaves_earlier_logits_untouched(spec: ModelSpec) -> None:
    model, tokens = in_float64(spec), random_ids(spec)
    changed = tokens.clone()
    changed[:, -2:] = (changed[:, -2:] + 1) % spec.vocab_size
    with torch.no_grad():
        before, after = model(tokens, Listener()), model(changed, Listener())
    if spec.n_experts:  # the rows of an expert come in another order, and so do the sums inside a product
        torch.testing.assert_close(before[:, :-2], after[:, :-2], rtol=0, atol=1e-10)
    else:
        assert torch.equal(before[:, :-2], after[:, :-2])
    assert not torch.equal(before[:, -2:], after[:, -2:])


@given(decoder_specs())
@settings(max_examples=40)
def test_the_last_position_alone_gives_the_last_row_of_the_logits(spec: ModelSpec) -> None:
    model, tokens = in_float64(spec), random_ids(spec)
    with torch.no_grad():
        last = model(tokens, last_only=True)
        torch.testing.assert_close(last, model(tokens)[:, -1:], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("placement", "activation"), list(itertools.product(("pre", "post"), ("relu", "gelu"))), ids="-".join
)
def test_a_block_is_torchs_own_encoder_layer_with_a_causal_mask(placement: Any, activation: Any) -> None:
    spec = ModelSpec(
        d_model=12, n_heads=3, d_ff=20, n_layers=1, vocab_size=5, placement=placement, activation=activation
    )
    block = in_float64(spec).blocks[0]
    peer = nn.TransformerEncoderLayer(
        12, 3, 20, dropout=0.0, activation=activation, batch_first=True, norm_first=placement == "pre"
    ).double()
    attn, mlp = block.attn, block.mlp
    with torch.no_grad():
        peer.self_attn.in_proj_weight.copy_(torch.cat([attn.q.weight, attn.k.weight, attn.v.weight]))
        peer.self_attn.in_proj_bias.copy_(torch.cat([attn.q.bias, attn.k.bias, attn.v.bias]))
        pairs = (
            (peer.self_attn.out_proj, attn.out),
            (peer.linear1, mlp.up),
            (peer.linear2, mlp.down),
            (peer.norm1, block.norm1),
            (peer.norm2, block.norm2),
        )
        for theirs, ours in pairs:
            theirs.weight.copy_(ours.weight)
            theirs.bias.copy_(ours.bias)
    x = torch.randn(2, 7, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    mask = nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.float64)
    torch.testing.assert_close(block(x, Listener()), peer(x, src_mask=mask, is_causal=True), rtol=0, atol=1e-10)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_residual_stream_adds_up_as_the_textbook_writes_it(placement: Any) -> None:
    spec = ModelSpec(vocab_size=11, n_ctx=8, d_model=12, n_layers=1, n_heads=3, d_ff=20, placement=placement)
    model, tap = in_float64(spec), Listener()
    with torch.no_grad():
        model(random_ids(spec), tap)
        block = model.blocks[0]
        heard = {name.removeprefix("blocks.0."): tensor for name, tensor in tap.heard.items()}
        x = heard["embed.sum"]
        if placement == "pre":  # U = X + MHA(LN1(X)), Y = U + MLP(LN2(U))
            u, y = x + heard["attn.out"], heard["resid_mid"] + heard["mlp.out"]
            assert torch.equal(heard["norm1"], block.norm1(x))
            assert torch.equal(heard["norm2"], block.norm2(u))
        else:  # U = LN1(X + MHA(X)), Y = LN2(U + MLP(U))
            u, y = x + heard["attn.out"], heard["norm1"] + heard["mlp.out"]
            assert torch.equal(heard["norm1"], block.norm1(u))
            assert torch.equal(heard["norm2"], block.norm2(y))
    assert torch.equal(heard["resid_mid"], u)
    assert torch.equal(heard["resid_out"], y)


def test_layer_norm_of_1_2_3_6() -> None:
    # Chapter A, 3.2: mean 3, biased variance 3.5, and the same output for 3x + 5.
    norm = LayerNorm(4, eps=0.0, bias=True).double()
    with torch.no_grad():
        norm.weight.fill_(1.0)
        norm.bias.fill_(0.0)
        x = torch.tensor([1.0, 2.0, 3.0, 6.0], dtype=torch.float64)
        y = norm(x)
        expected = torch.tensor([-1.0690, -0.5345, 0.0, 1.6036], dtype=torch.float64)
        torch.testing.assert_close(y, expected, rtol=0, atol=5e-5)
        torch.testing.assert_close(norm(3 * x + 5), y, rtol=0, atol=1e-12)


def test_exact_gelu_and_its_tanh_approximation_differ_where_they_should() -> None:
    # t·Φ(t) at t = 1 is 0.841345 (Φ(1) = 0.8413447); the approximation gives 0.841192 (Hendrycks and Gimpel 2016).
    one = torch.ones((), dtype=torch.float64)
    assert ACTIVATIONS["gelu"](one).item() == pytest.approx(0.8413447460685429, abs=1e-12)
    assert ACTIVATIONS["gelu_tanh"](one).item() == pytest.approx(0.8411919906082768, abs=1e-12)


def test_the_tied_head_is_the_token_table_itself() -> None:
    spec = ModelSpec(vocab_size=11, n_ctx=8, d_model=12, n_layers=1, n_heads=3, d_ff=20)
    tied, untied = build(spec), build(spec.replace(tied_head=False))
    assert tied.head.weight is tied.embed.tokens.weight
    assert untied.head.weight is not untied.embed.tokens.weight
    assert not torch.equal(untied.head.weight, untied.embed.tokens.weight)


def test_dropout_acts_in_training_mode_only() -> None:
    spec = ModelSpec(vocab_size=11, n_ctx=8, d_model=12, n_layers=1, n_heads=3, d_ff=20, dropout=0.5)
    model, tokens = build(spec), random_ids(spec)
    with torch.no_grad():
        assert torch.equal(model(tokens), model(tokens))
        model.train()
        torch.manual_seed(0)
        for tap in (Listener(), Listener(sees_scores=False)):
            assert not torch.equal(model(tokens, tap), model(tokens, tap))


def test_every_placement_of_the_norm_has_a_block() -> None:
    assert set(BLOCKS) == set(CHOICES["placement"])
