"""What surrounds a measurement: torch as it starts, whatever the caller has set."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

__all__ = ["plain_torch"]


@contextlib.contextmanager
def plain_torch() -> Iterator[None]:
    """Inside, torch makes float32 on the CPU, with gradients, as in a fresh process; then it is the caller's again.

    A default dtype, a default device, autocast, no_grad and inference mode are the caller's business, and no part of
    what a spec means. In the ordinary case nothing is touched.
    """
    with contextlib.ExitStack() as left:
        if torch.is_inference_mode_enabled():
            left.enter_context(torch.inference_mode(False))
        if not torch.is_grad_enabled():
            left.enter_context(torch.enable_grad())
        if torch.is_autocast_enabled("cpu"):
            left.enter_context(torch.autocast("cpu", enabled=False))
        if torch.get_default_device().type != "cpu":
            left.enter_context(torch.device("cpu"))
        dtype = torch.get_default_dtype()
        if dtype != torch.float32:
            left.callback(torch.set_default_dtype, dtype)
            torch.set_default_dtype(torch.float32)
        yield
