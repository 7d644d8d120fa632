"""Every tensor of one forward pass: what the spec implies, held against what a real pass produced."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tfinspect import tokenizer
from tfinspect.closed_form.params import ledger
from tfinspect.closed_form.shapes import Expected, expected
from tfinspect.dims import bind, sizes
from tfinspect.errors import InputError
from tfinspect.inspectors import batch
from tfinspect.presets import Preset
from tfinspect.results.agreement import Agreement
from tfinspect.results.subject import Described, Subject
from tfinspect.results.texts import Text
from tfinspect.results.trace import Candidate, Op, Stage, TensorRow, Trace
from tfinspect.results.weights import Weights, require_dtype
from tfinspect.spec import ModelSpec

if TYPE_CHECKING:
    from tfinspect.measured.shapes import Observed, Traced

__all__ = ["TOP", "blocks_named", "firsts", "trace"]

#: How many candidates for the next token are listed.
TOP: Final = 5


def trace(
    model: ModelSpec | Preset | Described,
    texts: batch.Texts = (),
    *,
    ids: Sequence[Sequence[int]] = (),
    source: batch.Texts = (),
    source_ids: Sequence[Sequence[int]] = (),
    pad: bool = False,
    seed: int = 0,
    dtype: str | None = None,
    blocks: str = "",
    stats: bool = False,
    ops: bool = False,
    last: bool = False,
    meta: bool = False,
    allow_special: bool = False,
    check: bool = True,
) -> Trace:
    """Every named tensor of a forward pass over some texts, or over rows of token ids.

    The pass is real, on the CPU: a model that comes with weights (`resolve` of a checkpoint) runs with them, in their
    own format or in dtype, any other with seeded GPT-2 initialisation. With meta it has no values and no memory; there
    a text stands for so many tokens, whatever the model's vocabulary.

    An encoder–decoder reads a source, in texts or ids, besides: by default what the decoder reads. Tables show the
    blocks named ("all", "none", "0,5,11", "0-3"; by default the first of each kind) and fold the others; the result
    holds every block. With check, each operation is watched, and the multiplications of the pass are counted.

    Raises:  InputError for no text, no tokens, an id outside the vocabulary, more tokens than n_ctx, unequal lengths
             without pad, a source for a model that reads none, statistics, weights or a last step without values, a
             last step without next token, weights of another model, or too little memory.
    Agrees:  closed_form.shapes.expected: shapes and bytes tensor by tensor, parameters, multiplications.

    >>> passed = tfinspect.trace(tfinspect.preset("tiny-568"), ids=[[3, 1, 4, 1, 5, 9]])
    >>> scores = next(row for row in passed.tensors if row.name == "blocks.0.attn.scores")
    >>> scores.dims, scores.sizes, scores.multiplications
    ('B h T S', (1, 2, 6, 6), 144)
    """
    subject = Subject.of(model)
    spec = subject.spec
    weights = Weights.of(model)
    _require_possible(spec, stats=stats, last=last, meta=meta, weights=weights is not None)
    require_dtype(dtype)
    rows = batch.rows(spec, texts, ids, allow_special, meta=meta, weights=weights)
    seq_len = batch.seq_len(spec, rows, pad=pad, looked_up=not (meta and _are_texts(rows)))
    given = batch.rows(spec, source, source_ids, allow_special, meta=meta, weights=weights)
    sources = _sources(spec, rows, given)
    source_len = 0
    if sources:
        source_len = batch.seq_len(
            spec,
            sources,
            pad=pad,
            nothing="nothing for the encoder to read (0 tokens)",
            what="source",
            looked_up=not (meta and _are_texts(sources)),
        )
    shown = blocks_named(blocks, max(spec.n_layers, spec.n_encoder_layers), firsts=firsts(spec))

    from tfinspect.measured import shapes as measured

    plan = expected(spec, len(rows), seq_len, source_len=source_len, last=last)
    folded = {e.name for e in plan if (block := _place(spec, e.name)[1]) is not None and block not in shown}
    wants_stats: Callable[[str], bool] = (lambda name: name not in folded and not _holds_ids(name)) if stats else _never
    ran = measured.trace(
        spec,
        batch.padded(spec, rows, seq_len),
        lengths=[len(row.ids) for row in rows],
        seed=seed,
        given=weights,
        dtype=dtype,
        source=batch.padded(spec, sources, source_len),
        meta=meta,
        ops=ops or check,
        stats=wants_stats,
        top=TOP if last else 0,
    )
    by_name = {e.name: e for e in plan}
    named = weights is None or batch.knows_gpt2s_ids(spec, weights)
    unplanned = Expected("", 0, "not in the plan", "", heading="not in the plan")
    report = Trace(
        subject=subject,
        texts=rows,
        seq_len=seq_len,
        device="meta" if meta else "cpu",
        seed=seed,
        tensors=tuple(_row(spec, by_name.get(seen.name, unplanned), seen, ops) for seen in ran.tensors),
        shown_blocks=shown,
        candidates=tuple(tuple(_named(c) if named else c for c in row) for row in ran.candidates),
        sources=sources,
        source_len=source_len,
        source_given=bool(given),
        tokenizer_note=_tokenizer_note(spec, rows, sources if given else (), meta),
        filled=ran.filled,
    )
    return dataclasses.replace(report, agreements=_agreements(report, plan, ran)) if check else report


def _require_possible(spec: ModelSpec, *, stats: bool, last: bool, meta: bool, weights: bool) -> None:
    if meta and (stats or last):
        raise InputError(
            f"--meta holds no values, and --{'stats' if stats else 'last'} needs them", "leave one of the two out"
        )
    if meta and weights:
        raise InputError("--meta holds no values, and --weights are values", "leave one of the two out")
    if last and (spec.architecture == "encoder" or spec.head == "none"):
        which = "an encoder" if spec.architecture == "encoder" else "a model without a head"
        raise InputError(f"{which} predicts no next token, and --last shows one", "leave out --last")


def _sources(spec: ModelSpec, rows: tuple[Text, ...], given: tuple[Text, ...]) -> tuple[Text, ...]:
    """What the encoder reads, as many rows as the decoder's: what was given, or the same."""
    if spec.architecture != "encoder_decoder":
        if given:
            raise InputError("a source (--source) is for an encoder-decoder", "leave it out, or choose such a model")
        return ()
    if given and len(given) != len(rows):
        raise InputError(f"{len(given):,} sources were given for {len(rows):,} rows", "give one for each row")
    return given or rows


