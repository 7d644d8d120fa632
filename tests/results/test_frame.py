"""Tables as data frames: figures as they are, and each once."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import tfinspect
from tests.checkpoints import write
from tfinspect.results.frame import frame
from tfinspect.results.report import Answer
from tfinspect.results.table import Column, Given, Row, Shades, Table


@dataclasses.dataclass(frozen=True)
class Two(Answer):
    """Two tables, the second of which is the main one."""

    schema: ClassVar[str] = "tfinspect.two/1"
    main_table: ClassVar[str] = "Work"
    conventions: str = ""
    agreements: tuple[()] = ()

    def tables(self) -> tuple[Table, ...]:
        columns = (Column("n", "n", "count"),)
        return (Table("Input", columns, (Row({"n": 1}),)), Table("Work", columns, (Row({"n": 2}),)))

    def to_dict(self) -> dict[str, Any]:
        return {}


def test_a_table_that_is_not_there() -> None:
    pytest.importorskip("pandas")
    for wanted in (2, -3, "Weights", ""):
        with pytest.raises(tfinspect.InputError, match=r"there is no table .* here; the tables are: 0 Input; 1 Work"):
            Two().to_dataframe(wanted)


def test_a_table_by_index_and_by_the_beginning_of_its_title() -> None:
    pytest.importorskip("pandas")
    figures = {wanted: int(Two().to_dataframe(wanted)["n"][0]) for wanted in (None, 0, -2, "Input", "inp", "WORK")}
    assert figures == {None: 2, 0: 1, -2: 1, "Input": 1, "inp": 1, "WORK": 2}


def test_the_main_table_by_its_place() -> None:
    pytest.importorskip("pandas")
    reading = tfinspect.reconcile(163_037_184, tfinspect.preset("gpt2"))
    assert reading.to_dataframe().attrs["title"] == "What gives 163,037,184"


def test_the_ledger_of_gpt2_small_without_its_total() -> None:
    pytest.importorskip("pandas")
    ledger = tfinspect.params(tfinspect.ModelSpec(), check=False)
    table = ledger.to_dataframe()
    assert list(table.columns) == ["component", "formula", "params", "share"]
    assert table["params"].dtype == "int64"
    assert int(table["params"].sum()) == ledger.total == 124_439_808
    assert table["share"].sum() == pytest.approx(1, abs=1e-12)
    assert table.attrs["titles"]["params"] == "parameters"
    assert table.attrs["title"] == "Parameters by component"


def test_a_trace_is_whole_where_its_table_folds_blocks() -> None:
    pytest.importorskip("pandas")
    trace = tfinspect.trace(tfinspect.ModelSpec(), ids=[[1, 2, 3]], meta=True)
    table = trace.to_dataframe()
    assert len(table) == len(trace.tensors) > 12 * 10
    assert int(table["params"].sum()) == 124_439_808
    assert table["multiplications"].dtype == "Int64"
    assert int(table["multiplications"].sum()) == trace.multiplications
    assert table["heading"][0] == "Step 1: text becomes token ids"


def test_a_checkpoint_is_its_tensors(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    shapes = {f"h.{layer}.weight": (3, layer + 1) for layer in range(300)}
    held = tfinspect.params(tfinspect.headers(write(tmp_path / "model.safetensors", shapes)))
    table = held.to_dataframe()
    assert list(table["name"]) == list(shapes)
    assert int(table["params"].sum()) == held.total == 3 * 300 * 301 // 2


def test_calls_of_a_module_have_their_whole_path() -> None:
    pytest.importorskip("pandas")
    block = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    model = nn.Sequential(block, nn.Sequential(block, nn.Linear(4, 2)))
    table = tfinspect.trace(model, torch.zeros(3, 4)).to_dataframe()
    calls = list(zip(table["path"], table["nth"], table["level"], strict=True))
    assert calls == [
        ("", 1, 0), ("0", 1, 1), ("0.0", 1, 2), ("0.1", 1, 2),
        ("1", 1, 1), ("1.0", 2, 2), ("1.0.0", 2, 3), ("1.0.1", 2, 3), ("1.1", 1, 2),
    ]  # fmt: skip


def test_gradients_are_whole_where_their_table_folds_blocks() -> None:
    pytest.importorskip("pandas")
    step = tfinspect.train_step(tfinspect.preset("tiny-568").spec.replace(n_layers=4), ids=[[1, 2, 3]])
    assert len(step.to_dataframe("Gradients by tensor")) == len(step.gradients)


def test_tokens_are_whole_where_their_table_stops() -> None:
    pytest.importorskip("pandas")
    report = tfinspect.tokens("a b" * 1_000, merges=True)
    assert len(report.to_dataframe()) == report.texts[0].n_tokens > 1_000
    assert len(tfinspect.decode([64] * 1_000).to_dataframe()) == 1_000


def test_weights_are_whole_where_their_table_stops() -> None:
    pytest.importorskip("pandas")
    spec = tfinspect.preset("tiny-568").spec.replace(n_ctx=40)
    weights = tfinspect.attention(spec, ids=[[1] * 40]).to_dataframe()
    assert weights.shape == (40, 1 + 40)
    assert weights.drop(columns="row").sum(axis=1).to_list() == pytest.approx([1] * 40, abs=1e-6)
    assert weights["key39"].count() == 1  # all rows but the last do not see it


def test_rows_that_sum_others_are_left_out_and_headings_are_a_column() -> None:
    pytest.importorskip("pandas")
    rows = (
        Row({"x": Given("first")}, "group"),
        Row({"x": "a", "n": 1}, indent=1),
        Row({"x": "b", "n": 2}, indent=2),
        Row({"x": "both", "n": 3}, "subtotal"),
        Row({"x": "7 more", "n": 70}, "fold"),
        Row({"x": "total", "n": 73}, "total"),
    )
    table = frame(Table("T", (Column("x", "x"), Column("n", "n", "count")), rows))
    assert table.to_dict("list") == {"heading": ["first"] * 2, "level": [1, 2], "x": ["a", "b"], "n": [1, 2]}
    assert type(table["heading"][0]) is str


def test_columns_that_no_page_draws_are_there() -> None:
    pytest.importorskip("pandas")
    columns = (Column("x", "x"), Column("path", "path", data_only=True))
    assert frame(Table("T", columns, (Row({"x": "c", "path": "a.b.c"}),)))["path"][0] == "a.b.c"


def test_words_in_the_place_of_numbers() -> None:
    pandas = pytest.importorskip("pandas")
    rows = tuple(Row({"n": cell}) for cell in (0.5, "−∞", "n/a"))
    half, masked, none = frame(Table("T", (Column("n", "n", "real"),), rows))["n"]
    assert (half, masked) == (0.5, -math.inf)
    assert pandas.isna(none)


def test_shades_are_their_parts() -> None:
    pytest.importorskip("pandas")
    table = frame(Table("T", (Column("s", "", "shades"),), (Row({"s": Shades((0.5, None))}),)))
    assert table["s"][0] == (0.5, None)


@given(st.lists(st.none() | st.integers(-(2**70), 2**70) | st.integers(-9, 9), min_size=1))
def test_integers_are_exact_at_any_size(numbers: list[int | None]) -> None:
    pandas = pytest.importorskip("pandas")
    rows = tuple(Row({"n": number}) for number in numbers)
    series = frame(Table("T", (Column("n", "n", "count"),), rows))["n"]
    assert [None if pandas.isna(value) else int(value) for value in series] == numbers
    known = [number for number in numbers if number is not None]
    if all(-(2**63) <= number < 2**63 for number in known):
        assert str(series.dtype) == ("int64" if len(known) == len(numbers) else "Int64")


@given(st.lists(st.floats(allow_nan=False) | st.integers(-(2**60), 2**60), min_size=1))
def test_reals_are_as_they_are(numbers: list[float]) -> None:
    pytest.importorskip("pandas")
    rows = tuple(Row({"n": number}) for number in numbers)
    assert list(frame(Table("T", (Column("n", "n", "real"),), rows))["n"]) == numbers


@given(st.lists(st.none() | st.text(st.characters(categories=("L", "Z", "C")))))
def test_texts_are_as_they_are(texts: list[str | None]) -> None:
    pytest.importorskip("pandas")
    rows = tuple(Row({"x": text}) for text in texts)
    assert list(frame(Table("T", (Column("x", "x"),), rows))["x"]) == texts


PROGRAM = """
import sys
sys.modules["pandas"] = None  # as where it is not installed
import tfinspect
ledger = tfinspect.params(tfinspect.ModelSpec(), check=False)
try:
    ledger.to_dataframe()
except tfinspect.MissingExtra as error:
    print(error)
assert "rich" not in sys.modules
ledger._repr_html_()
print(sorted({"torch", "numpy", "rich"} & set(sys.modules)))
"""


def test_without_pandas_the_error_names_the_extra_and_html_needs_nothing() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [
        'a data frame needs pandas, which is not installed; pip install "tfinspect[pandas]" brings it',
        "[]",
    ]
