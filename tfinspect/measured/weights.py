"""A model with its weights: random ones under a seed, or those of a checkpoint where they lie in its file."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tfinspect.errors import InputError
from tfinspect.measured import params
from tfinspect.measured.memory import require_bytes, require_room
from tfinspect.model.build import Model, build
from tfinspect.model.cache import Cache
from tfinspect.model.transformer import Transformer
from tfinspect.model.weights import load
from tfinspect.results.weights import BYTES, Filled, Weights
from tfinspect.spec import ModelSpec

__all__ = ["LanguageModel", "filled", "model", "of_one_stack", "trainable"]

#: Copies of the parameters that the checks of a model make: as they were, with noise, and gradients.
_COPIES = 3


def model(
    spec: ModelSpec,
    weights: Weights | None = None,
    *,
    batch: int,
    seq_len: int,
    seed: int = 0,
    dtype: str | None = None,
    way_out: str = "choose a smaller model or a shorter text",
) -> Model:
    """A model in eval mode on the CPU, after asking whether it and one pass over [B, T] ids fit into memory.

    Without a dtype a checkpoint's numbers stay in its file, take no memory of their own, and keep their format.

    Raises:  InputError where it does not fit, for weights of another model, and for weights in several formats where
             none is asked for.
    """
    count = params.count(spec).total
    if weights is None:
        wanted = dtype or "float32"
        weight_bytes = (4 + (BYTES[wanted] if wanted != "float32" else 0)) * count
        require_room(spec, weight_bytes, batch, seq_len, number_bytes=BYTES[wanted], way_out=way_out)
        return build(spec, seed=seed).to(getattr(torch, wanted))
    found = load(weights.family, weights.tensors, spec)
    formats = _formats(found)
    wanted = dtype or _only(formats, weights)
    weight_bytes = BYTES[wanted] * count if formats != {wanted} else 0
    require_room(spec, weight_bytes, batch, seq_len, number_bytes=BYTES[wanted], way_out=way_out)
    return found.to(getattr(torch, wanted))


def of_one_stack(found: Model) -> Transformer:
    """The same model, which is no encoder–decoder.

    Raises:  InputError for an encoder–decoder.
    """
    if not isinstance(found, Transformer):
        raise InputError("an encoder-decoder reads a source besides its tokens", "choose a model of one stack")
    return found


class LanguageModel(nn.Module):
    """A model as the checks of a language model ask it: ids [B, T] to logits [B, T, V], and so with a past."""

    def __init__(self, spec: ModelSpec, weights: Weights | None, *, seed: int = 0, dtype: str | None = None) -> None:
        super().__init__()
        way_out = "choose a smaller model"
        self.core = of_one_stack(model(spec, weights, batch=1, seq_len=1, seed=seed, dtype=dtype, way_out=way_out))
        require_bytes(_COPIES * sum(p.nbytes for p in self.core.parameters()), "checking the model", way_out)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.core(tokens)
        return logits

    def tfinspect_cache_step(self, tokens: Tensor, past: Cache | None) -> tuple[Tensor, Cache]:
        """Logits of new tokens, and the past with them."""
        past = Cache(self.core.spec.n_layers) if past is None else past
        return self.core(tokens, cache=past), past


def trainable(spec: ModelSpec, weights: Weights | None, *, seed: int, dtype: str | None = None) -> Transformer:
    """A model of one stack in training mode, float32, each parameter in memory of its own, which a step can change.

    Raises:  InputError for weights of another model, and for weights in another format where float32 is not asked for.
    """
    if weights is None:
        return of_one_stack(build(spec, seed=seed)).train()
    found = of_one_stack(load(weights.family, weights.tensors, spec))
    if dtype is None and (own := _only(_formats(found), weights)) != "float32":
        raise InputError(
            f"a training step is made in float32, and {weights.path!r} is in {own}",
            "--dtype float32 trains a copy in float32",
        )
    for parameter in found.parameters():
        parameter.data = parameter.data.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
    return found.train()


def filled(weights: Weights | None, found: nn.Module) -> Filled:
    """Where a model's numbers come from, and the format it runs in."""
    (dtype,) = _formats(found)
    return Filled(dtype) if weights is None else Filled(dtype, weights.path, weights.family)


def _formats(found: nn.Module) -> set[str]:
    return {str(parameter.dtype).removeprefix("torch.") for parameter in found.parameters()}


def _only(formats: set[str], weights: Weights) -> str:
    """The one format of all weights.

    Raises:  InputError where there are several.
    """
    if len(formats) > 1:
        raise InputError(
            f"the weights of {weights.path!r} are in {' and '.join(sorted(formats))}",
            f"--dtype {max(formats, key=BYTES.__getitem__)} runs all in one format",
        )
    return next(iter(formats))