def _are_texts(rows: Sequence[Text]) -> bool:
    return any(row.text is not None for row in rows)


def _tokenizer_note(spec: ModelSpec, rows: Sequence[Text], sources: Sequence[Text], meta: bool) -> str:
    """What to know of texts that GPT-2's tokenizer split for a model with a tokenizer of its own."""
    split = [
        f"{what}into {n_tokens:,} token{'s' * (n_tokens != 1)}"
        for what, given in (("", rows), ("the source ", sources))
        if _are_texts(given) and (n_tokens := sum(len(row.ids) for row in given))
    ]
    if spec.vocab_size == tokenizer.VOCAB_SIZE or not split:
        return ""
    only = " Only their number enters here." if meta else ""
    tokens = f"Split by GPT-2's tokenizer {', '.join(split)}"
    return f"{tokens}; the model's own tokenizer may split it differently.{only}"


def firsts(spec: ModelSpec) -> tuple[int, ...]:
    """The first block of each kind: with experts or without, with a window or without."""
    kinds: dict[tuple[bool, int], int] = {}
    for layer in range(spec.n_layers):
        kinds.setdefault((spec.has_experts(layer), spec.window_of(layer)), layer)
    return tuple(sorted(kinds.values()))


def blocks_named(blocks: str, n_layers: int, *, firsts: tuple[int, ...] = (0,)) -> tuple[int, ...]:
    """The blocks that "all", "none", "0,5,11" or "0-3" names; the first ones for an empty string.

    Raises:  InputError for anything else, and for a block that the model does not have.
    """
    if not isinstance(blocks, str):
        raise InputError(f"the blocks to show are words, not {blocks!r}", 'give "all", "none", or such as "0,5,11"')
    if blocks in ("", "all", "none"):
        return {"": firsts, "all": tuple(range(n_layers)), "none": ()}[blocks]
    parts = [re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part.strip()) for part in blocks.split(",")]
    if not all(parts):
        raise InputError(f"--blocks {blocks!r} names no blocks", "give all, none, or numbers such as 0,5,11 or 0-3")
    ends = [(int(part[1]), int(part[2] or part[1])) for part in parts if part]
    for first, last in ends:
        if max(first, last) >= n_layers:
            raise InputError(
                f"--blocks {blocks}: there is no block {max(first, last)}", f"blocks go from 0 to {n_layers - 1}"
            )
        if last < first:
            raise InputError(f"--blocks {blocks}: {first}-{last} runs backwards", f"try {last}-{first}")
    return tuple(sorted({block for first, last in ends for block in range(first, last + 1)}))


