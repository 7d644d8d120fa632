"""``tfinspect compare`` as a user meets it."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Program


def test_gpt1_against_gpt2(tfinspect: Program) -> None:
    ended = tfinspect("compare", "gpt1", "gpt2")
    assert (ended.code, ended.err) == (0, "")
    words = " ".join(ended.out.split())
    # chapter B, 15.1.2: GPT-1 LN(x + Sublayer(x)) without a final norm; GPT-2 x + Sublayer(LN(x)) with one
    assert "a sublayer LN(x + Sublayer(x)) x + Sublayer(LN(x))" in words
    assert "final norm no yes" in words
    assert "vocabulary V 40,478 50,257" in words
    assert "context n_ctx 512 1,024" in words
    assert "total 116,534,784 124,439,808" in words
    assert words.count("agree gpt") == 4


def test_the_three_kinds_of_layer(tfinspect: Program) -> None:
    ended = tfinspect("compare", "vaswani-base", "gpt2", "--no-check", "--json")
    layers = {layer["title"]: layer for model in json.loads(ended.out)["models"] for layer in model["layers"]}
    # chapter A, 8.2: no mask and two parts; causal, cross-attention and three; causal and two
    seen = {title: (layer["mask"], layer["cross_attention"], layer["parts"]) for title, layer in layers.items()}
    assert seen == {
        "encoder block": ("none", False, 2),
        "decoder block": ("causal", True, 3),
        "block": ("causal", False, 2),
    }


def test_the_document_says_what_the_page_says(tfinspect: Program) -> None:
    document = json.loads(tfinspect("compare", "gpt1", "gpt2", "--n", "1", "--json").out)
    assert document["schema"] == "tfinspect.comparison/1"
    assert document["differing_fields"] == ["vocab_size", "n_ctx", "placement", "final_norm"]
    gpt2 = document["models"][1]
    assert gpt2["total_params"] == 124_439_808
    assert gpt2["forward_multiplications"] == gpt2["decode_step_multiplications"] == 123_550_464
    assert {a["verdict"] for a in document["agreements"]} == {"agree"}
    assert len(document["agreements"]) == 4


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "error: compare takes two or more models, and none was given"),
        (("gpt2",), "error: compare takes two or more models, and 1 was given"),
        (("gpt2", "no-such-model"), "error: "),
        (("gpt2", "gpt1", "--n", "0"), "error: n (--n) must be an integer of at least 1, not 0"),
        (("gpt2",) * 17, "error: 17 models were given"),
    ],
)
def test_what_cannot_be_compared_is_one_line(tfinspect: Program, arguments: tuple[str, ...], complaint: str) -> None:
    ended = tfinspect("compare", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(complaint)
    assert ended.err.count("\n") == 1
