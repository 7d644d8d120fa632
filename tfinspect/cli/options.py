"""Every flag that commands share, declared once with its help and its unit."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final, Optional

import typer

from tfinspect.spec import CHOICES, FLAGS

__all__ = ["Check", "Json", "Seed", "model_flags"]

Json = Annotated[bool, typer.Option("--json", help="Write one JSON document instead of text.")]
Check = Annotated[
    bool,
    typer.Option(
        "--check/--no-check",
        help="Measure the real torch model too and compare; exit code 1 if the two differ.",
    ),
]

Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the random weights.")]

MODEL_PANEL: Final = "Model (default: GPT-2 Small)"


def _model(kind: type, *spellings: str, metavar: str | None = None, help: str) -> Any:
    option = typer.Option(*spellings, metavar=metavar, help=help, rich_help_panel=MODEL_PANEL, show_default=False)
    return Annotated[Optional[kind], option]  # noqa: UP045 - a union with a variable needs the older spelling


def _choice(field: str, help: str) -> Any:
    return _model(str, FLAGS[field], metavar="|".join(CHOICES[field]), help=help)


#: Keyword of `sources.resolve.resolve` and how it is typed.
MODEL_FLAGS: Final[dict[str, Any]] = {
    "preset_name": _model(str, "--preset", metavar="NAME", help="A named model: gpt2-xl, gpt1, tiny-568, ..."),
    "d_model": _model(int, "--d", "--d-model", metavar="D", help="Width of the residual stream."),
    "n_layers": _model(int, "--layers", metavar="L", help="Blocks."),
    "n_heads": _model(int, "--heads", metavar="H", help="Attention heads per block; by default d/64."),
    "d_ff": _model(int, "--d-ff", metavar="D_FF", help="Width of the MLP's hidden layer; by default 4d."),
    "vocab_size": _model(int, "--vocab", metavar="V", help="Rows of the token table."),
    "n_ctx": _model(int, "--ctx", metavar="N", help="Longest sequence, in tokens."),
    "placement": _choice("placement", "Layer norm before each sublayer, or after the sum."),
    "final_norm": _model(bool, "--final-norm/--no-final-norm", help="A layer norm after the last block."),
    "activation": _choice("activation", "The MLP's activation."),
    "positions": _choice("positions", "How position enters."),
    "tied_head": _model(bool, "--tied/--untied", help="The output head is the token table itself, or has its own."),
    "bias": _model(bool, "--bias/--no-bias", help="Bias vectors in linear maps and layer norms."),
    "norm_eps": _model(float, "--eps", metavar="X", help="Epsilon added to the variance in layer norms."),
    "dropout": _model(float, "--dropout", metavar="P", help="Dropout probability, in training only."),
}


def model_flags(command: Callable[..., None]) -> Callable[..., None]:
    """A command with all model flags in the place of its parameter ``source``, which receives the resolved Source.

    Raises:  InputError, when the command is called, for an unknown preset or an invalid field.
    """
    own = dict(inspect.signature(command).parameters)
    if own.pop("source", None) is None:
        raise TypeError(f"{command.__name__} takes no source")
    # not typing.get_type_hints: Python 3.10 wraps whatever has the default None once more, and typer finds no option
    hints = inspect.get_annotations(command, locals={"Source": Any}, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [p.replace(kind=keyword, annotation=hints[name]) for name, p in own.items()]
    parameters += [inspect.Parameter(n, keyword, default=None, annotation=flag) for n, flag in MODEL_FLAGS.items()]

    @functools.wraps(command)
    def with_source(**given: Any) -> None:
        from tfinspect.sources.resolve import resolve

        model = {name: given.pop(name) for name in MODEL_FLAGS}
        command(source=resolve(**model), **given)

    with_source.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_source.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_source
