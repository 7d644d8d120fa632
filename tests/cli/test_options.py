"""The model flags take the place of ``source``, and leave a command's own parameters as they were declared."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, get_args

import typer

from tfinspect.cli.options import model_flags
from tfinspect.sources.resolve import Source

Words = Annotated[list[str] | None, typer.Argument(metavar="TEXT")]


def test_a_default_of_none_leaves_a_declaration_as_it_is() -> None:
    # typing.get_type_hints of Python 3.10 makes Optional[Annotated[...]] of it, in which typer finds no argument
    called: list[Any] = []

    @model_flags
    def command(source: Source, words: Words = None, n: int = 0) -> None:
        called.extend((source.name, words, n))

    parameters = inspect.signature(command).parameters
    assert parameters["words"].annotation == Words
    assert command.__annotations__["words"] == Words
    assert all(isinstance(get_args(p.annotation)[1], type(typer.Option())) for name, p in parameters.items()
               if name not in ("words", "n"))  # fmt: skip
    command(words=["a"], n=1, **dict.fromkeys(set(parameters) - {"words", "n"}))
    assert called == ["gpt2", ["a"], 1]
