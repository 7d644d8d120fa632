"""``tfinspect trace`` as a user meets it."""

from __future__ import annotations

import json

import pytest
from rich.cells import cell_len

from tests.cli.conftest import Program

MAKIE = "蒔絵師が硯箱を"


def test_the_sample_text_on_a_page_of_80_columns(tfinspect: Program) -> None:
    ended = tfinspect("trace", MAKIE, "--last")
    assert (ended.code, ended.err) == (0, "")
    assert max(map(cell_len, ended.out.splitlines())) <= 80
    steps = [line[:6] for line in ended.out.splitlines() if line.startswith("Step ")]
    assert steps == [f"Step {i}" for i in range(1, 9)]
    words = " ".join(ended.out.split())
    assert "164 240 242 163 113 113 30585 104 35585 163 94 107 163 106 109 31758" in words
    for row in (
        "tokens [B,T] i64[1,16]",
        "q [B,h,T,d_head] f32[1,12,16,64]",
        "scores [B,h,T,S] f32[1,12,16,16]",
        "hidden [B,T,d_ff] f32[1,16,3072]",
        "logits [B,T,V] f32[1,16,50257]",
        "next [B,V] f32[1,50257]",
        "next_ids [B] i64[1]",
        "total 124,439,808",
    ):
        assert row in words, row
    assert "agree parameters: closed form 124,439,808 = measured 124,439,808" in words


def test_the_document_holds_every_block_whatever_is_folded(tfinspect: Program) -> None:
    folded, unfolded = (
        json.loads(tfinspect("trace", "hi", "--preset", "tiny-568", "--vocab", "50257", "--blocks", b, "--json").out)
        for b in ("none", "all")
    )
    assert folded == unfolded
    assert folded["schema"] == "tfinspect.trace/1"
    scores = next(t for t in folded["tensors"] if t["name"] == "blocks.1.attn.scores")
    assert scores["shape"] == ["B", "h", "T", "S"]
    assert scores["sizes"] == [1, 2, 1, 1]
    assert scores["step"] == 4
    assert sum(t["params"] for t in folded["tensors"]) == folded["total_params"]
    assert folded["total_flops"] == 2 * folded["total_multiplications"]


def test_operations_and_statistics(tfinspect: Program) -> None:
    ended = tfinspect("trace", "--ids", "3,1,4,1,5,9", "--preset", "tiny-568", "--ops", "--stats", "--json")
    document = json.loads(ended.out)
    assert ended.code == 0
    q = next(t for t in document["tensors"] if t["name"] == "blocks.0.attn.q")
    assert sum(op["multiplications"] for op in q["ops"]) == q["multiplications"] == 6 * 16
    assert q["stats"]["non_finite"] == 0
    work = next(a for a in document["agreements"] if a["quantity"] == "multiplications")
    assert work["verdict"] == "agree"
    assert work["coverage"]["counted"] == work["coverage"]["seen"] > 100


def test_a_175b_shape_is_traced_without_memory(tfinspect: Program) -> None:
    # Brown et al. 2020, table 2.1: 96 layers, d 12,288, 96 heads, context 2,048.
    ended = tfinspect(
        "trace", "hi", "--meta", "--d", "12288", "--layers", "96", "--heads", "96", "--ctx", "2048", "--json"
    )
    document = json.loads(ended.out)
    assert document["total_params"] == 174_604_259_328
    assert {a["verdict"] for a in document["agreements"]} == {"agree"}


