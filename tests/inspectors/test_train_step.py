"""`tfinspect.train_step`: what a reader sees, and what is refused before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from tfinspect.errors import InputError
from tfinspect.inspectors.train_step import train_step
from tfinspect.presets import PRESETS
from tfinspect.results.table import Table
from tfinspect.results.train_step import TrainStep

GPT2 = PRESETS["gpt2"].spec
TINY = PRESETS["tiny-568"].spec
IDS = [[3, 1, 4, 1, 5, 9]]


def table(report: TrainStep, title: str) -> Table:
    return next(table for table in report.tables() if table.title.startswith(title))


def test_each_stage_says_what_it_changes_and_what_it_leaves_alone() -> None:
    stages: dict[str, list[tuple[object, object]]] = {}
    for row in table(train_step(TINY, ids=IDS), "Stages").rows:
        if row.role == "group":
            stages[str(row.cells["effect"])] = here = []
        else:
            here.append((row.cells["effect"], row.cells["what"]))
    assert stages == {
        "1. forward: logits = model(tokens)": [
            ("makes", "logits [B, T, V]"),
            ("leaves alone", "parameters"),
            ("changes", "kept for backward"),
        ],
        "2. loss: loss = cross_entropy(logits[:, :-1], tokens[:, 1:])": [
            ("makes", "loss, a mean"),
            ("leaves alone", "parameters"),
            ("changes", "kept for backward"),
        ],
        "3. backward: loss.backward()": [
            ("leaves alone", "parameters"),
            ("changes", "gradients"),
            ("changes", "kept for backward"),
        ],
        "4. step: optimizer.step()": [
            ("changes", "parameters"),
            ("leaves alone", "gradients"),
            ("changes", "optimizer state"),
        ],
        "5. zero_grad: optimizer.zero_grad()": [
            ("leaves alone", "parameters"),
            ("changes", "gradients"),
            ("leaves alone", "optimizer state"),
        ],
    }


def test_sums_by_component_are_sums_over_all_tensors_whatever_is_folded() -> None:
    for blocks in ("none", "all", ""):
        report = train_step(TINY, ids=IDS, blocks=blocks)
        *components, total = table(report, "Gradients by component").rows
        assert sum(row.cells["elements"] for row in components) == total.cells["elements"] == 568  # type: ignore[misc]
        assert sum(row.cells["zeros"] for row in components) == total.cells["zeros"]  # type: ignore[misc]
        assert total.cells["norm"] == pytest.approx(report.gradient_norm)
        kept = table(report, "Kept for backward").rows
        assert sum(row.cells["bytes"] for row in kept[:-1]) == kept[-1].cells["bytes"]  # type: ignore[misc]
        folds = [row for row in table(report, "Gradients by tensor").rows if row.role == "fold"]
        assert len(folds) == {"none": 2, "all": 0, "": 1}[blocks]


def test_an_untied_head_has_a_gradient_of_its_own_and_no_table_of_two_uses() -> None:
    report = train_step(TINY.replace(tied_head=False), ids=IDS)
    assert "The tied table" not in {table.title for table in report.tables()}
    assert {g.component for g in report.gradients} >= {"head", "tokens"}
    assert report.to_dict()["tied_table"] is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ids": [[3]]}, "the text has 1 token, so there is nothing to predict"),
        ({"ids": [[3, 1], [4]], "pad": True}, "one of the texts has 1 token"),
        ({"ids": []}, "nothing to train on (0 tokens)"),
        ({"ids": [[3, 1], [4, 1, 5]]}, "2, 3 tokens"),
        ({"ids": [[3, 10]]}, "id 10 at position 1"),
        ({"ids": [[1] * 9]}, "9 tokens and the model's context is 8"),
        ({"ids": IDS, "optimizer": "adam"}, "'adam'"),
        ({"ids": IDS, "lr": 0}, "--lr"),
        ({"ids": IDS, "lr": -1.0}, "--lr"),
        ({"ids": IDS, "lr": float("nan")}, "nan"),
        ({"ids": IDS, "lr": float("inf")}, "inf"),
        ({"ids": IDS, "lr": True}, "True"),
        ({"ids": IDS, "optimizer": "sgd", "momentum": 1.0}, "--momentum"),
        ({"ids": IDS, "optimizer": "sgd", "momentum": -0.1}, "--momentum"),
        ({"ids": IDS, "momentum": 0.9}, "belongs to SGD"),
        ({"ids": IDS, "blocks": "2"}, "no block 2"),
    ],
)
def test_what_cannot_be_trained_is_said_before_anything_runs(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        train_step(TINY, **given)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"architecture": "encoder"}, "an encoder, which sees them, predicts none"),
        ({"architecture": "encoder_decoder"}, "this one is an encoder-decoder"),
        ({"head": "none"}, "a model without a head has none"),
    ],
)
def test_a_model_that_predicts_no_next_token_is_not_trained_to(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        train_step(TINY.replace(**fields), ids=[[1, 2, 3]])
    assert words in caught.value.message
    assert caught.value.hint


def test_the_rows_of_an_offset_table_are_counted_from_its_first() -> None:
    report = train_step(TINY.replace(position_offset=2), ids=[[3, 1, 4, 1, 5, 9]])
    (notes,) = (table.notes for table in report.tables() if table.title == "Gradients by component")
    assert notes[0].startswith("Nothing is predicted from a last token, so P's rows from 7 on")
    assert notes[0].endswith("so have the 2 before position 0.")


def test_a_step_that_does_not_fit_is_refused() -> None:
    huge = GPT2.replace(d_model=16_384, n_heads=128, d_ff=4 * 16_384, n_layers=100)
    with pytest.raises(InputError, match="the training step needs about"):
        train_step(huge, ["hello world"])
