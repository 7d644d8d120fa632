"""``tfinspect trace``: every tensor of a forward pass."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from tfinspect.cli.options import Check, Json, Seed, model_flags
from tfinspect.cli.texts import Files, Ids, Pad, Special, Texts, ids_given, rows_given

if TYPE_CHECKING:
    from tfinspect.sources.resolve import Source

__all__ = ["trace"]


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
    stats: Annotated[
        bool, typer.Option("--stats", help="Mean, std, range and non-finite count of each tensor.")
    ] = False,
    ops: Annotated[bool, typer.Option("--ops", help="Go down to each operation that torch dispatches.")] = False,
    last: Annotated[
        bool, typer.Option("--last", help="End with the generation step: last logits, chosen ids, candidates.")
    ] = False,
    meta: Annotated[bool, typer.Option("--meta", help="Shapes only: no values, no memory, any size.")] = False,
    seed: Seed = 0,
    check: Check = True,
    as_json: Json = False,
) -> None:
    """Show every tensor of a forward pass, from token ids to logits, in the textbook's eight steps.

    Examples:
      tfinspect trace "蒔絵師が硯箱を"
      tfinspect trace "Hello, world!" --blocks none --last
      tfinspect trace --ids 3,1,4,1,5,9 --preset tiny-568 --stats
      tfinspect trace --preset mixtral-8x7b --meta "Hello, world!"
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
