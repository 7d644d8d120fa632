"""docs/reference/json.md names every key that a command writes, and no other."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests import headers, stored
from tests.checkpoints import examples
from tests.docs.console import ROOT
from tfinspect import results
from tfinspect.cli.app import main

PAGE = (ROOT / "docs/reference/json.md").read_text("utf-8")

#: Where the modules are that the calls below name.
MODULES = "tests.docs.modules"

#: Option sets that together show every key and every type of its value.
CALLS: Mapping[str, tuple[list[str], ...]] = {
    "tfinspect.tokens/1": (
        ["tokenize", "", "蒔絵", " 😊"],
        ["tokenize", "--merges", "--allow-special", "a<|endoftext|>", "a" * 70, "caf\udce9"],
    ),
    "tfinspect.decoded/1": (["tokenize", "--decode", "164 240 242 30325 232 31373"], ["tokenize", "--decode", "164"]),
    "tfinspect.trace/1": (
        ["trace", "--preset", "tiny-568", "--ids", "3,1", "--stats"],
        ["trace", "--preset", "tiny-568", "--ids", "3,1", "--ops", "--last"],
        ["trace", "--preset", "tiny-568", "--vocab", "500000", "--ids", "3", "--last"],
        ["trace", "--meta", "--d", "64", "--layers", "1", "--pad", "hello", "hello world"],
        ["trace", "--preset", "tiny-568", "--architecture", "encoder_decoder", "--ids", "3,1", "--source-ids", "4"],
        ["trace", "--preset", "tiny-568", "--architecture", "encoder_decoder", "--vocab", "60000", "hi"],
        ["trace", "--preset", "tiny-568", "--experts", "2", "--experts-per-token", "1", "--ids", "3,1"],
        ["trace", "--weights", stored.tiny(), "--ids", "3,1"],
    ),
    "tfinspect.params/1": (
        ["params", "--preset", "tiny-568", "--per-tensor", "--expect", "568"],
        ["params", "--d", "64", "--no-check"],
        ["params", "--no-check"],
        ["params", "--layers", "2147483647"],
        ["params", "mixtral-8x7b", "--no-check"],
    ),
    "tfinspect.reconciliation/1": (
        ["reconcile", "123551232", "gpt2", "--tokens", "300B"],
        ["reconcile", "0.8675x", "gpt2"],
        ["reconcile", "477.33", "tiny-568", "--architecture", "encoder", "--pooler", "--n", "3"],
        ["reconcile", "470.5", "tiny-568", "--architecture", "encoder", "--pooler", "--n", "3"],
        ["reconcile", "124443648", "gpt2"],
    ),
    "tfinspect.stored/1": (
        ["params", headers.sharded(), "--per-tensor", "--expect", "896"],
        ["params", headers.sharded(), "--no-check"],
        ["params", headers.single()],
    ),
    "tfinspect.module_trace/1": (
        ["trace", "--module", f"{MODULES}:Many", "--input", "f32[2,4]", "--input", "scale=2.0", "--ops", "--stats"],
        ["trace", "--module", f"{MODULES}:Many", "--input", "f32[2,4]", "--time", "--memory"],
        ["trace", "--module", f"{MODULES}:Attends", "--input", "f32[2,5,8]"],
        ["trace", "--module", f"{MODULES}:Attends", "--input", "f32[2,5,8]", "--train"],
        ["trace", "--module", f"{MODULES}:Lazy", "--input", "f32[2,4]", "--meta"],
        ["trace", "--module", f"{MODULES}:Fails", "--input", "f32[2,4]"],
    ),
    "tfinspect.module_params/1": (
        ["params", "--module", f"{MODULES}:Many", "--expect", "124443648"],
        ["params", "--module", f"{MODULES}:Lazy"],
    ),
    "tfinspect.module_flops/1": (
        ["flops", "--module", f"{MODULES}:Many", "--input", "f32[2,4]", "--input", "scale=2.0"],
        ["flops", "--module", f"{MODULES}:Lazy", "--input", "f32[2,4]"],
    ),
    "tfinspect.presets/1": (["presets"], ["presets", "--search", "tiny"]),
    "tfinspect.comparison/1": (
        ["compare", "gpt1", "tiny-568"],
        ["compare", "mixtral-8x7b", "vaswani-base", "bert-base", "--no-check"],
    ),
    "tfinspect.check/1": (
        ["check", examples("whole")],
        ["check", examples("faulty"), "--no-check"],
        ["check", examples("strange"), "--no-check"],
        ["check", f"{examples('alone')}/model.safetensors", "--no-check"],
    ),
    "tfinspect.flops/1": (
        ["flops", "--preset", "tiny-568", "--sweep", "8:64"],
        ["flops", "--preset", "tiny-568", "--n", "4", "--passes", "--rules"],
        ["flops", "t5-small", "--n", "3", "--source-len", "2", "--passes", "--rules", "--no-check"],
        ["flops", "mixtral-8x7b", "--n", "3", "--passes", "--rules", "--no-check"],
        ["flops", "--preset", "tiny-568", "--window", "1", "--causal", "half", "--no-check"],
        ["flops", "--n", "0", "--no-check"],
        ["flops", "--n", str(10**20)],
    ),
    "tfinspect.generation/1": (
        ["generate", "--preset", "tiny-568", "--ids", "3,1", "--ids", "1,5", "--max-new", "2"],
        ["generate", "--preset", "tiny-568", "--ids", "3", "--max-new", "1", "--no-cache", "--no-check"],
        ["generate", "--weights", stored.tiny(), "--ids", "3", "--max-new", "1", "--no-check"],
        ["generate", "--d", "64", "--layers", "1", "hi", "--max-new", "1", "--no-check"],
        ["generate", "--d", "64", "--layers", "1", "hi", "--max-new", "60", "--top-k", "40000", "--top-p", "0.99"],
    ),
    "tfinspect.train_step/1": (
        ["train-step", "--preset", "tiny-568", "--ids", "3,1,4"],
        ["train-step", "--weights", stored.tiny(), "--ids", "3,1,4"],
        ["train-step", "--d", "64", "--layers", "1", "--untied", "--optimizer", "sgd", "hello world"],
        ["train-step", "--preset", "tiny-568", "--experts", "2", "--experts-per-token", "1", "--ids", "3,1,4"],
    ),
    "tfinspect.attention/1": (
        ["attention", "--preset", "tiny-568", "--ids", "3,1"],
        ["attention", "--weights", stored.tiny(), "--ids", "3,1"],
        ["attention", "--d", "64", "--layers", "1", "hi"],
    ),
    "tfinspect.verify/1": (["verify", "A3", "A4.2", "A5.1", "A7.1", "A8"],),
    "tfinspect.model-checks/1": (
        ["verify", "--module", "tests.verify.models:Tied", "--trials", "1"],
        ["verify", "--module", "tests.verify.models:Unmasked", "--trials", "1"],
    ),
    "tfinspect.claims/1": (["verify", "--list"],),
}  # fmt: skip

#: Arguments of the calls that find something wrong.
FAILING = {"tests.verify.models:Unmasked", "470.5", "124443648", examples("faulty"), examples("strange")}

#: Arguments of the calls that stop before their end.
STOPPED = {f"{MODULES}:Fails"}

#: The page's sections, and the schemas that each speaks of.
SECTIONS: Mapping[str, set[str]] = {
    "Every document": {*CALLS},
    "Agreements": {*CALLS},
    "The model": {
        "tfinspect.trace/1",
        "tfinspect.params/1",
        "tfinspect.reconciliation/1",
        "tfinspect.flops/1",
        "tfinspect.generation/1",
        "tfinspect.attention/1",
        "tfinspect.train_step/1",
        "tfinspect.presets/1",
        "tfinspect.comparison/1",
        "tfinspect.check/1",
    },
    **{f"`{schema}`": {schema} for schema in CALLS},
}

#: Types that the page promises and that no input is known to bring about.
RARE = {
    ("tensors[].stats.mean", "null"), ("tensors[].stats.std", "null"),
    ("tensors[].stats.minimum", "null"), ("tensors[].stats.maximum", "null"),
}  # fmt: skip

#: Keys whose inside the page describes at another place.
ELSEWHERE = {"presets[].spec.": "model.spec.", "models[].model.": "model."}

#: Keys whose inside has the components' names, which the page lists under `components[].component`.
OPEN = ("models[].component_params.",)

Types = dict[str, set[str]]


def types(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each key path of a JSON value with the type of what stands there; array items have the path ``key[]``."""
    if isinstance(value, dict):
        if path:
            yield path, "object"
        for key, item in value.items():
            yield from types(item, f"{path}.{key}" if path else key)
    elif value == []:
        yield path, "array"
    elif isinstance(value, list):
        for item in value:
            for inner, kind in types(item, f"{path}[]"):
                yield (path, f"array of {kind}") if inner == f"{path}[]" else (inner, kind)
    else:
        names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
        yield path, names[type(value)]


