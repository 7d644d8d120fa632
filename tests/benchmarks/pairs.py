"""Ratios that hold when a machine's speed drifts: two things are timed in turn, A B A B, and compared pair by pair."""

from __future__ import annotations

import dataclasses
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence

__all__ = ["Ratio", "of_calls", "of_processes", "report"]


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How long A takes against B."""

    what: str
    a_seconds: float
    """Median of A."""
    b_seconds: float
    """Median of B."""
    median: float
    """Median of the pairwise ratios A/B."""
    low: float
    high: float
    bar: float
    """What the median must stay under."""


def of_processes(what: str, bar: float, a: Sequence[str], b: Sequence[str], pairs: int = 9) -> Ratio:
    """Whole processes, from start to exit, output read and thrown away."""
    return of_calls(what, bar, lambda: _run(a), lambda: _run(b), pairs=pairs, warm_up=1)


def of_calls(
    what: str, bar: float, a: Callable[[], object], b: Callable[[], object], pairs: int = 25, warm_up: int = 2
) -> Ratio:
    """Two calls in this process."""
    for _ in range(warm_up):
        a()
        b()
    seconds = [(_timed(a), _timed(b)) for _ in range(pairs)]
    ratios = [x / y for x, y in seconds]
    a_median, b_median = (statistics.median(column) for column in zip(*seconds, strict=True))
    return Ratio(what, a_median, b_median, statistics.median(ratios), min(ratios), max(ratios), bar)


def report(ratios: Sequence[Ratio]) -> None:
    """One line each: the ratio, its spread, its bar, and whether it holds."""
    width = max(len(r.what) for r in ratios)
    print(f"{'A against B':<{width}}  {'A':>8}  {'B':>8}  {'A/B':>6}  {'least':>6}  {'most':>6}  {'bar':>5}")
    for r in ratios:
        verdict = "holds" if r.median < r.bar else "MISSED"
        print(
            f"{r.what:<{width}}  {r.a_seconds:7.3f}s  {r.b_seconds:7.3f}s  {r.median:6.3f}  {r.low:6.3f}"
            f"  {r.high:6.3f}  {r.bar:5.2f}  {verdict}"
        )


def _timed(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _run(command: Sequence[str]) -> None:
    environment = {**os.environ, "COLUMNS": "80"}
    subprocess.run(command, check=True, capture_output=True, env=environment)
