"""``tfinspect generate``: new tokens after a text, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tfinspect.cli.options import Check, Dtype, Json, Weights, model_flags
from tfinspect.cli.texts import Files, Ids, Special, Texts, rows_given

if TYPE_CHECKING:
    from tfinspect.sources.resolve import Source

__all__ = ["generate"]


@model_flags
def generate(
    source: Source,
    texts: Texts = None,
    files: Files = None,
    ids: Ids = None,
    max_new: Annotated[int, typer.Option("--max-new", metavar="N", help="Tokens to generate.")] = 20,
    temperature: Annotated[
        float | None,
        typer.Option(
            "--temperature",
            metavar="T",
            help="Divide logits by T before the softmax; 0 is greedy. By default 0, or 1 with a filter.",
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", metavar="K", help="Draw from the K likeliest tokens only.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option("--top-p", metavar="P", help="Draw from the fewest likeliest tokens that reach P, after top-k."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the random weights and of all draws.")] = 0,
    weights: Weights = None,
    dtype: Dtype = None,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Keep keys and values, or compute all positions again.")
    ] = True,
    show: Annotated[
        bool, typer.Option("--show", help="Show each step: shapes, candidates before and after filters, the cache.")
    ] = False,
    every_step: Annotated[
        bool, typer.Option("--every-step", help="Check the work of every step, not of three.")
    ] = False,
    allow_special: Special = False,
    check: Check = True,
    as_json: Json = False,
) -> None:
    """Generate tokens one by one, and compare runs with and without a KV cache.

    Without --weights the weights are random, and the text is noise.

    Examples:
      tfinspect generate "Hello, world!" --max-new 5 --show
      tfinspect generate "Hello, world!" --temperature 0.8 --top-k 40 --top-p 0.9 --seed 7
      tfinspect generate --weights gpt2/ "Hello, world!"
    """
    from tfinspect.inspectors import generate as inspector
    from tfinspect.render.output import Output
    from tfinspect.render.progress import working
    from tfinspect.results.agreement import require

    given, rows = rows_given(texts, files, ids)
    with working("generating") as say:
        report = inspector.generate(
            source,
            given,
            ids=rows,
            max_new=max_new,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            dtype=dtype,
            cache=cache,
            show=show,
            check=check,
            every_step=every_step,
            allow_special=allow_special,
            told=say,
        )
    output = Output(as_json)
    output.show(report)
    output.show_agreements(report)
    output.finish(report)
    require(report.agreements)
