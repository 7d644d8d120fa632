"""tfinspect params: how many parameters a model has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tfinspect.cli.checkpoint_options import ModelOrCheckpoint, checkpoint_flags
from tfinspect.cli.module_options import (
    Depth,
    InputFile,
    InputFunction,
    InputTexts,
    Meta,
    ModuleName,
    ModuleSeed,
    aside,
    called_with,
    module_flags,
    show,
    shown,
)
from tfinspect.cli.options import Check, Json, model_flags

if TYPE_CHECKING:
    from tfinspect.sources.resolve import Source

__all__ = ["params"]

PerTensor = Annotated[bool, typer.Option("--per-tensor", help="List every tensor with its shape.")]
Expect = Annotated[
    Optional[int],  # noqa: UP045 - typer on Python 3.10 reads this spelling
    typer.Option("--expect", metavar="N", help="Exit with code 1 unless the total is N: 124439808 or 124,439,808."),
]


def _of_module(
    module: ModuleName = None,
    given: InputTexts = None,
    input_file: InputFile = None,
    inputs: InputFunction = None,
    depth: Depth = None,
    meta: Meta = False,
    seed: ModuleSeed = 0,
    expect: Expect = None,
    per_tensor: PerTensor = False,
    check: Check = True,
    json_output: Json = False,
) -> None:
    """The parameters of a user's module; inputs are needed for lazy ones alone, whose shapes a pass decides."""
    from tfinspect.inspectors import modules as inspector
    from tfinspect.render.progress import working
    from tfinspect.results.agreement import require as agree
    from tfinspect.results.module_params import require
    from tfinspect.sources.module_inputs import initialise

    with working("building the module"), aside():
        own, call = called_with(module, given, input_file, inputs, seed=seed, meta=meta, needed=False)
        if call.args or call.kwargs:
            initialise(own.module, call)
        report = inspector.params(
            own.module, name=own.name, expect=expect, per_tensor=per_tensor, check=check, **shown(depth)
        )
    show(report, json_output)
    agree(report.agreements)
    require(report)


def _of_checkpoint(
    model: str, expect: int | None, per_tensor: bool, depth: int | None, check: bool, json_output: bool
) -> None:
    """What a checkpoint holds; where it is not whole, what is there."""
    from pathlib import Path

    from tfinspect.inspectors import stored as inspector
    from tfinspect.render.progress import working
    from tfinspect.sources import recognise
    from tfinspect.sources.checkpoint import read, tied_by_config

    path = Path(model)
    with working("reading the checkpoint"):
        checkpoint = read(path)
        report = inspector.stored(
            checkpoint,
            check=check,
            expect=expect,
            per_tensor=per_tensor,
            depth=depth,
            tied_head=tied_by_config(path),
            family=recognise.family(checkpoint.tensors),
        )
    show(report, json_output)
    inspector.require(report)


@checkpoint_flags(_of_checkpoint)
@module_flags(_of_module)
@model_flags
def params(
    source: Source,
    model: ModelOrCheckpoint = None,
    expect: Expect = None,
    per_tensor: PerTensor = False,
    check: Check = True,
    json_output: Json = False,
) -> None:
    """Parameters by component, per block and per tensor, counted twice.

    The closed form is printed at once; then the torch model is built without memory, and its parameters are counted.

    Of a checkpoint, what its headers say: parameters, elements and bytes by number format, module and tensor.

    Examples:
      tfinspect params --d 768 --layers 12
      tfinspect params mixtral-8x7b
      tfinspect params path/to/config.json --no-check
      tfinspect params path/to/model.safetensors
      tfinspect params --module my_model:build
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
