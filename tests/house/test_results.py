"""Every class of results keeps the contract: a schema, tables, JSON, a notebook's view, data frames."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import nn

import tfinspect
from tests.checkpoints import shapes_of, write
from tests.verify.models import Unmasked
from tfinspect import results
from tfinspect.inspectors.check import check
from tfinspect.inspectors.presets import presets
from tfinspect.render.output import document
from tfinspect.results.report import Answer
from tfinspect.results.table import Shades
from tfinspect.sources.checkpoint_files import checkpoint
from tfinspect.sources.hf_config import from_dict

TINY: Final = tfinspect.preset("tiny-568")
IDS: Final = [[3, 1, 4, 1, 5]]

STACK: Final = nn.Sequential(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.TransformerEncoderLayer(8, 2, 16))

CONFIG: Final[dict[str, Any]] = {
    "model_type": "gpt2", "vocab_size": 97, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 32,
}  # fmt: skip


def saved(folder: Path) -> Path:
    """A checkpoint whose head is untied and whose configuration says that it is tied."""
    write(folder / "model.safetensors", {**shapes_of("gpt2", from_dict(CONFIG).spec), "lm_head.weight": (97, 24)})
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


#: A result of each class, by the class's name, with a folder to make it in.
MADE: Final[Mapping[str, Callable[[Path], Any]]] = {
    "Attention": lambda _: tfinspect.attention(TINY, ids=IDS),
    "Checks": lambda _: tfinspect.checks("A3.1.1", "A4.2", trials=1, explain=True),
    "CheckpointCheck": lambda folder: check(checkpoint(saved(folder))),
    "Claims": lambda _: tfinspect.claims(),
    "Comparison": lambda _: tfinspect.compare([TINY, tfinspect.preset("mixtral-8x7b"), tfinspect.preset("t5-small")]),
    "DecodedIds": lambda _: tfinspect.decode([15496, 11, 164, 240]),
    "Flops": lambda _: tfinspect.flops(TINY, seq_len=4, sweep=(8, 64), passes=True, rules=True),
    "Generation": lambda _: tfinspect.generate(TINY, ids=IDS, max_new=2),
    "ModelChecks": lambda _: tfinspect.model_checks(Unmasked(), trials=1),
    "ModuleFlops": lambda _: tfinspect.flops(STACK, torch.zeros(3, 5, 4)),
    "ModuleParams": lambda _: tfinspect.params(STACK, per_tensor=True),
    "ModuleTrace": lambda _: tfinspect.trace(STACK, torch.zeros(3, 5, 4), ops=True, stats=True, time=True, memory=True),
    "Params": lambda _: tfinspect.params(TINY, per_tensor=True, expect=568),
    "Presets": lambda _: presets("gpt"),
    "Reconciliation": lambda _: tfinspect.reconcile("163M", tfinspect.preset("gpt2")),
    "StoredParams": lambda folder: tfinspect.params(tfinspect.headers(saved(folder)), per_tensor=True),
    "TokenReport": lambda _: tfinspect.tokens("蒔絵 <b>$x$</b>", "", b"\xff", merges=True),
    "Trace": lambda _: tfinspect.trace(TINY, ids=IDS, stats=True, ops=True, last=True),
    "TrainStep": lambda _: tfinspect.train_step(TINY, ids=IDS),
}


def classes() -> dict[str, type]:
    """Every class in results that has a schema, by name."""
    found = {}
    for module in pkgutil.iter_modules(results.__path__, f"{results.__name__}."):
        kinds = (value for value in vars(importlib.import_module(module.name)).values() if isinstance(value, type))
        here = (kind for kind in kinds if kind.__module__ == module.name)
        found.update({kind.__name__: kind for kind in here if isinstance(vars(kind).get("schema"), str)})
    return found


CLASSES: Final = classes()

#: What stands in the place of a number where there is none.
WORDS: Final = ("n/a", "-", "−∞", "shared")


def listed(value: Any) -> Any:
    """A value of JSON's kinds with lists for tuples."""
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()}
    return [listed(item) for item in value] if isinstance(value, list | tuple) else value


@pytest.fixture(scope="module", params=MADE)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = MADE[request.param](tmp_path_factory.mktemp("result"))
    assert type(made).__name__ == request.param
    return made


def test_a_result_of_each_class_is_looked_at() -> None:
    assert MADE.keys() == CLASSES.keys()


@pytest.mark.parametrize("kind", CLASSES.values(), ids=CLASSES)
def test_each_class_is_a_frozen_answer(kind: Any) -> None:
    assert issubclass(kind, Answer)
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_schemas_are_names_with_a_version_each_of_one_class() -> None:
    schemas = [kind.schema for kind in CLASSES.values()]  # type: ignore[attr-defined]
    assert len(set(schemas)) == len(schemas)
    assert all(re.fullmatch(r"tfinspect\.[a-z]+([-_][a-z]+)*/\d+", schema) for schema in schemas)


def test_the_conventions_are_one_line(report: Any) -> None:
    assert report.conventions.isprintable()
    assert report.conventions.strip() == report.conventions != ""


def test_a_dictionary_is_the_same_once_it_was_written(report: Any) -> None:
    """Its keys are text, and its values are of JSON's kinds: nothing changes on the way there and back."""
    there = report.to_dict()
    assert json.loads(json.dumps(there)) == listed(there)
    assert json.loads("".join(document(report)))["schema"] == report.schema


def test_tables_have_titles_and_columns_of_their_own(report: Any) -> None:
    tables = report.tables()
    assert tables
    for table in tables:
        keys = [column.key for column in table.columns]
        assert len(set(keys)) == len(keys) > 0
        assert not {"heading", "level"} & set(keys)  # what a data frame adds
        for row in table.rows:
            said = {key for key, cell in row.cells.items() if cell not in (None, "")}
            assert said <= set(keys), (table.title, said - set(keys))


def test_cells_are_of_the_kind_of_their_column(report: Any) -> None:
    kinds: dict[str, type | tuple[type, ...]] = {
        "count": int, "bytes": int, "binary": int, "share": (int, float), "real": (int, float), "bar": tuple,
        "shades": Shades,
    }  # fmt: skip
    for table in report.tables():
        for row in (row for row in table.rows if row.role == "row"):
            for column in table.columns:
                cell = row.cells.get(column.key)
                kind = str if cell in WORDS else kinds.get(column.kind, str)
                assert cell is None or isinstance(cell, kind), (table.title, column.key, cell)


def test_a_notebook_shows_every_table(report: Any) -> None:
    text = report._repr_html_()
    assert text.count("<table") == len(report.tables())
    assert text.count(" &nbsp;") >= len(report.agreements)


def test_the_text_beside_it_is_one_line(report: Any) -> None:
    bundle = report._repr_mimebundle_(include=None, exclude=None)
    assert bundle == {"text/plain": f"{type(report).__name__}: {report.conventions}"}


def test_each_table_is_a_data_frame(report: Any) -> None:
    pytest.importorskip("pandas")
    tables = report.unfolded().tables()
    assert report.to_dataframe().attrs["title"] in [table.title for table in tables]
    for number, table in enumerate(tables):
        assert len(report.to_dataframe(number)) == sum(row.role == "row" for row in table.rows)


def test_the_search_finds_classes_by_their_schema_alone() -> None:
    """A class that forgot the contract is found, and the contract itself is none of them."""
    assert CLASSES["Params"] is tfinspect.results.params.Params
    assert not {"Answer", "Report", "Table", "Agreement"} & CLASSES.keys()
