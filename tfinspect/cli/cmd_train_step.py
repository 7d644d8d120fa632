"""``tfinspect train-step``: the stages of one training step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tfinspect.cli.options import Dtype, Json, Weights, model_flags
from tfinspect.cli.texts import Files, Ids, Pad, Special, Texts, rows_given

if TYPE_CHECKING:
    from tfinspect.sources.resolve import Source

__all__ = ["train_step"]


@model_flags
def train_step(
    source: Source,
    texts: Texts = None,
    files: Files = None,
    ids: Ids = None,
    pad: Pad = False,
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
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the random weights and of dropout.")] = 0,
    weights: Weights = None,
    dtype: Dtype = None,
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

    given, rows = rows_given(texts, files, ids)
    with working("training the model for one step"):
        report = inspector.train_step(
            source,
            given,
            ids=rows,
            optimizer=optimizer,
            lr=lr,
            momentum=momentum,
            seed=seed,
            dtype=dtype,
            pad=pad,
            blocks=blocks,
            allow_special=allow_special,
        )
    output = Output(as_json)
    output.show(report)
    output.show_agreements(report)
    output.finish(report)
    require(report.agreements)
