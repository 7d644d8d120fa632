"""How a command reads its arguments and shows its help.

Help: usage, the words of the function's docstring with indented paragraphs (the examples) left as they are, then the
arguments and the options by panel. Definitions stand beside their terms, or below them on a narrow page.

Values: typer hands each value to pydantic, whose import takes longer than all that a closed form computes. Plain words
and numbers are read here instead, with errors in the project's own form.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, get_args, get_origin

from typer.core import TyperCommand, TyperGroup

from tfinspect.errors import InputError

__all__ = ["Command", "Group", "whole"]

#: Longest number that is read: its square still prints.
MOST_DIGITS: Final = 1_000
#: Narrowest page that shows terms and definitions side by side.
SIDE_BY_SIDE: Final = 60


def whole(flag: str, text: str) -> int:
    """The integer that was typed; 1,024 and 1_024 are spellings of 1024.

    Raises:  InputError naming the flag and what was typed.
    """
    if len(text) > MOST_DIGITS:
        raise InputError(f"{flag} has {len(text):,} characters", f"give a number of at most {MOST_DIGITS:,} digits")
    if not re.fullmatch(r"[+-]?([0-9]+|[0-9]{1,3}([,_][0-9]{3})+)", text.strip()):
        raise InputError(f"{flag} takes a whole number, not {text!r}")
    return int(text.replace(",", ""))


def decimal(flag: str, text: str) -> float:
    """The number that was typed.

    Raises:  InputError naming the flag and what was typed.
    """
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?inf|nan", text.strip().lower()):
        raise InputError(f"{flag} takes a number, not {text!r}")
    return float(text)


_READERS: Final[dict[object, Callable[[str, str], object]]] = {
    int: whole,
    float: decimal,
    str: lambda _, text: text,
    bool: lambda _, value: value,
}


#: The same by click's names of its types.
_OF_CLICK: Final = {"integer": whole, "float": decimal}


def _converted(reader: Callable[[str, str], object], value: Any, param: Any, ctx: Any) -> Any:
    return reader(param.opts[0], value) if isinstance(value, str) else value


@dataclasses.dataclass(frozen=True)
class _Plain:
    """Reads the values of one option or argument, in the place of typer's own coercion."""

    reader: Callable[[str, str], object]

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        flag = param.opts[0] if param.param_type_name == "option" else (param.metavar or param.name.upper())
        if isinstance(value, list | tuple):
            return type(value)(self._read(flag, item) for item in value)
        return self._read(flag, value)

    def _read(self, flag: str, item: Any) -> object:
        return self.reader(flag, item) if isinstance(item, str) else item  # a default is a value already


class _Layout:
    """What a command and the group of commands share: the page of help, and values without pydantic."""

    help: str | None

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            annotation = getattr(getattr(param, "type_descriptor", None), "annotation", None)
            if get_origin(annotation) is list:
                (annotation,) = get_args(annotation)
            if annotation in _READERS and hasattr(param, "_runtime_param"):
                param._runtime_param = _Plain(_READERS[annotation])
            elif reader := _OF_CLICK.get(getattr(param.type, "name", "")):  # a release of typer before pydantic
                param.type = copy.copy(param.type)
                param.type.convert = functools.partial(_converted, reader)
        return params

    def make_parser(self, ctx: Any) -> Any:
        """A parser that refuses an option given twice: which of the two was meant cannot be told."""
        parser: Any = super().make_parser(ctx)  # type: ignore[misc]
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            values, rest, order = parse(args)
            for param in order:
                alternatives = not getattr(param, "is_flag", False) or param.secondary_opts
                if order.count(param) > 1 and not param.multiple and alternatives and param.nargs != -1:
                    spellings = "/".join((*param.opts, *param.secondary_opts))
                    raise InputError(f"{spellings} is given {order.count(param)} times", "give it once")
            return values, rest, order

        parser.parse_args = parse_once
        return parser

    def get_help(self, ctx: Any) -> str:
        from tfinspect.render.page import spelled

        text: str = super().get_help(ctx)  # type: ignore[misc]
        return spelled(text, getattr(sys.stdout, "encoding", None))

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(self.help or "")):
            formatter.write_paragraph()
            if re.search(r"^\s", paragraph, re.MULTILINE):
                formatter.write(f"{paragraph}\n")
            else:
                formatter.write_text(paragraph)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            if param.param_type_name == "argument":
                panels["Arguments"].append((param.metavar or param.name.upper(), param.help or ""))
            elif record := param.get_help_record(ctx):
                panels.setdefault(getattr(param, "rich_help_panel", None) or "Options", []).append(record)
        for title, records in panels.items():
            _write_definitions(formatter, title, records)


class Command(_Layout, TyperCommand):
    """A command of tfinspect."""


class Group(_Layout, TyperGroup):
    """The commands of tfinspect."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, _first_sentence(command.help)) for name, command in self.commands.items()]
        _write_definitions(formatter, "Commands", commands)
        super().format_options(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.commands:
            import difflib

            near = difflib.get_close_matches(name, self.commands, n=1)
            known = f"commands: {', '.join(self.commands)}"
            raise InputError(f"unknown command {name!r}", f"did you mean {near[0]}? {known}" if near else known)
        return super().resolve_command(ctx, args)


def _write_definitions(formatter: Any, title: str, records: Sequence[tuple[str, str]]) -> None:
    if not records:
        return
    with formatter.section(title):
        if formatter.width >= SIDE_BY_SIDE:
            formatter.write_dl(records)
            return
        for term, definition in records:
            formatter.write_text(term)
            with formatter.indentation():
                formatter.write_text(definition)


def _first_sentence(text: str | None) -> str:
    return inspect.cleandoc(text or "").partition("\n\n")[0].replace("\n", " ")
