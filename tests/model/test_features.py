"""What each feature beyond GPT-2 does, by what it leaves unchanged and what it changes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.model.test_transformer import Listener
from tfinspect.errors import InputError
from tfinspect.model.build import build, decoder
from tfinspect.model.cache import Cache
from tfinspect.model.extras import Experts, rows_of_each
from tfinspect.model.layers import RMSNorm, mlp
from tfinspect.model.positions import causal_mask, relative_buckets, rotate
from tfinspect.model.tap import SILENT
from tfinspect.spec import ModelSpec

SMALL: dict[str, Any] = {
    "vocab_size": 17, "n_ctx": 9, "d_model": 12, "n_layers": 2, "n_heads": 6, "d_ff": 20, "d_head": 2,
}  # fmt: skip


def filled(model: Any) -> Any:
    """A part or a model in float64 with large random weights."""
    generator = torch.Generator().manual_seed(3)
    model = model.double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.5, generator=generator)
    return model.eval()


def model(**fields: Any) -> Any:
    return filled(build(ModelSpec(**{**SMALL, **fields})))


def ids(*shape: int) -> Tensor:
    return torch.randint(17, shape, generator=torch.Generator().manual_seed(1))


def run(built: Any, tokens: Tensor, **how: Any) -> Tensor:
    with torch.no_grad():
        return built(tokens, **how)


def heard(built: Any, tokens: Tensor, **how: Any) -> dict[str, Tensor]:
    tap = Listener()
    run(built, tokens, tap=tap, **how)
    return tap.heard


@pytest.mark.parametrize("positions", ["learned", "rope"])
def test_grouped_keys_are_repeated_keys(positions: str) -> None:
    grouped, full = model(n_kv_heads=2, positions=positions), model(positions=positions)
    with torch.no_grad():
        for ours, theirs in zip(grouped.blocks, full.blocks, strict=True):
            theirs.load_state_dict(
                {
                    name: tensor.unflatten(0, (2, 1, 2)).expand(2, 3, 2, *tensor.shape[1:]).flatten(0, 2)
                    if ".k." in name or ".v." in name
                    else tensor
                    for name, tensor in ours.state_dict().items()
                }
            )
        full.embed.load_state_dict(grouped.embed.state_dict())
        full.final_norm.load_state_dict(grouped.final_norm.state_dict())
    torch.testing.assert_close(run(grouped, ids(2, 9)), run(full, ids(2, 9)), rtol=0, atol=1e-10)


def test_a_window_of_the_whole_context_is_none_and_a_shorter_one_forgets() -> None:
    plain, wide, narrow = model(), model(window=9), model(window=3, n_layers=1)
    assert torch.equal(run(plain, ids(1, 9)), run(wide, ids(1, 9)))
    changed = ids(1, 9).clone()
    changed[0, 2] = (changed[0, 2] + 1) % 17
    moved = (run(narrow, ids(1, 9)) - run(narrow, changed)).abs().amax(dim=(0, 2))
    assert [position for position in range(9) if moved[position] > 0] == [2, 3, 4]  # itself and the next two


def test_each_so_many_th_block_sees_all() -> None:
    seen = heard(model(n_layers=4, window=2, global_every=2), ids(1, 9))
    n_keys = [int((seen[f"blocks.{i}.attn.weights"][0, 0, -1] > 0).sum()) for i in range(4)]
    assert n_keys == [2, 9, 2, 9]


def test_partial_rope_turns_the_first_features_alone() -> None:
    x = torch.randn(1, 2, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turned = rotate(x, width=4)
    assert torch.equal(turned[..., 4:], x[..., 4:])
    torch.testing.assert_close(turned[..., :4], rotate(x[..., :4].contiguous()))
    assert not torch.allclose(rotate(x, base=500_000.0)[:, :, 1:], rotate(x)[:, :, 1:])


def test_rms_norm_divides_by_the_root_mean_square() -> None:
    part = RMSNorm(4, eps=0.0).double()
    nn.init.constant_(part.weight, 2.0)
    x = torch.tensor([3.0, -1.0, 2.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(part(x), 2 * x / math.sqrt(14 / 4))


def test_a_gate_of_zero_closes_the_mlp_and_one_is_the_curve_at_one() -> None:
    part = filled(mlp(ModelSpec(**SMALL, activation="swiglu", bias=False)))
    x = torch.ones(1, 1, 12, dtype=torch.float64)
    with torch.no_grad():
        part.gate.weight.zero_()
        assert (part(x, SILENT) == 0).all()
        part.gate.weight.fill_(1 / 12)
        silu_of_one = 1 / (1 + math.exp(-1))
        torch.testing.assert_close(part(x, SILENT), silu_of_one * part.down(part.up(x)))


def test_a_mixture_of_like_experts_is_one_of_them() -> None:
    part = filled(Experts(ModelSpec(**SMALL, n_experts=4, n_experts_per_token=2, activation="geglu")))
    for expert in part.experts:
        expert.load_state_dict(part.experts[0].state_dict())
    x = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(part(x, SILENT), part.experts[0](x, SILENT), rtol=0, atol=1e-10)


def test_each_token_goes_through_the_experts_that_it_chose() -> None:
    part = filled(Experts(ModelSpec(**SMALL, n_experts=5, n_experts_per_token=2, n_shared_experts=1)))
    x = torch.randn(2, 4, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        out = part(x, SILENT)
        for row in range(2):
            for position in range(4):
                token = x[row, position]
                chances = part.router(token).softmax(0)
                best = chances.topk(2).indices.tolist()
                chosen = sum(chances[i] / chances[best].sum() * part.experts[i](token, SILENT) for i in best)
                expected = chosen + part.shared(token, SILENT)
                torch.testing.assert_close(out[row, position], expected, rtol=0, atol=1e-10)


def test_rows_of_experts_add_up_with_values_and_without() -> None:
    chosen = torch.tensor([[[0, 2], [2, 1]], [[2, 0], [2, 3]]])
    assert rows_of_each(chosen, 5) == [2, 1, 4, 1, 0]
    assert rows_of_each(chosen.to("meta"), 5) == [8]


def test_parallel_blocks_add_both_changes_to_one_stream() -> None:
    for placement in ("parallel", "parallel_one_norm"):
        seen = heard(model(placement=placement, positions="none"), ids(1, 9))
        stream = seen["embed.tokens"] + seen["blocks.0.attn.out"] + seen["blocks.0.mlp.out"]
        torch.testing.assert_close(seen["blocks.0.resid_out"], stream)
        assert ("blocks.0.norm2" in seen) == (placement == "parallel")
        assert "blocks.0.resid_mid" not in seen


def test_a_sandwich_normalises_what_a_sublayer_gives() -> None:
    built = model(placement="sandwich", norm="rmsnorm", positions="none")
    with torch.no_grad():
        for block in built.blocks:
            block.norm1_out.weight.fill_(1)
    seen = heard(built, ids(1, 9))
    added = seen["blocks.0.resid_mid"] - seen["embed.tokens"]
    torch.testing.assert_close(added.square().mean(-1), torch.ones(1, 9, dtype=torch.float64), rtol=0, atol=1e-3)


def test_qk_norm_makes_scores_blind_to_the_size_of_queries() -> None:
    built = model(qk_norm=True, qkv_bias=False, norm_eps=0.0)
    before = heard(built, ids(1, 9))["blocks.0.attn.scores"]
    with torch.no_grad():
        built.blocks[0].attn.q.weight *= 7
    torch.testing.assert_close(heard(built, ids(1, 9))["blocks.0.attn.scores"], before)


def test_the_embedding_is_scaled_by_the_root_of_its_width_and_then_normed() -> None:
    seen = heard(model(embed_scale=True, embed_norm=True), ids(1, 9))
    torch.testing.assert_close(seen["embed.scaled"], seen["embed.tokens"] * math.sqrt(12))
    torch.testing.assert_close(seen["embed.sum"], seen["embed.scaled"] + seen["embed.positions"])
    assert not torch.allclose(seen["embed.norm"], seen["embed.sum"])


def test_an_offset_leaves_the_first_rows_of_the_table_unused() -> None:
    built = model(position_offset=2)
    assert built.embed.positions.weight.shape == (11, 12)
    torch.testing.assert_close(heard(built, ids(1, 9))["embed.positions"], built.embed.positions.weight[2:])


def test_an_encoder_sees_both_sides_and_has_bert_s_head_and_pooler() -> None:
    built = model(architecture="encoder", head="mlm", pooler=True, n_token_types=2, activation="gelu")
    seen = heard(built, ids(1, 9))
    assert (seen["blocks.0.attn.weights"] > 0).all()
    pooled = torch.tanh(built.pooler(seen["final_norm"][:, 0]))
    torch.testing.assert_close(seen["pooled"], pooled)
    torch.testing.assert_close(seen["logits"], built.head(seen["mlm.norm"]))
    torch.testing.assert_close(seen["embed.types"], built.embed.types.weight[0].expand(1, 9, 12))
    assert "logits" not in heard(model(head="none"), ids(1, 9))


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "learned"])
def test_a_decoder_of_two_stacks_hears_all_of_the_source_and_nothing_of_its_future(
    placement: str, positions: str
) -> None:
    built = model(architecture="encoder_decoder", placement=placement, positions=positions, max_distance=40)
    tokens, source = ids(1, 6), ids(1, 9)
    before = run(built, tokens, source=source)
    assert before.shape == (1, 6, 17)
    torch.testing.assert_close(before, run(built, tokens, source=source, tap=Listener()), rtol=0, atol=1e-10)
    for position in range(9):
        other = source.clone()
        other[0, position] = (other[0, position] + 1) % 17
        assert ((run(built, tokens, source=other) - before).abs().amax(dim=2) > 0).all()
    later = tokens.clone()
    later[0, 4] = (later[0, 4] + 1) % 17
    changed = (run(built, later, source=source) - before).abs().amax(dim=2)[0] > 0
    assert changed.tolist() == [False, False, False, False, True, True]
    assert built.head.weight is built.encoder.embed.tokens.weight is built.decoder.embed.tokens.weight


def test_an_encoder_decoder_says_what_it_needs() -> None:
    built = model(architecture="encoder_decoder")
    with pytest.raises(InputError, match="reads a source"):
        built(ids(1, 3))
    with pytest.raises(InputError, match="reads a source"):
        built(ids(1, 3), cache=Cache(2))
    cache = Cache(2)
    run(built, ids(1, 3), cache=cache, source=ids(1, 5))
    with pytest.raises(InputError, match="holds the keys and values of a source already"):
        built(ids(1, 3), cache=cache, source=ids(1, 5))
    with pytest.raises(InputError, match="model of one stack"):
        decoder(built.spec)


def test_relative_buckets_are_t5_s() -> None:
    # Raffel et al. 2020, section 2.1, 32 buckets up to 128: causal, one for each distance below 16, then growing
    # ranges; the last from 128 on. In an encoder half of them stand for keys after the query.
    causal = relative_buckets(1, 301, 32, 128, True)[0].flip(0).tolist()
    assert causal[:17] == list(range(17))
    assert [causal[d] for d in (20, 31, 64, 127, 128, 300)] == [17, 21, 26, 31, 31, 31]
    assert relative_buckets(7, 7, 32, 128, False)[3].tolist() == [3, 2, 1, 0, 17, 18, 19]


def test_a_decode_step_asks_for_the_buckets_of_the_last_row() -> None:
    whole = relative_buckets(6, 6, 8, 20, True)
    assert torch.equal(relative_buckets(2, 6, 8, 20, True), whole[-2:])


def test_the_mask_of_a_window() -> None:
    kept = causal_mask(4, 6, torch.empty(0), window=2) == 0
    assert kept.int().tolist() == [[0, 1, 1, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 1, 1]]


def test_scores_of_t5_are_not_divided() -> None:
    divided, bare = heard(model(), ids(1, 9)), heard(model(scale_scores=False), ids(1, 9))
    visible = torch.ones(9, 9, dtype=torch.bool).tril()
    name = "blocks.0.attn.scores"
    torch.testing.assert_close(divided[name][..., visible] * math.sqrt(2), bare[name][..., visible])
