"""The parts of the documentation that the program itself writes.

A page says where: ``<!-- generated: NAME -->`` opens the part, ``<!-- end: NAME -->`` closes it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from typer.main import get_command

from tfinspect.cli.app import app
from tfinspect.cli.options import MODEL_PANEL
from tfinspect.dims import MEANINGS

PART = re.compile(r"(?P<open><!-- generated: (?P<name>\w+) -->\n).*?(?P<close><!-- end: (?P=name) -->)", re.DOTALL)


def rewritten(text: str) -> str:
    """The text of a page with its generated parts as they are."""
    return PART.sub(lambda part: f"{part['open']}\n{WRITERS[part['name']]()}\n\n{part['close']}", text)


def _commands() -> str:
    group: Any = get_command(app)
    paragraphs = ["## tfinspect", *_words(group), "Usage: `tfinspect [OPTIONS] COMMAND [ARGS]...`"]
    paragraphs.append(_options(group, lambda param: True))
    for name, command in group.commands.items():
        arguments = [param for param in command.params if param.param_type_name == "argument"]
        model = any(is_model_flag(param) for param in command.params)
        usage = " ".join(["tfinspect", name, "[OPTIONS]", *(f"[{_metavar(argument)}]" for argument in arguments)])
        paragraphs += [f"## tfinspect {name}", *_words(command), f"Usage: `{usage}`"]
        paragraphs += [f"`{_metavar(argument)}`: {argument.help}" for argument in arguments]
        paragraphs.append(_options(command, lambda param: not is_model_flag(param)))
        if model:
            paragraphs.append("The [model flags](#model-flags) say which model.")
    paragraphs += [
        "## Model flags",
        "Each changes one field of the model; without any, the model is GPT-2 Small.",
        _options(group.commands["params"], is_model_flag),
    ]
    return "\n\n".join(paragraphs)


def _words(command: Any) -> Iterator[str]:
    """The paragraphs of a command's help, its examples as a block."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help)):
        heading, *lines = paragraph.split("\n")
        if heading == "Examples:":
            yield "\n".join(["```sh", *(line.strip() for line in lines), "```"])
        else:
            yield " ".join(paragraph.split())


def _options(command: Any, wanted: Callable[[Any], bool]) -> str:
    options = [param for param in command.params if param.param_type_name == "option" and wanted(param)]
    rows = [(_spelling(option), _default(option), option.help) for option in options]
    helps = [("`-h`, `--help`", "", "Show this message and exit.")] if not all(map(is_model_flag, options)) else []
    return _table(("option", "default", "what it does"), [*rows, *helps])


def _spelling(option: Any) -> str:
    value = "" if option.is_flag else f" {_metavar(option)}"
    on = ", ".join(f"`{flag}{value}`" for flag in option.opts)
    return " / ".join([on, *(f"`{flag}`" for flag in option.secondary_opts)])


def _default(option: Any) -> str:
    if isinstance(option.show_default, str):
        return f"`{option.show_default}`"
    if option.secondary_opts and option.default is True:
        return f"`{option.opts[0]}`"
    if option.is_flag or option.default is None or option.multiple:
        return ""
    return f"`{option.default}`"


def _metavar(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def is_model_flag(param: Any) -> bool:
    """Whether an option is one of those that say which model."""
    return getattr(param, "rich_help_panel", None) == MODEL_PANEL


def _symbols() -> str:
    return _table(("symbol", "what it counts"), [(f"`{symbol}`", meaning) for symbol, meaning in MEANINGS.items()])


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


WRITERS: dict[str, Callable[[], str]] = {"commands": _commands, "symbols": _symbols}
