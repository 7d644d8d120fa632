"""tfinspect compare: models side by side."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from tfinspect.cli.options import Check, Json
from tfinspect.errors import InputError

__all__ = ["compare"]

Models = Annotated[
    list[str] | None,
    typer.Argument(metavar="MODEL...", help="Presets, or config.json files or directories that hold one."),
]
SeqLen = Annotated[
    Optional[int],  # noqa: UP045 - typer on Python 3.10 reads this spelling
    typer.Option("--n", "--seq-len", metavar="N", help="Tokens of the pass; by default the shortest context."),
]


def compare(models: Models = None, n: SeqLen = None, check: Check = True, json_output: Json = False) -> None:
    """What differs between two or more models in structure, parameters, work and memory.

    Examples:
      tfinspect compare gpt1 gpt2
      tfinspect compare llama-7b mistral-7b mixtral-8x7b --n 4096 --no-check
    """
    from tfinspect.inspectors import compare as inspector
    from tfinspect.render.output import Output
    from tfinspect.render.progress import working
    from tfinspect.sources.resolve import resolve

    if not models or len(models) < 2:
        raise InputError(
            f"compare takes two or more models, and {len(models or ()) or 'none'} was given", "for example gpt1 gpt2"
        )
    report = inspector.compare([resolve(target=name) for name in models], seq_len=n, check=False)
    output = Output(json_output)
    output.show(report)
    if check:
        with working("building and running the torch models on the meta device"):
            report = inspector.checked(report)
        output.show_agreements(report)
    output.finish(report)
    inspector.require(report)
