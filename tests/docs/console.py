"""The documentation's console blocks: what they say, and what the program says.

A block is a fence marked ``console``. A line that begins with ``$ `` is a command; the lines up to the next command are
its output, standard error included. Lines below it that begin with ``>`` go on with the command, as in a shell. A line
that is just ``...`` stands for any number of lines left out. A figure of rounding, such as 4.4e-16, stands for any
other of its size, and for 0.

A block runs in an empty folder of its own, as a reader would run it: sh, 80 columns, UTF-8, no terminal.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

CUT = "..."
PROMPT, MORE = "$ ", "> "
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)

#: A figure that is nothing but rounding: how much of it is left, and in which digits, depends on the processor.
ROUNDING = re.compile(r"(?<![\w.])\d\.\d+e-(?:1\d|[2-9]\d)(?![\w.])")

#: What a reader's shell may have set and a page must not depend on.
UNSET = ("NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING", "PYTHONUNBUFFERED", "TFINSPECT_TRACEBACK")
#: Lines less alike than this are not two states of one line.
ALIKE = 0.6


@dataclasses.dataclass(frozen=True)
class Step:
    """A command and the output that a page claims for it."""

    command: str
    written: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Block:
    """One console block: where it stands, and its steps."""

    page: Path
    line: int
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The console blocks of a page, in order."""
    return blocks_of(page.read_text("utf-8"), page)


def blocks_of(text: str, page: Path) -> list[Block]:
    """The console blocks of a page's text, in order."""
    return [
        Block(page, text.count("\n", 0, fence.start()) + 1, tuple(_steps(fence["content"].splitlines())))
        for fence in FENCE.finditer(text)
        if fence["language"] == "console"
    ]


def prose(page: Path) -> str:
    """A page without its console blocks, Python sessions and link targets."""
    text = FENCE.sub(
        lambda fence: "" if fence["language"] in ("console", "python") else fence[0], page.read_text("utf-8")
    )
    return re.sub(r"\]\([^)]*\)", "]", text)


