"""``tfinspect verify``: the claims of the sources, put to the test."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tfinspect.cli.options import Json

__all__ = ["verify"]


def verify(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Claims by their number, A3.3; A3 is all below it. Without any, all claims."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Each claim at length: statement, formula, figures, small matrices.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of everything random.")] = 0,
    dtype: Annotated[
        str, typer.Option("--dtype", metavar="float64|float32", help="Number format of the measurements.")
    ] = "float64",
    trials: Annotated[
        int, typer.Option("--trials", metavar="N", help="Random inputs per check, where a check draws any.")
    ] = 5,
    only_list: Annotated[bool, typer.Option("--list", help="List the claims and run nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Put each claim of the two source chapters to the test, in a real run; exit code 1 if one does not hold.

    Examples:
      tfinspect verify
      tfinspect verify A3.3 --explain
      tfinspect verify A4 A8 --dtype float32 --seed 7
    """
    from tfinspect.inspectors import verify as inspector
    from tfinspect.render.output import Output
    from tfinspect.render.progress import working
    from tfinspect.results.checks import require

    output = Output(as_json)
    if only_list:
        listed = inspector.claims(*ids or ())
        output.show(listed)
        output.finish(listed)
        return
    how: dict[str, Any] = {"seed": seed, "dtype": dtype, "trials": trials, "explain": explain}
    with working("putting the claims to the test") as say:
        report = inspector.checks(*ids or (), told=say, **how)
    output.show(report)
    output.finish(report)
    require(report)
