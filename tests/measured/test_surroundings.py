"""What a caller has set in torch changes no figure, and is still set afterwards."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch

import tfinspect
from tfinspect.measured.surroundings import plain_torch

TINY = tfinspect.preset("tiny-568").spec
IDS = [[3, 1, 4, 1, 5, 9]]


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


SETTINGS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "float64": lambda: default_dtype(torch.float64),
    "bfloat16": lambda: default_dtype(torch.bfloat16),
    "meta": lambda: torch.device("meta"),
    "no_grad": torch.no_grad,
    "inference mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
}

MEASURED: dict[str, Callable[[], Any]] = {
    "trace": lambda: tfinspect.trace(TINY, ids=IDS, stats=True, last=True, ops=True),
    "params": lambda: tfinspect.params(TINY),
    "flops": lambda: tfinspect.flops(TINY, causal="half", every_mode=True),
    "attention": lambda: tfinspect.attention(TINY, ids=IDS),
    "generate": lambda: tfinspect.generate(TINY, ids=[[3, 1]], max_new=3),
    "train_step": lambda: tfinspect.train_step(TINY, ids=IDS),
    "claim": lambda: dataclasses.replace(tfinspect.checks("A3.1.1").checked[0], seconds=0.0),
}


def state() -> tuple[Any, ...]:
    return (
        torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"),
    )  # fmt: skip


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("measured", MEASURED)
def test_no_figure_depends_on_the_surroundings(measured: str, setting: str) -> None:
    plain = MEASURED[measured]()
    with SETTINGS[setting]():
        before = state()
        surrounded = MEASURED[measured]()
        assert state() == before
    assert surrounded == plain


@pytest.mark.parametrize("setting", SETTINGS)
def test_inside_torch_is_as_it_starts(setting: str) -> None:
    fresh = state()
    with SETTINGS[setting](), plain_torch():
        assert state() == fresh
