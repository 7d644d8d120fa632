"""The walk through the chapters has every claim, in both languages, and no page names a claim that there is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.console import PAGES, ROOT
from tfinspect.verify.propositions import PROPOSITIONS, chosen

WALKS = [ROOT / "docs/theory.md", ROOT / "docs/ja/theory.md"]

#: The chapters' definitions come first; they claim nothing.
DEFINITIONS = ["A2.1", "A2.2", "A2.3"]

#: What a reader types after `tfinspect verify`, or reads of it: A3.3, A4.1.pre.
NUMBER = re.compile(r"\b[AB]\d+(?:\.(?:\d+|pre|post)\b)*")


def sections(walk: Path) -> dict[str, str]:
    """The sections of a page by the number that their heading begins with."""
    _, *parts = re.split(r"^### ", walk.read_text("utf-8"), flags=re.MULTILINE)
    return {part.split()[0]: part for part in parts}


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: str(walk.relative_to(ROOT)))
def test_each_claim_has_its_section_in_the_order_of_the_chapters(walk: Path) -> None:
    assert list(sections(walk)) == [*DEFINITIONS, *(p.id for p in PROPOSITIONS)]


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: str(walk.relative_to(ROOT)))
def test_each_section_names_a_command_that_shows_it(walk: Path) -> None:
    assert [number for number, text in sections(walk).items() if "tfinspect " not in text] == []


def test_both_languages_show_the_same_commands() -> None:
    english, japanese = (
        {number: re.findall(r"^\$ .*$", text, re.MULTILINE) for number, text in sections(walk).items()}
        for walk in WALKS
    )
    assert english == japanese


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_claim_that_a_command_names_exists(page: Path) -> None:
    for ids in re.findall(r"tfinspect verify((?: [AB]\d[\w.]*)+)", page.read_text("utf-8")):
        assert chosen(ids.split())


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: str(walk.relative_to(ROOT)))
def test_each_number_in_the_walk_is_one_of_the_chapters(walk: Path) -> None:
    known = {*DEFINITIONS, *(part for p in PROPOSITIONS for part in _with_those_above(p.id))}
    assert set(NUMBER.findall(walk.read_text("utf-8"))) <= known


def _with_those_above(id_: str) -> list[str]:
    """A4.1.pre, A4.1 and A4."""
    parts = id_.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
