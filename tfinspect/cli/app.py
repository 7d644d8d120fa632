"""The program: its commands, and what becomes of an error.

    exit code   0  the answer, or help          70  a defect of tfinspect
                1  a check failed              130  Ctrl-C
                2  bad input or output         141  the reader closed the pipe (128 + SIGPIPE)

An error is ``error: message; hint`` on standard error. TFINSPECT_TRACEBACK=1 shows the traceback of a defect.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.main import get_command

from tfinspect.cli.cmd_attention import attention
from tfinspect.cli.cmd_check import check
from tfinspect.cli.cmd_compare import compare
from tfinspect.cli.cmd_flops import flops
from tfinspect.cli.cmd_generate import generate
from tfinspect.cli.cmd_params import params
from tfinspect.cli.cmd_presets import presets
from tfinspect.cli.cmd_reconcile import reconcile
from tfinspect.cli.cmd_tokenize import tokenize
from tfinspect.cli.cmd_trace import trace
from tfinspect.cli.cmd_train_step import train_step
from tfinspect.cli.cmd_verify import verify
from tfinspect.cli.command import Command, Group
from tfinspect.errors import InspectError, described
from tfinspect.render.page import buffered, harden, on_terminal, page_width

__all__ = ["app", "main", "run"]

BAD_INPUT: Final = 2
DEFECT: Final = 70
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
OUT_OF_MEMORY: Final = "out of memory; choose a smaller model or a shorter text"

#: What a command may find missing, where tfinspect was installed without its dependencies.
NEEDED: Final = ("numpy", "rich", "tiktoken", "torch")

#: Base of typer's complaints about arguments; typer exports only its subclasses.
UsageError: Final[Any] = typer.BadParameter.__base__

COMMANDS: Final = {
    command.__name__.replace("_", "-"): command
    for command in (
        tokenize,
        trace,
        params,
        flops,
        compare,
        check,
        reconcile,
        presets,
        verify,
        generate,
        attention,
        train_step,
    )
}


def _show_version(asked: bool) -> None:
    if asked:
        from tfinspect import __version__

        sys.stdout.write(f"tfinspect {__version__}\n")
        raise typer.Exit()


def tfinspect(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Inspect the shapes, parameters and FLOPs of Transformers.

    Each figure has two independent paths: a closed form and a measurement of the real torch model.

    Examples:
      tfinspect params
      tfinspect flops --n 1024 --preset gpt2-xl
    """


