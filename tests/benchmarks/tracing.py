"""What a trace costs over a plain forward pass of the same model, and what a seeded build costs.

Run by hand, on a quiet machine: ``python tests/benchmarks/tracing.py``. GPT-2 Small, float32, eager attention on both
sides, gradients off. The first pass of each kind runs in a process of its own, and so does each peak of memory.
"""

from __future__ import annotations

import subprocess
import sys

import torch
from pairs import of_calls, report
from torch import Tensor, nn

from tfinspect.dims import bind
from tfinspect.measured.dispatch import Watcher, without_compiler
from tfinspect.measured.shapes import Recorder
from tfinspect.model.build import build
from tfinspect.spec import ModelSpec

SPEC = ModelSpec()


class SeesScores:
    """The plain forward pass that a trace is held against: scores exist, and nobody writes anything down."""

    sees_scores = True

    def __call__(self, name: str, tensor: Tensor, dims: str) -> Tensor:
        return tensor

    def within(self, place: str) -> SeesScores:
        return self


@torch.no_grad()
def forward(model: nn.Module, n: int, kind: str) -> None:
    """One pass: plain, traced, or traced with operations."""
    tokens = torch.arange(n)[None] % SPEC.vocab_size
    recorder = Recorder(bind(SPEC, 1, n))
    if kind == "ops":
        with without_compiler(), Watcher(recorder.watch):
            model(tokens, recorder)
    else:
        model(tokens, recorder if kind == "traced" else SeesScores())


def default_build() -> nn.Module:
    """GPT-2 Small's tensors as PyTorch's own modules initialise them."""
    d = SPEC.d_model
    linears = [(d, 3 * d), (d, d), (d, 4 * d), (4 * d, d)] * SPEC.n_layers
    tables = [nn.Embedding(SPEC.vocab_size, d), nn.Embedding(SPEC.n_ctx, d)]
    return nn.ModuleList([*tables, *(nn.Linear(*sizes) for sizes in linears)])


def in_a_process(what: str, n: int) -> tuple[float, int]:
    """(seconds, peak bytes) of one piece of work in a fresh process; the seconds are those of the work alone."""
    done = subprocess.run([sys.executable, __file__, what, str(n)], check=True, capture_output=True, text=True)
    seconds, peak = done.stdout.split()
    return float(seconds), int(peak)


def work(what: str, n: int) -> None:
    """One piece of work, for `in_a_process`: prints its seconds and the peak of memory (Linux)."""
    import re
    import time
    from pathlib import Path

    model = None if what in ("build", "nothing") else build(SPEC)
    begin = time.perf_counter()
    if what == "build":
        model = build(SPEC)
    elif what != "nothing":
        forward(model, n, what)
    seconds = time.perf_counter() - begin
    # Not ru_maxrss: a child begins with the peak of the process that started it.
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    print(seconds, int(peak) * 1024)


def main() -> None:
    model = build(SPEC)
    report(
        [
            of_calls("traced, n = 16", 1.1, lambda: forward(model, 16, "traced"), lambda: forward(model, 16, "plain")),
            of_calls(
                "with --ops, n = 16", 1.25, lambda: forward(model, 16, "ops"), lambda: forward(model, 16, "plain")
            ),
            of_calls("seeded build", 0.65, lambda: build(SPEC), default_build, pairs=15),
        ]
    )
    firsts = sorted(in_a_process("traced", 16)[0] / in_a_process("plain", 16)[0] for _ in range(5))
    print(f"\nfirst traced pass / first plain pass, n = 16: {firsts[2]:.3f} (bar 1.30)")
    traced, plain = (in_a_process(kind, 1024)[1] for kind in ("traced", "plain"))
    print(f"peak memory, n = 1024: traced {traced / 2**20:,.0f} MiB, plain {plain / 2**20:,.0f} MiB, "
          f"ratio {traced / plain:.3f} (bar 1.10)")  # fmt: skip
    idle, built = in_a_process("nothing", 0)[1], in_a_process("build", 0)[1]
    weights = 4 * sum(p.numel() for p in model.parameters())
    print(f"build: peak {(built - idle) / 2**20:,.0f} MiB over the imports, weights {weights / 2**20:,.0f} MiB, "
          f"ratio {(built - idle) / weights:.3f} (bar 1.05)")  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) == 3:
        work(sys.argv[1], int(sys.argv[2]))
    else:
        main()