def documented(section: str) -> Types:
    """The paths of a section's table with the types that they may have."""
    _, heading, text = PAGE.partition(f"\n## {section}\n")
    assert heading, section
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", text.partition("\n## ")[0], re.MULTILINE)
    assert len({path for path, _ in rows}) == len(rows)
    return {path: set(kinds.strip().split(" or ")) for path, kinds in rows}


@pytest.fixture(scope="module")
def seen() -> dict[str, Types]:
    """For each schema the paths and types of all its calls."""
    found: dict[str, Types] = {schema: defaultdict(set) for schema in CALLS}
    for schema, calls in CALLS.items():
        for words in calls:
            with contextlib.redirect_stdout(io.StringIO()) as written:
                assert main([*words, "--json"]) == (2 if STOPPED & {*words} else 1 if FAILING & {*words} else 0)
            document = json.loads(written.getvalue())
            assert document["schema"] == schema
            for path, kind in types(document):
                if not path.startswith(OPEN):
                    found[schema][_at_home(path)].add(kind)
    return found


@pytest.mark.parametrize("schema", CALLS)
def test_each_key_of_a_document_is_on_the_page(schema: str, seen: dict[str, Types]) -> None:
    promised = set().union(*(documented(section) for section, schemas in SECTIONS.items() if schema in schemas))
    assert seen[schema].keys() - promised == set()


