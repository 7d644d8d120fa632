"""What the spec implies for every tensor, held against a real forward pass, over generated specs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.specs import specs
from tfinspect.dims import bind, sizes
from tfinspect.inspectors.trace import trace
from tfinspect.spec import ModelSpec


@st.composite
def batches(draw: st.DrawFn) -> tuple[ModelSpec, list[list[int]]]:
    spec = draw(specs())
    n = draw(st.integers(1, spec.n_ctx))
    ids = st.lists(st.integers(0, spec.vocab_size - 1), min_size=n, max_size=n)
    return spec, draw(st.lists(ids, min_size=1, max_size=3))


@given(batches(), st.booleans())
@settings(max_examples=100)
def test_shapes_parameters_and_multiplications_agree(batch: tuple[ModelSpec, list[list[int]]], meta: bool) -> None:
    spec, ids = batch
    report = trace(spec, ids=ids, meta=meta, ops=True, last=not meta)
    assert [a.verdict for a in report.agreements] == ["agree"] * 4
    bound = bind(spec, len(ids), len(ids[0]))
    assert all(row.sizes == sizes(row.dims, bound) for row in report.tensors)
    for row in report.tensors:  # each matrix product stands on the row that it makes
        assert row.multiplications == sum(op.multiplications for op in row.ops), row.name


@given(batches())
@settings(max_examples=25)
def test_meta_and_cpu_see_the_same_tensors(batch: tuple[ModelSpec, list[list[int]]]) -> None:
    spec, ids = batch
    on_cpu, on_meta = trace(spec, ids=ids), trace(spec, ids=ids, meta=True)
    assert on_cpu.tensors == on_meta.tensors
