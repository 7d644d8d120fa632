"""``tfinspect train-step``: the stages of one training step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tfinspect.cli.options import Json, model_flags
from tfinspect.cli.texts import Files, Special, ids_given, texts_given

if TYPE_CHECKING:
    from tfinspect.sources.resolve import Source

__all__ = ["train_step"]


@model_flags
def train_step(
    source: Source,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts; several make a batch. - reads standard input.")
    ] = None,
    files: Files = None,
    ids: Annotated[
        list[str] | None,
        typer.Option("--ids", metavar="IDS", help="Token ids in place of a text: 15496,11,995. Repeat for a batch."),
    ] = None,
    pad: Annotated[bool, typer.Option("--pad", help="Fill shorter texts of a batch up with <|endoftext|>.")] = False,
    allow_special: Special = False,
    optimizer: Annotated[
        str, typer.Option("--optimizer", metavar="sgd|adamw", help="What makes a step of the gradients.")
    ] = "adamw",
    lr: Annotated[float, typer.Option("--lr", metavar="X", help="Learning rate.")] = 0.001,
    momentum: Annotated[float, typer.Option("--momentum", metavar="X", help="Momentum of sgd.")] = 0.0,
    blocks: Annotated[
        str,
        typer.Option(
            "--blocks",
            metavar="all|0,5,11|0-3|none",
            help="Blocks to show by tensor; by default block 0.",
            show_default=False,
        ),
    ] = "",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the random weights.")] = 0,
    as_json: Json = False,
) -> None:
    """Walk through one training step: forward, loss, backward, step, zero_grad.

    Each stage is shown with what it changes and what it leaves alone, by hash and by byte.

    Examples:
      tfinspect train-step "蒔絵師が硯箱を"
      tfinspect train-step --ids 3,1,4,1,5,9 --preset tiny-568 --optimizer sgd --lr 0.5
    """
    from tfinspect.inspectors import train_step as inspector
    from tfinspect.render.output import Output
    from tfinspect.render.progress import working
    from tfinspect.results.agreement import require

    rows = [ids_given([row.encode("utf-8", "surrogateescape")]) for row in ids or ()]
    given = [] if rows and not texts and not files else texts_given(texts or (), files or ())
    with working("training the model for one step"):
        report = inspector.train_step(
            source,
            [data for _, data in given],
            ids=rows,
            optimizer=optimizer,
            lr=lr,
            momentum=momentum,
            seed=seed,
            pad=pad,
            blocks=blocks,
            allow_special=allow_special,
        )
    output = Output(as_json)
    output.show(report)
    output.show_agreements(report)
    output.finish(report)
    require(report.agreements)
