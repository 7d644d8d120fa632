"""The next token: filters against their definitions, draws against their probabilities, steps against their shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tfinspect.errors import InputError
from tfinspect.measured.generation import decode
from tfinspect.measured.sampling import allowed, choose, generator, race, tempered, top_k, top_p
from tfinspect.model.build import build
from tfinspect.presets import PRESETS
from tfinspect.results.generation import Sampling

TINY = PRESETS["tiny-568"].spec

#: Whole numbers that make a distribution whose sums are exact in float64: each a part of 2^20.
PARTS = st.lists(st.integers(0, 2**16), min_size=1, max_size=12).filter(any)
LOGITS = st.lists(st.floats(-8, 8) | st.sampled_from((0.0, 1.0, 2.0)), min_size=1, max_size=12)
SAMPLINGS = st.builds(
    Sampling,
    temperature=st.sampled_from((0.0, 0.3, 1.0, 2.5)),
    top_k=st.none() | st.integers(1, 13),
    top_p=st.none() | st.floats(0.01, 1.0),
)


def exactly(parts: Sequence[int]) -> tuple[Tensor, list[Fraction]]:
    """A distribution in float64 that is exact, and the same in fractions: what is missing to 2^20 is a last token."""
    whole = [*parts, 2**20 - sum(parts)]
    chances = [Fraction(part, 2**20) for part in whole]
    return torch.tensor([[float(c) for c in chances]], dtype=torch.float64), chances


def likeliest_first(chances: Sequence[Fraction]) -> list[int]:
    """Ids by falling probability, of equals the lower id first."""
    return sorted(range(len(chances)), key=lambda i: (-chances[i], i))


def scaled(chances: Sequence[Fraction], kept: set[int]) -> list[float]:
    """What is left of a distribution where only some tokens stay."""
    total = sum((chances[i] for i in kept), start=Fraction(0))
    return [float(c / total) if i in kept else 0.0 for i, c in enumerate(chances)]


def same(found: Tensor, wanted: Sequence[float]) -> bool:
    """Equal to rounding, and 0 in the same places."""
    return found[0].tolist() == pytest.approx(wanted, rel=1e-12, abs=0)


@given(LOGITS, st.floats(0.05, 20))
def test_temperature_divides_logits_before_the_softmax(logits: list[float], temperature: float) -> None:
    exps = [math.exp(x / temperature) for x in logits]
    wanted = [e / math.fsum(exps) for e in exps]
    assert tempered(torch.tensor([logits], dtype=torch.float64), temperature)[0].tolist() == pytest.approx(wanted)


def test_temperature_1_is_the_softmax_and_the_extremes_do_not_overflow() -> None:
    logits = torch.tensor([[3.0, 1.0, -2.0, 3.0]], dtype=torch.float64)
    torch.testing.assert_close(tempered(logits, 1.0), logits.softmax(-1))
    assert tempered(logits, 5e-324).tolist() == [[0.5, 0.0, 0.0, 0.5]]
    assert tempered(logits, 1e308).tolist() == [[0.25] * 4]


@given(PARTS, st.integers(1, 14))
def test_top_k_keeps_the_k_largest_and_of_equals_the_lower_ids(parts: list[int], k: int) -> None:
    found, chances = exactly(parts)
    assert same(top_k(found, k), scaled(chances, set(likeliest_first(chances)[:k])))


@given(PARTS, st.integers(1, 2**20))
def test_top_p_keeps_the_smallest_set_of_likeliest_tokens_that_reaches_p(parts: list[int], threshold: int) -> None:
    found, chances = exactly(parts)
    order, p = likeliest_first(chances), Fraction(threshold, 2**20)
    # The smallest number of likeliest tokens whose probabilities reach p.
    n_kept = next(n for n in range(1, len(order) + 1) if sum(chances[i] for i in order[:n]) >= p)
    assert same(top_p(found, float(p)), scaled(chances, set(order[:n_kept])))


@pytest.mark.parametrize("k", [4, 5, 10**9])
def test_k_of_at_least_v_and_p_of_1_change_nothing(k: int) -> None:
    chances = torch.tensor([[0.1, 0.2, 0.3, 0.4]], dtype=torch.float64)
    assert torch.equal(top_k(chances, k), chances)
    assert torch.equal(top_p(chances, 1.0), chances)
    tail = torch.tensor([[1.0, 1e-30]], dtype=torch.float64)  # the first alone rounds to the whole
    assert torch.equal(top_p(tail, 1.0), tail)


def test_at_least_one_token_stays() -> None:
    chances = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)
    for filtered in (top_p(chances, 1e-300), top_k(chances, 1)):
        assert filtered.tolist() == [[0.0, 1.0, 0.0]]


def test_equal_tokens_leave_the_higher_ids_first() -> None:
    even = torch.full((1, 4), 0.25, dtype=torch.float64)
    assert top_k(even, 3).tolist() == [[1 / 3, 1 / 3, 1 / 3, 0.0]]
    assert top_p(even, 0.5).tolist() == [[0.5, 0.5, 0.0, 0.0]]
    assert top_p(even, 0.5000001).tolist() == [[1 / 3, 1 / 3, 1 / 3, 0.0]]


def test_top_p_measures_what_top_k_has_left() -> None:
    # 0.4 0.3 0.2 0.1: two kept are 0.571 and 0.429, and the first alone reaches 0.5; top-p first would keep both.
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]], dtype=torch.float64).log()
    both = choose(logits, Sampling(1.0, top_k=2, top_p=0.5), generator(0))
    assert both.after.tolist() == [[1.0, 0.0, 0.0, 0.0]]
    torch.testing.assert_close(both.before, logits.exp())
    assert top_k(top_p(logits.exp(), 0.5), 2).count_nonzero() == 2


@given(LOGITS, SAMPLINGS, st.integers(0, 5))
def test_what_is_chosen_is_allowed_and_nothing_outside_the_filters_is(
    row: list[float], sampling: Sampling, seed: int
) -> None:
    logits = torch.tensor([row], dtype=torch.float64)
    chosen = choose(logits, sampling, generator(seed))
    assert chosen.after[0, chosen.ids[0]] > 0
    assert chosen.after.sum().item() == pytest.approx(1)
    assert allowed(logits, chosen.ids, sampling).all()
    scores = logits[0] if sampling.greedy else chosen.before[0]
    less = scores < scores[chosen.after[0] > 0].min()  # what is as likely as the last token kept could be in its place
    for token_id in less.nonzero().flatten():
        assert chosen.after[0, token_id] == 0
        if scores[token_id] > 1e-9 or sampling.greedy:  # below that a sum rounds the token away
            assert not allowed(logits, token_id[None], sampling).any()


@given(LOGITS, SAMPLINGS.filter(lambda s: s.top_p is None), st.integers(0, 5), st.data())
def test_no_change_of_logits_below_half_the_margin_changes_the_choice(
    row: list[float], sampling: Sampling, seed: int, data: st.DataObject
) -> None:
    logits = torch.tensor([row], dtype=torch.float64)
    chosen = choose(logits, sampling, generator(seed))
    half = 0.49 * min(chosen.margin.item(), 100.0)
    moved = [half * data.draw(st.sampled_from((-1, 1))) for _ in row]
    again = choose(logits + torch.tensor([moved], dtype=torch.float64), sampling, generator(seed))
    assert again.ids.tolist() == chosen.ids.tolist() or half < 1e-9


def test_greedy_is_the_first_of_the_largest_logits_and_draws_nothing() -> None:
    draws = generator(0)
    before = draws.get_state()
    logits = torch.tensor([[1.0, 4.0, 4.0], [2.0, 1.0, 0.0]])
    chosen = choose(logits, Sampling(), draws)
    assert chosen.ids.tolist() == [1, 0]
    assert chosen.after.tolist() == [[0, 1, 0], [1, 0, 0]]
    assert torch.equal(draws.get_state(), before)
    torch.testing.assert_close(chosen.before, logits.double().softmax(-1))


def chi_square(counts: Tensor, chances: Tensor) -> float:
    """Pearson's statistic over the tokens that can be drawn."""
    possible = chances > 0
    expected = chances[possible] * counts.sum()
    return (((counts[possible] - expected) ** 2) / expected).sum().item()


