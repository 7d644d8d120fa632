"""What a page says that a command prints, the command prints: character by character."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.docs.console import FENCE, PAGES, ROOT, ROUNDING, Block, Shell, agrees, blocks, blocks_of, refreshed

#: The release of torch that the pages are written with. Others dispatch other operations to the same end.
TORCH = "2.13"

BLOCKS = [block for page in PAGES for block in blocks(page)]

pytestmark = pytest.mark.skipif(shutil.which("sh") is None, reason="the pages are written for a POSIX shell")


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_says_what_the_program_prints(block: Block, shell: Shell) -> None:
    if _counts_operations(block) and not version("torch").startswith(f"{TORCH}."):
        pytest.skip(f"the page counts the operations that torch {TORCH} dispatches")
    for step, output in zip(block.steps, shell.run(block), strict=True):
        assert agrees(step.written, output), "\n".join(
            [f"$ {step.command}", *output, "", "python tests/docs/refresh.py writes the pages anew"]
        )


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_changed_digit_is_seen(block: Block, shell: Shell) -> None:
    """The comparison can fail: with the first or the last digit of any line changed, a block does not agree."""
    for step, output in zip(block.steps, shell.run(block), strict=True):
        for number, line in enumerate(step.written):
            rounding = {place for figure in ROUNDING.finditer(line) for place in range(*figure.span())}
            digits = [digit.start() for digit in re.finditer("[0-9]", line) if digit.start() not in rounding]
            for place in {*digits[:1], *digits[-1:]}:
                changed = f"{line[:place]}{(int(line[place]) + 5) % 10}{line[place + 1 :]}"
                assert not agrees([*step.written[:number], changed, *step.written[number + 1 :]], output), changed


def test_pages_show_commands_of_every_kind() -> None:
    commands = " ".join(step.command for block in BLOCKS for step in block.steps)
    assert {f"tfinspect {name}" in commands for name in ("tokenize", "trace", "attention", "params", "flops")} == {True}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_fence_is_run_or_is_no_session(page: Path) -> None:
    """sh holds calls to type and text holds formulas: neither may show output that nobody compares."""
    for fence in FENCE.finditer(page.read_text("utf-8")):
        assert fence["language"] in ("console", "python", "sh", "text")
        assert fence["language"] == "console" or "\n$ " not in f"\n{fence['content']}"


def _counts_operations(block: Block) -> bool:
    return any("ops counted" in " ".join(" ".join(step.written).split()) for step in block.steps)


OUTPUT = ["title", "a  1", "b  2", "", "note", "total  3"]


@pytest.mark.parametrize(
    ("written", "same"),
    [
        (OUTPUT, True),
        (["title", "...", "total  3"], True),
        (["...", "b  2", "...", "total  3"], True),
        (["title", "..."], True),
        (["..."], True),
        (["title", "a  1", "b  2", "", "note", "...", "total  3"], True),  # nothing need be left out
        (["title", "..", "total  3"], False),
        (["title", "...", "note"], False),
        (["a  1", "...", "total  3"], False),
        (["title", "...", "b  2", "...", "a  1", "...", "total  3"], False),  # out of order
        (["...", "note", "total  3", "...", "total  3"], False),  # one line cannot serve twice
        (["title ", "..."], False),
        ([], False),
    ],
)
def test_a_cut_stands_for_lines_and_for_nothing_else(written: list[str], same: bool) -> None:
    assert agrees(written, OUTPUT) is same


@pytest.mark.parametrize(
    ("output", "same"),
    [
        ("J·1  4.4e-16  0 ±1e-12", True),
        ("J·1  2.7e-17  0 ±1e-12", True),
        ("J·1  0        0 ±1e-12", True),
        ("J·1  4.4e-06  0 ±1e-12", False),  # more than rounding
        ("J·1  1  0 ±1e-12", False),
        ("J·1  nan      0 ±1e-12", False),
        ("J·1  4.4e-16  0 ±1e-17", False),  # a tolerance is no figure of rounding
        ("J·2  4.4e-16  0 ±1e-12", False),
        ("J·1  0  0 ±1e-12", False),  # a column of another width
    ],
)
def test_a_figure_of_rounding_stands_for_one_of_its_size(output: str, same: bool) -> None:
    assert agrees(["J·1  4.4e-16  0 ±1e-12"], [output]) is same


def test_an_exact_0_is_not_rounding() -> None:
    assert not agrees(["row 1  0      "], ["row 1  4.4e-16"])


def test_refreshing_leaves_a_figure_of_rounding_as_it_is() -> None:
    assert refreshed(["J·1  4.4e-16", "n  1"], ["J·1  3.6e-16", "n  1"]) == ["J·1  4.4e-16", "n  1"]
    assert refreshed(["J·1  4.4e-16", "n  1"], ["J·1  3.6e-16", "n  2"]) == ["J·1  3.6e-16", "n  2"]


def test_refreshing_keeps_cuts_and_replaces_what_they_enclose() -> None:
    fresh = ["title", "a  10", "new  5", "b  20", "", "note", "total  35"]
    assert refreshed(["title", "a  1", "b  2", "...", "total  3"], fresh) == [*fresh[:4], "...", "total  35"]
    assert refreshed(["...", "b  2", "..."], fresh) == ["...", "b  20", "..."]
    assert refreshed(OUTPUT, fresh) == fresh
    assert refreshed([], fresh) == fresh


def test_refreshing_refuses_to_guess() -> None:
    with pytest.raises(ValueError, match="no line like 'something else'"):
        refreshed(["title", "...", "something else", "...", "total  3"], ["title", "a  1", "total  4"])


def test_a_shell_runs_a_command_once_unless_it_needs_a_file() -> None:
    shell = Shell()
    text = "```console\n$ echo $$\n...\n$ echo one > file; cat file\none\n$ cat file\none\n```\n"
    (block,) = blocks_of(text, ROOT)
    first, second = shell.run(block), shell.run(block)
    assert first == [first[0], ["one"], ["one"]]
    assert second == first  # the same process number: it ran once
    assert [key for key in shell.outputs if key.startswith("cat")] == []


def test_a_page_reads_as_a_terminal_shows_it() -> None:
    shell = Shell()
    (block,) = blocks_of("```console\n$ echo out; echo err >&2; exit 3\n```\n", ROOT)
    assert shell.run(block) == [["out", "err"]]


def test_refresh_as_a_script_finds_its_modules(tmp_path: Path) -> None:
    code = f"import runpy; runpy.run_path({str(ROOT / 'tests/docs/refresh.py')!r})"
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
