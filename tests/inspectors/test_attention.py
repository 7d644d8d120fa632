"""`tfinspect.attention`: what a head looks at, and what a broken head is caught by."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.specs import specs
from tfinspect.errors import InputError
from tfinspect.inspectors.attention import attention
from tfinspect.inspectors.trace import trace
from tfinspect.model import positions, transformer
from tfinspect.model.tap import Tap
from tfinspect.presets import PRESETS
from tfinspect.results.attention import Attention
from tfinspect.results.weights import Dtype
from tfinspect.spec import ModelSpec

GPT2 = PRESETS["gpt2"].spec
TINY = PRESETS["tiny-568"].spec
SMALL = GPT2.replace(d_model=64, n_layers=2, n_heads=8, d_ff=256)
TOKENS = [3, 1, 4, 1, 5, 9]


def verdicts(report: Attention) -> dict[str, str]:
    return {a.quantity: a.verdict for a in report.agreements}


@given(specs(architectures=("decoder", "encoder")), st.data(), st.sampled_from(("float32", "float64")))
@settings(max_examples=60)
def test_the_definition_and_numpy_agree_with_every_head(spec: ModelSpec, data: st.DataObject, dtype: Dtype) -> None:
    ids = st.lists(st.integers(0, spec.vocab_size - 1), min_size=1, max_size=spec.n_ctx)
    layer = data.draw(st.integers(0, spec.n_layers - 1))
    report = attention(
        spec,
        ids=data.draw(st.lists(ids, min_size=1, max_size=3)),
        layer=layer,
        head=data.draw(st.integers(0, spec.n_heads - 1)),
        dtype=dtype,
    )
    assert set(verdicts(report).values()) == {"agree"}
    cells = (c for text in report.texts for m in (text.products, text.scores) for row in m for c in row)
    largest = max(abs(cell) for cell in cells if math.isfinite(cell))
    step = 1e-5 if dtype == "float32" else 1e-10
    assert {a.tolerance for a in report.agreements[-3:]} == {step * max(1.0, largest)}
    window = spec.window_of(layer) or spec.n_ctx
    for text in report.texts:
        n = len(text.text.ids)
        assert {len(row) for matrix in (text.products, text.mask, text.scores, text.weights) for row in matrix} == {n}
        for i in range(n):
            seen = [j for j in range(n) if not spec.causal or i - window < j <= i]
            assert text.n_seen[i] == len(seen)
            assert all(map(math.isfinite, text.products[i]))
            assert [j for j in range(n) if math.isfinite(text.scores[i][j])] == seen
            assert [j for j in range(n) if math.isfinite(text.mask[i][j])] == seen
            assert all(text.weights[i][j] == 0.0 for j in range(n) if j not in seen)
            assert text.weights[i][i] > 0
            assert [j for j, weight in enumerate(text.seen_weights[i]) if weight is not None] == seen
            assert text.entropies[i] <= text.largest_entropies[i] + 1e-6


def test_the_first_position_sees_itself_alone() -> None:
    text = attention(TINY, ids=[TOKENS]).texts[0]
    assert text.weights[0] == (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert text.entropies[0] == 0.0


def test_equal_keys_share_a_row_equally_and_reach_the_largest_entropy() -> None:
    # The entropy of n equal parts is log2(n), and no other distribution over n has as much (Shannon 1948, section 6).
    text = attention(TINY.replace(positions="none"), ids=[[7] * 8], dtype="float64").texts[0]
    for i, row in enumerate(text.weights):
        assert row[: i + 1] == pytest.approx([1 / (i + 1)] * (i + 1), abs=1e-15)
    assert text.entropies == pytest.approx([math.log2(n) for n in range(1, 9)], abs=1e-14)
    assert text.largest_entropies == tuple(math.log2(n) for n in range(1, 9))


def test_the_entropy_follows_from_the_scores_too() -> None:
    # H = ln Σ exp(s) − Σ w·s in nats: the Legendre transform of the log of the partition function.
    text = attention(SMALL, ["Attention is all you need"], layer=1, head=5, dtype="float64").texts[0]
    for i, (scores, weights, entropy) in enumerate(zip(text.scores, text.weights, text.entropies, strict=True)):
        seen = list(zip(scores, weights, strict=True))[: i + 1]
        nats = math.log(sum(math.exp(s) for s, _ in seen)) - sum(w * s for s, w in seen)
        assert entropy == pytest.approx(nats / math.log(2), abs=1e-12)
        assert entropy < math.log2(i + 1) or i == 0


def test_alibi_adds_minus_slope_times_distance() -> None:
    # Press et al. 2022, 3: with 8 heads the slopes are 1/2, 1/4, ..., 1/256.
    for head in range(8):
        mask = attention(SMALL.replace(positions="alibi"), ids=[TOKENS], head=head).texts[0].mask
        for i, row in enumerate(mask):
            assert row[: i + 1] == tuple(-(2.0 ** -(head + 1)) * (i - j) for j in range(i + 1))
            assert all(math.copysign(1, cell) == 1 for cell in row if cell == 0)


def test_a_changed_last_token_moves_no_earlier_row() -> None:
    # Chapter A, 7.2: rows before the change differ by exactly 0.0.
    one, other = attention(TINY, ids=[TOKENS, [*TOKENS[:-1], 2]], layer=1, head=1).texts
    assert one.weights[:-1] == other.weights[:-1]
    assert one.scores[:-1] == other.scores[:-1]
    assert one.scores[-1] != other.scores[-1]


def test_each_text_is_looked_at_by_itself() -> None:
    together = attention(SMALL, ["Attention is", "all you need"], head=3)
    for text, attended in zip(("Attention is", "all you need"), together.texts, strict=True):
        assert attention(SMALL, text, head=3).texts == (attended,)


def test_the_model_is_the_one_that_trace_runs() -> None:
    stats = next(
        t.stats for t in trace(TINY, ids=[TOKENS], stats=True, seed=5).tensors if t.name == "blocks.0.attn.scores"
    )
    assert stats is not None
    cells = [
        score
        for head in range(2)
        for row in attention(TINY, ids=[TOKENS], head=head, seed=5).texts[0].scores
        for score in row
        if math.isfinite(score)
    ]
    assert (stats.minimum, stats.maximum) == (min(cells), max(cells))
    assert stats.mean == pytest.approx(sum(cells) / len(cells), abs=1e-12)


def test_heads_layers_and_seeds_differ() -> None:
    asked: list[dict[str, Any]] = [{}, {"head": 1}, {"layer": 1}, {"layer": 1, "head": 1}, {"seed": 1}]
    assert len({attention(TINY, ids=[TOKENS], **given).texts[0].scores for given in asked}) == len(asked)


def test_tokens_that_are_parts_of_a_character_say_which() -> None:
    # Chapter B, 15.2: one kanji can span several tokens, and a token can hold part of a character.
    text = attention(SMALL, ["蒔絵師が"]).texts[0]
    assert text.labels == ("蒔 1/3", "蒔 2/3", "蒔 3/3", "絵 1/3", "絵 2/3", "絵 3/3", "師 1-2/3", "師 3/3", '"が"')
    assert attention(SMALL, ids=[text.text.ids]).texts[0].labels == text.labels
    assert attention(TINY, ids=[[3, 1]]).texts[0].labels == ("id 3", "id 1")


def wrong_axis(self: Any, q: Tensor, k: Tensor, v: Tensor, tap: Tap, bias: Any) -> Tensor:
    scores = q @ k.mT / math.sqrt(self.d_head) + positions.causal_mask(q.shape[2], k.shape[2], q)
    return tap("weights", tap("scores", scores, "B h T S").softmax(dim=-2), "B h T S") @ v


def mask_after_softmax(self: Any, q: Tensor, k: Tensor, v: Tensor, tap: Tap, bias: Any) -> Tensor:
    scores = q @ k.mT / math.sqrt(self.d_head)
    mask = positions.causal_mask(q.shape[2], k.shape[2], q)
    tap("scores", scores + mask, "B h T S")
    return tap("weights", scores.softmax(dim=-1).masked_fill(mask < 0, 0), "B h T S") @ v


def one_later(n_queries: int, n_keys: int, like: Tensor, slopes: Any = None, window: int = 0) -> Tensor:
    return torch.full((n_queries, n_keys), -math.inf, dtype=like.dtype).triu(2)


def itself_hidden(n_queries: int, n_keys: int, like: Tensor, slopes: Any = None, window: int = 0) -> Tensor:
    mask = torch.full((n_queries, n_keys), -math.inf, dtype=like.dtype).triu(0)
    mask[0, 0] = 0
    return mask


@pytest.mark.parametrize(
    ("owner", "name", "broken", "caught"),
    [
        (positions, "causal_mask", one_later, "weights on a later position that are not exactly 0"),
        (positions, "causal_mask", itself_hidden, "masked scores, T(T − 1)/2"),
        (transformer.Attention, "eager", wrong_axis, "largest |sum of a row of weights − 1|"),
        (transformer.Attention, "eager", mask_after_softmax, "largest |sum of a row of weights − 1|"),
        (transformer, "math", SimpleNamespace(sqrt=lambda x: x), "largest |Q·Kᵀ/√d_head + mask − score|"),
        (transformer, "math", SimpleNamespace(sqrt=lambda x: x), "largest |score − NumPy's score|"),
        (positions, "rotate", lambda x, first, **_: x.flip(-1), "largest |score − NumPy's score|"),
        (positions, "rotate", lambda x, first, **_: x.flip(-1), "largest |weight − NumPy's weight|"),
    ],
)
def test_a_broken_head_is_caught(
    owner: Any, name: str, broken: Any, caught: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = SMALL.replace(positions="rope" if name == "rotate" else "learned")
    assert verdicts(attention(spec, ids=[TOKENS]))[caught] == "agree"
    monkeypatch.setattr(owner, name, broken)
    assert verdicts(attention(spec, ids=[TOKENS]))[caught] == "differ"


def test_a_broken_window_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = SMALL.replace(window=2)
    masked, beyond = "masked scores, all but the last 2 of each row", "weights beyond the window that are not exactly 0"
    assert set(verdicts(attention(spec, ids=[TOKENS])).values()) == {"agree"}
    whole = positions.causal_mask
    monkeypatch.setattr(positions, "causal_mask", lambda n, m, like, slopes, window: whole(n, m, like, slopes))
    assert {verdicts(attention(spec, ids=[TOKENS]))[claim] for claim in (masked, beyond)} == {"differ"}


def test_a_window_leaves_each_row_its_last_positions_and_a_global_block_all() -> None:
    spec = TINY.replace(window=3, global_every=2)
    local, whole = (attention(spec, ids=[TOKENS], layer=layer) for layer in (0, 1))
    assert local.texts[0].n_seen == (1, 2, 3, 3, 3, 3)
    assert whole.texts[0].n_seen == (1, 2, 3, 4, 5, 6)
    notes = [table.notes[0] for table in local.tables()[2:]]
    assert notes[0] == "- is a later position, or one beyond the last 3: masked, its weight is exactly 0."
    assert local.tables()[2].rows[5].cells["key2"] == "-"
    assert isinstance(local.tables()[2].rows[5].cells["key3"], float)


def test_an_encoder_has_no_future_and_masks_nothing() -> None:
    # Devlin et al. 2019, section 3: bidirectional self-attention.
    report = attention(TINY.replace(architecture="encoder", head="none"), ids=[TOKENS])
    (text,) = report.texts
    assert text.mask == ((0.0,) * 6,) * 6
    assert min(map(min, text.weights)) > 0
    assert text.largest_entropies == (math.log2(6),) * 6
    assert "masked scores, none in an encoder" in verdicts(report)
    assert report.tables()[2].notes == ()


def test_query_heads_of_a_group_read_one_key_head() -> None:
    # Ainslie et al. 2023, section 2.2: h_kv key heads, each shared by h/h_kv query heads.
    spec = SMALL.replace(n_kv_heads=2)
    assert [attention(spec, ids=[TOKENS], head=head).key_head for head in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert "which reads key head 1" in attention(spec, ids=[TOKENS], head=5).conventions
    assert "reads key head" not in attention(SMALL, ids=[TOKENS], head=5).conventions


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"layer": 2}, "--layer 2: there is no layer 2; layers go from 0 to 1"),
        ({"layer": -1}, "--layer -1: there is no layer -1; layers go from 0 to 1"),
        ({"head": 2}, "--head 2: there is no head 2; heads go from 0 to 1"),
        ({"head": -1}, "heads go from 0 to 1"),
        ({"head": 0.0}, "head (--head) must be an integer, not 0.0"),
        ({"layer": True}, "layer (--layer) must be an integer, not True"),
        ({"dtype": "int8"}, "unknown dtype 'int8'; choose one of float32, float64, bfloat16, float16"),
        ({"ids": []}, "nothing to attend to (0 tokens)"),
        ({"ids": [[1], []]}, "one of the texts has 0 tokens"),
        ({"ids": [[1, 10]]}, "id 10 at position 1"),
        ({"ids": [[1] * 9]}, "9 tokens and the model's context is 8"),
        ({"texts": ["hi"], "ids": [[1]]}, "both"),
    ],
)
def test_what_cannot_be_looked_at_is_said(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        attention(TINY, **{"ids": [TOKENS], **given})
    assert words in str(caught.value)


def test_an_encoder_decoder_is_refused_with_a_way_out() -> None:
    with pytest.raises(InputError, match="a model of one stack") as caught:
        attention(TINY.replace(architecture="encoder_decoder"), ids=[TOKENS])
    assert "tfinspect trace" in caught.value.hint


def test_a_model_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="GiB") as caught:
        attention(GPT2.replace(d_model=65_536, n_heads=64, d_ff=4 * 65_536, n_layers=200), ["hi"])
    assert "--meta" not in caught.value.hint


def test_scores_that_are_no_numbers_are_refused() -> None:
    # Chapter A, 2.1: without an epsilon layer norm is undefined where all components are equal, as one alone is.
    with pytest.raises(InputError, match="no numbers") as caught:
        attention(ModelSpec(vocab_size=5, n_ctx=4, d_model=1, n_layers=1, n_heads=1, d_ff=4, norm_eps=0.0), ids=[[1]])
    assert "--eps" in caught.value.hint
