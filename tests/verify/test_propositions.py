"""The list of claims: whole, in the order of the sources, and chosen from by number."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tfinspect.errors import InputError
from tfinspect.verify.propositions import PROPOSITIONS, Settings, chosen, run

IDS = [p.id for p in PROPOSITIONS]


def place(number: str) -> tuple[object, ...]:
    """Where a claim stands in the sources: chapter, then number by number; Pre-LN is told before Post-LN."""
    chapter, rest = number[0], number[1:].split(".")
    return (chapter, *(int(part) if part.isdigit() else {"pre": 0, "post": 1}[part] for part in rest))


def test_ids_are_unique_and_in_the_order_of_the_sources() -> None:
    assert len(set(IDS)) == len(IDS)
    assert sorted(IDS, key=place) == IDS


def test_each_claim_of_chapter_a_on_norms_residuals_and_mlps_is_there() -> None:
    # Chapter A, sections 3, 4 and 8.1, and exercises 11.2 and 11.3.
    wanted = "A3.1.1 A3.1.2 A3.2 A3.3 A4.1.pre A4.1.post A4.2 A8.1.1 A8.1.2 A11.2 A11.3"
    assert set(wanted.split()) <= set(IDS)


@pytest.mark.parametrize("proposition", PROPOSITIONS, ids=lambda p: p.id)
def test_each_claim_is_told_in_few_words_and_at_length(proposition: object) -> None:
    p = next(each for each in PROPOSITIONS if each is proposition)
    assert len(f"{p.id}  {p.claim}: measured") <= 80
    assert not p.claim.endswith(".")
    assert p.statement.endswith(".")
    assert len(p.statement) > len(p.claim)
    assert re.match("chapter [AB], ", p.source)
    assert p.function().__doc__


def test_numbers_choose_claims_whatever_their_case_and_order() -> None:
    assert [p.id for p in chosen(["A3"])] == ["A3.1.1", "A3.1.2", "A3.2", "A3.3"]
    assert [p.id for p in chosen(["a4.1.PRE", "A3.2", "A3.2"])] == ["A3.2", "A4.1.pre"]
    assert [p.id for p in chosen([])] == IDS


@pytest.mark.parametrize("number", ["A1", "A3.", "A33", "3.3", "", "A3.3 ", "B"])
def test_a_number_that_names_no_claim_is_refused_as_it_was_typed(number: str) -> None:
    with pytest.raises(InputError) as caught:
        chosen(["A3.3", number])
    assert repr(number) in caught.value.message
    assert "--list" in caught.value.hint


def test_a_run_carries_the_claim_and_its_findings() -> None:
    (example,) = chosen(["A3.2"])
    ran = run(example, Settings(dtype="float32"))
    assert (ran.id, ran.claim, ran.dtype, ran.outcome) == ("A3.2", example.claim, "float32", "pass")
    assert ran.seconds > 0


def test_a_run_is_the_same_for_the_same_seed_and_differs_for_another() -> None:
    (claim,) = chosen(["A3.3"])
    first, again, other = (run(claim, Settings(seed=seed)).findings for seed in (1, 1, 2))
    assert first == again
    assert first.matrices != other.matrices


def test_each_check_is_seen_to_fail() -> None:
    """Each check is named in a test that asks which figures fail, apart from the tests that none does."""
    named: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for test in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(test, ast.FunctionDef) and test.name != "test_the_claim_holds":
                words = list(ast.walk(test))
                if any(isinstance(word, ast.Name) and word.id == "failing" for word in words):
                    named |= {f"{w.value.id}:{w.attr}" for w in words if _of_a_module(w)}  # type: ignore[attr-defined]
    assert {p.check for p in PROPOSITIONS if p.id != "A4.2"} - named == set()  # A4.2 claims nothing


def _of_a_module(word: ast.AST) -> bool:
    return isinstance(word, ast.Attribute) and isinstance(word.value, ast.Name)
