"""A report as text and as one JSON document."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfinspect.render.output import LINE, Output, said
from tfinspect.render.output import document as parts_of_document
from tfinspect.results.agreement import Agreement
from tfinspect.results.table import Column, Row, Table

MODEL = "torch model on the meta device"


@dataclasses.dataclass(frozen=True)
class Answer:
    """A report of one value."""

    value: Any
    agreements: tuple[Agreement, ...] = ()
    schema: ClassVar[str] = "tfinspect.answer/1"
    conventions: str = "What is counted."

    def tables(self) -> tuple[Table, ...]:
        return (Table("Answer", (Column("value", "value"),), (Row({"value": str(self.value)}),)),)

    def to_dict(self) -> dict[str, Any]:
        return {"value": self.value}


def document(report: Answer, encoding: str = "utf-8") -> str:
    return "".join(parts_of_document(report, encoding))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON, st.sampled_from(["ascii", "cp1252", "utf-8"]))
def test_json_gives_back_the_answer_exactly_in_any_encoding(value: Any, encoding: str) -> None:
    text = document(Answer(value), encoding)
    text.encode(encoding)
    assert json.loads(text)["value"] == value


def test_json_names_its_schema_and_the_agreements() -> None:
    agreement = Agreement("parameters", 568, 568, MODEL)
    content = json.loads(document(Answer(1, (agreement,))))
    assert list(content) == ["schema", "tfinspect", "value", "agreements"]
    assert content["schema"] == "tfinspect.answer/1"
    assert content["agreements"][0]["verdict"] == "agree"


def test_json_keeps_characters_where_the_stream_has_them() -> None:
    assert "蒔絵師" in document(Answer("蒔絵師"), "utf-8")
    assert document(Answer("蒔絵師"), "cp1252").isascii()


def test_what_json_has_no_literal_for_is_a_string() -> None:
    answer = Answer({"std": [float("nan"), float("inf")], "min": float("-inf")})
    assert json.loads(document(answer))["value"] == {"std": ["NaN", "Infinity"], "min": "-Infinity"}


def test_json_holds_one_token_or_tensor_on_a_line_and_is_never_held_whole() -> None:
    tokens = [{"position": at, "id": 164, "parts": [{"character": "蒔", "first_byte": 1}]} for at in range(10_000)]
    parts = list(parts_of_document(Answer([{"tokens": tokens, "std": float("nan")}])))
    text = "".join(parts)
    assert json.loads(text)["value"] == [{"tokens": tokens, "std": "NaN"}]
    assert max(map(len, parts)) <= LINE
    assert all(token in text for token in ('{"position": 0, "id"', '\n        {"position": 9999, "id"'))


@pytest.mark.parametrize(
    ("agreement", "words"),
    [
        (
            Agreement("parameters", 124_439_808, 124_439_808, MODEL),
            "parameters: closed form 124,439,808 = measured 124,439,808 (torch model on the meta device)",
        ),
        (
            Agreement("FLOPs", 10, 9, MODEL, coverage=(148, 148)),
            "FLOPs: closed form 10 ≠ measured 9 (torch model on the meta device); ops counted 148 of 148",
        ),
        (
            Agreement("FLOPs", 10, 9, MODEL, uncounted=("aten.mm",), coverage=(147, 148)),
            "FLOPs: closed form 10, measured at least 9 (torch model on the meta device); ops counted 147 of 148; "
            "uncounted: aten.mm",
        ),
        (
            Agreement("FLOPs", 10, None, MODEL, reason="n is beyond n_ctx"),
            "FLOPs: closed form 10; n is beyond n_ctx",
        ),
        (
            Agreement("mean", 0.5, 0.50001, MODEL, tolerance=0.001),
            "mean: closed form 0.5000 ≈ measured 0.5000 (torch model on the meta device), within 0.001000",
        ),
    ],
)
def test_an_agreement_is_said_plainly(agreement: Agreement, words: str) -> None:
    assert said(agreement) == words


def test_the_measurement_is_named_once() -> None:
    assert said(Agreement("MLP", 5, 5, MODEL), MODEL) == "MLP: closed form 5 = measured 5"


def test_text_comes_in_parts_and_json_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer("x", (Agreement("parameters", 568, 568, MODEL),))
    written = {}
    for as_json in (False, True):
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        output, lengths = Output(as_json), []
        for part in (output.show, output.show_agreements, output.finish):
            part(answer)
            lengths.append(sys.stdout.tell())
        written[as_json] = lengths, sys.stdout.getvalue()  # type: ignore[attr-defined]
    (report, agreements, end), text = written[False]
    assert 0 < report < agreements == end
    assert "What is counted.\n\nAnswer\nvalue\n─────\nx\n" in text
    assert "agree  parameters: closed form 568 = measured 568" in text
    (report, agreements, end), text = written[True]
    assert 0 == report == agreements < end
    assert json.loads(text)["value"] == "x"
