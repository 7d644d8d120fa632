"""The decode loop of the torch model, with its KV cache and without; the same choices from a second path; the work.

tokens [B, n] ──model──> logits [B, V] of the last position ──choose──> ids [B] ──append──> tokens [B, n + 1] …
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tfinspect.errors import InputError
from tfinspect.measured import weights
from tfinspect.measured.operators import Tally, tally
from tfinspect.measured.sampling import Chosen, allowed, choose, generator
from tfinspect.measured.surroundings import plain_torch
from tfinspect.model.build import decoder
from tfinspect.model.cache import Cache
from tfinspect.model.transformer import Transformer
from tfinspect.results import generation as results
from tfinspect.results.generation import Candidate, Sampling
from tfinspect.results.weights import EPSILON, Filled, Weights
from tfinspect.spec import ModelSpec

__all__ = ["TOP", "Observed", "Replay", "Run", "decode", "replay", "run", "work"]

#: How many candidates are written down at each step.
TOP = 5

#: Largest difference of a logit between the two paths that counts as rounding, as a part of the largest logit: float32
#: carries 7 digits, of which sums over a thousand terms in dozens of layers cost up to two. Half precision sums in
#: float32, and loses up to 16 steps of its own.
ROUNDING = {
    "float64": 1e-13, "float32": 1e-5, "bfloat16": 16 * EPSILON["bfloat16"], "float16": 16 * EPSILON["float16"]
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Observed:
    """One step as it ran."""

    queries: int
    """T: positions that went through the model."""
    keys: int
    """S: positions that they attended to."""
    logits_sizes: tuple[int, ...]
    ids_sizes: tuple[int, ...]
    cache_sizes: tuple[int, ...] | None
    """Shape of the keys of each layer after the step; None without a cache."""
    cache_bytes: int
    """Bytes of all keys and values after the step; 0 without a cache."""
    choices: tuple[results.Choice, ...]
    """What each row chose."""


@dataclasses.dataclass(frozen=True)
class Run:
    """A generation as it ran, and what is needed to go through it again."""

    model: Transformer
    prompt_len: int
    tokens: Tensor
    """Prompts and new tokens, [B, n + m]."""
    logits: Tensor
    """The logits that each step chose from, [m, B, V]."""
    sampling: Sampling
    seed: int
    cached: bool
    steps: tuple[Observed, ...]
    filled: Filled = dataclasses.field(default_factory=Filled)
    """Where the model's numbers come from, and their format."""

    @property
    def new_ids(self) -> list[list[int]]:
        """The generated ids of each row."""
        return self.tokens[:, self.prompt_len :].tolist()


@dataclasses.dataclass(frozen=True)
class Replay:
    """The same steps by the other path: without the cache where the run had one, with it where not."""

    n_choices: int
    """Steps times rows."""
    n_same: int
    """Choices in which both paths agree."""
    n_ties: int
    """Other choices, all of which hang on less than rounding."""
    n_allowed: int
    """Choices that the rule allows, by counting the likelier tokens."""
    difference: float
    """Largest difference of a logit between the paths."""
    tolerance: float
    """The difference that counts as rounding."""
    dtype: str
    cache_bytes: int
    """Bytes of the cache after the last step, in the path that has one."""


@plain_torch()
def run(
    spec: ModelSpec,
    ids: Sequence[Sequence[int]],
    *,
    n_new: int,
    sampling: Sampling,
    seed: int = 0,
    given: Weights | None = None,
    dtype: str | None = None,
    cached: bool = True,
    told: Callable[[int], None] = lambda done: None,
) -> Run:
    """n_new tokens after each row of a batch of token ids, from a model on the CPU.

    Shapes:  ids [B, n], rows of one length, n + n_new ≤ n_ctx.
    Raises:  InputError as `weights.model` does, and where logits are not finite.
    """
    found = weights.model(spec, given, batch=len(ids), seq_len=len(ids[0]) + n_new, seed=seed, dtype=dtype)
    model, tokens = weights.of_one_stack(found), torch.tensor(ids)
    ran = decode(model, tokens, n_new=n_new, sampling=sampling, seed=seed, cached=cached, told=told)
    return dataclasses.replace(ran, filled=weights.filled(given, model))


