"""Folds hide rows and lose none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tfinspect.results.folding import LONGEST, first_to_last, patterns, repeats


def test_twelve_blocks_and_a_norm() -> None:
    assert list(repeats(["block"] * 12 + ["norm"])) == [(0, 1, 12), (12, 1, 1)]


def test_a_pattern_of_two() -> None:
    assert list(repeats(["conv", "relu"] * 3 + ["pool"])) == [(0, 2, 3), (6, 1, 1)]


@given(st.lists(st.sampled_from("abc"), max_size=40))
def test_every_place_is_in_one_fold_and_each_fold_repeats(signatures: list[str]) -> None:
    at = 0
    for place, length, times in repeats(signatures):
        assert place == at
        assert 1 <= length <= LONGEST
        pattern = signatures[place : place + length]
        assert signatures[place : place + length * times] == pattern * times
        at += length * times
    assert at == len(signatures)


def test_paths_by_their_pattern() -> None:
    assert patterns(["h.0.mlp", "h.0.attn2", "h.11.mlp", "fc1", "7"]) == {
        "h.*.mlp": ["h.0.mlp", "h.11.mlp"],
        "h.0.attn2": ["h.0.attn2"],
        "fc1": ["fc1"],
        "7": ["7"],
    }
    assert patterns(["1.layers.0.fc", "1.layers.1.fc"]) == {"1.layers.*.fc": ["1.layers.0.fc", "1.layers.1.fc"]}


def test_a_fold_names_its_ends() -> None:
    assert first_to_last("h.1", "h.11") == "h.1 to h.11"
    assert first_to_last("act", "act") == "act"
