"""What reading huge checkpoints costs: seconds of the whole command, and the most memory that it held.

Run by hand, on a quiet machine: ``python tests/benchmarks/checkpoints.py``. The files are sparse: they have
headers, and holes where their numbers would be.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # a script's own folder is all that Python looks in

from tests.facts.test_stored import terabyte  # noqa: E402
from tests.headers import header  # noqa: E402
from tests.sources.test_safetensors_header import write  # noqa: E402

PROGRAM: Final = str(Path(sysconfig.get_path("scripts")) / "tfinspect")
#: What the terabyte must stay under.
SECONDS, MEBIBYTES = 2.0, 300


def main() -> int:
    print(f"{'checkpoint':<28}  {'parameters':>17}  {'seconds':>7}  {'of CPU':>6}  {'peak MiB':>8}")
    with tempfile.TemporaryDirectory() as folder:
        total = terabyte(Path(folder))
        seconds, mebibytes = measured("over 1 TB in 200 shards", folder, total)
    for n in (100_000, 800_000):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.safetensors"
            write(file, header({f"model.layers.{at // 10}.experts.{at % 10}.weight": [2, 2] for at in range(n)}))
            measured(f"{n:,} tensors in one file", str(file), 4 * n)
    return 0 if seconds < SECONDS and mebibytes < MEBIBYTES else 1


#: Runs a command in a process of its own and writes what it cost on stderr: a process that has just been forked counts
#: the memory of the one that forked it, and this one is small.
CLOCK: Final = """
import resource, subprocess, sys, time
begin = time.perf_counter()
code = subprocess.call(sys.argv[1:])
seconds, usage = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
print(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, file=sys.stderr)
sys.exit(code)
"""


def measured(title: str, path: str, total: int) -> tuple[float, float]:
    """Seconds of the command, and its peak resident MiB."""
    command = [sys.executable, "-c", CLOCK, PROGRAM, "params", path, "--expect", str(total), "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(ended.stdout)["total_params"]
    seconds, cpu, mebibytes = map(float, ended.stderr.split())
    print(f"{title:<28}  {found:>17,}  {seconds:>7.2f}  {cpu:>6.2f}  {mebibytes:>8.0f}")
    return seconds, mebibytes


if __name__ == "__main__":
    raise SystemExit(main())
