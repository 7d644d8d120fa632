"""What tracing the largest named models costs: seconds beyond importing torch, and the most memory that was held.

Run by hand, on a quiet machine: ``python tests/benchmarks/giants.py [NAME ...]``; by default every preset from 6 billion
parameters on. Importing torch is timed right before each, so that a machine whose speed drifts is fair to both.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

from startup import TFINSPECT

from tfinspect.closed_form.params import ledger
from tfinspect.presets import PRESETS

TEXT = "Hello, world! A text of a few tokens stands for any."
LEAST_PARAMS = 6_000_000_000
#: What both figures must stay under.
SECONDS, MEBIBYTES = 3.0, 700


def measured(command: Sequence[str]) -> tuple[float, float]:
    """Seconds and peak resident MiB of one process, from start to exit."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "80"})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


def main() -> None:
    importing = [sys.executable, "-c", "import torch"]
    measured(importing)
    params = {name: sum(term.params for term in ledger(preset.spec)) for name, preset in PRESETS.items()}
    names = sys.argv[1:] or sorted((n for n in params if params[n] >= LEAST_PARAMS), key=params.__getitem__)
    print(f"{'preset':<20}  {'parameters':>17}  {'blocks':>6}  {'seconds':>7}  {'peak MiB':>8}")
    for name in names:
        torch_seconds, _ = measured(importing)
        seconds, mebibytes = measured([TFINSPECT, "trace", "--preset", name, "--meta", TEXT])
        beyond = seconds - torch_seconds
        verdict = "holds" if beyond < SECONDS and mebibytes < MEBIBYTES else "MISSED"
        spec = PRESETS[name].spec
        blocks = spec.n_layers + spec.n_encoder_layers
        print(f"{name:<20}  {params[name]:>17,}  {blocks:>6}  {beyond:>7.2f}  {mebibytes:>8.0f}  {verdict}")


if __name__ == "__main__":
    main()
