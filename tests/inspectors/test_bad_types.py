"""What no command line can pass, a Python user can: it is an InputError too, and never an error of Python's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tfinspect
from tfinspect import InputError, ModelSpec

api: Any = tfinspect
TINY = tfinspect.preset("tiny-568").spec

WRONG: dict[str, Callable[[], object]] = {
    "a preset's name is no model": lambda: api.params("gpt2"),
    "None is no model": lambda: api.flops(None),
    "a dict is no model": lambda: api.trace({"d_model": 4}, ids=[[1]]),
    "a preset that is no word": lambda: api.preset(["gpt2"]),
    "a preset that is None": lambda: api.preset(None),
    "a preset that is a number": lambda: api.resolve(5),
    "a size in words": lambda: api.resolve(d_model="768"),
    "a choice in a list": lambda: ModelSpec(placement=["pre"]),  # type: ignore[arg-type]
    "n in words": lambda: api.flops(TINY, seq_len="5", check=False),
    "half a batch": lambda: api.flops(TINY, batch=0.5, check=False),
    "a sweep in words": lambda: api.flops(TINY, sweep="1:8", check=False),
    "a sweep of one": lambda: api.flops(TINY, sweep=(1,), check=False),
    "a sweep that is a number": lambda: api.flops(TINY, sweep=5, check=False),
    "an expectation in words": lambda: api.params(TINY, expect="568", check=False),
    "a text that is a number": lambda: api.tokens(5),
    "a text that is a list": lambda: api.trace(ModelSpec(), [["hi"]]),
    "texts that are a number": lambda: api.trace(ModelSpec(), 5),
    "more origins than texts": lambda: api.tokens("a", origins=("one", "two")),
    "ids in words": lambda: api.decode("12"),
    "ids that are a number": lambda: api.decode(12),
    "no ids at all": lambda: api.decode(None),
    "ids that are no integers": lambda: api.trace(TINY, ids=[[1.0]]),
    "ids that are true": lambda: api.trace(TINY, ids=[[True]]),
    "one row of ids in the place of rows": lambda: api.trace(TINY, ids=[1, 2, 3]),
    "a seed in words": lambda: api.trace(TINY, ids=[[1]], seed="x"),
    "half a seed": lambda: api.generate(TINY, ids=[[1]], max_new=1, seed=0.5),
    "no seed": lambda: api.train_step(TINY, ids=[[1, 2]], seed=None),
    "a block that is a number": lambda: api.trace(TINY, ids=[[1]], blocks=0),
    "half a trial": lambda: api.checks("A3.1.1", trials=0.5),
    "a claim's seed in words": lambda: api.checks("A3.1.1", seed="x"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_type_is_bad_input(wrong: str) -> None:
    with pytest.raises(InputError):
        WRONG[wrong]()


@pytest.mark.parametrize("kind", [torch.tensor, np.array, lambda rows: [tuple(row) for row in rows]])
def test_ids_may_be_any_kind_of_integers(kind: Callable[[Any], Any]) -> None:
    rows = [[3, 1, 4], [1, 5, 9]]
    assert tfinspect.trace(TINY, ids=kind(rows), meta=True) == tfinspect.trace(TINY, ids=rows, meta=True)
    assert tfinspect.decode(kind(rows)[0]) == tfinspect.decode([3, 1, 4])
    assert tfinspect.decode(kind(rows)[0]).to_dict()["ids"] == [3, 1, 4]