@torch.no_grad()
def decode(
    model: Transformer,
    prompt: Tensor,
    *,
    n_new: int,
    sampling: Sampling,
    seed: int = 0,
    cached: bool = True,
    told: Callable[[int], None] = lambda done: None,
) -> Run:
    """The decode loop: one token after the other, each from the logits of the last position.

    Shapes:  prompt [B, n], int64.
    """
    draws, tokens = generator(seed), prompt
    cache = Cache(model.spec.n_layers) if cached else None
    steps: list[Observed] = []
    seen: list[Tensor] = []
    for number in range(n_new):
        fresh = tokens[:, cache.n_past :] if cache is not None else tokens  # [B, T]
        logits = model(fresh, cache=cache, last_only=True)[:, -1]  # [B, V]
        if not logits.isfinite().all():
            raise InputError(f"the logits of step {number + 1} are not all finite", "the model's figures are extreme")
        choice = choose(logits, sampling, draws)
        steps.append(_observed(fresh, tokens, logits, choice, cache))
        seen.append(logits)
        tokens = torch.cat((tokens, choice.ids[:, None]), dim=1)
        told(number + 1)
    return Run(model, prompt.shape[1], tokens, torch.stack(seen), sampling, seed, cached, tuple(steps))


@plain_torch()
@torch.no_grad()
def replay(ran: Run) -> Replay:
    """What the other path says of a run, given the run's own tokens.

    Without a cache that is one pass over all positions: by causality its row t is what a pass over the first t tokens
    gives. With one it is the decode loop, fed with the tokens that were chosen.
    """
    tokens, n, cache = ran.tokens, ran.prompt_len, Cache(ran.model.spec.n_layers)
    if ran.cached:
        logits = ran.model(tokens[:, :-1])[:, n - 1 :].transpose(0, 1)  # [m, B, V]
        cache_bytes = ran.steps[-1].cache_bytes
    else:
        stops = range(n, tokens.shape[1])
        passes = [ran.model(tokens[:, cache.n_past : stop], cache=cache, last_only=True)[:, -1] for stop in stops]
        logits, cache_bytes = torch.stack(passes), cache.n_bytes
    dtype = str(ran.logits.dtype).removeprefix("torch.")
    tolerance = ROUNDING[dtype] * ran.logits.abs().max().item()
    draws, chosen = generator(ran.seed), tokens[:, n:].T  # [m, B]
    n_same = n_ties = n_allowed = 0
    for ids, own, other in zip(chosen, ran.logits, logits, strict=True):
        again = choose(other, ran.sampling, draws)
        same = again.ids == ids
        n_same += int(same.sum())
        n_ties += int((~same & (again.margin <= 2 * tolerance)).sum())
        n_allowed += int(allowed(own, ids, ran.sampling).sum())
    return Replay(
        n_choices=chosen.numel(),
        n_same=n_same,
        n_ties=n_ties,
        n_allowed=n_allowed,
        difference=(ran.logits - logits).abs().max().item(),
        tolerance=tolerance,
        dtype=dtype,
        cache_bytes=cache_bytes,
    )


@plain_torch()
def work(spec: ModelSpec, steps: Sequence[tuple[int, int]], *, batch: int = 1) -> Tally:
    """What torch's counter says of steps (T, S), each of T new positions that attend to S keys, on the meta device."""
    model = decoder(spec, device="meta")

    def passes() -> None:
        for queries, keys in steps:
            tokens = torch.zeros((batch, queries), dtype=torch.long, device="meta")
            model(tokens, cache=Cache.blank(spec, batch=batch, n_past=keys - queries), last_only=True)

    with torch.no_grad():
        return tally(passes)


def _observed(fresh: Tensor, tokens: Tensor, logits: Tensor, choice: Chosen, cache: Cache | None) -> Observed:
    held = None if cache is None else cache.layers[0].held_keys
    return Observed(
        queries=fresh.shape[1],
        keys=tokens.shape[1],
        logits_sizes=tuple(logits.shape),
        ids_sizes=tuple(choice.ids.shape),
        cache_sizes=None if held is None else tuple(held.shape),
        cache_bytes=0 if cache is None else cache.n_bytes,
        choices=tuple(_choices(logits, choice)),
    )


def _choices(logits: Tensor, choice: Chosen) -> list[results.Choice]:
    """What each row chose, and the likeliest tokens that it chose from."""
    order = choice.before.sort(dim=-1, descending=True, stable=True).indices
    found = []
    for row, chosen_id in enumerate(choice.ids.tolist()):
        ids = order[row, :TOP].tolist()
        place = int((order[row] == chosen_id).nonzero())
        candidates = [
            Candidate(
                rank=rank,
                token_id=token_id,
                data=None,
                logit=logits[row, token_id].item(),
                before=choice.before[row, token_id].item(),
                after=choice.after[row, token_id].item(),
            )
            for rank, token_id in [*enumerate(ids, 1), (place + 1, chosen_id)]
        ]
        n_kept = int((choice.after[row] > 0).sum())
        found.append(results.Choice(candidates[-1], tuple(candidates[:-1]), n_kept))
    return found