class Shell:
    """Runs commands; one that leaves an empty folder empty runs once, however many blocks show it."""

    def __init__(self) -> None:
        self.outputs: dict[str, list[str]] = {}
        scripts = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        inherited = {name: value for name, value in os.environ.items() if name not in UNSET}
        fixed = {"COLUMNS": "80", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1", "TERM": "dumb"}
        self._environ = {**inherited, **fixed, "PATH": os.pathsep.join(scripts)}

    def run(self, block: Block) -> list[list[str]]:
        """What each step of a block prints, in lines."""
        with tempfile.TemporaryDirectory() as folder:
            return [self._run(step.command, Path(folder)) for step in block.steps]

    def _run(self, command: str, folder: Path) -> list[str]:
        began_empty = not any(folder.iterdir())
        if began_empty and command in self.outputs:
            return self.outputs[command]
        ended = subprocess.run(
            ["sh", "-c", command],
            cwd=folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        lines = ended.stdout.decode("utf-8").split("\n")
        lines = lines[:-1] if lines[-1] == "" else lines
        key = command if began_empty and not any(folder.iterdir()) else f"{folder.name}: {command}"
        self.outputs[key] = lines
        return lines


def agrees(written: Sequence[str], output: Sequence[str]) -> bool:
    """Whether the output is what a page says, character by character outside the cuts and the figures of rounding."""
    head, *rest = _segments(written)
    if not rest:
        return _same(head, output)
    *middle, tail = rest
    at, end = len(head), len(output) - len(tail)
    if not _same(head, output[:at]) or not _same(tail, output[max(end, 0) :]):
        return False
    for segment in middle:
        found = (p for p in range(at, end - len(segment) + 1) if _same(segment, output[p : p + len(segment)]))
        place = next(found, None)
        if place is None:
            return False
        at = place + len(segment)
    return at <= end


def refreshed(written: Sequence[str], output: Sequence[str]) -> list[str]:
    """The output with the page's cuts.

    A part between cuts goes from the line most like its first one to the line most like its last one.

    Raises:  ValueError for a kept part that the output does not have.
    """
    if agrees(written, output):
        return list(written)
    segments = _segments(written)
    kept: list[list[str]] = []
    at = 0
    for number, segment in enumerate(segments):
        first, last = number == 0, number == len(segments) - 1
        if not segment and not (first and last):
            kept.append([])
            continue
        start = 0 if first else _place(segment[0], output, at, at)
        stop = len(output) if last else _place(segment[-1], output, start, start + len(segment) - 1) + 1
        kept.append(list(output[start:stop]))
        at = stop
    return list(itertools.chain.from_iterable([*segment, CUT] for segment in kept))[:-1]


def rewritten(page: Path, outputs: Callable[[Block], list[list[str]]]) -> str:
    """The text of a page with every console block's output as it is."""
    found = iter(blocks(page))

    def refresh(fence: re.Match[str]) -> str:
        if fence["language"] != "console":
            return fence[0]
        block = next(found)
        lines: list[str] = []
        for step, output in zip(block.steps, outputs(block), strict=True):
            try:
                lines += [*_typed(step.command), *refreshed(step.written, output)]
            except ValueError as error:
                raise ValueError(f"{block}: {step.command}: {error}") from None
        return "\n".join(["```console", *lines, "```"])

    return FENCE.sub(refresh, page.read_text("utf-8"))


def _steps(lines: Sequence[str]) -> Iterator[Step]:
    starts = [number for number, line in enumerate(lines) if line.startswith(PROMPT)]
    if not starts or starts[0] != 0:
        raise ValueError(f"a console block begins with a command, not with {lines[:1]}")
    for start, stop in itertools.pairwise([*starts, len(lines)]):
        more = itertools.takewhile(lambda line: line.startswith(MORE.rstrip()), lines[start + 1 : stop])
        typed = [lines[start].removeprefix(PROMPT), *(line[len(MORE) :] for line in more)]
        yield Step("\n".join(typed), tuple(lines[start + len(typed) : stop]))


def _typed(command: str) -> list[str]:
    """A command as its lines stand in a block."""
    first, *rest = command.split("\n")
    return [PROMPT + first, *((MORE + line).rstrip() for line in rest)]


def _same(written: Sequence[str], output: Sequence[str]) -> bool:
    """Whether these lines say the same."""
    return len(written) == len(output) and all(itertools.starmap(_reads, zip(written, output, strict=True)))


def _reads(written: str, line: str) -> bool:
    """Whether a line of the output is the page's line, up to figures of rounding: each as wide, or a padded 0."""
    if written == line or len(written) != len(line):
        return written == line
    figures = [f"(?:{ROUNDING.pattern}|0 {{{len(figure) - 1}}})" for figure in ROUNDING.findall(written)]
    words = map(re.escape, ROUNDING.split(written))
    pattern = "".join(part for pair in itertools.zip_longest(words, figures, fillvalue="") for part in pair)
    return re.fullmatch(pattern, line) is not None


def _segments(written: Sequence[str]) -> list[list[str]]:
    """The parts between cuts."""
    segments: list[list[str]] = [[]]
    for line in written:
        if line == CUT:
            segments.append([])
        else:
            segments[-1].append(line)
    return segments


def _place(line: str, output: Sequence[str], at: int, expected: int) -> int:
    """Where in the output, from `at` on, the line most like this one stands; of equals, the nearest to `expected`."""
    likeness = {place: _likeness(line, output[place]) for place in range(at, len(output))}
    best = max(likeness, key=lambda place: (likeness[place], -abs(place - expected)), default=None)
    if best is None or likeness[best] < ALIKE:
        raise ValueError(f"no line like {line!r} is left in the output")
    return best


def _likeness(one: str, other: str) -> float:
    """1 for equal lines, nearly 1 for a line that holds the other, else the share that they have in common."""
    if one == other:
        return 1.0
    if one.strip() and one.strip() in other:
        return 0.99
    return 0.98 * difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()
