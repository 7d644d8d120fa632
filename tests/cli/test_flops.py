"""``tfinspect flops`` as a user meets it."""

from __future__ import annotations

import json

import pytest
from rich.cells import cell_len

from tests.cli.conftest import Program


def test_gpt2_small_at_1024(tfinspect: Program) -> None:
    ended = tfinspect("flops", "--n", "1024", "--every-mode")
    assert (ended.code, ended.err) == (0, "")
    words = " ".join(ended.out.split())
    for figure in ("7,247,757,312", "1,610,612,736", "0.2222", "6d 4,608", "145,824,153,600", "291,648,307,200"):
        assert figure in words
    assert "FLOPs are twice the multiplications" in words
    assert "one multiply-add = 1 multiplication = 2 FLOPs" in words
    for attention in ("eager", "fused"):
        for grad in ("grad", "no_grad", "inference_mode"):
            assert (
                f"agree FLOPs, {attention} attention, {grad}: closed form 291,648,307,200 = measured 291,648,307,200"
                in words
            )
    assert "differ" not in words
    assert max(map(cell_len, ended.out.splitlines())) <= 80


def test_the_document_has_the_same_answer_from_both_paths(tfinspect: Program) -> None:
    ended = tfinspect("flops", "--preset", "tiny-568", "--n", "6", "--batch", "3", "--head", "last", "--json")
    assert (ended.code, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert document["schema"] == "tfinspect.flops/1"
    # 3·(2·(12·6·4² + 2·6²·4) + 4·10)
    assert document["total_multiplications"] == 3 * (2 * (1_152 + 288) + 40)
    assert document["total_flops"] == 2 * document["total_multiplications"]
    assert {a["verdict"] for a in document["agreements"]} == {"agree"}
    assert document["agreements"][0]["coverage"]["counted"] == document["agreements"][0]["coverage"]["seen"]


def test_without_the_check_nothing_is_measured_and_all_else_is_the_same(tfinspect: Program) -> None:
    arguments = ("flops", "--preset", "tiny-568", "--n", "4", "--sweep", "1:64")
    checked, unchecked = (tfinspect(*arguments, "--json", flag) for flag in ("--check", "--no-check"))
    assert {**json.loads(checked.out), "agreements": []} == json.loads(unchecked.out)
    assert tfinspect(*arguments).out.startswith(tfinspect(*arguments, "--no-check").out)


def test_one_token_is_one_token(tfinspect: Program) -> None:
    for n, words in (("1", "1 token in this forward pass"), ("2", "2 tokens in this forward pass")):
        assert words in tfinspect("flops", "--preset", "tiny-568", "--n", n, "--no-check").out


def test_the_causal_half(tfinspect: Program) -> None:
    words = " ".join(tfinspect("flops", "--causal", "half", "--n", "1024", "--no-check").out.split())
    assert "136,169,914,368" in words
    assert "n(n + 1)/2 pairs of the causal half" in words
    assert "12d − 1 9,215" in words


def test_n_left_out_is_the_context(tfinspect: Program) -> None:
    words = " ".join(tfinspect("flops", "--preset", "gpt1", "--no-check").out.split())
    assert "n = 512 (the model's n_ctx" in words


def test_a_length_beyond_any_context_is_exact_and_marked(tfinspect: Program) -> None:
    ended = tfinspect("flops", "--n", "1000000000000")
    assert (ended.code, ended.err) == (0, "")
    words = " ".join(ended.out.split())
    assert "18,432,000,123,532,032,000,000,000,000" in words
    assert "n = 1,000,000,000,000 is beyond the model's n_ctx = 1,024" in words
    assert "not measured FLOPs" in words
    document = json.loads(tfinspect("flops", "--n", "22366271", "--no-check", "--json").out)
    assert document["total_multiplications"] == 9_223_372_396_811_261_184
    assert document["beyond_n_ctx"] is True


def test_no_tokens_are_no_work(tfinspect: Program) -> None:
    ended = tfinspect("flops", "--n", "0", "--preset", "tiny-568", "--json")
    assert (ended.code, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert (document["total_flops"], document["flops_per_token"], document["model_doubling_ratio"]) == (0, None, None)
    assert {a["verdict"] for a in document["agreements"]} == {"agree"}
    assert tfinspect("flops", "--n", "0", "--no-check").code == 0


def test_the_sweep_draws_linear_against_quadratic_and_marks_the_crossover(tfinspect: Program) -> None:
    ended = tfinspect("flops", "--sweep", "128:65536", "--no-check")
    assert max(map(cell_len, ended.out.splitlines())) <= 80
    rows = {words[0]: words for words in (line.split() for line in ended.out.splitlines()) if "█" in "".join(words)}
    assert list(rows)[:11] == [
        "128", "256", "512", "1,024", "2,048", "4,096", "4,608", "8,192", "16,384", "32,768", "65,536",
    ]  # fmt: skip
    assert rows["4,608"][1:4] == ["32,614,907,904", "32,614,907,904", "1.000"]
    assert rows["4,608"][-1] == "n*+"
    bar = rows["4,608"][4]
    assert bar.count("█") == bar.count("░") > 0
    assert rows["1,024"][1:4] == ["7,247,757,312", "1,610,612,736", "0.2222"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--n", "-5"], "must be at least 0, not -5"),
        (["--n", "1.5"], "takes a whole number, not '1.5'"),
        (["--n", "many"], "takes a whole number, not 'many'"),
        (["--n", "1" + "0" * 41], "above 10^40"),
        (["--batch", "0"], "must be at least 1, not 0"),
        (["--causal", "quarter"], "choose one of full, half"),
        (["--head", "first"], "choose one of all, last"),
        (["--sweep", "128"], "--sweep takes A:B, not '128'"),
        (["--sweep", ":"], "--sweep takes A:B, not ':'; for example --sweep 128:65536"),
        (["--sweep", "1:"], "--sweep takes A:B, not '1:'"),
        (["--sweep", "1:2:3"], "--sweep takes A:B, not '1:2:3'"),
        (["--sweep", "9:3"], "try --sweep 3:9"),
        (["--sweep", "0:3"], "must be at least 1, not 0"),
        (["--sweep", "1:x"], "takes a whole number, not 'x'"),
        (["--heads", "7"], "768 mod 7 = 5"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tfinspect: Program, flags: list[str], words: str) -> None:
    ended = tfinspect("flops", *flags)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert words in ended.err
    assert len(ended.err.splitlines()) <= 2


@pytest.mark.parametrize("width", ["40", "60", "120"])
def test_no_line_is_wider_than_the_page_and_no_figure_is_cut(tfinspect: Program, width: str) -> None:
    ended = tfinspect("flops", "--no-check", "--sweep", "1:4096", env={"COLUMNS": width})
    assert max(map(cell_len, ended.out.splitlines())) <= int(width)
    assert "145,824,153,600" in ended.out


def test_a_page_of_ascii(tfinspect: Program) -> None:
    ended = tfinspect("flops", "--no-check", "--sweep", "1:4096", env={"PYTHONIOENCODING": "ascii"})
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.isascii()
    assert "scores QK^T" in ended.out


def test_passes_and_rules_stand_below_the_rest(tfinspect: Program) -> None:
    ended = tfinspect("flops", "--n", "1024", "--passes", "--rules")
    assert (ended.code, ended.err) == (0, "")
    words = " ".join(ended.out.split())
    for figure in (
        "142,406,400",  # the decode step at 1,024 keys
        "874,944,921,600",  # training
        "75,497,472",  # bytes of the cache, fp32
        "875,690,459,136 745,537,536 0.1 %",  # nanoGPT's rule, and how far it is off
        "agree FLOPs, decode step: closed form 284,812,800 = measured 284,812,800",
        "agree FLOPs, training: closed form 874,944,921,600 = measured 874,944,921,600",
    ):
        assert figure in words
    assert "differ" not in words
    assert max(map(cell_len, ended.out.splitlines())) <= 80


def test_an_encoder_decoder_reads_a_source(tfinspect: Program) -> None:
    ended = tfinspect("flops", "t5-small", "--n", "5", "--source-len", "7", "--json")
    assert (ended.code, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert (document["seq_len"], document["source_len"]) == (5, 7)
    assert {a["verdict"] for a in document["agreements"]} == {"agree"}
    assert "a source of m = 5 (as many" in " ".join(
        tfinspect("flops", "t5-small", "--n", "5", "--no-check").out.split()
    )


def test_experts_are_totals_and_active_ones(tfinspect: Program) -> None:
    words = " ".join(tfinspect("flops", "mixtral-8x7b", "--n", "128", "--no-check").out.split())
    assert "2N, N = all parameters 93,405,585,408" in words
    assert "2N, N = active parameters 25,759,850,496" in words


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--source-len", "4"], "4 positions of a source are given, and the model reads none; leave out --source-len"),
        (["t5-small", "--source-len", "-1"], "the source's length (--source-len) must be at least 0, not -1"),
        (["--n", "0", "--passes"], "there is no pass over no token; give --n of at least 1"),
        (["--n", "0", "--rules"], "there is no rule over no token"),
    ],
)
def test_what_a_model_does_not_do_is_refused(tfinspect: Program, flags: list[str], words: str) -> None:
    ended = tfinspect("flops", *flags)
    assert (ended.code, ended.out) == (2, "")
    assert words in " ".join(ended.err.split())
