"""Inputs as they are written on the command line."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tfinspect.errors import InputError
from tfinspect.sources.input_spec import BYTES, DTYPES, InputSpec, ListSpec, Literal, MappingSpec, TensorSpec, parse

names = st.from_regex(r"[A-Za-z_][A-Za-z_0-9]{0,8}", fullmatch=True)
axes = st.lists(st.tuples(st.none() | names, st.integers(0, 300)), max_size=5).map(tuple)
tensors = st.one_of(
    st.builds(TensorSpec, st.sampled_from(sorted(BYTES)), axes, st.none()),
    st.builds(TensorSpec, st.sampled_from(["int64", "int32", "uint8"]), axes, st.integers(1, 256)),
)
literals = st.builds(
    Literal,
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
)  # fmt: skip


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    items = st.dictionaries(names | st.text(max_size=5), inner, max_size=3).map(lambda found: tuple(found.items()))
    return st.builds(MappingSpec, items) | st.builds(
        ListSpec, st.lists(inner, max_size=3).map(tuple), st.booleans()
    )  # fmt: skip


values = st.recursive(tensors | literals, nested, max_leaves=6)


@given(st.builds(InputSpec, st.none() | names, values))
def test_what_is_written_out_reads_back_as_itself(spec: InputSpec) -> None:
    assert parse(str(spec)) == spec


def outcome(text: str) -> InputSpec | InputError:
    try:
        return parse(text)
    except InputError as error:
        return error


@given(st.text(max_size=40) | st.text("int64f32bol[]{}()<=,:\"' -_.0123\\T", max_size=40))
def test_any_text_is_an_input_or_an_error_in_one_line(text: str) -> None:
    found = outcome(text)
    if isinstance(found, InputError):
        assert len(str(found).splitlines()) == 1
        assert found.hint
    else:
        assert parse(str(found)) == found


@given(st.builds(InputSpec, st.none() | names, values), st.data())
def test_a_damaged_input_is_an_input_or_an_error(spec: InputSpec, data: st.DataObject) -> None:
    text = str(spec)
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.text("[](){}<,=:x1-\"'\\", max_size=2)) + text[at + 1 :]
    found = outcome(damaged)
    assert parse(str(found)) == found if isinstance(found, InputSpec) else found.hint


def test_each_spelling_is_a_dtype_of_torch() -> None:
    for spelling, name in DTYPES.items():
        dtype = getattr(torch, name)
        assert dtype.itemsize == BYTES[name]
        assert getattr(torch, spelling, dtype) is dtype
        assert parse(f"{spelling}[2]") == parse(f"torch.{name}[2]") == InputSpec(None, TensorSpec(name, ((None, 2),)))


def test_inputs_of_every_kind() -> None:
    assert parse("int64[B=2,T=16]<50257") == InputSpec(None, TensorSpec("int64", (("B", 2), ("T", 16)), 50257))
    assert parse(" mask = bool [ 2 , 16 ] ") == InputSpec("mask", TensorSpec("bool", ((None, 2), (None, 16))))
    assert parse("f32[]").value == TensorSpec("float32", ())
    assert parse("flag=True") == InputSpec("flag", Literal(True))
    assert parse("scale=-.5e1") == InputSpec("scale", Literal(-5.0))
    assert parse("int64[1_024]<50_257").value == TensorSpec("int64", ((None, 1024),), 50257)
    assert parse("'it\\'s'").value == Literal("it's")
    assert parse("x=(f32[2,3], [f32[1], None])") == InputSpec(
        "x",
        ListSpec(
            (
                TensorSpec("float32", ((None, 2), (None, 3))),
                ListSpec((TensorSpec("float32", ((None, 1),)), Literal(None)), False),
            ),
            True,
        ),
    )
    assert parse("(f32[1])").value == TensorSpec("float32", ((None, 1),))
    assert parse("(f32[1],)").value == ListSpec((TensorSpec("float32", ((None, 1),)),), True)
    batch = parse("batch={ids: int64[2,16]<100, 'a mask': bool[2,16],}")
    assert [str(tensor) for tensor in batch.tensors()] == ["int64[2,16]<100", "bool[2,16]"]
    assert (
        math.prod(TensorSpec("bfloat16", ((None, 3), (None, 5))).shape) * 2
        == next(parse("bf16[3,5]").tensors()).n_bytes
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "--input is empty"),
        ("   ", "--input is empty"),
        ("int46[2]", "'int46' is no dtype at character 1; did you mean int64?"),
        ("x=floot32[2]", "'floot32' is no dtype at character 3; did you mean float32?"),
        ("hello", "a text takes quotes: '\"hello\"'"),
        ("int64", "expected [ at the end; sizes stand in square brackets: int64[2,16]"),
        ("int64(2,16)", "expected [, not '(2,16)', at character 6"),
        ("int64[2,,3]", "expected a size, not ',3]', at character 9"),
        ("int64[2,T]", "expected a size, not 'T]', at character 9; an axis is named with its size: T=16"),
        ("int64[2x16]", "expected a comma or ], not 'x16]', at character 8; sizes are separated by commas"),
        ("int64[2,16", "expected a comma or ] at the end"),
        ("int64[2,-16]", "the size -16 is below 0 at character 9"),
        ("f32[2]<5", "float32 takes no bound at character 7"),
        ("bool[2]<2", "bool takes no bound"),
        ("int64[2]<0", "the bound 0 is not from 1 to 9223372036854775807 at character 10"),
        ("int8[2]<129", "the bound 129 is not from 1 to 128"),
        ("int64[2]<50,257", "expected the end, not ',257', at character 12; write a number without commas"),
        ("int64[2]<=5", "expected a bound, not '=5', at character 10"),
        ("2,16", "sizes follow a dtype: float32[2,16]"),
        ("f32[9223372036854775808]", "is more than torch can address"),
        ("f32[3037000500,3037000500]", "is more than torch can address"),
        ("f32[0,9223372036854775808]", "is more than torch can address"),
        (f"f32[{'9' * 41}]", "a number of 41 digits is no size"),
        (f"f32[{','.join('1' * 65)}]", "expected at most 64 axes"),
        ("[" * 40, "nested deeper than 32"),
        ("x" * 10_001, "--input has 10,001 characters"),
        ("{a: 1, a: 2}", "the key 'a' stands twice at character 8"),
        ("{1: 2}", "expected a key, not '1: 2}', at character 2"),
        ("'\\x'", "is no text at character 1"),
        ("f32[2] f32[3]", "expected the end, not 'f32[3]', at character 8"),
        ("1e999", "'1e999' is no finite number at character 1"),
        ("%", "expected a value, not '%', at character 1"),
    ],
)
def test_an_error_says_what_was_expected_and_where(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert said in str(caught.value)
    assert str(caught.value).isascii()
