"""``tfinspect verify``: the claims of the sources put to the test, or a model of one's own."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from tfinspect.cli.options import Json, Weights
from tfinspect.errors import InputError

if TYPE_CHECKING:
    from tfinspect.results.model_checks import ModelChecks

__all__ = ["verify"]


def verify(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="Claims by their number, A3.3; A3 is all below it. With --module or --weights, checks by their name, "
            "causality. Without any, all.",
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
    weights: Weights = None,
    config: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--config", metavar="PATH", help="A Hugging Face config.json, or a directory with one.", show_default=False
        ),
    ] = None,
    preset: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--preset", metavar="NAME", help="A named model: gpt2-xl, llama-7b, tiny-568, ...", show_default=False
        ),
    ] = None,
    n: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--n", "--seq-len", metavar="N", help="Of a checked model: tokens per sequence.", show_default="8"
        ),
    ] = None,
    batch: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--batch", metavar="B", help="Of a checked model: sequences.", show_default="3"),
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
            help="Number format of the measurements; of a checked model also bfloat16 or float16.",
            show_default="float64, or the model's own",
        ),
    ] = None,
    trials: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--trials",
            metavar="N",
            help="Random inputs per check, where a check draws any.",
            show_default="5, or 2 batches of a model",
        ),
    ] = None,
    only_list: Annotated[bool, typer.Option("--list", help="List the claims and run nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Put each claim of the two source chapters to the test, in a real run; exit code 1 if one does not hold.

    With --module, put your own language model to the test: does a row see later tokens, or its neighbours, does every
    parameter learn, is its cache right? With --weights, ask the same of the model in a checkpoint.

    Examples:
      tfinspect verify
      tfinspect verify A3.3 --explain
      tfinspect verify A4 A8 --dtype float32 --seed 7
      tfinspect verify --module my_model:build --n 16
      tfinspect verify --weights gpt2/
    """
    how: dict[str, Any] = {"seed": seed, "dtype": dtype, "trials": trials, "explain": explain}
    how = {name: value for name, value in how.items() if value is not None}
    sizes = {"--n": n, "--batch": batch, "--vocab": vocab}
    if weights is None:
        for flag, name in {"--config": config, "--preset": preset}.items():
            if name is not None:
                raise InputError(f"{flag} says what model --weights are of", "give --weights PATH too")
    if module is not None or weights is not None:
        given = "--module" if module is not None else "--weights"
        if only_list:
            raise InputError(f"--list lists the claims of the sources, not the checks of {given}")
        if module is not None and weights is not None:
            raise InputError("--module and --weights name two models", "give one of them")
        how |= {"seq_len": n, "batch": batch, "vocab_size": vocab}
        how = {name: value for name, value in how.items() if value is not None}
        if module is not None:
            _own_model(module, ids or (), how, as_json)
        else:
            _checkpoint({"weights": weights, "config": config, "preset_name": preset}, ids or (), how, as_json)
        return
    for flag, size in sizes.items():
        if size is not None:
            raise InputError(f"{flag} is for --module and --weights")
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
    from tfinspect.render.progress import working
    from tfinspect.sources.user_module import load

    with working("checking the model"), contextlib.redirect_stdout(sys.stderr):
        own = load(reference, seed=how["seed"])
        report = model_checks(own.module, *ids, rebuild=own.rebuild, name=own.name, **how)
    _show(report, as_json)


def _checkpoint(model: Any, ids: Any, how: dict[str, Any], as_json: bool) -> None:
    """The same checks of the model in a checkpoint."""
    from tfinspect.inspectors.model_checks import model_checks
    from tfinspect.render.progress import working
    from tfinspect.sources.resolve import resolve

    with working("checking the model"):
        report = model_checks(resolve(**model), *ids, **how)
    _show(report, as_json)


def _show(report: ModelChecks, as_json: bool) -> None:
    from tfinspect.render.output import Output
    from tfinspect.results.model_checks import require

    output = Output(as_json)
    output.show(report)
    output.finish(report)
    require(report)
