"""``tfinspect verify``: the claims of the sources put to the test, or a model of one's own."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated, Any, Optional

import typer

from tfinspect.cli.options import Json
from tfinspect.errors import InputError

__all__ = ["verify"]


def verify(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="Claims by their number, A3.3; A3 is all below it. With --module, checks by their name, causality. "
            "Without any, all.",
        ),
    ] = None,
    module: Annotated[
        Optional[str],  # noqa: UP045 - typer on Python 3.10 reads this spelling
        typer.Option(
            "--module",
            metavar="package.module:name",
            help="Check a model of your own: a function without arguments that returns it, or the model. It maps int64 "
            "token ids [B, T] to logits [B, T, V].",
        ),
    ] = None,
    n: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--n", "--seq-len", metavar="N", help="With --module: tokens per sequence.", show_default="8"),
    ] = None,
    batch: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--batch", metavar="B", help="With --module: sequences.", show_default="3"),
    ] = None,
    vocab: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--vocab", metavar="V", help="Rows of the token table.", show_default="width of the logits"),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Each claim at length: statement, formula, figures, small matrices.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of everything random.")] = 0,
    dtype: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--dtype",
            metavar="float64|float32",
            help="Number format of the measurements; with --module also bfloat16 or float16.",
            show_default="float64, or the module's own",
        ),
    ] = None,
    trials: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--trials",
            metavar="N",
            help="Random inputs per check, where a check draws any.",
            show_default="5, or 2 batches with --module",
        ),
    ] = None,
    only_list: Annotated[bool, typer.Option("--list", help="List the claims and run nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Put each claim of the two source chapters to the test, in a real run; exit code 1 if one does not hold.

    With --module, put your own language model to the test: does a row see later tokens, or its neighbours, does every
    parameter learn, is its cache right?

    Examples:
      tfinspect verify
      tfinspect verify A3.3 --explain
      tfinspect verify A4 A8 --dtype float32 --seed 7
      tfinspect verify --module my_model:build --n 16
    """
    how: dict[str, Any] = {"seed": seed, "dtype": dtype, "trials": trials, "explain": explain}
    how = {name: value for name, value in how.items() if value is not None}
    sizes = {"--n": n, "--batch": batch, "--vocab": vocab}
    if module is not None:
        if only_list:
            raise InputError("--list lists the claims of the sources, not the checks of --module")
        _own_model(module, ids or (), {**how, "seq_len": n, "batch": batch, "vocab_size": vocab}, as_json)
        return
    for flag, size in sizes.items():
        if size is not None:
            raise InputError(f"{flag} is for --module")
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
    with working("putting the claims to the test") as say:
        report = inspector.checks(*ids or (), told=say, **how)
    output.show(report)
    output.finish(report)
    require(report)


def _own_model(reference: str, ids: Any, how: dict[str, Any], as_json: bool) -> None:
    """The checks of a user's model; what its code prints goes to standard error."""
    from tfinspect.inspectors.model_checks import model_checks
    from tfinspect.render.output import Output
    from tfinspect.render.progress import working
    from tfinspect.results.model_checks import require
    from tfinspect.sources.user_module import load

    with working("checking the model"), contextlib.redirect_stdout(sys.stderr):
        own = load(reference, seed=how["seed"])
        given = {name: value for name, value in how.items() if value is not None}
        report = model_checks(own.module, *ids, rebuild=own.rebuild, name=own.name, **given)
    output = Output(as_json)
    output.show(report)
    output.finish(report)
    require(report)
