"""`tfinspect.trace`: what a student sees, and what is refused before anything runs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tfinspect.errors import InputError
from tfinspect.inspectors.trace import blocks_named, trace
from tfinspect.presets import PRESETS
from tfinspect.results.trace import TensorRow, Trace
from tfinspect.sources.resolve import Source
from tfinspect.spec import ModelSpec

GPT2 = PRESETS["gpt2"].spec
TINY = PRESETS["tiny-568"].spec
MAKIE = "蒔絵師が硯箱を"


def of(report: Trace, name: str) -> TensorRow:
    return next(row for row in report.tensors if row.name == name)


def test_the_sample_text_goes_through_the_eight_steps() -> None:
    # Chapter B, 15.2 to 15.6: 16 tokens; every shape in the order in which the chapter gives it.
    report = trace(GPT2, [MAKIE], last=True)
    assert report.texts[0].ids == (
        164, 240, 242, 163, 113, 113, 30585, 104, 35585, 163, 94, 107, 163, 106, 109, 31758,
    )  # fmt: skip
    outside = [(row.step, row.name, row.sizes) for row in report.tensors if row.block is None]
    assert outside == [
        (1, "tokens", (1, 16)),
        (2, "embed.tokens", (1, 16, 768)),
        (3, "embed.positions", (16, 768)),
        (3, "embed.sum", (1, 16, 768)),
        (7, "final_norm", (1, 16, 768)),
        (8, "logits", (1, 16, 50_257)),
        (8, "next.logits", (1, 50_257)),
        (8, "next.ids", (1,)),
    ]
    for block in range(12):
        inside = [(row.step, row.label, row.sizes) for row in report.tensors if row.block == block]
        assert inside == [
            (4, "norm1", (1, 16, 768)),
            (4, "q", (1, 12, 16, 64)),
            (4, "k", (1, 12, 16, 64)),
            (4, "v", (1, 12, 16, 64)),
            (4, "scores", (1, 12, 16, 16)),
            (4, "weights", (1, 12, 16, 16)),
            (4, "heads", (1, 12, 16, 64)),
            (4, "concat", (1, 16, 768)),
            (4, "attn_out", (1, 16, 768)),
            (5, "resid_mid", (1, 16, 768)),
            (6, "norm2", (1, 16, 768)),
            (6, "hidden", (1, 16, 3_072)),
            (6, "activated", (1, 16, 3_072)),
            (6, "mlp_out", (1, 16, 768)),
            (6, "resid_out", (1, 16, 768)),
        ]
    assert report.params == 124_439_808
    assert [a.verdict for a in report.agreements] == ["agree"] * 4
    assert report.agreements[-1].measured == report.multiplications


def test_four_tokens_cost_494_423_040_multiplications() -> None:
    # L(12nd² + 2n²d) + ndV at n = 4, which the operator counter of torch gives too.
    report = trace(GPT2, ["Hello, world!"], ops=True)
    assert report.texts[0].ids == (15_496, 11, 995, 0)
    assert report.multiplications == 494_423_040
    assert sum(op.multiplications for row in report.tensors for op in row.ops) == 494_423_040
    assert of(report, "logits").sizes == (1, 4, 50_257)


@pytest.mark.parametrize("blocks", ["", "all", "none", "0,5,11", "5"])
def test_folding_changes_no_total(blocks: str) -> None:
    report = trace(GPT2, ["Hello, world!"], blocks=blocks, meta=True)
    table = report.tables()[1]
    for key, total in (("params", 124_439_808), ("multiplications", 494_423_040)):
        parts = [row.cells.get(key) or 0 for row in table.rows if row.role in ("row", "fold")]
        assert sum(parts) == total  # type: ignore[arg-type]
        assert table.rows[-1].cells[key] == total
    assert len(report.tensors) == 4 + 12 * 15 + 2


def test_the_shown_blocks_are_those_that_were_named() -> None:
    report = trace(GPT2, ["hi"], blocks="0,5,11", meta=True)
    headings = [row.cells["name"] for row in report.tables()[1].rows if row.role == "group"]
    assert [h for h in headings if "Step 5" in str(h)] == [
        f"Step 5: first residual addition (block {i})" for i in (0, 5, 11)
    ]
    folded = [h for h in headings if "folded" in str(h)]
    assert folded == [
        "Steps 4 to 6, folded (blocks 1 to 4, 15 tensors each)",
        "Steps 4 to 6, folded (blocks 6 to 10, 15 tensors each)",
    ]


def test_no_two_tensors_of_one_place_share_a_short_name() -> None:
    report = trace(GPT2, ["hi"], last=True)
    labels = [(row.block, row.label) for row in report.tensors]
    assert len(set(labels)) == len(labels)


def test_a_preset_and_a_single_text_are_models_and_batches_too() -> None:
    report = trace(PRESETS["gpt2"], "hello", meta=True)
    assert report.batch == 1
    assert report.subject.name == "gpt2"
    assert trace(PRESETS["gpt2"], b"hello", meta=True).texts[0].ids == (31_373,)


def test_a_text_is_no_input_of_a_model_with_a_vocabulary_of_its_own() -> None:
    with pytest.raises(InputError, match="40,478 of its own") as caught:
        trace(PRESETS["gpt1"].spec, "hello")
    assert "--ids" in caught.value.hint
    assert "--meta" in caught.value.hint


def test_without_values_a_text_is_so_many_tokens_whatever_the_vocabulary() -> None:
    report = trace(PRESETS["gpt1"].spec, "Hello, world!", meta=True)
    assert of(report, "tokens").sizes == (1, 4)
    assert {a.verdict for a in report.agreements} == {"agree"}
    (note,) = report.tables()[0].notes
    assert note.startswith("Split by GPT-2's tokenizer into 4 tokens; the model's own tokenizer may split it differ")
    assert "ids" not in {column.key for column in report.tables()[0].columns}  # they are another vocabulary's
    assert report.to_dict()["tokenizer_note"] == note
    assert trace(GPT2, "Hello, world!", meta=True).tokenizer_note == ""
    assert trace(PRESETS["gpt1"].spec, ids=[[40_477]], meta=True).tokenizer_note == ""
    with pytest.raises(InputError, match="id 40478 at position 0"):  # ids that were given are the model's own
        trace(PRESETS["gpt1"].spec, ids=[[40_478]], meta=True)


def test_without_the_check_nothing_is_compared() -> None:
    assert trace(GPT2, ["hi"], meta=True, check=False).agreements == ()


def test_post_ln_blocks_normalise_after_the_sum_and_gpt1_has_no_final_norm() -> None:
    report = trace(PRESETS["gpt1"].spec, ids=[[1, 2, 3]], meta=True)
    names = [row.label for row in report.tensors if row.block == 0]
    assert names.index("resid_mid") < names.index("norm1") < names.index("hidden")
    assert names[-2:] == ["resid_out", "norm2"]
    assert "final_norm" not in {row.name for row in report.tensors}


def test_rope_and_alibi_add_no_position_vectors() -> None:
    for positions in ("rope", "alibi", "none"):
        report = trace(TINY.replace(positions=positions), ids=[[1, 2, 3]])
        assert 3 not in {row.step for row in report.tensors}


def test_statistics_leave_out_the_masked_scores_and_count_them() -> None:
    report = trace(TINY, ids=[[3, 1, 4, 1, 5, 9]], stats=True, blocks="all")
    for i in range(2):
        scores, weights = (of(report, f"blocks.{i}.attn.{name}").stats for name in ("scores", "weights"))
        assert scores is not None
        assert weights is not None
        assert scores.non_finite == 2 * 6 * 5 // 2  # heads times pairs in the future
        assert scores.mean is not None
        assert math.isfinite(scores.mean)
        assert weights.minimum == 0.0
        assert weights.maximum == 1.0  # the first position sees only itself
        assert weights.mean == pytest.approx(1 / 6, abs=1e-7)  # float32: 12 rows of 6 sum to 12
    final = of(report, "final_norm").stats
    assert final is not None
    assert final.mean == pytest.approx(0, abs=1e-6)
    assert of(report, "tokens").stats is None


def test_the_last_step_lists_candidates_by_falling_probability() -> None:
    report = trace(GPT2, ["hello", "there"], last=True)
    assert of(report, "next.logits").sizes == (2, 50_257)
    assert of(report, "next.ids").sizes == (2,)
    for row in report.candidates:
        chances = [c.probability for c in row]
        assert chances == sorted(chances, reverse=True)
        assert 0 < sum(chances) < 1
    assert report.candidates[0][0].text is not None


def test_padding_is_said_and_never_changes_a_texts_prediction() -> None:
    alone = trace(GPT2, ["hello"], last=True)
    padded = trace(GPT2, ["hello", "hello world"], pad=True, last=True)
    assert padded.padded
    assert padded.multiplications == 494_275_584  # 2 rows of 2 positions, not 1 + 2 tokens nor one row of 3
    assert any("padded" in note for note in padded.tables()[0].notes)
    assert [c.token_id for c in padded.candidates[0]] == [c.token_id for c in alone.candidates[0]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"texts": [""]}, "0 tokens"),
        ({}, "0 tokens"),
        ({"texts": ["hello", "hello world"]}, "1, 2 tokens"),
        ({"ids": [[1], []], "pad": True}, "0 tokens"),
        ({"ids": [[5, -1]]}, "id -1 at position 1"),
        ({"ids": [[50_257]]}, "id 50257 at position 0"),
        ({"ids": [[1.0]]}, "1.0"),
        ({"ids": [[True]]}, "True"),
        ({"texts": ["a"], "ids": [[1]]}, "both"),
        ({"texts": ["a"], "blocks": "12"}, "no block 12"),
        ({"texts": ["a"], "blocks": "x"}, "'x'"),
        ({"texts": ["a"], "meta": True, "stats": True}, "--stats"),
        ({"texts": ["a"], "meta": True, "last": True}, "--last"),
    ],
)
def test_what_cannot_be_traced_is_said_before_anything_runs(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        trace(GPT2, **given)
    assert words in caught.value.message


def test_one_token_more_than_the_context_names_both_numbers() -> None:
    assert trace(GPT2, ids=[[1] * 1_024], meta=True).seq_len == 1_024
    with pytest.raises(InputError) as caught:
        trace(GPT2, ids=[[1] * 1_025])
    assert "1,025" in caught.value.message
    assert "1,024" in caught.value.message


def test_the_vocabulary_of_the_model_bounds_the_ids() -> None:
    with pytest.raises(InputError, match="id 10 at position 2"):
        trace(TINY, ids=[[0, 9, 10]])


def test_a_model_that_does_not_fit_is_refused_with_the_way_out() -> None:
    huge = GPT2.replace(d_model=65_536, n_heads=64, d_ff=4 * 65_536, n_layers=200)
    with pytest.raises(InputError, match="GiB") as caught:
        trace(huge, ["hi"])
    assert "--meta" in caught.value.hint


def test_block_lists() -> None:
    assert blocks_named("", 3) == (0,)
    assert blocks_named("all", 3) == (0, 1, 2)
    assert blocks_named("none", 3) == ()
    assert blocks_named("2,0,2", 3) == (0, 2)
    assert blocks_named("0-2,5", 7) == (0, 1, 2, 5)
    with pytest.raises(InputError, match="3-1 runs backwards"):
        blocks_named("3-1", 7)


def test_bytes_outside_utf8_are_told_from_the_replacement_character() -> None:
    report = trace(GPT2, [b"\xff\xfe", "\ufffd"], meta=True, pad=True)
    assert [(text.text, text.ids) for text in report.texts] == [(r"\xff\xfe", (187, 186)), ("\ufffd", (4210,))]


def test_tables_show_the_beginning_of_a_long_text_and_the_result_all_of_it() -> None:
    text = "word " * 1_000
    report = trace(GPT2, [text], meta=True)
    (row,), (note,) = report.tables()[0].rows, report.tables()[0].notes
    assert row.cells["text"] == f"{text[:400]} ..."
    assert str(row.cells["ids"]).endswith(" ...")
    assert note == "Only the first 400 characters and 64 ids of a text are shown; --json has them all."
    assert report.to_dict()["texts"] == [{"text": text, "ids": list(report.texts[0].ids), "n_padding": 0}]


def test_more_blocks_than_anybody_would_watch_are_refused_before_they_are_planned() -> None:
    for meta in (True, False):
        with pytest.raises(InputError, match="a run of 2,147,483,647 blocks is too long, and the most is 5,000"):
            trace(GPT2.replace(n_layers=2**31 - 1), ["hi"], meta=meta)


SEQ2SEQ = TINY.replace(architecture="encoder_decoder", n_encoder_layers=3, placement="post", final_norm=False)


def test_an_encoder_decoder_runs_its_encoder_first_and_asks_it_from_each_block() -> None:
    # Vaswani et al. 2017, figure 1; chapter A, 8.2: 2 parts in an encoder layer, 3 in a decoder layer.
    report = trace(SEQ2SEQ, ids=[[1, 2, 3]], source_ids=[[4, 5, 6, 7, 8]], blocks="all", last=True)
    names = [row.name for row in report.tensors]
    assert names[0] == "source.tokens"
    assert names.index("encoder.blocks.2.norm2") + 1 == names.index("tokens")
    assert [(row.label, row.sizes) for row in report.tensors if row.name.startswith("decoder.blocks.1.cross")] == [
        ("cross_q", (1, 2, 3, 2)),
        ("cross_k", (1, 2, 5, 2)),
        ("cross_v", (1, 2, 5, 2)),
        ("cross_scores", (1, 2, 3, 5)),
        ("cross_weights", (1, 2, 3, 5)),
        ("cross_heads", (1, 2, 3, 2)),
        ("cross_concat", (1, 3, 4)),
        ("cross_out", (1, 3, 4)),
    ]
    assert [n.rpartition(".")[2] for n in names if n.startswith("decoder.blocks.0") and ("norm" in n or "resid" in n)] \
        == ["resid_self", "norm1", "resid_cross", "norm2", "resid_out", "norm3"]  # fmt: skip
    assert [row.block for row in report.tensors if row.label == "resid_out"] == [0, 1, 2, 0, 1]
    assert {a.verdict for a in report.agreements} == {"agree"}
    assert len(report.candidates) == 1


def test_without_a_source_the_encoder_reads_the_same_and_the_report_says_so() -> None:
    report = trace(SEQ2SEQ, ids=[[1, 2, 3], [4, 5]], pad=True)
    assert report.sources == report.texts
    assert of(report, "source.tokens").sizes == (2, 3)
    source, text = report.tables()[:2]
    assert "No source is given" in source.notes[0]
    assert "each position sees it" in source.notes[1]  # there is no mask over the source's padding
    assert "no position of a text sees its padding" in text.notes[0]
    assert report.to_dict()["source_given"] is False
    assert report.to_dict()["source_len"] == 3


def test_a_source_in_words_is_counted_apart_and_ids_that_were_given_stay_in_sight() -> None:
    both = trace(SEQ2SEQ, ["Hello, world!"], source=["hello"], meta=True)
    assert both.tokenizer_note.startswith(
        "Split by GPT-2's tokenizer into 4 tokens, the source into 1 token; the model"
    )
    source = trace(SEQ2SEQ, ids=[[1, 2]], source=["hello"], meta=True)
    assert source.tokenizer_note.startswith("Split by GPT-2's tokenizer the source into 1 token")
    shown = [{column.key for column in table.columns} for table in source.tables()[:2]]
    assert shown == [{"text", "tokens"}, {"tokens", "ids"}]


@pytest.mark.parametrize(
    ("spec", "given", "words"),
    [
        (TINY, {"source_ids": [[1]]}, "for an encoder-decoder"),
        (SEQ2SEQ, {"source_ids": [[1], [2]]}, "2 sources were given for 1 rows"),
        (SEQ2SEQ, {"source_ids": [[10]]}, "id 10 at position 0"),
        (SEQ2SEQ, {"source_ids": [[1] * 9]}, "the source has 9 tokens and the model's context is 8"),
        (SEQ2SEQ, {"source_ids": [[]]}, "nothing for the encoder to read"),
        (SEQ2SEQ, {"source": ["a"]}, "10 of its own"),
        (SEQ2SEQ, {"source": ["a"], "source_ids": [[1]]}, "both"),
        (TINY.replace(architecture="encoder"), {"last": True}, "an encoder predicts no next token"),
        (TINY.replace(head="none"), {"last": True}, "a model without a head predicts no next token"),
        (TINY.replace(n_layers=201, n_experts=100, n_experts_per_token=1), {}, "20,100 experts"),
    ],
)
def test_what_a_model_of_another_kind_cannot_do_is_said(spec: ModelSpec, given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        trace(spec, ids=[[1, 2]], **given)
    assert words in caught.value.message
    assert caught.value.hint or "id 10" in words


def test_an_encoder_gathers_from_all_positions_and_ends_where_its_head_does() -> None:
    # Devlin et al. 2019: token types, a norm after the embedding sum, a pooler on the first position, an MLM head.
    bert = TINY.replace(
        architecture="encoder", placement="post", final_norm=False, embed_norm=True, n_token_types=2, head="mlm",
        pooler=True,
    )  # fmt: skip
    report = trace(bert, ids=[[1, 2, 3]])
    names = [row.name for row in report.tensors if row.block is None]
    assert names == [
        "tokens", "embed.tokens", "embed.positions", "embed.types", "embed.sum", "embed.norm",
        "mlm.dense", "mlm.activated", "mlm.norm", "logits", "pooled",
    ]  # fmt: skip
    assert of(report, "pooled").sizes == (1, 4)
    assert of(report, "pooled").params == 4 * 4 + 4
    assert of(report, "blocks.0.attn.scores").equation == "Q·Kᵀ/√d_head"
    headings = [str(row.cells["name"]) for row in report.tables()[1].rows if row.role == "group"]
    assert "Step 4: attention: each position gathers from all positions (block 0)" in headings
    assert not any("before it" in heading for heading in headings)
    bare = trace(bert.replace(head="none", pooler=False), ids=[[1, 2, 3]])
    assert bare.tensors[-1].name == "blocks.1.norm2"


def test_each_kind_of_block_shows_its_first() -> None:
    def shown(spec: ModelSpec) -> tuple[int, ...]:
        return trace(spec, ids=[[1, 2]], meta=True, check=False).shown_blocks

    deep = TINY.replace(n_layers=6)
    assert shown(deep) == (0,)
    assert shown(deep.replace(window=2, global_every=3)) == (0, 2)
    experts = deep.replace(n_experts=4, n_experts_per_token=2, n_dense_layers=1)
    assert shown(experts) == (0, 1)
    assert shown(experts.replace(window=2, global_every=3)) == (0, 1, 2)
    assert shown(SEQ2SEQ) == (0,)
    assert trace(SEQ2SEQ, ids=[[1]], blocks="2", meta=True, check=False).shown_blocks == (2,)  # of the encoder alone
    with pytest.raises(InputError, match="no block 3"):
        trace(SEQ2SEQ, ids=[[1]], blocks="3", meta=True)


def test_blocks_of_two_kinds_fold_into_one_row() -> None:
    spec = TINY.replace(n_layers=4, n_experts=4, n_experts_per_token=2, n_dense_layers=2, activation="swiglu")
    table = trace(spec, ids=[[1, 2]], blocks="none", meta=True, check=False).tables()[1]
    (fold,) = [row.cells["name"] for row in table.rows if row.role == "group" and "folded" in str(row.cells["name"])]
    assert fold == "Steps 4 to 6, folded (blocks 0 to 3, 16 tensors each)"
    table = trace(spec.replace(activation="relu"), ids=[[1, 2]], blocks="none", meta=True, check=False).tables()[1]
    assert any("15 to 16 tensors each" in str(row.cells["name"]) for row in table.rows)


def test_what_a_configuration_leaves_open_stands_beside_the_figures() -> None:
    open_point = "no_such_key is not understood"
    source = Source("custom", "custom model", TINY, "a configuration", incomplete=(open_point,))
    report = trace(source, ids=[[1, 2]], meta=True)
    assert report.conventions.startswith("INCOMPLETE")
    assert any(open_point in note for note in report.tables()[1].notes)


def test_mixtral_says_total_and_active_parameters() -> None:
    # Jiang et al. 2024, table 1 and section 2.1: "47B parameters, but only uses 13B active parameters"; to the last
    # unit, the released configuration (mistralai/Mixtral-8x7B-v0.1) without biases.
    mixtral = ModelSpec(
        vocab_size=32_000, n_ctx=32_768, d_model=4_096, n_layers=32, n_heads=32, n_kv_heads=8, d_ff=14_336,
        norm="rmsnorm", activation="swiglu", positions="rope", rope_base=1e6, n_experts=8, n_experts_per_token=2,
        tied_head=False, bias=False,
    )  # fmt: skip
    report = trace(mixtral, "Hello, world!", meta=True)
    assert report.params == 46_702_792_704
    assert report.active_params == 12_879_925_248
    assert any("46,702,792,704" in n and "12,879,925,248" in n for n in report.tables()[1].notes)
    assert report.to_dict()["active_params"] == 12_879_925_248
    assert {a.verdict for a in report.agreements} == {"agree"}
    assert of(report, "blocks.31.mlp.experts").multiplications == 4 * 2 * 3 * 4_096 * 14_336
    assert trace(GPT2, "hi", meta=True).active_params is None