@pytest.mark.parametrize("section", SECTIONS)
def test_each_key_on_the_page_occurs_with_the_types_that_it_names(section: str, seen: dict[str, Types]) -> None:
    for path, promised in documented(section).items():
        found = set().union(*(seen[schema].get(path, set()) for schema in SECTIONS[section]))
        assert found, f"{path} never occurs"
        named = {kind for kind in promised if any(_is(kind, other) for other in found)}
        assert promised - named - {kind for rare, kind in RARE if rare == path} == set(), f"{path}: never so"
        assert all(any(_is(kind, other) for kind in promised) for other in found), f"{path}: also {found}"


def test_each_section_with_keys_is_looked_at() -> None:
    titles = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert {title for title in titles if documented(title)} == SECTIONS.keys()


def test_each_kind_of_result_is_on_the_page() -> None:
    homes = [importlib.import_module(f"tfinspect.results.{m.name}") for m in pkgutil.iter_modules(results.__path__)]
    schemas = {
        cls.schema for home in homes for cls in vars(home).values() if isinstance(getattr(cls, "schema", 0), str)
    }
    assert schemas == CALLS.keys()


def test_a_path_that_is_missing_would_be_seen() -> None:
    seen = dict(types({"a": 1, "b": [{"c": None}, {"c": [2.5]}], "d": [[1]]}))
    assert seen == {
        "a": "integer",
        "b": "array of object",
        "b[].c": "array of number",
        "d": "array of array of integer",
    }
    assert list(types({"empty": []})) == [("empty", "array")]


def _at_home(path: str) -> str:
    """The path under which the page describes a key."""
    inside = next((prefix for prefix in ELSEWHERE if path.startswith(prefix)), "")
    return ELSEWHERE[inside] + path.removeprefix(inside) if inside else path


def _is(named: str, found: str) -> bool:
    """Whether a value of the type that was found has the type that the page names."""
    return (
        named == found
        or named == found.replace("integer", "number")
        or (found == "array" and named.startswith("array of "))
    )
