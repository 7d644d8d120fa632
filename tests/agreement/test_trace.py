"""What the spec implies for every tensor, held against a real forward pass, over generated specs."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.specs import specs
from tfinspect.closed_form.shapes import expected
from tfinspect.dims import bind, sizes
from tfinspect.inspectors.trace import trace
from tfinspect.spec import ModelSpec


@st.composite
def batches(draw: st.DrawFn) -> tuple[ModelSpec, dict[str, Any]]:
    """A spec of any architecture with rows to read, and sources of another length where it reads any."""
    spec, n_rows = draw(specs()), draw(st.integers(1, 3))

    def rows() -> list[list[int]]:
        n = draw(st.integers(1, spec.n_ctx))
        ids = st.lists(st.integers(0, spec.vocab_size - 1), min_size=n, max_size=n)
        return draw(st.lists(ids, min_size=n_rows, max_size=n_rows))

    reads_a_source = spec.architecture == "encoder_decoder" and draw(st.booleans())
    return spec, {"ids": rows(), "source_ids": rows() if reads_a_source else []}


@given(batches(), st.booleans())
@settings(max_examples=120)
def test_shapes_parameters_and_multiplications_agree(batch: tuple[ModelSpec, dict[str, Any]], meta: bool) -> None:
    spec, given = batch
    generates = spec.architecture != "encoder" and spec.head == "lm"
    report = trace(spec, **given, meta=meta, ops=True, last=generates and not meta)
    assert [a.verdict for a in report.agreements] == ["agree"] * 4
    bound = bind(spec, report.batch, report.seq_len, n_source=report.source_len)
    assert all(row.sizes == sizes(row.dims, bound) for row in report.tensors)
    for row in report.tensors:  # each matrix product stands on the row that it makes
        assert row.multiplications == sum(op.multiplications for op in row.ops), row.name
    labels = [(row.stack, row.block, row.label) for row in report.tensors]
    assert len(set(labels)) == len(labels)


@given(batches())
@settings(max_examples=25)
def test_meta_and_cpu_see_the_same_tensors(batch: tuple[ModelSpec, dict[str, Any]]) -> None:
    spec, given = batch
    on_cpu, on_meta = trace(spec, **given), trace(spec, **given, meta=True)
    assert on_cpu.tensors == on_meta.tensors


@given(batches(), st.sampled_from(("d_model", "d_ff", "n_layers", "vocab_size", "activation", "norm", "qkv_bias")))
@settings(max_examples=40)
def test_another_model_has_other_tensors(batch: tuple[ModelSpec, dict[str, Any]], field: str) -> None:
    """What is expected of one model does not pass for another that differs in one field."""
    spec, _ = batch
    changes: dict[str, dict[str, Any]] = {
        "d_model": {"d_model": spec.d_model + spec.n_heads * 2},
        "activation": {"activation": "relu" if spec.gated else "swiglu"},
        "norm": {"norm": "rmsnorm", "norm_bias": False} if spec.norm_bias else {"final_norm": not spec.final_norm},
        "qkv_bias": {"qkv_bias": not spec.qkv_bias},
        "d_ff": {"d_expert": spec.d_expert + 1} if spec.n_experts else {"d_ff": spec.d_ff + 1},
    }
    changed = changes.get(field) or {field: getattr(spec, field) + 1}
    one, other = (
        [(e.name, e.dims, sizes(e.dims, bind(s, 1, 1, n_source=1)), e.params) for e in expected(s, 1, 1)]
        for s in (spec, spec.replace(**changed))
    )
    assert one != other
