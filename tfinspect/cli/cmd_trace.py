"""``tfinspect trace``: every tensor of a forward pass."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from tfinspect.cli.module_options import (
    Depth,
    InputFile,
    InputFunction,
    InputTexts,
    Memory,
    ModuleName,
    Time,
    Train,
    Unfold,
    aside,
    called_with,
    module_flags,
    show,
    shown,
)
from tfinspect.cli.options import Check, Dtype, Json, Seed, Weights, model_flags
from tfinspect.cli.texts import Files, Ids, Pad, Special, Texts, ids_given, rows_given
from tfinspect.errors import InputError

if TYPE_CHECKING:
    from tfinspect.sources.resolve import Source

__all__ = ["trace"]

Stats = Annotated[bool, typer.Option("--stats", help="Mean, std, range and non-finite count of each tensor.")]
Ops = Annotated[bool, typer.Option("--ops", help="Go down to each operation that torch dispatches.")]
NoValues = Annotated[bool, typer.Option("--meta", help="Shapes only: no values, no memory, any size.")]


def _of_module(
    module: ModuleName = None,
    given: InputTexts = None,
    input_file: InputFile = None,
    inputs: InputFunction = None,
    depth: Depth = None,
    unfold: Unfold = False,
    train: Train = False,
    time: Time = False,
    memory: Memory = False,
    ops: Ops = False,
    stats: Stats = False,
    meta: NoValues = False,
    seed: Seed = 0,
    check: Check = True,
    as_json: Json = False,
) -> None:
    """Every call of every module in a forward pass of a user's module."""
    from tfinspect.inspectors import modules as inspector
    from tfinspect.render.progress import working
    from tfinspect.results.agreement import require
    from tfinspect.sources.module_inputs import advice

    with working("running the module"), aside():
        own, call = called_with(module, given, input_file, inputs, seed=seed, meta=meta)
        report = inspector.trace(
            own.module, *call.args, kwargs=call.kwargs, name=own.name, axes=call.axes, ops=ops, stats=stats, meta=meta,
            train=train, time=time, memory=memory, unfold=unfold, check=check, **shown(depth),
        )  # fmt: skip
    show(report, as_json)
    if report.failure is not None:
        raised = [call.path for call in report.calls if not call.finished]
        raise InputError(report.failure, advice(own.module, raised[-1]) if raised else "")
    require(report.agreements)


@module_flags(_of_module)
@model_flags
def trace(
    source: Source,
    texts: Texts = None,
    files: Files = None,
    ids: Ids = None,
    source_texts: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            metavar="TEXT",
            help="What the encoder of an encoder–decoder reads; by default the same. Repeat for more rows.",
        ),
    ] = None,
    source_ids: Annotated[
        list[str] | None, typer.Option("--source-ids", metavar="IDS", help="Token ids in place of a source.")
    ] = None,
    pad: Pad = False,
    allow_special: Special = False,
    blocks: Annotated[
        str,
        typer.Option(
            "--blocks",
            metavar="all|0,5,11|0-3|none",
            help="Blocks to show in full; by default block 0.",
            show_default=False,
        ),
    ] = "",
    stats: Stats = False,
    ops: Ops = False,
    last: Annotated[
        bool, typer.Option("--last", help="End with the generation step: last logits, chosen ids, candidates.")
    ] = False,
    meta: NoValues = False,
    seed: Seed = 0,
    weights: Weights = None,
    dtype: Dtype = None,
    check: Check = True,
    as_json: Json = False,
) -> None:
    """Show every tensor of a forward pass, from token ids to logits, in the textbook's eight steps.

    Examples:
      tfinspect trace "蒔絵師が硯箱を"
      tfinspect trace "Hello, world!" --blocks none --last
      tfinspect trace --ids 3,1,4,1,5,9 --preset tiny-568 --stats
      tfinspect trace --preset mixtral-8x7b --meta "Hello, world!"
      tfinspect trace --module my_model:build --input "int64[2,16]<50257"
      tfinspect trace --weights gpt2/ --last "Hello, world!"
    """
    from tfinspect.inspectors import trace as inspector
    from tfinspect.render.output import Output
    from tfinspect.render.progress import working
    from tfinspect.results.agreement import require

    given, rows = rows_given(texts, files, ids)
    with working("running the model"):
        report = inspector.trace(
            source,
            given,
            ids=rows,
            source=[os.fsencode(text) for text in source_texts or ()],
            source_ids=[ids_given([os.fsencode(row)]) for row in source_ids or ()],
            pad=pad,
            seed=seed,
            dtype=dtype,
            blocks=blocks,
            stats=stats,
            ops=ops,
            last=last,
            meta=meta,
            allow_special=allow_special,
            check=check,
        )
    output = Output(as_json)
    output.show(report)
    output.show_agreements(report)
    output.finish(report)
    require(report.agreements)
