"""How much memory there is, so that a run that cannot fit is refused before it starts."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tfinspect.errors import InputError
from tfinspect.spec import ModelSpec

__all__ = ["available_bytes", "require_bytes", "require_room"]


def available_bytes() -> int | None:
    """Bytes that a new allocation can use, the smaller of the machine's and its container's; None where unknown."""
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return min(found, default=None)


def require_room(
    spec: ModelSpec,
    weight_bytes: int,
    batch: int,
    seq_len: int,
    *,
    number_bytes: int = 4,
    way_out: str = "--meta traces the shapes without memory",
) -> None:
    """Nothing where weights and one forward pass, in numbers of so many bytes, fit into memory.

    Raises:  InputError naming what is needed and what there is.
    """
    width = max(spec.d_ff, spec.n_experts_per_token * (spec.d_expert + spec.d_model))
    widest = max(3 * spec.n_heads * seq_len * seq_len, (3 if spec.gated else 2) * seq_len * width)
    elements = batch * (widest + seq_len * spec.vocab_size + 8 * seq_len * spec.d_model)
    require_bytes(weight_bytes + number_bytes * elements, "the forward pass", way_out)


def require_bytes(needed: int, what: str, hint: str) -> None:
    """Nothing where so many bytes fit into memory.

    Raises:  InputError naming what needs them, what is needed and what there is.
    """
    available = available_bytes()
    if available is not None and needed > available:
        raise InputError(
            f"{what} needs about {needed / 2**30:,.1f} GiB and {available / 2**30:,.1f} GiB are free", hint
        )
