"""A model that another thread runs meanwhile is heard by nobody, and heard by each of its own."""

from __future__ import annotations

import threading

import torch
from torch import Tensor, nn

import tfinspect


class Slow(nn.Module):
    """Lets another model run to its end in the middle of its own forward."""

    def __init__(self, other: nn.Module) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.run_other = lambda: other(torch.zeros(2, 5))

    def forward(self, x: Tensor) -> Tensor:
        other = threading.Thread(target=self.run_other)
        other.start()
        other.join()
        out: Tensor = self.fc(x)
        return out


def test_a_model_of_another_thread_is_no_part_of_the_trace() -> None:
    module = Slow(nn.Sequential(nn.Linear(5, 6), nn.ReLU()))
    found = tfinspect.trace(module, torch.zeros(3, 8))
    assert [call.path for call in found.calls] == ["", "fc"]
    assert found.total_multiplications == 3 * 8 * 4
    assert tfinspect.flops(module, torch.zeros(3, 8)).total_multiplications == 3 * 8 * 4


def test_models_of_several_threads_at_once() -> None:
    modules = [nn.Sequential(*(nn.Linear(8, 8) for _ in range(n))) for n in (1, 2, 3, 4)]
    found: dict[int, list[str]] = {}

    def work(number: int) -> None:
        for _ in range(3):
            found[number] = [call.path for call in tfinspect.trace(modules[number], torch.zeros(2, 8)).calls]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: ["", *(str(n) for n in range(number + 1))] for number in range(4)}
