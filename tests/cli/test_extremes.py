"""Sizes that no machine holds: a closed form at once, or one line of complaint."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import Program

WIDE = ("--d", "2147483647", "--heads", "1")


@pytest.mark.parametrize("command", ["params", "flops"])
def test_a_billion_blocks_have_a_closed_form(tfinspect: Program, command: str) -> None:
    ended = tfinspect(command, "--layers", "1000000000", "--no-check")
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("train-step", "--layers", "1000000000", "hello world"), "error: a run of 1,000,000,000 blocks is too long"),
        (("trace", "--layers", "1000000000", "hello"), "error: a run of 1,000,000,000 blocks is too long"),
        (("generate", "--layers", "1000000000", "hello"), "error: a run of 1,000,000,000 blocks is too long"),
        (("trace", "--meta", "hello", *WIDE, "--d-ff", "1", "--layers", "1"), "error: a tensor of "),
        (("attention", "hello", *WIDE, "--d-ff", "1"), "error: a tensor of "),
        (("generate", "hello", *WIDE, "--d-ff", "1"), "error: a tensor of "),
        (("train-step", "hello world", *WIDE, "--d-ff", "1"), "error: a tensor of "),
    ],
)
def test_what_cannot_run_is_one_line(tfinspect: Program, arguments: Any, complaint: str) -> None:
    ended = tfinspect(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(complaint)
    assert ended.err.count("\n") == 1


def test_a_long_name_is_quoted_in_part(tfinspect: Program) -> None:
    ended = tfinspect("params", "x" * 5_000)
    assert ended.code == 2
    assert len(ended.err) < 600
