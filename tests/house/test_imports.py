"""What a command imports: torch and numpy only where a model runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy")

PROBE = f"""
import sys
from tfinspect.cli.app import main
code = main(sys.argv[1:])
sys.stderr.write(" ".join(["heavy:", *(name for name in {(*HEAVY, "pydantic", "tiktoken")!r} if name in sys.modules)]))
sys.exit(code)
"""


def imported(*words: str) -> set[str]:
    """Which of the heavy packages a command loads, in a process of its own."""
    ended = subprocess.run([sys.executable, "-c", PROBE, *words], capture_output=True, text=True, check=True)
    assert ended.stderr.startswith("heavy:")
    return set(ended.stderr.split()[1:])


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "--version",
        "params --help",
        "trace --help",
        "flops --help",
        "generate --help",
        "attention --help",
        "train-step --help",
        "verify --help",
    ],
)
def test_help_imports_nothing_heavy(words: str) -> None:
    assert imported(*words.split()) == set()


@pytest.mark.parametrize(
    "words",
    ["params --no-check", "params --no-check --json", "params --no-check --per-tensor --untied",
     "flops --no-check", "flops --no-check --sweep 128:65536", "flops --no-check --json",
     "verify --list", "verify A3 --list --json"],
)  # fmt: skip
def test_closed_forms_and_lists_import_nothing_heavy(words: str) -> None:
    assert imported(*words.split()) == set()


@pytest.mark.parametrize("words", ["tokenize hi", "tokenize --json hi", "tokenize --merges hi", "tokenize --decode 1"])
def test_tokens_need_no_torch_and_no_numpy(words: str) -> None:
    assert imported(*words.split()) <= {"tiktoken"}


def test_the_probe_sees_torch_where_it_is() -> None:
    """The probe can fail: a command that measures a model loads torch."""
    assert imported("params", "--preset", "tiny-568") >= {"torch"}


def test_the_package_alone_imports_nothing_heavy() -> None:
    program = f"import sys, tfinspect; assert not {{*{HEAVY!r}, 'typer', 'rich'}} & set(sys.modules); tfinspect.params"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stderr == ""
