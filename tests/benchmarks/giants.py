"""What tracing the largest named models costs: seconds beyond importing torch, and the most memory that was held.

Run by hand, on a quiet machine: ``python tests/benchmarks/giants.py [NAME ...]``; by default each preset from 6 billion
parameters on. Each is traced in a process of its own, which imports torch, starts a clock, and then runs the command.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

from tfinspect.closed_form.params import ledger
from tfinspect.presets import PRESETS

TEXT = "Hello, world! A text of a few tokens stands for any."
LEAST_PARAMS = 6_000_000_000
#: What both figures must stay under.
SECONDS, MEBIBYTES = 3.0, 700


def traced(name: str) -> None:
    """Trace one preset in this process, and write its seconds, also of CPU, and its peak resident MiB on stderr."""
    import torch  # noqa: F401 - its import is what the clock leaves out

    begin, cpu_begin = time.perf_counter(), time.process_time()
    from tfinspect.cli.app import main as tfinspect

    code = tfinspect(["trace", "--preset", name, "--meta", TEXT])
    mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(time.perf_counter() - begin, time.process_time() - cpu_begin, mebibytes, file=sys.stderr)
    raise SystemExit(code)


def main() -> None:
    params = {name: sum(term.params for term in ledger(preset.spec)) for name, preset in PRESETS.items()}
    names = sys.argv[1:] or sorted((n for n in params if params[n] >= LEAST_PARAMS), key=params.__getitem__)
    print(f"{'preset':<20}  {'parameters':>17}  {'blocks':>6}  {'seconds':>7}  {'of CPU':>6}  {'peak MiB':>8}")
    for name in names:
        command = [sys.executable, __file__, "--in-this-process", name]
        environment = {**os.environ, "COLUMNS": "80"}
        ended = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        seconds, cpu_seconds, mebibytes = map(float, ended.stderr.split())
        verdict = "holds" if seconds < SECONDS and mebibytes < MEBIBYTES else "MISSED"
        blocks = PRESETS[name].spec.n_layers + PRESETS[name].spec.n_encoder_layers
        figures = f"{blocks:>6}  {seconds:>7.2f}  {cpu_seconds:>6.2f}  {mebibytes:>8.0f}"
        print(f"{name:<20}  {params[name]:>17,}  {figures}  {verdict}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in-this-process"]:
        traced(sys.argv[2])
    main()
