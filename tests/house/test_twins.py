"""Each claim has a broken twin: a test that breaks what the claim speaks of and sees its check fail."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tfinspect.verify.propositions import PROPOSITIONS, Settings

SOURCES = [path.read_text("utf-8") for path in sorted((Path(__file__).parents[1] / "verify").glob("test_*.py"))]

#: Measured without a claim: nothing of it can be broken.
MEASURED = ("A4.2",)

#: A check's name as a test spells it, by the id of its claim: "layer_norm.jacobian".
CHECKS = {p.id: p.check.replace(":", ".") for p in PROPOSITIONS if p.id not in MEASURED}


@dataclasses.dataclass(frozen=True)
class Twin:
    """A test marked as one that breaks claims, and the names that it uses."""

    test: str
    ids: tuple[str, ...]
    names: frozenset[str]


def twins(source: str) -> Iterator[Twin]:
    """The marked tests of a source, in order."""
    for function in ast.parse(source).body:
        if isinstance(function, ast.FunctionDef):
            marks = [mark for mark in function.decorator_list if isinstance(mark, ast.Call)]
            ids = [id_ for mark in marks if ast.unparse(mark.func) == "pytest.mark.breaks" for id_ in mark.args]
            names = (node for node in ast.walk(function) if isinstance(node, ast.Name | ast.Attribute))
            if ids:
                yield Twin(function.name, tuple(map(ast.literal_eval, ids)), frozenset(map(ast.unparse, names)))


def unbroken(sources: Iterable[str]) -> list[str]:
    """Claims that no test of these sources breaks."""
    broken = {id_ for source in sources for twin in twins(source) for id_ in twin.ids}
    return [id_ for id_ in CHECKS if id_ not in broken]


def idle(twin: Twin) -> list[str]:
    """What a twin leaves out: the checks of its claims, and a look at what they find wrong."""
    return sorted({"failing", *(CHECKS[id_] for id_ in twin.ids)} - twin.names)


TWINS = [twin for source in SOURCES for twin in twins(source)]


def test_each_claim_is_broken_by_a_test() -> None:
    assert unbroken(SOURCES) == []


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.test)
def test_a_twin_runs_the_checks_of_the_claims_that_it_breaks(twin: Twin) -> None:
    assert idle(twin) == []


@pytest.mark.parametrize("id_", MEASURED)
def test_what_is_only_measured_claims_nothing(id_: str) -> None:
    (proposition,) = (p for p in PROPOSITIONS if p.id == id_)
    found = proposition.function()(Settings(trials=1))
    assert found.outcome == "measured"
    assert found.figures


@pytest.mark.parametrize("id_", CHECKS)
def test_a_claim_without_a_twin_is_noticed(id_: str) -> None:
    other = next(known for known in CHECKS if known != id_)
    assert unbroken(source.replace(f'"{id_}"', f'"{other}"') for source in SOURCES) == [id_]


def test_a_mark_counts_on_a_test_that_runs_the_check_and_nowhere_else() -> None:
    (twin,) = twins(
        '# pytest.mark.breaks("A3.3")\n'
        'MARK = pytest.mark.breaks("A3.2")\n'
        '@pytest.mark.breaks("A3.1.1", "A3.1.2")\n'
        "def test_a_norm() -> None:\n"
        "    assert failing(layer_norm.invariance(SETTINGS, unbiased)) != []\n"
    )
    assert twin.ids == ("A3.1.1", "A3.1.2")
    assert idle(twin) == ["layer_norm.moments"]
