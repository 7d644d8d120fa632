"""A user's model under test: called as a user calls it, each time from the same state, and left as it was found.

A model from token ids [B, T], int64, to logits [B, T, V]; nothing else is known of it. Its answer is a tensor, or has
them as ``.logits``, as ``["logits"]``, or as the first of a tuple. A forward that gives the last position only unless
it is handed ``targets`` (nanoGPT's) is handed the ids themselves.

Every pass begins with the same parameters, buffers, attributes and random state, so that two passes differ by their
tokens alone; only a check that asks for a pass `as_left` sees what the pass before it left behind.
"""

from __future__ import annotations

import collections
import contextlib
import inspect
import math
import random
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn

from tfinspect.dims import brackets
from tfinspect.errors import InputError, described

__all__ = ["ForwardRaised", "Subject", "preserved"]

#: Rounding steps of the largest logit that two ways to one logit may differ by, in full and in half precision.
STEPS: Final = 128
STEPS_HALF: Final = 8

#: Packages whose objects are not looked into.
NOBODYS_OWN: Final = frozenset(sys.stdlib_module_names | {"torch"})

CONTRACT: Final = "the model maps int64 token ids [B, T] to logits [B, T, V]"


class ForwardRaised(InputError):
    """The user's model raised in its forward pass."""


class State:
    """What a pass, a cast or a change of mode can touch in a module, to be put back as often as wanted.

    That is every parameter and buffer with its values, every attribute of the modules and of the plain objects and
    containers that they hold, gradients, and generators of random numbers.
    """

    def __init__(self, module: nn.Module, *, parameters: bool = True) -> None:
        self.parameters = parameters
        """Whether the values of parameters are kept too, which takes their memory once more."""
        self._containers: list[tuple[Any, Any]] = []
        self._tensors: list[_Held] = []
        self._generators: list[tuple[torch.Generator, Tensor]] = []
        self._collect(module)

    @property
    def drew(self) -> bool:
        """Whether numbers were drawn from a generator of the module's own since it was put back."""
        return any(not torch.equal(generator.get_state(), state) for generator, state in self._generators)

    def put_back(self) -> None:
        """Everything as it was."""
        for container, saved in self._containers:
            _refill(container, saved)
        for generator, state in self._generators:
            generator.set_state(state)
        for held in self._tensors:
            held.put_back()

    def _collect(self, module: nn.Module) -> None:
        seen: set[int] = set()
        waiting: list[Any] = [module]
        while waiting:
            thing = waiting.pop()
            if id(thing) in seen:
                continue
            seen.add(id(thing))
            if isinstance(thing, Tensor):
                self._tensors.append(_Held(thing, values=self.parameters or not isinstance(thing, nn.Parameter)))
            elif isinstance(thing, torch.Generator):
                self._generators.append((thing, thing.get_state()))
            elif isinstance(thing, dict):
                self._containers.append((thing, dict(thing)))
                waiting += thing.values()
            elif isinstance(thing, list | set | collections.deque):
                self._containers.append((thing, set(thing) if isinstance(thing, set) else list(thing)))
                waiting += thing
            elif isinstance(thing, tuple | frozenset):
                waiting += thing
            if _has_own_attributes(thing):
                waiting.append(vars(thing))


class _Held:
    """One tensor: its storage, a copy of its values, its gradient."""

    def __init__(self, tensor: Tensor, *, values: bool) -> None:
        self.tensor, self.data = tensor, tensor.data
        self.values = tensor.detach().clone() if values else None
        self.grad = _Held(tensor.grad, values=True) if tensor.is_leaf and tensor.grad is not None else None
        self.needs_grad = tensor.requires_grad

    @torch.no_grad()
    def put_back(self) -> None:
        if self.tensor.is_inference():
            return
        self.tensor.data = self.data
        if self.values is not None and not torch.equal(self.data, self.values):
            self.data.copy_(self.values)
        if not self.tensor.is_leaf:
            return
        if self.tensor.requires_grad != self.needs_grad:
            self.tensor.requires_grad_(self.needs_grad)
        if self.grad is not None:
            self.grad.put_back()
            self.tensor.grad = self.grad.tensor
        elif self.tensor.grad is not None:
            self.tensor.grad = None


