"""tfinspect params: how many parameters a model has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tfinspect.cli.options import Check, Json, Model, model_flags

if TYPE_CHECKING:
    from tfinspect.sources.resolve import Source

__all__ = ["params"]

PerTensor = Annotated[bool, typer.Option("--per-tensor", help="List every tensor with its shape.")]
Expect = Annotated[
    Optional[int],  # noqa: UP045 - typer on Python 3.10 reads this spelling
    typer.Option("--expect", metavar="N", help="Exit with code 1 unless the total is N: 124439808 or 124,439,808."),
]


@model_flags
def params(
    source: Source,
    model: Model = None,
    expect: Expect = None,
    per_tensor: PerTensor = False,
    check: Check = True,
    json_output: Json = False,
) -> None:
    """Parameters by component, per block and per tensor, counted twice.

    The closed form is printed at once; then the torch model is built without memory, and its parameters are counted.

    Examples:
      tfinspect params --d 768 --layers 12
      tfinspect params mixtral-8x7b
      tfinspect params path/to/config.json --no-check
    """
    from tfinspect.inspectors import params as inspector
    from tfinspect.render.output import Output
    from tfinspect.render.progress import working

    report = inspector.params(source, check=False, expect=expect, per_tensor=per_tensor)
    output = Output(json_output)
    output.show(report)
    if check:
        with working("building the torch model"):
            report = inspector.checked(report)
        output.show_agreements(report)
    output.finish(report)
    inspector.require(report)
