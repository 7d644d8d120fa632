"""tfinspect reconcile: which convention gives somebody else's number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tfinspect.cli.options import Json, Model, model_flags

if TYPE_CHECKING:
    from tfinspect.sources.resolve import Source

__all__ = ["reconcile"]

Number = Annotated[
    str, typer.Argument(metavar="NUMBER", help="What somebody gives: 163037184, 124M, 146 GMACs, 3.14e23, 0.8675x.")
]
SeqLen = Annotated[
    Optional[int],  # noqa: UP045 - typer on Python 3.10 reads this spelling
    typer.Option("--n", "--seq-len", metavar="N", help="Tokens per sequence; by default n_ctx, and usual lengths."),
]
Batch = Annotated[int, typer.Option("--batch", metavar="B", help="Sequences.")]
Tokens = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--tokens", metavar="D", help="Tokens that the model is trained on, for 6ND: 300B or 3e11."),
]


@model_flags
def reconcile(
    source: Source,
    number: Number,
    model: Model = None,
    n: SeqLen = None,
    batch: Batch = 1,
    tokens: Tokens = None,
    json_output: Json = False,
) -> None:
    """Which convention gives somebody else's number, for parameters or for work.

    The number is compared with the closed forms under each convention that people and tools count by, and under up to
    three of them together. Exit code 1 if none gives it.

    Examples:
      tfinspect reconcile 163037184 --preset gpt2
      tfinspect reconcile 0.8675x gpt2
      tfinspect reconcile 3.14e23 gpt3-175b --tokens 300B
    """
    from tfinspect.inspectors import reconcile as inspector
    from tfinspect.render.output import Output

    report = inspector.reconcile(number, source, seq_len=n, batch=batch, tokens=tokens)
    output = Output(json_output)
    output.show(report)
    output.finish(report)
    inspector.require(report)
