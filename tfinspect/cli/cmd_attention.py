"""``tfinspect attention``: what one head looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tfinspect.cli.options import Dtype, Json, Seed, Weights, model_flags
from tfinspect.cli.texts import Files, Ids, Special, Texts, rows_given

if TYPE_CHECKING:
    from tfinspect.sources.resolve import Source

__all__ = ["attention"]


@model_flags
def attention(
    source: Source,
    texts: Texts = None,
    files: Files = None,
    ids: Ids = None,
    layer: Annotated[int, typer.Option("--layer", metavar="N", help="Which block, from 0.")] = 0,
    head: Annotated[int, typer.Option("--head", metavar="N", help="Which of its heads, from 0.")] = 0,
    allow_special: Special = False,
    seed: Seed = 0,
    weights: Weights = None,
    dtype: Dtype = None,
    as_json: Json = False,
) -> None:
    """Show scores, mask and weights of one attention head, as figures and as shades, with the entropy of each row.

    Examples:
      tfinspect attention "蒔絵師が硯箱を"
      tfinspect attention "Hello, world!" --layer 11 --head 3 --json
      tfinspect attention --ids 3,1,4,1,5,9 --preset tiny-568 --positions alibi --dtype float64
    """
    from tfinspect.inspectors import attention as inspector
    from tfinspect.render.output import Output
    from tfinspect.render.progress import working
    from tfinspect.results.agreement import require

    given, rows = rows_given(texts, files, ids)
    with working("running the model"):
        report = inspector.attention(
            source,
            given,
            ids=rows,
            layer=layer,
            head=head,
            seed=seed,
            dtype=dtype,
            allow_special=allow_special,
        )
    output = Output(as_json)
    output.show(report)
    output.show_agreements(report)
    output.finish(report)
    require(report.agreements)