def _row(spec: ModelSpec, plan: Expected, seen: Observed, with_ops: bool) -> TensorRow:
    stack, block = _place(spec, seen.name)
    ops = tuple(Op(call.operator, call.shape, call.flops // 2) for call in seen.calls) if with_ops else ()
    return TensorRow(
        name=seen.name,
        step=plan.step,
        heading=plan.heading,
        stack=stack,
        block=block,
        equation=plan.equation,
        dims=seen.dims,
        sizes=seen.shape,
        dtype=seen.dtype,
        n_bytes=seen.n_bytes,
        params=plan.params,
        multiplications=plan.multiplications,
        stats=seen.stats,
        ops=ops,
    )


def _agreements(report: Trace, plan: Sequence[Expected], ran: Traced) -> tuple[Agreement, ...]:
    bound = bind(report.subject.spec, report.batch, report.seq_len, n_source=report.source_len)
    in_place = sum(
        (e.name, e.dims, sizes(e.dims, bound)) == (seen.name, seen.dims, seen.shape)
        for e, seen in zip(plan, ran.tensors, strict=False)
    )
    how = "torch model on the meta device" if report.device == "meta" else "torch model on the CPU"
    shapes = Agreement(
        "tensors of the expected name, shape and place", max(len(plan), len(ran.tensors)), in_place, f"{how}, tapped"
    )
    closed = sum(term.params for term in ledger(report.subject.spec))
    width = report.filled.number_bytes
    n_bytes = sum(math.prod(sizes(e.dims, bound)) * (8 if _holds_ids(e.name) else width) for e in plan)
    found = (
        shapes,
        Agreement("bytes of these tensors", n_bytes, sum(seen.n_bytes for seen in ran.tensors), how),
        Agreement("parameters", closed, ran.params, f"{how}, unique parameters"),
    )
    calls = [call for seen in ran.tensors for call in seen.calls]
    coverage = (sum(call.operator not in ran.uncounted for call in calls), len(calls))
    work = Agreement(
        "multiplications",
        sum(e.multiplications for e in plan),
        sum(call.flops for call in calls) // 2,
        f"{how}, each dispatched operation",
        uncounted=ran.uncounted,
        coverage=coverage,
    )
    return (*found, work)


def _named(candidate: Candidate) -> Candidate:
    """The candidate with what its token says, where GPT-2's table has it."""
    if candidate.token_id >= tokenizer.VOCAB_SIZE:
        return candidate
    text = tokenizer.decode([candidate.token_id]).decode(errors="backslashreplace")
    return dataclasses.replace(candidate, text=text)


def _place(spec: ModelSpec, name: str) -> tuple[Stage, int | None]:
    """The stack that a tensor is in, and its block."""
    parts = name.split(".")
    stack: Stage = ""
    if spec.architecture == "encoder_decoder":
        stack = "encoder" if parts[0] in ("source", "encoder") else "decoder"
        parts = parts[1:] if parts[0] in ("encoder", "decoder") else parts
    return stack, int(parts[1]) if parts[0] == "blocks" else None


def _holds_ids(name: str) -> bool:
    return name in ("tokens", "source.tokens", "next.ids")


def _never(name: str) -> bool:
    return False