#: Above the 0.999 quantile of chi-square with 1 to 5 degrees of freedom (Fisher and Yates, table IV).
CRITICAL = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52}


@pytest.mark.parametrize(
    "sampling",
    [Sampling(1.0), Sampling(0.5), Sampling(2.0), Sampling(1.0, top_k=3), Sampling(0.8, top_p=0.9),
     Sampling(1.5, top_k=5, top_p=0.8)],
)  # fmt: skip
def test_tokens_are_drawn_with_their_probabilities(sampling: Sampling) -> None:
    n_draws = 100_000
    logits = torch.tensor([2.0, 1.0, 0.5, 0.5, -1.0, -2.0], dtype=torch.float64).expand(n_draws, -1)
    chosen = choose(logits, sampling, generator(7))
    counts = chosen.ids.bincount(minlength=6).double()
    after = chosen.after[0]
    assert counts[after == 0].sum() == 0
    assert chi_square(counts, after) < CRITICAL[int((after > 0).sum()) - 1]
    # The test can fail: a temperature that is off by a fifth is seen.
    wrong = top_p(top_k(tempered(logits[:1], 1.2 * sampling.temperature), sampling.top_k or 6), sampling.top_p or 1.0)
    assert chi_square(counts, wrong[0]) > 100


def test_the_winner_of_a_race_of_two_is_decided_by_their_waiting_times() -> None:
    chances = torch.tensor([[0.25, 0.75]], dtype=torch.float64)
    waiting = torch.empty(1, 2, dtype=torch.float64).exponential_(generator=generator(3))
    first = int((waiting / chances).argmin())  # waiting at rate p is waiting at rate 1, divided by p
    assert race(chances, generator(3)).argmax().item() == first


