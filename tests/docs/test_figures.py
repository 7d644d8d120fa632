"""A number in prose is one that a command printed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.console import PAGES, ROOT, Shell, blocks, prose

#: A whole number or a decimal, with or without separators; not a part of a word such as r50k_base.
NUMBER = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+(?![\d,]*\d)|\d+)(?:\.\d+)*(?!\w)")

#: Numbers that no command prints, each with what it names.
CITATIONS = {
    "2.13.0": "the release of torch that the tests and the printed figures are made with",
    "2017": "year of Vaswani et al.",
    "2018": "year of Radford et al., GPT-1",
    "2019": "year of Radford et al., GPT-2",
    "2026": "year of the second chapter that the theory follows",
    "1706.03762": "arXiv number of Vaswani et al., Attention Is All You Need",
    "1606.08415": "arXiv number of Hendrycks and Gimpel, GELUs",
}  # fmt: skip


def numbers(text: str) -> set[str]:
    """The numbers of four digits or more in a text, without separators."""
    found = (match[0].replace(",", "") for match in NUMBER.finditer(text))
    return {number for number in found if sum(map(str.isdigit, number)) >= 4}


@pytest.fixture(scope="module")
def printed(shell: Shell) -> set[str]:
    """Every number that a command of some page prints, in lines that the page shows or leaves out."""
    for page in PAGES:
        for block in blocks(page):
            shell.run(block)
    return set().union(*(numbers("\n".join(output)) for output in shell.outputs.values()))


@pytest.mark.skipif(shutil.which("sh") is None, reason="the pages are written for a POSIX shell")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_number_in_prose_was_printed_by_a_command(page: Path, printed: set[str]) -> None:
    assert numbers(prose(page)) - printed - CITATIONS.keys() == set()


def test_each_citation_is_used() -> None:
    assert CITATIONS.keys() - set().union(*(numbers(prose(page)) for page in PAGES)) == set()


def test_numbers_are_found_however_they_are_written() -> None:
    text = "124,439,808 of `4608`, (0.2222), 1.8708; in 2019, ids 15496,11,995"
    assert numbers(f"{text}; not 117M, 12.5 %, 16 ids, r50k, x1234 or 0,5,11") == {
        "124439808",
        "4608",
        "0.2222",
        "1.8708",
        "2019",
        "15496",
    }