def _has_own_attributes(thing: Any) -> bool:
    """Whether it is a module, or an instance of somebody's own class: not of Python's or torch's."""
    if isinstance(thing, nn.Module):
        return True
    if callable(thing) or not hasattr(thing, "__dict__"):
        return False
    home = type(thing).__module__.partition(".")[0]
    return isinstance(thing, types.SimpleNamespace) or home not in NOBODYS_OWN


def _refill(container: Any, saved: Any) -> None:
    """The same container with the items that it had."""
    if not container and not saved:
        return
    if isinstance(container, dict):
        if len(container) != len(saved) or any(container.get(key, saved) is not item for key, item in saved.items()):
            container.clear()
            container.update(saved)
    elif isinstance(container, set):
        if container != saved:
            container.clear()
            container.update(saved)
    elif len(container) != len(saved) or any(now is not item for now, item in zip(container, saved, strict=True)):
        container.clear()
        container.extend(saved)


@contextlib.contextmanager
def preserved(module: nn.Module) -> Iterator[None]:
    """The module, and all random state, are afterwards what they were before, also after an exception."""
    state, numpy = State(module), sys.modules.get("numpy")
    python, arrays = random.getstate(), numpy.random.get_state() if numpy else None
    devices = {p.device.index or 0 for p in (*module.parameters(), *module.buffers()) if p.device.type == "cuda"}
    with torch.random.fork_rng(devices=sorted(devices)):
        try:
            yield
        finally:
            state.put_back()
            random.setstate(python)
            if numpy:
                numpy.random.set_state(arrays)