def test_a_llama_of_405b_parameters_is_traced_without_memory(tfinspect: Program) -> None:
    # Grattafiori et al. 2024, table 3: 126 layers, d 16,384, 128 heads, 8 key heads, d_ff 53,248; vocabulary 128,256.
    llama = ("--d", "16384", "--layers", "126", "--heads", "128", "--kv-heads", "8", "--d-ff", "53248")
    style = ("--norm", "rmsnorm", "--activation", "swiglu", "--positions", "rope", "--untied", "--no-bias")
    ended = tfinspect("trace", "hi", "--meta", "--vocab", "128256", "--ctx", "8192", *llama, *style)
    words = " ".join(ended.out.split())
    assert ended.code == 0
    assert max(map(cell_len, ended.out.splitlines())) <= 80
    # one token through every weight but the look-up's, and 126·2·16,384 for its two products with itself
    assert f"total {405_853_388_800 - 128_256 * 16_384 - 253 * 16_384 + 126 * 2 * 16_384:,}" in words
    assert "agree parameters: closed form 405,853,388,800 = measured 405,853,388,800" in words
    assert "may split it differently" in words


def test_a_source_is_read_beside_the_text(tfinspect: Program) -> None:
    model = ("--preset", "tiny-568", "--architecture", "encoder_decoder", "--vocab", "50257")
    ended = tfinspect("trace", "hello world", "--source", "hello, you", "--json", *model)
    document = json.loads(ended.out)
    assert ended.code == 0
    assert (document["seq_len"], document["source_len"], document["source_given"]) == (2, 3, True)
    assert document["sources"] == [{"text": "hello, you", "ids": [31373, 11, 345], "n_padding": 0}]
    assert {t["stack"] for t in document["tensors"]} == {"encoder", "decoder"}
    assert {a["verdict"] for a in document["agreements"]} == {"agree"}
    ended = tfinspect("trace", "--ids", "1,2", "--source-ids", "3,4,5", *model)
    assert (ended.code, ended.err) == (0, "")
    assert "Source: what the encoder reads" in ended.out


def test_standard_input_is_a_text(tfinspect: Program) -> None:
    ended = tfinspect("trace", "--preset", "tiny-568", "--vocab", "50257", "--meta", "--json", stdin=b"hello world")
    assert json.loads(ended.out)["texts"] == [{"text": "hello world", "ids": [31373, 995], "n_padding": 0}]


def test_texts_of_unequal_length_are_padded_when_asked(tfinspect: Program) -> None:
    ended = tfinspect("trace", "hello", "hello world", "--pad", "--meta", "--blocks", "none")
    assert ended.code == 0
    words = " ".join(ended.out.split())
    assert "total 124,439,808 494,275,584" in words
    assert "padded at the end to 2 positions" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("",), "nothing to trace (0 tokens)"),
        (("hello", "hello world"), "1, 2 tokens"),
        (("--ids", "1,-1"), "id -1 at position 1"),
        (("--ids", "50257"), "id 50257 at position 0"),
        (("--ids", "1.0"), "'1.0'"),
        (("--ids", "[[1, 2], [3]]"), "several lists, and one is read; a batch takes --ids once for each row"),
        (("--ids", "1", "--layers", "2147483647", "--meta"), "a run of 2,147,483,647 blocks is too long"),
        (("--ids", ",".join(["1"] * 1025)), "1,025 tokens and the model's context is 1,024"),
        (("hi", "--blocks", "12"), "no block 12"),
        (("hi", "--meta", "--stats"), "--meta holds no values"),
        (("hi", "--file", "no-such-file"), "no-such-file"),
        (("hi", "--source", "hi"), "a source (--source) is for an encoder-decoder"),
        (("hi", "--vocab", "32000"), "32,000 of its own"),
        (("hi", "--architecture", "encoder", "--last"), "an encoder predicts no next token"),
        (("hi", "--d", "770"), "770"),
        (("hi", "--d", str(10**30)), "largest size"),
        (("hi", "--preset", "gpt5"), "unknown preset 'gpt5'"),
        (("hi", "--seed", "x"), "--seed"),
    ],
)
def test_what_cannot_be_traced_is_one_line_and_exit_code_2(
    tfinspect: Program, arguments: tuple[str, ...], words: str
) -> None:
    ended = tfinspect("trace", *arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert words in ended.err
    assert len(ended.err.splitlines()) <= 2
