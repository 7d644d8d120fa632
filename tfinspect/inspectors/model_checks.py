"""Whether a user's own language model keeps what every causal language model has to keep."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tfinspect.errors import InputError
from tfinspect.inspectors import batch as batches_of
from tfinspect.results.model_checks import ModelChecks
from tfinspect.results.subject import Described
from tfinspect.results.weights import DTYPES, Weights
from tfinspect.spec import ModelSpec

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn

__all__ = ["model_checks"]

#: Models with fewer parameters run on one thread: more of them only wait for one another.
SMALL: Final = 2**20
#: Most tokens of one pass.
MOST_TOKENS: Final = 2**20


def model_checks(
    module: nn.Module | Described,
    *ids: str,
    seq_len: int = 8,
    batch: int = 3,
    vocab_size: int | None = None,
    seed: int = 0,
    dtype: str | None = None,
    trials: int = 2,
    explain: bool = False,
    rebuild: Callable[[], nn.Module] | None = None,
    name: str = "",
) -> ModelChecks:
    """What nine checks say of a causal language model: a torch module of one's own, from token ids to logits.

    The module is left as it was: weights, buffers, attributes, mode, gradients, dtype, and all random state. `rebuild`
    makes the model anew, by which the check of the loss knows whether the weights are fresh. A model that comes with
    weights (`resolve` of a checkpoint) is checked as tfinspect's own module with these weights.

    Shapes:  token ids [B, T], int64, to logits [B, T, V]: a tensor, ``.logits``, ``["logits"]``, or first of a tuple.
             Cache: ``forward(tokens, past_key_values=, use_cache=)``, or ``tfinspect_cache_step(tokens, past)``.
    Raises:  InputError where the module raises, returns no logits, or has no values; for an unknown check or dtype.

    >>> from torch import nn
    >>> over_positions = nn.Sequential(nn.Embedding(50, 50), nn.Softmax(dim=1))
    >>> [check.id for check in tfinspect.model_checks(over_positions, "causality", "batch").failed]
    ['causality']
    """
    import torch

    from tfinspect.verify.own_model.case import Case
    from tfinspect.verify.own_model.questions import QUESTIONS, answer, explained
    from tfinspect.verify.own_model.subject import Subject, preserved
    from tfinspect.verify.threads import one_thread

    for flag, size in (("--n", seq_len), ("--batch", batch), ("--trials", trials)):
        if size < 1:
            raise InputError(f"{flag} must be at least 1, not {size}")
    if seq_len * batch > MOST_TOKENS:
        raise InputError(f"--n times --batch is {seq_len * batch:,} tokens", f"the most is {MOST_TOKENS:,}")
    if vocab_size is not None and vocab_size < 2:
        raise InputError(f"--vocab must be at least 2, not {vocab_size}", "with one id no token can change")
    if dtype is not None and dtype not in DTYPES:
        raise InputError(f"unknown dtype {dtype!r}", f"choose one of {', '.join(DTYPES)}")
    known = [question.id for question in QUESTIONS]
    for unknown in set(ids) - {*known}:
        raise InputError(f"no check of a module is called {unknown!r}", f"known: {', '.join(known)}")
    kind = type(module).__name__
    if not isinstance(module, torch.nn.Module):
        described, weights = module, Weights.of(module)
        if weights is None:
            raise InputError(f"a {kind} is no torch.nn.Module", "nor a model with weights, as resolve(weights=) makes")
        name, kind = name or weights.path, described.name
        module, dtype = _with_weights(described.spec, weights, seq_len, seed, dtype), None
    _require_values(module)

    small = sum(p.numel() for p in module.parameters()) < SMALL
    with preserved(module), one_thread() if small else contextlib.nullcontext():
        if dtype is not None:
            module.to(getattr(torch, dtype))
        subject = Subject(module, seed=seed)
        width = subject.logits(torch.zeros((batch, seq_len), dtype=torch.long)).shape[2]
        n_ids = vocab_size or width
        if n_ids < 2:
            raise InputError("the logits have a width of 1", "with one id no token can change")
        generator = torch.Generator().manual_seed(subject.seed)
        batches = tuple(_ids(n_ids, batch, seq_len, generator) for _ in range(trials))
        others = tuple(_other(tokens, n_ids, generator) for tokens in batches)
        targets = tuple(_ids(width, batch, seq_len, generator) for _ in range(trials))
        case = Case(subject, batches, others, targets, width, rebuild)
        checks = explained([answer(q, case) for q in QUESTIONS if not ids or q.id in ids], case)
        parameters = list(module.parameters())
        return ModelChecks(
            name=name or kind,
            kind=kind,
            n_params=sum(p.numel() for p in parameters),
            n_trainable=sum(p.numel() for p in parameters if p.requires_grad),
            dtype=str(subject.dtype).removeprefix("torch."),
            device=str(subject.device),
            vocab_size=width,
            n_ids=n_ids,
            batch=batch,
            seq_len=seq_len,
            seed=seed,
            trials=trials,
            checks=checks,
            explain=explain,
        )


def _with_weights(spec: ModelSpec, weights: Weights, seq_len: int, seed: int, dtype: str | None) -> nn.Module:
    """The module of a checkpoint.

    Raises:  InputError for a model that is no causal decoder, and for sequences beyond its context.
    """
    from tfinspect.measured.surroundings import plain_torch
    from tfinspect.measured.weights import LanguageModel

    batches_of.require_decoder(spec, "verify")
    if seq_len > spec.n_ctx:
        raise InputError(f"--n {seq_len}: the model's context is {spec.n_ctx:,}", f"give at most --n {spec.n_ctx}")
    with plain_torch():
        return LanguageModel(spec, weights, seed=seed, dtype=dtype)


def _require_values(module: nn.Module) -> None:
    """Nothing where every parameter has values.

    Raises:  InputError naming the first that has none.
    """
    from torch.nn.parameter import is_lazy

    for name, parameter in module.named_parameters():
        if is_lazy(parameter):
            raise InputError(f"{name} has no shape yet", "pass something through the lazy model in the function")
        if parameter.is_meta:
            raise InputError(f"{name} is on the meta device and has no values", "build the model on the CPU")


def _ids(n_ids: int, batch: int, seq_len: int, generator: Generator) -> Tensor:
    import torch

    return torch.randint(n_ids, (batch, seq_len), generator=generator)


def _other(tokens: Tensor, n_ids: int, generator: Generator) -> Tensor:
    """Ids that differ from these in every place."""
    batch, seq_len = tokens.shape
    return (tokens + 1 + _ids(n_ids - 1, batch, seq_len, generator)) % n_ids
