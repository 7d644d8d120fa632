"""The command surface: it grows here, on purpose, or not at all."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
from typer.main import get_command

from tfinspect.cli.app import app

GROUP: Any = get_command(app)

MODEL = {
    "--preset", "--config", "--d", "--d-model", "--layers", "--heads", "--d-ff", "--vocab", "--ctx",
    "--placement", "--final-norm", "--no-final-norm", "--activation", "--positions", "--tied", "--untied",
    "--bias", "--no-bias", "--eps", "--dropout", "--architecture", "--encoder-layers", "--kv-heads", "--d-head",
    "--norm", "--qk-norm", "--no-qk-norm", "--position-offset", "--rope-dim", "--rope-base", "--buckets",
    "--max-distance", "--embed-scale", "--no-embed-scale", "--embed-norm", "--no-embed-norm", "--token-types",
    "--scale-scores", "--no-scale-scores", "--window", "--global-every", "--experts", "--experts-per-token",
    "--shared-experts", "--d-expert", "--dense-layers", "--head-kind", "--head-bias", "--no-head-bias",
    "--pooler", "--no-pooler", "--qkv-bias", "--no-qkv-bias", "--out-bias", "--no-out-bias", "--mlp-bias",
    "--no-mlp-bias", "--norm-bias", "--no-norm-bias",
}  # fmt: skip
CHECK = {"--check", "--no-check"}
MODULE = {"--module", "--input", "--input-file", "--inputs", "--depth"}

SURFACE = {
    "tokenize": {"--file", "--merges", "--allow-special", "--decode", "--ids", "--limit", "--json"},
    "trace": {
        "--file", "--ids", "--pad", "--allow-special", "--blocks", "--stats", "--ops", "--last", "--meta", "--seed",
        "--weights", "--dtype", "--source", "--source-ids", "--unfold", "--train", "--time", "--memory", "--json",
        *CHECK, *MODULE, *MODEL,
    },
    "params": {"--expect", "--per-tensor", "--meta", "--seed", "--json", *CHECK, *MODULE, *MODEL},
    "flops": {
        "--n", "--seq-len", "--batch", "--source-len", "--causal", "--head", "--sweep", "--passes", "--rules",
        "--every-mode", "--meta", "--train", "--seed", "--json", *CHECK, *MODULE, *MODEL,
    },
    "compare": {"--n", "--seq-len", "--json", *CHECK},
    "check": {"--config", "--json", *CHECK},
    "reconcile": {"--n", "--seq-len", "--batch", "--tokens", "--json", *MODEL},
    "presets": {"--search", "--json"},
    "verify": {
        "--module", "--weights", "--config", "--preset", "--n", "--seq-len", "--batch", "--vocab", "--explain",
        "--seed", "--dtype", "--trials", "--list", "--json",
    },
    "generate": {
        "--file", "--ids", "--max-new", "--temperature", "--top-k", "--top-p", "--seed", "--cache", "--no-cache",
        "--show", "--every-step", "--allow-special", "--weights", "--dtype", "--json", *CHECK, *MODEL,
    },
    "attention": {
        "--file", "--ids", "--layer", "--head", "--allow-special", "--seed", "--weights", "--dtype", "--json", *MODEL,
    },
    "train-step": {
        "--file", "--ids", "--pad", "--allow-special", "--optimizer", "--lr", "--momentum", "--blocks", "--seed",
        "--weights", "--dtype", "--json", *MODEL,
    },
}  # fmt: skip


def flags(command: Any) -> set[str]:
    options = (param for param in command.params if param.param_type_name == "option")
    return {flag for option in options for flag in (*option.opts, *option.secondary_opts)}


def examples(command: Any) -> list[list[str]]:
    """Calls of tfinspect in the examples of a command's help, as words."""
    lines = re.findall(r"^ +(tfinspect .*)$", command.help, re.MULTILINE)
    return [shlex.split(call)[1:] for line in lines for call in re.split(r" \| ", line) if call.startswith("tfinspect")]


def test_commands_and_flags_are_these() -> None:
    assert {name: flags(command) for name, command in GROUP.commands.items()} == SURFACE
    assert flags(GROUP) == {"--version"}


@pytest.mark.parametrize("name", SURFACE)
def test_each_command_is_explained_with_two_examples_that_parse(name: str) -> None:
    command = GROUP.commands[name]
    calls = [words[1:] for words in examples(command) if words[0] == name]
    assert re.match(r"[A-Z][^\n]*(\n[^\n]+)?\.", command.help)
    assert len(calls) >= 2
    for words in calls:
        command.make_context(name, words)


@pytest.mark.parametrize("name", SURFACE)
def test_each_flag_and_argument_is_explained(name: str) -> None:
    for param in GROUP.commands[name].params:
        assert param.help, param.opts
        assert param.help.endswith((".", "...")), param.opts


def test_model_flags_mean_the_same_in_each_command() -> None:
    said: dict[str, set[tuple[str, str]]] = {}
    for command in GROUP.commands.values():
        for param in command.params:
            if set(param.opts) & MODEL:
                said.setdefault(param.opts[0], set()).add((param.help, str(param.metavar)))
    assert {flag: len(texts) for flag, texts in said.items()} == dict.fromkeys(said, 1)
    assert len(said) == 45
