"""A command on a user's own module: ``--module``, what it is called with, and how it runs.

A command has two bodies, one for the built-in models and one for a module. Options that both take are typed once; an
option of the one is refused with the other.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Optional

import typer

from tfinspect.cli.options import MODEL_FLAGS
from tfinspect.errors import InputError

if TYPE_CHECKING:
    from tfinspect.measured.inputs import Inputs
    from tfinspect.results.report import Report
    from tfinspect.sources.user_module import UserModule

__all__ = [
    "Depth",
    "InputFile",
    "InputFunction",
    "InputTexts",
    "Memory",
    "Meta",
    "ModuleName",
    "ModuleSeed",
    "Time",
    "Train",
    "Unfold",
    "aside",
    "called_with",
    "module_flags",
    "show",
    "shown",
]

PANEL: Final = "Your own module"


def _own(kind: Any, *spellings: str, **how: Any) -> Any:
    option = typer.Option(*spellings, rich_help_panel=PANEL, show_default=False, **how)
    return Annotated[kind, option]


ModuleName = _own(
    Optional[str],  # noqa: UP045 - typer on Python 3.10 reads this spelling
    "--module",
    metavar="package.module:name",
    help="A function without arguments that returns an nn.Module, or the module itself, in place of a built-in model.",
)
InputTexts = _own(
    list[str] | None,
    "--input",
    metavar="SPEC",
    help='What it is called with: "int64[2,16]<50257", "mask=bool[2,16]", "x={a: f32[B=2,3], b: None}". Repeat for '
    "more arguments.",
)
InputFile = _own(
    Optional[str],  # noqa: UP045
    "--input-file",
    metavar="PATH",
    help="Arguments in a .npz, .npy, .pt or .safetensors file.",
)
InputFunction = _own(
    Optional[str],  # noqa: UP045
    "--inputs",
    metavar="package.module:name",
    help="A function that returns the arguments, as a tuple, or a dict by name.",
)
Depth = _own(
    Optional[int],  # noqa: UP045
    "--depth",
    metavar="N",
    help="Deepest level of modules to show; 0 is the whole.",
)
Unfold = _own(bool, "--unfold", help="List modules that are alike one by one.")
Train = _own(bool, "--train", help="Run in training mode, with dropout; otherwise in evaluation mode.")
Time = _own(bool, "--time", help="Wall time of each module.")
Memory = _own(bool, "--memory", help="Most bytes of tensors alive in each module.")
Meta = _own(bool, "--meta", help="Without values and memory, at any size.")
ModuleSeed = _own(int, "--seed", metavar="N", help="Seed of the module's random weights and inputs.")

#: Options of the built-in models that say what runs through them.
_FEEDS: Final = ("texts", "files", "ids", "source_texts", "source_ids", "n", "batch", "source_len", "pad")
_INSTEAD: Final = 'say what it is called with: --input "int64[1,16]<50257"'


def module_flags(on_module: Callable[..., None]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command that takes the options of `on_module` too, and is that one where its option ``module`` is given.

    Raises:  InputError, when the command is called, for an option of the one body that is given with the other.
    """

    def joined(command: Callable[..., None]) -> Callable[..., None]:
        theirs = dict(inspect.signature(command).parameters)
        hints = inspect.get_annotations(on_module, eval_str=True)
        ours = {name: p.replace(annotation=hints[name]) for name, p in inspect.signature(on_module).parameters.items()}
        added = {n: p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for n, p in ours.items() if n not in theirs}
        builtin = {name: parameter for name, parameter in theirs.items() if name not in ours}

        @functools.wraps(command)
        def either(**given: Any) -> None:
            if given["module"] is None:
                _refuse(added, given, "is for --module", lambda _: "for example --module my_model:build")
                command(**{name: given[name] for name in theirs})
            else:
                _refuse(builtin, given, "is for the built-in models, not for --module", _instead)
                on_module(**{name: given[name] for name in ours})

        first = [parameter for name, parameter in theirs.items() if name not in MODEL_FLAGS]
        last = [parameter for name, parameter in theirs.items() if name in MODEL_FLAGS]
        parameters = [*first, *added.values(), *last]
        either.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        either.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return either

    return joined


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Inside, what a user's code prints goes to standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def called_with(
    module: str,
    texts: list[str] | None,
    file: str | None,
    function: str | None,
    *,
    seed: int,
    meta: bool,
    needed: bool = True,
) -> tuple[UserModule, Inputs]:
    """A user's module and what it is called with; what was assumed of the inputs goes to standard error.

    Raises:  InputError as `user_module.load` and `module_inputs.given` do, and for no input where one is needed.
    """
    from tfinspect.sources.input_spec import parse
    from tfinspect.sources.module_inputs import given, require_inputs
    from tfinspect.sources.user_module import load

    for text in texts or ():
        parse(text)  # a slip of the pen shows before a long import
    own = load(module, seed=seed, meta=meta)
    inputs, remarks = given(texts or (), file=file, function=function, seed=seed, meta=meta)
    if needed:
        require_inputs(own.module, inputs)
    for remark in remarks:
        sys.stderr.write(f"note: {remark}\n")
    return own, inputs


def shown(depth: int | None) -> dict[str, Any]:
    """The depth for an inspector, which has a default of its own."""
    return {} if depth is None else {"depth": depth}


def show(report: Report, as_json: bool) -> None:
    """A report and its agreements, as text or as JSON."""
    from tfinspect.render.output import Output

    output = Output(as_json)
    output.show(report)
    output.show_agreements(report)
    output.finish(report)


def _refuse(
    parameters: Mapping[str, inspect.Parameter], given: Mapping[str, Any], why: str, hint: Callable[[str], str]
) -> None:
    """Nothing where each of these options has its default.

    Raises:  InputError naming the first that has not.
    """
    for name, parameter in parameters.items():
        if given[name] != parameter.default and given[name] not in ([], ()):
            raise InputError(f"{_spelled(parameter, given[name])} {why}", hint(name))


def _instead(name: str) -> str:
    return _INSTEAD if name in _FEEDS else "leave out the one or the other"


def _spelled(parameter: inspect.Parameter, value: Any) -> str:
    """An option as a user types it, or an argument by what its help calls it."""
    (info,) = parameter.annotation.__metadata__
    # beside a type, typer takes an option's first spelling for the default that stands in this place elsewhere
    spellings = [word for word in (info.default, *(info.param_decls or ())) if isinstance(word, str)]
    if not spellings:
        return str(info.metavar).strip("[]")
    on, _, off = spellings[0].partition("/")
    return off if value is False and off else on
