"""A decode step that reads the past gives what a whole pass gives."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.model.test_transformer import Listener, in_float64, random_ids
from tests.specs import decoder_specs, specs
from tfinspect.model.build import build
from tfinspect.model.cache import Cache
from tfinspect.model.encoder_decoder import DecoderBlock, encoder_block
from tfinspect.spec import ModelSpec


@given(decoder_specs(), st.data(), st.booleans())
@settings(max_examples=60)
def test_any_split_of_a_sequence_through_the_cache_gives_the_whole_passs_logits(
    spec: ModelSpec, data: st.DataObject, eager: bool
) -> None:
    model, tokens, cache = in_float64(spec, scale=3.0), random_ids(spec), Cache(spec.n_layers)
    tap = Listener(sees_scores=eager)
    cuts = sorted(data.draw(st.sets(st.integers(1, spec.n_ctx - 1), max_size=3)))
    pieces = [tokens[:, a:b] for a, b in zip([0, *cuts], [*cuts, spec.n_ctx], strict=True)]
    with torch.no_grad():
        through_cache = torch.cat([model(piece, tap, cache) for piece in pieces], dim=1)
        torch.testing.assert_close(through_cache, model(tokens), rtol=0, atol=1e-10)
    assert cache.n_past == spec.n_ctx
    assert cache.n_bytes == 2 * spec.n_layers * 2 * spec.n_ctx * spec.d_kv * 8  # K and V, batch 2, float64


@given(specs(architectures=("encoder_decoder",)), st.data(), st.booleans())
@settings(max_examples=40)
def test_a_source_is_read_once_and_any_split_of_the_target_gives_the_whole_passs_logits(
    spec: ModelSpec, data: st.DataObject, eager: bool
) -> None:
    model, tokens, cache = in_float64(spec, scale=3.0), random_ids(spec), Cache(spec.n_layers)
    source = random_ids(spec)[:, : spec.n_ctx - 2].flip(1)
    tap = Listener(sees_scores=eager)
    cut = data.draw(st.integers(1, spec.n_ctx - 1))
    with torch.no_grad():
        first = model(tokens[:, :cut], tap, cache, source=source)
        tap.heard.clear()
        later = model(tokens[:, cut:], tap, cache)
        whole = model(tokens, source=source)
    torch.testing.assert_close(torch.cat((first, later), dim=1), whole, rtol=0, atol=1e-10)
    assert not any(name.startswith(("source", "encoder")) for name in tap.heard)
    assert (cache.n_past, cache.n_source) == (spec.n_ctx, spec.n_ctx - 2)
    assert cache.n_bytes == 2 * spec.n_layers * 2 * (2 * spec.n_ctx - 2) * spec.d_kv * 8


def test_a_blank_cache_has_the_sizes_of_a_filled_one_and_no_memory() -> None:
    spec = ModelSpec(vocab_size=11, n_ctx=8, d_model=12, n_layers=2, n_heads=6, n_kv_heads=2, d_ff=20)
    filled, blank = Cache(2), Cache.blank(spec, batch=3, n_past=5)
    with torch.no_grad():
        build(spec)(random_ids(spec, batch=3)[:, :5], cache=filled)
    assert blank.n_bytes == filled.n_bytes == 2 * 2 * 3 * 2 * 5 * 2 * 4
    keys = blank.layers[1].held_keys
    assert keys is not None
    assert keys.shape == filled.layers[1].held_keys.shape
    assert keys.is_meta


def test_keys_of_the_past_are_seen_and_the_mask_follows() -> None:
    spec = ModelSpec(vocab_size=11, n_ctx=8, d_model=12, n_layers=1, n_heads=3, d_ff=20)
    model, tap, cache = in_float64(spec), Listener(), Cache(1)
    tokens = random_ids(spec, batch=1)
    with torch.no_grad():
        model(tokens[:, :5], tap, cache)
        model(tokens[:, 5:7], tap, cache)
    weights = tap.heard["blocks.0.attn.weights"]
    assert weights.shape == (1, 3, 2, 7)
    assert (weights[0, :, 0, 6] == 0).all()  # position 5 does not see position 6
    assert (weights[0, :, 1] > 0).all()
    assert tap.heard["blocks.0.attn.k"].shape == (1, 3, 7, 4)


@pytest.mark.parametrize("heads_seen", [True, False])
def test_the_decoder_layer_is_torchs_own(heads_seen: bool) -> None:
    # nn.TransformerDecoderLayer, norm_first=False, is the layer of Vaswani et al. 2017, 3.1.
    spec = ModelSpec(d_model=12, n_heads=3, d_ff=20, n_layers=1, vocab_size=5, placement="post", activation="relu")
    with torch.device("cpu"):
        ours = DecoderBlock(spec).double()
    peer = nn.TransformerDecoderLayer(12, 3, 20, dropout=0.0, batch_first=True).double()
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(parameter.numel()))
        for theirs, mine in ((peer.self_attn, ours.attn), (peer.multihead_attn, ours.cross)):
            theirs.in_proj_weight.copy_(torch.cat([mine.q.weight, mine.k.weight, mine.v.weight]))
            theirs.in_proj_bias.copy_(torch.cat([mine.q.bias, mine.k.bias, mine.v.bias]))
            theirs.out_proj.weight.copy_(mine.out.weight)
            theirs.out_proj.bias.copy_(mine.out.bias)
        pairs = (
            (peer.linear1, ours.mlp.up),
            (peer.linear2, ours.mlp.down),
            (peer.norm1, ours.norm1),
            (peer.norm2, ours.norm2),
            (peer.norm3, ours.norm3),
        )
        for theirs, mine in pairs:
            theirs.weight.copy_(mine.weight)
            theirs.bias.copy_(mine.bias)
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(2, 5, 12, dtype=torch.float64, generator=generator)
        memory = torch.randn(2, 7, 12, dtype=torch.float64, generator=generator)
        mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
        expected = peer(x, memory, tgt_mask=mask, tgt_is_causal=True)
        torch.testing.assert_close(ours(x, memory, Listener(heads_seen)), expected, rtol=0, atol=1e-10)


def test_an_encoder_layer_sees_the_future_and_a_decoder_only_layer_does_not() -> None:
    spec = ModelSpec(vocab_size=11, n_ctx=8, d_model=12, n_layers=1, n_heads=3, d_ff=20)
    tap = Listener()
    block = encoder_block(spec).double()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(parameter.numel()))
        x = torch.randn(1, 4, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        eager, fused = block(x, tap), block(x, Listener(sees_scores=False))
    assert (tap.heard["attn.weights"] > 0).all()
    torch.testing.assert_close(eager, fused, rtol=0, atol=1e-10)
