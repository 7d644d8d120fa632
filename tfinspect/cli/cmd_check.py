"""tfinspect check: a checkpoint's configuration, files and built module, held against each other."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from tfinspect.cli.options import Check, Json

__all__ = ["check"]

Target = Annotated[
    str,
    typer.Argument(
        metavar="CHECKPOINT",
        help="A directory with a checkpoint, a safetensors file, an index, or a file of torch.save.",
        show_default=False,
    ),
]
Config = Annotated[
    Optional[str],  # noqa: UP045 - typer on Python 3.10 reads this spelling
    typer.Option(
        "--config",
        metavar="PATH",
        help="A Hugging Face config.json, or a directory with one.",
        show_default=False,
    ),
]


def check(target: Target, config: Config = None, check: Check = True, json_output: Json = False) -> None:
    """Hold a checkpoint's config.json, its files' headers and the built module against each other.

    Every difference is listed with what to do about it: missing, unexpected or misshapen tensors, biases, a padded
    vocabulary, tables stored twice, positions, masks, number formats, the index. Exit code 1 if something differs.
    Without a config.json beside the checkpoint, and without --config, the model is recognised from names and shapes.

    Examples:
      tfinspect check path/to/checkpoint
      tfinspect check model.safetensors --config path/to/config.json
      tfinspect check path/to/checkpoint --no-check --json
    """
    from tfinspect.inspectors import check as inspector
    from tfinspect.render.output import Output
    from tfinspect.render.progress import working
    from tfinspect.sources.checkpoint_files import checkpoint

    files = checkpoint(target, config)
    report = inspector.check(files, check=False)
    output = Output(json_output)
    output.show(report)
    if check:
        with working("building the torch model"):
            report = inspector.checked(report, files)
        output.show_agreements(report)
    output.finish(report)
    inspector.require(report)
