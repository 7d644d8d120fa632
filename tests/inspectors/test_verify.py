"""`tfinspect.checks` and `tfinspect.claims`: which claims, with which settings, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tfinspect.errors import InputError
from tfinspect.inspectors.verify import checks, claims
from tfinspect.verify.propositions import PROPOSITIONS


def test_chosen_claims_are_put_to_the_test_in_the_order_of_the_sources() -> None:
    report = checks("A8.1.2", "A3", trials=1)
    assert [check.id for check in report.checked] == ["A3.1.1", "A3.1.2", "A3.2", "A3.3", "A8.1.2"]
    assert [check.outcome for check in report.checked] == ["pass"] * 5
    assert report.failed == ()
    assert report.agreements == ()


def test_settings_reach_the_checks() -> None:
    rough = checks("A3.1.2", dtype="float32", seed=3, trials=2)
    fine = checks("A3.1.2", seed=3, trials=2)
    assert (rough.seed, rough.trials, rough.checked[0].dtype) == (3, 2, "float32")
    off = [report.checked[0].findings.figures[2].value for report in (fine, rough)]
    assert 0 < float(off[0]) < 1e-12 < float(off[1])  # rounding units are 2^-53 and 2^-24


def test_every_seed_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (-1, 2**63, 10**30):
        assert checks("A3.1.1", seed=seed, trials=1).failed == ()
    assert capsys.readouterr() == ("", "")


def test_each_claim_is_named_before_it_is_put_to_the_test() -> None:
    said: list[str] = []
    checks("A3.1", "A3.2", trials=1, told=said.append)
    assert said == ["A3.1.1, 1 of 3", "A3.1.2, 2 of 3", "A3.2, 3 of 3"]


def test_threads_and_random_state_are_left_as_they_were() -> None:
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    checks("A3", "A4.1", "A8.1", trials=1)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("ids", "settings", "words"),
    [
        (("A9",), {}, "'A9'"),
        (("A3.3", "x"), {}, "'x'"),
        (("A3.3",), {"dtype": "float16"}, "'float16'"),
        (("A3.3",), {"trials": 0}, "0"),
        (("A3.3",), {"trials": -3}, "-3"),
    ],
)
def test_what_cannot_be_tested_is_said(ids: tuple[str, ...], settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        checks(*ids, **settings)
    assert words in caught.value.message


def test_the_list_has_every_claim_and_runs_none() -> None:
    assert [claim.id for claim in claims().claims] == [p.id for p in PROPOSITIONS]
    assert [claim.id for claim in claims("a4.1").claims] == ["A4.1.pre", "A4.1.post"]
    with pytest.raises(InputError):
        claims("A3.4")
