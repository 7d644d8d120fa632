"""Tokens that a model generates one by one, what each was chosen from, and what it cost.

Units:  multiplications of matrix products (1 multiply-add = 1 multiplication = 2 FLOPs); bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from tfinspect.dims import brackets, kv_heads
from tfinspect.results.agreement import Agreement
from tfinspect.results.report import Answer
from tfinspect.results.subject import Subject
from tfinspect.results.table import Cell, Column, Row, Table
from tfinspect.results.tokens import visible
from tfinspect.results.weights import Filled

__all__ = ["Candidate", "Continuation", "Generation", "Sampling", "Step"]

#: How many ids of a prompt the first table shows; new ids are shown all.
_SHOWN_IDS: Final = 64


@dataclasses.dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen from logits, in the order of the fields."""

    temperature: float = 0.0
    """What logits are divided by before the softmax; 0 chooses the largest logit."""
    top_k: int | None = None
    """How many of the likeliest tokens stay; None for all."""
    top_p: float | None = None
    """The probability that the likeliest tokens have to reach, of what top-k has left; None for all."""

    @property
    def greedy(self) -> bool:
        """Whether the largest logit is chosen and nothing is drawn."""
        return self.temperature == 0

    @property
    def filters(self) -> tuple[str, ...]:
        """The filters in words, in order."""
        k = () if self.top_k is None else (f"top-k {self.top_k:,}",)
        return k if self.top_p is None else (*k, f"top-p {self.top_p:g}")

    def __str__(self) -> str:
        if self.greedy:
            verb = "keep" if self.filters[1:] else "keeps"
            kept = f", which {' and '.join(self.filters)} always {verb}" if self.filters else ""
            return f"greedy: the largest logit{kept}"
        return ", then ".join((f"temperature {self.temperature:g}", *self.filters, "one draw"))


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """One possible next token."""

    rank: int
    """Its place by probability, from 1; of equals the lower id comes first."""
    token_id: int
    data: bytes | None
    """The bytes that it stands for, where it is one of GPT-2's."""
    logit: float
    before: float
    """Its probability before any filter: softmax of logits / T, with T = 1 for greedy choice."""
    after: float
    """Its probability in the distribution that the token is chosen from; 0 where a filter drops it."""

    def to_dict(self) -> dict[str, Any]:
        """The fields, for JSON: bytes in hexadecimal, and as text where they are valid UTF-8."""
        return {
            "rank": self.rank,
            "token_id": self.token_id,
            "bytes": None if self.data is None else self.data.hex(),
            "text": _text(self.data),
            "logit": self.logit,
            "before": self.before,
            "after": self.after,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """What one row chose at one step."""

    chosen: Candidate
    likeliest: tuple[Candidate, ...]
    """The likeliest tokens, best first."""
    n_kept: int
    """How many tokens the filters kept."""


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One new token for each row."""

    number: int
    """From 1."""
    queries: int
    """T: positions that went through the model."""
    keys: int
    """S: positions that they attended to."""
    logits_sizes: tuple[int, ...]
    """Shape of the last position's logits, [B, V]."""
    ids_sizes: tuple[int, ...]
    """Shape of the chosen ids, [B]."""
    cache_sizes: tuple[int, ...] | None
    """Shape of the keys, and of the values, of a layer after the step, [B, h_kv, S, d_head]; None without a cache."""
    cache_bytes: int
    """Bytes of all keys and values after the step; 0 without a cache."""
    with_cache: int
    """Multiplications of the step where keys and values are kept."""
    without_cache: int
    """Multiplications of the step where all positions are computed again."""
    choices: tuple[Choice, ...]
    """What each row chose."""


@dataclasses.dataclass(frozen=True, slots=True)
class Continuation:
    """One prompt and what follows it."""

    ids: tuple[int, ...]
    """Token ids of the prompt."""
    new_ids: tuple[int, ...]
    """The generated ids."""
    data: bytes | None
    """The bytes of the prompt; None where its ids are not of GPT-2's vocabulary."""
    new_data: bytes | None
    """The bytes of the generated ids, likewise."""

    def to_dict(self) -> dict[str, Any]:
        """The fields, for JSON: bytes in hexadecimal, and as text where they are valid UTF-8."""
        return {
            "ids": list(self.ids),
            "bytes": None if self.data is None else self.data.hex(),
            "text": _text(self.data),
            "new_ids": list(self.new_ids),
            "new_bytes": None if self.new_data is None else self.new_data.hex(),
            "new_text": _text(self.new_data),
        }


@dataclasses.dataclass(frozen=True)
class Generation(Answer):
    """Prompts, the tokens that follow them, and each step on the way."""

    schema: ClassVar[str] = "tfinspect.generation/1"

    subject: Subject
    sampling: Sampling
    seed: int
    """Seed of the generator that all draws come from, and of the weights where they are random."""
    cached: bool
    """Whether keys and values of past positions were kept."""
    rows: tuple[Continuation, ...]
    steps: tuple[Step, ...]
    step_formula: str
    """Multiplications of one step in letters."""
    cache_formula: str
    """Bytes of the cache in letters."""
    steps_shown: bool = False
    """Whether the tables show each step; JSON always has all."""
    filled: Filled = dataclasses.field(default_factory=Filled)
    """Where the numbers of the parameters come from, and their format."""
    agreements: tuple[Agreement, ...] = ()

    @property
    def batch(self) -> int:
        """B: number of prompts."""
        return len(self.rows)

    @property
    def prompt_len(self) -> int:
        """n: tokens of each prompt."""
        return len(self.rows[0].ids)

    @property
    def n_new(self) -> int:
        """How many tokens were generated for each prompt."""
        return len(self.steps)

    @property
    def with_cache(self) -> int:
        """Multiplications of all steps where keys and values are kept."""
        return sum(step.with_cache for step in self.steps)

    @property
    def without_cache(self) -> int:
        """Multiplications of all steps where all positions are computed again."""
        return sum(step.without_cache for step in self.steps)

    @property
    def conventions(self) -> str:
        """The spec, the run, how a token is chosen, and what is counted."""
        kept = "a KV cache" if self.cached else "no KV cache"
        run = self.filled.words(self.seed)
        if not self.sampling.greedy:
            run += " of weights and draws" if self.filled.random else f", seed {self.seed} of draws"
        return (
            f"{self.subject.opening()}. {_some(self.n_new, 'new token')} after [B, T] = "
            f"{brackets((self.batch, self.prompt_len))}, {run}, {kept}; "
            f"{self.sampling}. MACs: multiplications of matrix products, 1 multiply-add = 1 multiplication = 2 FLOPs; "
            "attention in full, head at the last position only."
        )

    def tables(self) -> tuple[Table, ...]:
        """What was generated, the steps where they are shown, the cache, and the work."""
        steps = (self._shape_table(), self._candidate_table()) if self.steps_shown else ()
        cache = (self._cache_table(),) if self.cached and not self.steps_shown else ()
        return (self._text_table(), *steps, *cache, self._work_table())

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values: every step, whatever the tables show."""
        return {
            "conventions": self.conventions,
            "model": self.subject.to_dict(),
            "seed": self.seed,
            "weights": self.filled.to_dict(),
            "sampling": {**dataclasses.asdict(self.sampling), "greedy": self.sampling.greedy},
            "cached": self.cached,
            "batch": self.batch,
            "prompt_len": self.prompt_len,
            "n_new": self.n_new,
            "texts": [row.to_dict() for row in self.rows],
            "steps": [_step_dict(step) for step in self.steps],
            "step_formula": self.step_formula,
            "cache_formula": self.cache_formula,
            "with_cache_multiplications": self.with_cache,
            "without_cache_multiplications": self.without_cache,
            "cache_bytes": self.steps[-1].cache_bytes,
        }

    def _text_table(self) -> Table:
        readable = any(row.data is not None for row in self.rows)
        columns = (
            Column("part", "part", keep=9),
            Column("ids", "ids", keep=9),
            *((Column("text", "text", keep=9),) if readable else ()),
        )
        rows = []
        for number, row in enumerate(self.rows, 1):
            of_row = f" {number}" if self.batch > 1 else ""
            for part, ids, data in (("prompt", row.ids, row.data), ("new", row.new_ids, row.new_data)):
                shown = ids[:_SHOWN_IDS] if part == "prompt" else ids
                listed = " ".join(map(str, shown)) + (" …" if len(shown) < len(ids) else "")
                rows.append(Row({"part": part + of_row, "ids": listed, "text": _seen(data)}))
        notes = []
        if self.filled.random:
            notes.append(
                "The weights are random, so the new text is noise. Shapes, choices, work and bytes are those of a run."
            )
        if any(row.new_data is None for row in self.rows):
            notes.append("Ids that are not of GPT-2's vocabulary have no text.")
        return Table("Generated", columns, tuple(rows), tuple(notes))

    def _shape_table(self) -> Table:
        columns = (
            Column("step", "step", "count", keep=9),
            Column("tokens", "tokens [B, T]", "shape", keep=7),
            Column("logits", "logits [B, V]", "shape", keep=9),
            Column("ids", "ids [B]", "shape", keep=9),
            Column("cache", f"K, V {self._cache_dims}", "shape", keep=9),
            Column("bytes", "cache bytes", "bytes", keep=9),
        )
        rows = tuple(
            Row(
                {
                    "step": step.number,
                    "tokens": brackets((self.batch, step.queries)),
                    "logits": brackets(step.logits_sizes),
                    "ids": brackets(step.ids_sizes),
                    "cache": None if step.cache_sizes is None else brackets(step.cache_sizes),
                    "bytes": step.cache_bytes if self.cached else None,
                }
            )
            for step in self.steps
        )
        notes = (self._cache_note(),) if self.cached else ()
        return Table("Shapes, step by step", columns, rows, notes)

    def _candidate_table(self) -> Table:
        readable = any(choice.chosen.data is not None for step in self.steps for choice in step.choices)
        columns = (
            Column("rank", "rank", "count", keep=9),
            Column("token_id", "id", "text", keep=9),
            *((Column("text", "token", keep=9),) if readable else ()),
            Column("logit", "logit", "real", keep=6),
            Column("before", "before filters", "real", keep=9),
            Column("after", "after", "real", keep=9),
            Column("chosen", "", keep=9),
        )
        before = (
            "softmax of the logits" if self.sampling.greedy else f"softmax of logits / {self.sampling.temperature:g}"
        )
        after = " and ".join(self.sampling.filters) or ("no filter" if not self.sampling.greedy else "greedy choice")
        notes = (f"Probabilities. Before filters: {before}. After: {after}.",)
        return Table("Candidates, step by step", columns, tuple(self._candidate_rows()), notes)

    def _candidate_rows(self) -> Iterator[Row]:
        for step in self.steps:
            for number, choice in enumerate(step.choices, 1):
                of_row = f", text {number}" if self.batch > 1 else ""
                kept = "" if self.sampling.greedy else f": {_some(choice.n_kept, 'token')} left to draw from"
                yield Row({"rank": f"step {step.number:,}{of_row}{kept}"}, "group")
                listed = choice.likeliest
                if choice.chosen not in listed:
                    listed = (*listed, choice.chosen)
                for candidate in listed:
                    yield Row(_candidate_cells(candidate, chosen=candidate == choice.chosen))

    @property
    def _cache_dims(self) -> str:
        """Axes of the keys, or of the values, of a layer."""
        return f"[B, {kv_heads(self.subject.spec)}, S, d_head]"

    def _cache_table(self) -> Table:
        columns = (
            Column("step", "after step", "count", keep=9),
            Column("sizes", f"keys, and values, of a layer {self._cache_dims}", "shape", keep=9),
            Column("bytes", "bytes, all layers", "bytes", keep=9),
        )
        ends = (self.steps[0], self.steps[-1])[: self.n_new]
        rows = tuple(
            Row({"step": step.number, "sizes": brackets(step.cache_sizes or ()), "bytes": step.cache_bytes})
            for step in ends
        )
        return Table("KV cache", columns, rows, (self._cache_note(),))

    def _cache_note(self) -> str:
        window = self.subject.spec.window
        kept = f" It keeps all positions, also those that a window of {window:,} hides." if window else ""
        last = "The last new token is never fed, so it is not in the cache."
        return f"Bytes of the cache: {self.cache_formula}. {last}{kept}"

    def _work_table(self) -> Table:
        columns = (
            Column("run", "MACs", keep=9),
            Column("with_cache", "with a cache", "count", keep=9),
            Column("without_cache", "without", "count", keep=9),
            Column("ratio", "without / with", "real", keep=8),
        )
        shown = (
            self.steps
            if self.steps_shown
            else [self.steps[i] for i in sorted({0, 1, self.n_new - 1}) if self.n_new > i]
        )
        rows = [
            Row(
                {
                    "run": f"step {step.number:,}, S = {step.keys:,}",
                    "with_cache": step.with_cache,
                    "without_cache": step.without_cache,
                    "ratio": step.without_cache / step.with_cache,
                }
            )
            for step in shown
        ]
        total: dict[str, Cell] = {
            "run": f"all {_some(self.n_new, 'step')}" if self.n_new > 1 else "1 step",
            "with_cache": self.with_cache,
            "without_cache": self.without_cache,
            "ratio": self.without_cache / self.with_cache,
        }
        note = (
            f"One step: {self.step_formula}, for T positions that attend to S keys. "
            "Without a cache T = S at every step; with one T = 1 after the first step."
        )
        return Table("Work", columns, (*rows, Row(total, "total")), (note,))


def _candidate_cells(candidate: Candidate, *, chosen: bool) -> dict[str, Cell]:
    return {
        "rank": candidate.rank,
        "token_id": str(candidate.token_id),
        "text": _seen(candidate.data),
        "logit": candidate.logit,
        "before": candidate.before,
        "after": candidate.after,
        "chosen": "chosen" if chosen else None,
    }


def _step_dict(step: Step) -> dict[str, Any]:
    return {
        "step": step.number,
        "queries": step.queries,
        "keys": step.keys,
        "logits_sizes": list(step.logits_sizes),
        "ids_sizes": list(step.ids_sizes),
        "cache_sizes": None if step.cache_sizes is None else list(step.cache_sizes),
        "cache_bytes": step.cache_bytes,
        "with_cache_multiplications": step.with_cache,
        "without_cache_multiplications": step.without_cache,
        "choices": [
            {
                "chosen": choice.chosen.to_dict(),
                "n_kept": choice.n_kept,
                "likeliest": [candidate.to_dict() for candidate in choice.likeliest],
            }
            for choice in step.choices
        ],
    }


def _seen(data: bytes | None) -> str | None:
    """Bytes as a person reads them: text in quotes, control characters escaped, what is no UTF-8 in words."""
    return None if data is None else visible(data.decode("utf-8", "surrogateescape"))


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _some(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
