"""Claims about counts, mixing, layers, passes and training hold, whatever the seed and in both number formats."""

from __future__ import annotations

import pytest

from tests.verify.broken import failing
from tfinspect.verify.propositions import PROPOSITIONS, Proposition, Settings

ROOMS = ("counts", "mixing", "layers", "passes", "training", "choosing")
CLAIMS = [p for p in PROPOSITIONS if p.check.startswith(ROOMS)]


@pytest.mark.parametrize("settings", [Settings(), Settings(seed=-7), Settings(seed=2**70, dtype="float32", trials=2)])
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_the_claim_holds(claim: Proposition, settings: Settings) -> None:
    found = claim.function()(settings)
    assert failing(found) == []
    assert found.outcome == "pass"


def test_no_claim_of_these_chapters_is_missing() -> None:
    """Chapter A, sections 5 to 8 and 11; chapter B, section 15."""
    numbers = "A5.1 A5.2 A5.3 A5.4 A6.1 A7.1 A7.2.1 A7.2.2 A7.2.3 A8.2 A11.1 A11.4 B15.1.2 B15.2.1 B15.2.2 B15.2.3"
    later = "B15.3.1 B15.3.2 B15.3.3 B15.4 B15.5 B15.5.1 B15.5.2 B15.6 B15.7 B15.8"
    assert [claim.id for claim in CLAIMS] == [*numbers.split(), *later.split()]