def program(*names: str) -> typer.Typer:
    """The program with these commands alone; reading the options of all ten takes longer than many an answer."""
    made = typer.Typer(
        name="tfinspect",
        cls=Group,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(tfinspect)
    for name in names:
        made.command(cls=Command)(COMMANDS[name])
    return made


app = program(*COMMANDS)


def main(argv: Sequence[str]) -> int:
    """The exit code, after the command has run and all its output is written."""
    code = _outcome(argv)
    try:
        sys.stdout.flush()
    except OSError as error:
        return _output_failed(error)
    return code


def run() -> NoReturn:
    """The console script: the program as a process."""
    gc.set_threshold(1_000_000)  # importing torch makes 260,000 objects that all live on: nothing to collect
    for name in ("stdout", "stderr"):  # None where the caller closed it
        setattr(sys, name, getattr(sys, name) or open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    sys.stdout = buffered(sys.stdout)
    harden(sys.stdout)
    harden(sys.stderr)
    try:
        Path.cwd()
    except FileNotFoundError:
        os.chdir(os.sep)  # torch's libraries end the process where the working directory is gone
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:  # while the last output was written
        os._exit(INTERRUPTED)
    if "torch" not in sys.modules:
        sys.exit(code)
    # Taking torch down takes up to half a second and does nothing for a process that ends, and nothing in
    # tfinspect waits for the interpreter's end.
    with contextlib.suppress(OSError):  # standard output is flushed already, by main
        sys.stderr.flush()
    os._exit(code)


def _outcome(argv: Sequence[str]) -> int:
    """The exit code of a command, its error said where it had one."""
    try:
        _invoke(list(argv) or ["--help"])
    except typer.Exit as left:
        return left.exit_code
    except InspectError as error:
        return _complain(str(error), error.exit_code)
    except UsageError as error:
        return _complain(_reworded(error, argv), BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except SystemExit as error:  # nothing here raises it: the code of a --module does
        return _complain(f"the module ended the program: {described(error)}", BAD_INPUT)
    except MemoryError:
        return _complain(OUT_OF_MEMORY, BAD_INPUT)
    except OSError as error:
        return _output_failed(error)
    except Exception as error:
        if os.environ.get("TFINSPECT_TRACEBACK"):
            raise
        if isinstance(error, ModuleNotFoundError) and error.name in NEEDED:
            return _complain(f"{error.name} is not installed; python -m pip install {error.name}", BAD_INPUT)
        if "can't allocate memory" in str(error):  # torch says it as a RuntimeError
            return _complain(OUT_OF_MEMORY, BAD_INPUT)
        what = f"internal: {type(error).__name__}: {error}"
        return _complain(f"{what}; please report it: TFINSPECT_TRACEBACK=1 shows where it arose", DEFECT)
    return 0


def _invoke(argv: list[str]) -> None:
    """Run the command; typer's own `main` would turn some errors into exit codes of its own."""
    width = min(page_width(), 80)
    called = program(argv[0]) if argv[0] in COMMANDS else app
    with get_command(called).make_context("tfinspect", argv, terminal_width=width) as context:
        context.command.invoke(context)


def _output_failed(error: OSError) -> int:
    """Writing failed, or an input slipped through unread: say so, unless the reader only had enough."""
    _discard(sys.stdout)
    if isinstance(error, BrokenPipeError) or (os.name == "nt" and error.errno == errno.EINVAL):
        return PIPE_CLOSED
    where = f"{error.filename!r}" if error.filename else "the output"
    return _complain(f"{where}: {error.strerror or error}", BAD_INPUT)


def _discard(stream: Any) -> None:
    """Point a stream to nowhere, so that what it still holds cannot fail once more when the interpreter ends."""
    try:
        nowhere, number = os.open(os.devnull, os.O_WRONLY), stream.fileno()
        if nowhere != number:  # the system gives a closed file's number out again
            os.dup2(nowhere, number)
            os.close(nowhere)
    except (OSError, ValueError):  # no file of the system behind it
        return


def _complain(words: str, code: int) -> int:
    """One error on standard error: one line, or wrapped where a person reads it on a terminal."""
    from tfinspect.render.page import escaped

    line = f"error: {escaped(words, getattr(sys.stderr, 'encoding', None))}"
    if on_terminal(sys.stderr):
        from tfinspect.render.terminal import wrapped

        width = page_width()
        line = "\n       ".join(wrapped(line, width, width - 7))
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)
    return code


def _reworded(error: Any, argv: Sequence[str]) -> str:
    """A complaint of typer in the project's own form: what was typed, and what to do."""
    if error.ctx is None:
        called = argv[0] if argv and argv[0] in COMMANDS else ""
        return f"{_lower(error.format_message())}; see {f'tfinspect {called}'.rstrip()} --help"
    command, path = error.ctx.command, error.ctx.command_path
    if type(error).__name__ != "NoSuchOption":
        return f"{_lower(error.format_message())}; see {path} --help"
    typed = next((word for word in argv if word.startswith(error.option_name)), error.option_name)
    if isinstance(command, Group):
        return f"unknown option {typed!r}; options come after the command: {path} COMMAND {typed}"
    import difflib
    import shlex

    known = [option for param in command.get_params(error.ctx) for option in (*param.opts, *param.secondary_opts)]
    words = {option.lstrip("-"): option for option in known}  # the dashes alone make no two options alike
    near = difflib.get_close_matches(typed.partition("=")[0].lstrip("-"), words, n=1)
    hints = [f"did you mean {words[near[0]]}?"] if near else []
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    if any("TEXT" in (param.metavar or "") for param in arguments):
        hints.append(f"text that begins with a dash goes to standard input or after --: {path} -- {shlex.quote(typed)}")
    return f"unknown option {typed!r}; {' '.join(hints) or f'see {path} --help'}"


def _lower(sentence: str) -> str:
    """A sentence as a clause: no capital, no full stop, on one line."""
    words = " ".join(sentence.split()).rstrip(".")
    return words[:1].lower() + words[1:]
