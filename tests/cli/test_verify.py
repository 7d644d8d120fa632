"""``tfinspect verify`` as a user meets it."""

from __future__ import annotations

import json

import pytest
from rich.cells import cell_len
from typer.main import get_command

from tests.cli.conftest import Program
from tfinspect.cli.app import app, main
from tfinspect.results.checks import Figure, Findings
from tfinspect.verify import layer_norm
from tfinspect.verify.propositions import PROPOSITIONS, Settings


def test_every_claim_holds_and_is_told_with_its_figures(tfinspect: Program) -> None:
    ended = tfinspect("verify", "--trials", "2")
    assert (ended.code, ended.err) == (0, "")
    for p in PROPOSITIONS:
        assert f"{p.id}  {p.claim}: " in ended.out
    words = " ".join(ended.out.split())
    # Chapter A, examples 3.2 and 5.3, propositions 3.3 and 6.1, section 9.
    for figure in ("σ of x 1.8708", "singular values of σJ 1 × 4, 0 × 2", "124,439,808", "7,247,757,312",
                   "patterns of 8 7 7", "missing 001 001"):  # fmt: skip
        assert figure in words
    assert f"{len(PROPOSITIONS) - 1} passed, 0 failed, 1 measured without a claim." in words
    assert max(map(cell_len, ended.out.splitlines())) <= 80


def test_a_claim_at_length_has_its_formula_and_its_matrix(tfinspect: Program) -> None:
    ended = tfinspect("verify", "a3.3", "--explain")
    assert (ended.code, ended.err) == (0, "")
    for part in ("J = (I − 11ᵀ/d − yyᵀ/d)/σ", "chapter A, proposition 3.3", "float64", "J by autograd, first input",
                 "Singular values of σJ"):  # fmt: skip
        assert part in ended.out
    assert max(map(cell_len, ended.out.splitlines())) <= 80


@pytest.mark.parametrize("words", [["A3", "A4"], ["A8.1", "A11.2", "A11.3"]])
def test_explanations_fit_the_page(tfinspect: Program, words: list[str]) -> None:
    ended = tfinspect("verify", *words, "--explain", "--trials", "1")
    assert ended.code == 0
    assert max(map(cell_len, ended.out.splitlines())) <= 80


def test_the_document_has_every_figure_with_its_verdict(tfinspect: Program) -> None:
    ended = tfinspect("verify", "A3", "A4.2", "--dtype", "float32", "--seed", "7", "--trials", "3", "--json")
    assert (ended.code, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert (document["schema"], document["seed"], document["trials"]) == ("tfinspect.verify/1", 7, 3)
    assert document["failed"] == []
    outcomes = {check["id"]: check["outcome"] for check in document["checks"]}
    assert outcomes == {**dict.fromkeys(["A3.1.1", "A3.1.2", "A3.2", "A3.3"], "pass"), "A4.2": "measured"}
    assert {check["dtype"] for check in document["checks"]} == {"float32"}
    assert all(figure["holds"] for check in document["checks"] for figure in check["figures"])
    (plot,) = document["checks"][-1]["matrices"]
    assert plot["column_labels"] == ["block", "Pre-LN", "Post-LN"]
    assert [len(row) for row in plot["rows"]] == [3] * 12


def test_the_list_runs_nothing(tfinspect: Program) -> None:
    ended = tfinspect("verify", "--list")
    assert (ended.code, ended.err) == (0, "")
    assert [line.split("  ")[0] for line in ended.out.splitlines() if line.startswith(("A", "B"))] == [
        p.id for p in PROPOSITIONS
    ]
    document = json.loads(tfinspect("verify", "A4.1", "--list", "--json").out)
    assert document["schema"] == "tfinspect.claims/1"
    assert [claim["id"] for claim in document["claims"]] == ["A4.1.pre", "A4.1.post"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["A99"], "no claim has the id 'A99'; --list shows the ids"),
        (["A3.3", "--dtype", "half"], "unknown dtype 'half'; choose one of float64, float32"),
        (["--trials", "0"], "--trials must be at least 1, not 0"),
        (["--trials", "1" + "0" * 30], "--trials must be at most 1,000, not 1"),
        (["--trials", "many"], "'many'"),
        (["--seed", "1.5"], "'1.5'"),
        (["A99", "--list"], "no claim has the id 'A99'"),
    ],
)
def test_bad_input_is_one_error(tfinspect: Program, words: list[str], said: str) -> None:
    ended = tfinspect("verify", *words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert said in ended.err


def test_a_claim_that_does_not_hold_is_shown_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(settings: Settings) -> Findings:
        """A check whose figure is off."""
        return Findings((Figure("norm", 2.5, 2.0, 1e-12), Figure("kept", 1, 1)))

    monkeypatch.setattr(layer_norm, "example", broken)
    assert main(["verify", "A3.2", "A3.1.2"]) == 1
    shown = capsys.readouterr()
    words = " ".join(shown.out.split())
    assert "have one layer norm: fail norm 2.5 2 ±1e-12 FAILS" in words
    assert "1 passed, 1 failed, 0 measured without a claim." in words
    assert shown.err == (
        "error: A3.2: norm: measured 2.5, claimed 2 ±1e-12; tfinspect verify A3.2 --explain shows how\n"
    )
    assert main(["verify", "A3.2", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failed"] == ["A3.2"]


def test_the_examples_of_the_help_name_claims() -> None:
    help_text = get_command(app).commands["verify"].help  # type: ignore[attr-defined]
    known = [p.id for p in PROPOSITIONS]
    named = [w for line in help_text.splitlines() if "tfinspect verify" in line for w in line.split() if w[0] in "AB"]
    assert named
    assert all(any(k == n or k.startswith(f"{n}.") for k in known) for n in named)
