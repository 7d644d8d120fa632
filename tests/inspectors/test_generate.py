"""`tfinspect.generate`: what a Python user gets, and what is refused before anything runs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tfinspect.errors import InputError
from tfinspect.inspectors.generate import generate
from tfinspect.presets import PRESETS
from tfinspect.spec import ModelSpec

GPT2 = PRESETS["gpt2"].spec
TINY = PRESETS["tiny-568"].spec
NARROW = GPT2.replace(d_model=16, n_layers=1, n_heads=2, d_ff=32)


def test_new_tokens_follow_the_prompt_and_decode_to_their_bytes() -> None:
    report = generate(NARROW, "Hello, world!", max_new=12, temperature=1.0)
    (row,) = report.rows
    assert row.ids == (15_496, 11, 995, 0)
    assert row.data == b"Hello, world!"
    assert len(row.new_ids) == 12
    assert row.new_data == b"".join(step.choices[0].chosen.data or b"" for step in report.steps)
    assert tuple(step.choices[0].chosen.token_id for step in report.steps) == row.new_ids


def test_greedy_is_the_default_and_a_filter_makes_it_a_draw() -> None:
    assert generate(TINY, ids=[[1]], max_new=1, check=False).sampling.greedy
    drawn = generate(TINY, ids=[[1]], max_new=1, top_k=5, check=False).sampling
    assert (drawn.temperature, drawn.top_k) == (1.0, 5)
    assert generate(TINY, ids=[[1]], max_new=1, top_p=0.5, temperature=0, check=False).sampling.greedy


def test_one_token_to_draw_from_is_greedy_choice() -> None:
    greedy, narrowed, certain = (
        generate(TINY, ids=[[1, 2]], max_new=6, check=False, **how).rows[0].new_ids
        for how in ({}, {"top_k": 1}, {"top_p": 1e-9, "temperature": 2.0})
    )
    assert greedy == narrowed == certain


def test_filters_that_keep_everything_change_no_draw() -> None:
    plain, filtered = (
        generate(TINY, ids=[[1, 2]], max_new=6, temperature=1.0, check=False, **how).rows[0].new_ids
        for how in ({}, {"top_k": 10, "top_p": 1.0})
    )
    assert plain == filtered


@pytest.mark.parametrize("how", [{}, {"temperature": 1.0}, {"top_k": 4, "top_p": 0.9, "seed": 3}])
def test_a_cache_changes_no_id(how: dict[str, Any]) -> None:
    kept, again = (
        generate(TINY, ids=[[3, 1], [4, 1]], max_new=6, cache=cache, check=False, **how) for cache in (True, False)
    )
    assert [row.new_ids for row in kept.rows] == [row.new_ids for row in again.rows]
    assert kept.steps[-1].cache_bytes > 0 == again.steps[-1].cache_bytes


def test_three_steps_stand_for_all_unless_told_otherwise() -> None:
    three, all_steps = (generate(TINY, ids=[[3]], max_new=6, every_step=every).agreements for every in (False, True))
    steps = generate(TINY, ids=[[3]], max_new=6, check=False).steps
    assert three[3].quantity == "MACs with a cache, steps 1, 2, 6"
    assert three[3].closed_form == steps[0].with_cache + steps[1].with_cache + steps[5].with_cache
    assert all_steps[3].quantity == "MACs with a cache, steps 1 to 6"
    assert all_steps[3].closed_form == sum(step.with_cache for step in steps)


def test_the_last_context_position_can_be_filled_and_no_further() -> None:
    assert generate(TINY, ids=[[3, 1]], max_new=6, check=False).n_new == 6
    with pytest.raises(InputError) as caught:
        generate(TINY, ids=[[3, 1]], max_new=7)
    assert caught.value.message == "2 tokens and 7 new ones are 9, and the model's context is 8"
    assert caught.value.hint == "give --max-new 6"
    with pytest.raises(InputError) as caught:
        generate(TINY, ids=[[1] * 8], max_new=1)
    assert "--ctx 9" in caught.value.hint


def test_ids_outside_gpt2s_table_have_no_text() -> None:
    padded = NARROW.replace(vocab_size=50_304)  # GPT-2's vocabulary filled up to a multiple of 64
    report = generate(padded, ids=[[50_300, 15_496]], max_new=1, show=True)
    assert report.rows[0].data is None
    small = generate(TINY, ids=[[3]], max_new=2, show=True)
    assert {candidate.data for step in small.steps for candidate in step.choices[0].likeliest} == {None}
    assert "text" not in {column.key for column in small.tables()[0].columns}


def test_shown_steps_change_no_figure() -> None:
    hidden, shown = (generate(TINY, ids=[[3, 1]], max_new=5, show=show) for show in (False, True))
    assert hidden.to_dict() == shown.to_dict()
    assert [t.title for t in hidden.tables()] == ["Generated", "KV cache", "Work"]
    titles = ["Generated", "Shapes, step by step", "Candidates, step by step", "Work"]
    assert [t.title for t in shown.tables()] == titles
    assert hidden.tables()[-1].rows[-1] == shown.tables()[-1].rows[-1]


def test_progress_is_said_token_by_token_and_then_the_check() -> None:
    heard: list[str] = []
    generate(TINY, ids=[[3]], max_new=2, told=heard.append)
    assert heard == ["token 1 of 2", "token 2 of 2", "checking"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "nothing to continue (0 tokens)"),
        ({"ids": [[]]}, "nothing to continue (0 tokens)"),
        ({"ids": [[1], [1, 2]]}, "1, 2 tokens"),
        ({"ids": [[10]]}, "id 10 at position 0"),
        ({"ids": [[1] * 9]}, "9 tokens and the model's context is 8"),
        ({"ids": [[1]], "max_new": 0}, "max_new (--max-new) must be at least 1, not 0"),
        ({"ids": [[1]], "max_new": 10**30}, "context is 8"),
        ({"ids": [[1]], "max_new": 1.5}, "not 1.5"),
        ({"ids": [[1]], "temperature": -0.1}, "temperature (--temperature) must be at least 0 and finite, not -0.1"),
        ({"ids": [[1]], "temperature": math.nan}, "not nan"),
        ({"ids": [[1]], "temperature": math.inf}, "not inf"),
        ({"ids": [[1]], "temperature": "hot"}, "not 'hot'"),
        ({"ids": [[1]], "top_k": 0}, "top_k (--top-k) must be at least 1, not 0"),
        ({"ids": [[1]], "top_k": 2.0}, "not 2.0"),
        ({"ids": [[1]], "top_p": 0.0}, "top_p (--top-p) must be above 0 and at most 1, not 0.0"),
        ({"ids": [[1]], "top_p": 1.01}, "not 1.01"),
        ({"ids": [[1]], "top_p": math.nan}, "not nan"),
        ({"ids": [[1]], "top_p": True}, "not True"),
    ],
)
def test_what_cannot_be_generated_is_said_before_anything_runs(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        generate(TINY, **{"max_new": 2, **given})
    assert words in caught.value.message


def test_a_cache_of_shared_key_heads_has_their_axis_and_keeps_what_a_window_hides() -> None:
    # Ainslie et al. 2023, section 2.2: a cache of h_kv heads in the place of h.
    report = generate(TINY.replace(n_kv_heads=1, window=2), ids=[[1, 2, 3]], max_new=3)
    assert {a.verdict for a in report.agreements} == {"agree"}
    assert [step.cache_sizes for step in report.steps] == [(1, 1, 3, 2), (1, 1, 4, 2), (1, 1, 5, 2)]
    (cache,) = [table for table in report.tables() if table.title == "KV cache"]
    assert cache.columns[1].title.endswith("[B, h_kv, S, d_head]")
    assert cache.notes[0].endswith("also those that a window of 2 hides.")
    (cache,) = [table for table in generate(TINY, ids=[[1]], max_new=2).tables() if table.title == "KV cache"]
    assert cache.columns[1].title.endswith("[B, h, S, d_head]")


@pytest.mark.parametrize("fields", [{"architecture": "encoder"}, {"architecture": "encoder_decoder"}, {"head": "none"}])
def test_a_model_that_predicts_no_next_token_generates_none(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^generate ") as caught:
        generate(TINY.replace(**fields), ids=[[1, 2]])
    assert caught.value.hint


def test_a_model_that_does_not_fit_is_refused() -> None:
    huge = ModelSpec(d_model=65_536, n_heads=64, d_ff=4 * 65_536, n_layers=200)
    with pytest.raises(InputError, match="GiB"):
        generate(huge, "hi")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({}, "greedy: the largest logit."),
        ({"temperature": 0, "top_k": 3}, "greedy: the largest logit, which top-k 3 always keeps."),
        ({"top_k": 3, "top_p": 0.5}, "temperature 1, then top-k 3, then top-p 0.5, then one draw."),
        ({"temperature": 0.8}, "temperature 0.8, then one draw."),
    ],
)
def test_the_report_says_how_a_token_is_chosen_and_in_which_order(how: dict[str, Any], words: str) -> None:
    assert words in generate(TINY, ids=[[1]], max_new=1, check=False, **how).conventions
