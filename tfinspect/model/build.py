"""From a spec to a module on a device, filled as the family fills it.

GPT-2's initialisation: every matrix and the token table normal with standard deviation 0.02, the position table 0.01,
the two matrices of a block that write to the residual stream divided by √(2L), biases 0, gains 1.

A default PyTorch build fills every tensor twice, once in each module's constructor and once again for the family. Here
the modules are made unfilled and each tensor is filled once, in chunks on all cores. Each chunk has a generator of its
own, so that a seed gives the same weights whatever the number of cores, and no global random state is touched.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

import torch
from torch import Tensor, nn

from tfinspect.errors import InputError
from tfinspect.model.encoder_decoder import EncoderDecoder
from tfinspect.model.transformer import Transformer
from tfinspect.spec import ModelSpec

__all__ = ["Model", "build", "decoder"]

Model: TypeAlias = "Transformer | EncoderDecoder"

#: Elements that one generator fills. Part of what a seed means: changing it changes the weights.
CHUNK: Final = 4 * 2**20


def build(spec: ModelSpec, *, device: str = "cpu", seed: int = 0) -> Model:
    """A model in eval mode: on the meta device without memory, elsewhere with seeded weights, float32.

    Source:  Radford et al. 2019, section 2.3 (1/√N on residual layers); openai/gpt-2, model.py (0.02 and 0.01).
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InputError(f"the seed (--seed) must be an integer, not {seed!r}")
    with torch.device(device):
        model = EncoderDecoder(spec) if spec.architecture == "encoder_decoder" else Transformer(spec)
    if device != "meta":
        initialise(model, seed)
    return model.eval()


def decoder(spec: ModelSpec, *, device: str = "cpu", seed: int = 0) -> Transformer:
    """A model of one stack, as `build` makes it.

    Raises:  InputError for an encoder–decoder.
    """
    model = build(spec, device=device, seed=seed)
    if not isinstance(model, Transformer):
        raise InputError("an encoder-decoder reads a source besides its tokens", "choose a model of one stack")
    return model


@torch.no_grad()
def initialise(model: Model, seed: int) -> None:
    """Fill every parameter in place, once."""
    chunks: list[tuple[Tensor, float, int]] = []
    for index, (name, parameter) in enumerate(model.named_parameters()):
        std = _std(name, parameter, model.spec.n_layers)
        if std is None:
            nn.init.constant_(parameter, 1.0 if name.endswith("weight") else 0.0)
        else:
            flat = parameter.view(-1).split(CHUNK)
            chunks += [(part, std, _seed(seed, index, part_index)) for part_index, part in enumerate(flat)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for _ in pool.map(_fill, chunks):
            pass


def _std(name: str, parameter: Tensor, n_layers: int) -> float | None:
    """Standard deviation of a matrix or table by its role; None for gains and biases."""
    if parameter.ndim < 2:
        return None
    if name.endswith("embed.positions.weight"):
        return 0.01
    writes_to_residual = name.endswith(("attn.out.weight", "cross.out.weight", "down.weight"))
    return 0.02 / math.sqrt(2 * n_layers) if writes_to_residual else 0.02


def _seed(seed: int, parameter_index: int, part_index: int) -> int:
    """A seed of its own for each chunk: the three numbers mixed into 63 bits."""
    mixed = seed & (2**63 - 1)
    for number in (parameter_index, part_index):
        mixed = (mixed * 6364136223846793005 + 1442695040888963407 + number) & (2**63 - 1)
    return mixed


def _fill(chunk: tuple[Tensor, float, int]) -> None:
    part, std, seed = chunk
    with torch.no_grad():  # grad mode belongs to the thread
        part.normal_(0.0, std, generator=torch.Generator(device=part.device).manual_seed(seed))
