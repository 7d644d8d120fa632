"""What a trace of somebody else's model costs over its plain forward pass: GPT-2 Small of transformers at n = 1,024.

Run by hand, on a quiet machine with the extra hf: ``python tests/benchmarks/modules.py``. Fused attention, as the
library runs it, float32, gradients off on both sides. A trace is the whole call, its second pass and its checks
included. Each peak of memory is that of a process of its own.
"""

from __future__ import annotations

import subprocess
import sys

import torch
from pairs import of_calls, report

import tfinspect

N = 1_024
PAIRS = 9


def model() -> torch.nn.Module:
    """GPT-2 Small with random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config()).eval()


def run(gpt2: torch.nn.Module, kind: str) -> None:
    """One pass: plain, traced, traced with operations, or counted."""
    ids = torch.arange(N)[None]
    if kind == "plain":
        with torch.no_grad():
            gpt2(ids)
    elif kind == "flops":
        tfinspect.flops(gpt2, ids, check=False)
    else:
        tfinspect.trace(gpt2, ids, ops=kind == "ops")


def peak(kind: str) -> int:
    """Most bytes of a fresh process that does this once (Linux); the least of five, as an allocator may keep more."""
    command = [sys.executable, __file__, kind]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(5)]
    return min(map(int, runs))


def main() -> None:
    if sys.argv[1:]:
        import re
        from pathlib import Path

        run(model(), sys.argv[1])
        # Not ru_maxrss: a child begins with the peak of the process that started it.
        (kibibytes,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        print(int(kibibytes) * 1024)
        return
    gpt2 = model()
    bars = {"traced": 1.10, "ops": 1.25, "flops": 1.10}
    report(
        [
            of_calls(
                f"{kind} / plain, n = {N:,}", bar, lambda kind=kind: run(gpt2, kind), lambda: run(gpt2, "plain"), PAIRS
            )
            for kind, bar in bars.items()
        ]
    )
    peaks = {kind: peak(kind) for kind in ("plain", "traced", "ops", "flops")}
    for kind, n_bytes in peaks.items():
        print(f"peak memory, {kind}: {n_bytes / 2**20:,.0f} MiB, {n_bytes / peaks['plain']:.3f} of plain (bar 1.10)")


if __name__ == "__main__":
    main()
