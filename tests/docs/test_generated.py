"""The generated parts of the pages are what the program says of itself."""

from __future__ import annotations

from typing import Any

import pytest
from typer.main import get_command

from tests.docs import generated
from tests.docs.console import PAGES, ROOT
from tfinspect.cli.app import app

GROUP: Any = get_command(app)
COMMANDS_PAGE = (ROOT / "docs/reference/commands.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_generated_parts_are_fresh(page: Any) -> None:
    text = page.read_text("utf-8")
    assert text == generated.rewritten(text), "python tests/docs/refresh.py writes the pages anew"


def test_each_part_has_its_place() -> None:
    places = [part["name"] for page in PAGES for part in generated.PART.finditer(page.read_text("utf-8"))]
    assert sorted(places) == sorted(generated.WRITERS)


@pytest.mark.parametrize("name", GROUP.commands)
def test_each_command_and_each_option_is_on_the_page(name: str) -> None:
    _, heading, section = COMMANDS_PAGE.partition(f"\n## tfinspect {name}\n")
    assert heading
    section, _, rest = section.partition("\n## ")
    model_flags = rest.partition("Model flags\n")[2]
    for param in GROUP.commands[name].params:
        if param.param_type_name == "option":
            where = model_flags if generated.is_model_flag(param) else section
            for flag in (*param.opts, *param.secondary_opts):
                assert f"`{flag}`" in where or f"`{flag} " in where, flag


def test_a_stale_part_is_seen() -> None:
    text = "<!-- generated: symbols -->\n\nstale\n\n<!-- end: symbols -->\n"
    assert generated.rewritten(text) != text
    assert generated.rewritten(generated.rewritten(text)) == generated.rewritten(text)