@pytest.mark.parametrize("cached", [True, False])
def test_each_step_has_the_textbooks_shapes(cached: bool) -> None:
    # Chapter B, step 8: logits of the last position [B, V], chosen ids [B].
    prompt = torch.tensor([[3, 1, 4], [1, 5, 9]])
    ran = decode(build(TINY), prompt, n_new=4, sampling=Sampling(1.0), cached=cached)
    shapes = [(3, 3), (1, 4), (1, 5), (1, 6)] if cached else [(3, 3), (4, 4), (5, 5), (6, 6)]
    assert [(step.queries, step.keys) for step in ran.steps] == shapes
    for i, step in enumerate(ran.steps):
        assert (step.logits_sizes, step.ids_sizes) == ((2, 10), (2,))
        assert step.cache_sizes == ((2, 2, 3 + i, 2) if cached else None)
        assert step.cache_bytes == (2 * 2 * 2 * 2 * (3 + i) * 2 * 4 if cached else 0)
    assert ran.tokens.shape == (2, 7)
    assert ran.tokens[:, :3].tolist() == prompt.tolist()


def test_each_step_lists_the_likeliest_tokens_and_the_chosen_one() -> None:
    ran = decode(build(TINY), torch.tensor([[3, 1]]), n_new=5, sampling=Sampling(1.0, top_k=3), seed=2)
    for step, logits, chosen_id in zip(ran.steps, ran.logits, ran.new_ids[0], strict=True):
        (choice,) = step.choices
        chances = logits[0].double().softmax(-1)
        order = sorted(range(10), key=lambda i: (-chances[i].item(), i))
        assert [c.token_id for c in choice.likeliest] == order[:5]
        assert [c.rank for c in choice.likeliest] == [1, 2, 3, 4, 5]
        assert [c.before for c in choice.likeliest] == pytest.approx(chances[order[:5]].tolist())
        assert [c.after > 0 for c in choice.likeliest] == [True] * 3 + [False] * 2
        assert choice.n_kept == 3
        assert choice.chosen.token_id == chosen_id == order[choice.chosen.rank - 1]
        assert choice.chosen.logit == logits[0, chosen_id].item()


def test_a_seed_gives_the_same_tokens_and_another_one_other_tokens() -> None:
    model, prompt = build(TINY), torch.tensor([[3]])
    runs = [decode(model, prompt, n_new=7, sampling=Sampling(1.0), seed=seed).new_ids for seed in (1, 1, -1, 2**80)]
    assert runs[0] == runs[1]
    assert len({str(ids) for ids in runs}) == 3


def test_rows_of_a_batch_draw_for_themselves() -> None:
    ran = decode(build(TINY), torch.tensor([[3, 1]] * 4), n_new=6, sampling=Sampling(1.0))
    assert len({tuple(ids) for ids in ran.new_ids}) > 1
    greedy = decode(build(TINY), torch.tensor([[3, 1]] * 4), n_new=6, sampling=Sampling())
    assert len({tuple(ids) for ids in greedy.new_ids}) == 1


def test_no_global_random_state_is_touched() -> None:
    before = torch.get_rng_state()
    decode(build(TINY), torch.tensor([[3]]), n_new=3, sampling=Sampling(1.0))
    assert torch.equal(torch.get_rng_state(), before)


def test_logits_that_are_not_finite_are_said() -> None:
    model = build(TINY)
    with torch.no_grad():
        model.embed.tokens.weight[0, 0] = math.nan
    with pytest.raises(InputError, match="logits of step 1 are not all finite"):
        decode(model, torch.tensor([[0]]), n_new=1, sampling=Sampling())


def test_progress_is_told_after_each_token() -> None:
    heard: list[int] = []
    decode(build(TINY), torch.tensor([[3]]), n_new=3, sampling=Sampling(), told=heard.append)
    assert heard == [1, 2, 3]
