"""What a report says of the model that it is about."""

from __future__ import annotations

import pytest

from tfinspect.presets import PRESETS
from tfinspect.results.subject import Subject
from tfinspect.sources.resolve import resolve
from tfinspect.spec import ModelSpec


@pytest.mark.parametrize("name", PRESETS)
def test_a_bare_spec_and_a_source_of_the_same_model_are_the_same_subject(name: str) -> None:
    assert Subject.of(PRESETS[name].spec) == Subject.of(resolve(name))


def test_a_spec_that_no_one_published_is_custom() -> None:
    subject = Subject.of(ModelSpec(n_layers=11))
    assert (subject.name, subject.remark, subject.derived) == ("custom", "", ())


def test_a_subject_is_written_as_its_source_is() -> None:
    source = resolve(d_model=1_536)
    assert Subject.of(source).to_dict() == source.to_dict()
    assert Subject.of(source).notes()[1] == "Chosen by rule: d_ff = 4·d = 6144; heads = d/64 = 24."
