"""tfinspect flops: what one forward pass of a model costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tfinspect.cli.command import whole
from tfinspect.cli.module_options import (
    Depth,
    InputFile,
    InputFunction,
    InputTexts,
    Meta,
    ModuleName,
    ModuleSeed,
    Train,
    aside,
    called_with,
    module_flags,
    show,
    shown,
)
from tfinspect.cli.options import Check, Json, Model, model_flags
from tfinspect.errors import InputError

if TYPE_CHECKING:
    from tfinspect.sources.resolve import Source

__all__ = ["flops"]

SeqLen = Annotated[
    Optional[int],  # noqa: UP045 - typer on Python 3.10 reads this spelling
    typer.Option("--n", "--seq-len", metavar="N", help="Tokens per sequence; by default the model's n_ctx."),
]
Batch = Annotated[int, typer.Option("--batch", metavar="B", help="Sequences.")]
Causal = Annotated[
    str,
    typer.Option("--causal", metavar="full|half", help="Count all n² pairs, which run, or the mask's n(n + 1)/2."),
]
Head = Annotated[
    str, typer.Option("--head", metavar="all|last", help="Positions with logits: all, or the last as in generation.")
]
Sweep = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--sweep", metavar="A:B", help="Add a table over n = A, 2A, 4A ... up to B, with bars."),
]
SourceLen = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--source-len", metavar="M", help="Positions that an encoder reads before the decoder; by default N."),
]
Passes = Annotated[
    bool, typer.Option("--passes", help="Add the work of a prompt, a decode step and training, and the cache's bytes.")
]
Rules = Annotated[bool, typer.Option("--rules", help="Add rules of thumb (6ND, PaLM ...), each with its error.")]
EveryMode = Annotated[
    bool, typer.Option("--every-mode", help="Check each kind of attention in each grad mode: six runs, not two.")
]


def _of_module(
    module: ModuleName = None,
    given: InputTexts = None,
    input_file: InputFile = None,
    inputs: InputFunction = None,
    depth: Depth = None,
    meta: Meta = False,
    train: Train = False,
    seed: ModuleSeed = 0,
    check: Check = True,
    json_output: Json = False,
) -> None:
    """The work of one forward pass of a user's module."""
    from tfinspect.inspectors import modules as inspector
    from tfinspect.render.progress import working
    from tfinspect.results.agreement import require

    with working("running the module"), aside():
        own, call = called_with(module, given, input_file, inputs, seed=seed, meta=meta)
        report = inspector.flops(
            own.module, *call.args, kwargs=call.kwargs, name=own.name, meta=meta, train=train, check=check,
            **shown(depth),
        )  # fmt: skip
    show(report, json_output)
    require(report.agreements)


@module_flags(_of_module)
@model_flags
def flops(
    source: Source,
    model: Model = None,
    n: SeqLen = None,
    batch: Batch = 1,
    source_len: SourceLen = None,
    causal: Causal = "full",
    head: Head = "all",
    sweep: Sweep = None,
    passes: Passes = False,
    rules: Rules = False,
    check: Check = True,
    every_mode: EveryMode = False,
    json_output: Json = False,
) -> None:
    """Multiplications and FLOPs of one forward pass, counted twice.

    The closed form is printed at once; then the torch model runs without memory, and torch counts what it does.

    Examples:
      tfinspect flops --n 1024
      tfinspect flops mistral-7b --n 4096 --no-check
      tfinspect flops --preset gpt2-xl --causal half --sweep 128:65536 --no-check
      tfinspect flops --n 1024 --passes --rules
      tfinspect flops --module my_model:build --input "int64[2,16]<50257"
    """
    from tfinspect.inspectors import flops as inspector
    from tfinspect.render.output import Output
    from tfinspect.render.progress import working

    report = inspector.flops(
        source,
        seq_len=n,
        batch=batch,
        source_len=source_len,
        causal=causal,
        head=head,
        sweep=_ends(sweep),
        passes=passes,
        rules=rules,
        check=False,
    )
    output = Output(json_output)
    output.show(report)
    if check:
        with working("running the torch model on the meta device"):
            report = inspector.checked(report, every_mode=every_mode)
        output.show_agreements(report)
    output.finish(report)
    inspector.require(report)


def _ends(sweep: str | None) -> tuple[int, int] | None:
    """The first and the last n of A:B."""
    if sweep is None:
        return None
    ends = sweep.split(":")
    if len(ends) != 2 or not all(ends):
        raise InputError(f"--sweep takes A:B, not {sweep!r}", "for example --sweep 128:65536")
    return whole("--sweep", ends[0]), whole("--sweep", ends[1])
