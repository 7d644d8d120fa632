"""``tfinspect check`` as a user meets it: pages, documents, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoints import example
from tests.cli.conftest import Program


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return example(tmp_path / "whole")


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    return example(tmp_path / "faulty", faulty=True)


def test_what_fits_ends_with_0_and_says_so(tfinspect: Program, whole: Path) -> None:
    ended = tfinspect("check", str(whole))
    assert (ended.code, ended.err) == (0, "")
    page = " ".join(ended.out.split())
    assert "Nothing differs." in page
    assert "note: masks" in page
    assert "agree parameters: closed form 24,816 = measured 24,816" in page
    assert max(map(len, ended.out.splitlines())) <= 80


def test_what_differs_ends_with_1_and_names_it(tfinspect: Program, faulty: Path) -> None:
    ended = tfinspect("check", str(faulty), "--no-check")
    assert ended.code == 1
    for heading in ("missing biases", "padded vocabulary", "unexpected tensors", "two tables", "dtype"):
        assert f"differs: {heading}" in ended.out
    assert ended.err.startswith("error: missing biases: 3 biases of the configuration are not in the file")
    assert ended.err.count("\n") == 1
    assert max(map(len, ended.out.splitlines())) <= 80


def test_the_document_has_every_tensor_of_a_finding(tfinspect: Program, faulty: Path) -> None:
    ended = tfinspect("check", str(faulty), "--json")
    assert ended.code == 1
    document = json.loads(ended.out)
    assert document["schema"] == "tfinspect.check/1"
    assert document["n_differences"] == sum(finding["differs"] for finding in document["findings"])
    found = {finding["kind"]: finding["tensors"] for finding in document["findings"]}
    assert [tensor["name"] for tensor in found["missing biases"]] == [
        f"transformer.h.{layer}.mlp.c_fc.bias" for layer in range(3)
    ]
    assert document["built_params"] == document["expected"]["params"] == 24_816


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_without_the_module_no_torch_is_needed(whole: Path, words: list[str]) -> None:
    probe = (
        "import sys; from tfinspect.cli.app import main; code = main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", probe, "check", str(whole), "--no-check", *words], capture_output=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "'nowhere'"),
        (["whole", "--config", "nowhere"], "'nowhere'"),
        (["whole", "--config", ""], "--config is ''"),
        ([""], "CHECKPOINT is ''"),
        (["whole/config.json"], "config.json"),
        (["empty"], "'empty'"),
    ],
)
def test_bad_input_is_one_line(
    tfinspect: Program, whole: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(whole.parent)
    (whole.parent / "empty").mkdir()
    ended = tfinspect("check", *words)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert message in ended.err


def test_names_in_a_file_cannot_disorder_the_page(tfinspect: Program, tmp_path: Path) -> None:
    folder = example(tmp_path / "odd", more={"x\x1b[31m\r\nerror: [b]y[/b]\u202e": (2,), "z" * 5_000: (2,)})
    for words in ([], ["--json"]):
        ended = tfinspect("check", str(folder), "--no-check", *words)
        assert ended.code == 1
        assert "\x1b" not in ended.out + ended.err
        assert ended.err.count("\n") == 1
    ended = tfinspect("check", str(folder), "--no-check")
    assert "x\\x1b[31m\\r\\nerror: [b]y[/b]" in ended.out.replace("\n", "").replace(" ", "").replace(
        "error:", "error: "
    )
    assert max(map(len, ended.out.splitlines())) <= 80
