"""tfinspect presets: the models that are known by name."""

from __future__ import annotations

from typing import Annotated

import typer

from tfinspect.cli.options import Json

__all__ = ["presets"]

Search = Annotated[
    str, typer.Option("--search", metavar="WORDS", help="Only those whose name, title, source or spec has each word.")
]


def presets(search: Search = "", json_output: Json = False) -> None:
    """Named models with their parameters, context, year and source.

    Examples:
      tfinspect presets
      tfinspect presets --search "llama 70b"
    """
    from tfinspect.inspectors import presets as inspector
    from tfinspect.render.output import Output

    report = inspector.presets(search)
    output = Output(json_output)
    output.show(report)
    output.finish(report)