class Subject:
    """A model that answers token ids with logits."""

    def __init__(self, module: nn.Module, *, seed: int = 0, parameters: bool = False) -> None:
        self.module, self.seed = module, seed % 2**63
        self.takes = _parameters(module)
        self.hands_targets = False
        self._noisy: list[Tensor] | None = None
        self.state = State(module, parameters=parameters)
        tensors = (*module.parameters(), *module.buffers())
        self.device = next((t.device for t in tensors), torch.device("cpu"))

    @property
    def dtype(self) -> torch.dtype:
        """The floating format of the parameters; of several, the coarsest."""
        formats = {p.dtype for p in self.module.parameters() if p.is_floating_point()}
        return max(formats, key=lambda f: torch.finfo(f).eps, default=torch.get_default_dtype())

    @torch.no_grad()
    def logits(
        self, tokens: Tensor, *, training: bool = False, as_left: bool = False, seed: int | None = None
    ) -> Tensor:
        """Logits [B, T, V] in float64 for ids [B, T]; as_left: from the state that the pass before left.

        Raises:  ForwardRaised where the model raises; InputError where what it returns is no logits.
        """
        if not as_left:
            self.begin(training=training)
        if seed is not None:
            reseed(seed)
        return self.call(tokens)[0].double().cpu()

    def keep_parameters(self) -> None:
        """From now on each pass begins with the same parameters too: for a model that changes them in its passes."""
        self.state.put_back()
        self.state = State(self.module)

    def begin(self, *, training: bool = False) -> None:
        """The state and the randomness that every pass begins with."""
        self.state.put_back()
        self.module.train(training)
        reseed(self.seed)

    def call(self, tokens: Tensor, **keywords: Any) -> tuple[Tensor, Any]:
        """One pass: the logits as the model gave them, and its whole answer."""
        if self.hands_targets:
            keywords["targets"] = tokens.to(self.device)
        answer = self._answer(tokens, keywords)
        logits = logits_of(answer)
        wanted = tuple(tokens.shape)
        if logits is None:
            raise InputError(f"the model returned {_kind(answer)}, in which there are no logits", CONTRACT)
        if not logits.is_floating_point():
            raise InputError(f"the model returned {logits.dtype} numbers, which are no logits", CONTRACT)
        if logits.ndim == 3 and tuple(logits.shape[:2]) == wanted:
            return logits, answer
        last_only = logits.ndim == 3 and logits.shape[0] == wanted[0] and logits.shape[1] == 1
        if last_only and "targets" in self.takes and not self.hands_targets:
            self.hands_targets = True
            return self.call(tokens, **keywords)
        raise InputError(
            f"for ids {brackets(wanted)} the model returned logits {brackets(logits.shape)}, "
            f"not {brackets((*wanted, 'V'))}",
            CONTRACT,
        )

    def run(self, step: Any, *arguments: Any, **keywords: Any) -> Any:
        """What a part of the model returns when it is called.

        Raises:  ForwardRaised where it raises.
        """
        try:
            return step(*arguments, **keywords)
        except InputError:
            raise
        except (Exception, SystemExit) as error:
            raise ForwardRaised(f"the model raised {described(error)}", self._hint(arguments[0], error)) from None

    def _answer(self, tokens: Tensor, keywords: dict[str, Any]) -> Any:
        return self.run(self.module, tokens.to(self.device, copy=True), **keywords)

    def _hint(self, tokens: Tensor, error: BaseException) -> str:
        asked = f"it was called with int64 ids {brackets(tokens.shape)} up to {int(tokens.max())}"
        ways = "--batch, --n and --vocab change that"
        if isinstance(error, IndexError):
            ways = "--vocab bounds the ids, --n the positions" if tokens.any() else "--n bounds the positions"
        if isinstance(error, TypeError):
            ways = "nothing else is handed to forward"
        return f"{asked}; {ways}"

    def tolerance(self, logits: Tensor) -> float:
        """How far two ways to the same logit may lie apart: some steps of rounding at the size of the largest."""
        finite = logits[logits.isfinite()]
        scale = float(finite.abs().max()) if finite.numel() else 0.0
        eps = torch.finfo(self.dtype).eps
        return (STEPS if eps < 1e-5 else STEPS_HALF) * eps * scale

    @contextlib.contextmanager
    def with_noise(self) -> Iterator[Subject]:
        """The same model with noise added to every parameter, so that no part of it is idle.

        A part whose last matrix starts at zero does nothing, and a fault in it shows nothing. Matrices get variance
        1/d_in, so that signals keep their size; vectors a standard deviation of 0.1.
        """
        held = [(p, p.data) for p in self.module.parameters() if p.is_floating_point()]
        if self._noisy is None:
            generator = torch.Generator().manual_seed(self.seed)
            self._noisy = [_with_noise(data, generator) for _, data in held]
        try:
            for (parameter, _), data in zip(held, self._noisy, strict=True):
                parameter.data = data
            noisy = Subject(self.module, seed=self.seed, parameters=self.state.parameters)
            noisy.hands_targets = self.hands_targets
            yield noisy
        finally:
            for parameter, data in held:
                parameter.data = data


def reseed(seed: int) -> None:
    """Seed every source of randomness that a model commonly draws from."""
    torch.default_generator.manual_seed(seed)  # torch.manual_seed notes a stack trace for a CUDA that may never come
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed % 2**32)


def logits_of(answer: Any) -> Tensor | None:
    """The logits in what a model returned, or None."""
    if isinstance(answer, Tensor):
        return answer
    found = getattr(answer, "logits", None)
    if found is None and isinstance(answer, Mapping):
        found = answer.get("logits")
    if found is None and isinstance(answer, tuple | list) and answer:
        found = answer[0]
    return found if isinstance(found, Tensor) else None


def _with_noise(data: Tensor, generator: torch.Generator) -> Tensor:
    std = math.sqrt(data.shape[0] / data.numel()) if data.ndim > 1 and data.numel() else 0.1
    noise = torch.randn(data.shape, generator=generator, dtype=torch.float32)
    return data + noise.to(data).mul_(std)


def _parameters(module: nn.Module) -> frozenset[str]:
    """Names that the module's forward takes."""
    with contextlib.suppress(TypeError, ValueError):
        return frozenset(inspect.signature(module.forward).parameters)
    return frozenset()


def _kind(answer: Any) -> str:
    if isinstance(answer, Mapping):
        return f"a {type(answer).__name__} with the keys {', '.join(map(repr, answer))}"
    return "None" if answer is None else f"a {type(answer).__name__}"
