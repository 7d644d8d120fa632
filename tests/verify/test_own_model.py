"""What `tfinspect verify --module` says of models that are right, and of models with one fault each."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from tests.specs import plain_specs
from tests.verify import models
from tests.verify.models import BROKEN, RIGHT, D, Small, V, core
from tfinspect.errors import CheckFailed, InputError
from tfinspect.inspectors.model_checks import model_checks
from tfinspect.model.build import build
from tfinspect.results.model_checks import ModelCheck, ModelChecks, require
from tfinspect.spec import ModelSpec

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")

CHECKS = ["finite", "determinism", "causality", "prefix", "batch", "cache", "gradients", "ties", "loss"]


def made(factory: Callable[[], nn.Module], seed: int = 3) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return factory()


def asked(factory: Callable[[], nn.Module], *ids: str, **how: Any) -> ModelChecks:
    return model_checks(made(factory), *ids, **{"rebuild": factory, "trials": 1, **how})


def of(report: ModelChecks, name: str) -> ModelCheck:
    return next(check for check in report.checks if check.id == name)


def figures(report: ModelChecks, name: str) -> dict[str, Any]:
    return {figure.name: figure.value for figure in of(report, name).findings.figures}


def notes(report: ModelChecks, name: str) -> str:
    return " ".join(of(report, name).findings.notes)


def causes(report: ModelChecks) -> set[str]:
    return {check.id for check in report.causes}


# Faults, each found by its check


@pytest.mark.parametrize("factory", BROKEN, ids=lambda f: f.__name__)
def test_a_fault_is_found_by_its_check_and_by_no_other(factory: Callable[[], nn.Module]) -> None:
    report = asked(factory)
    assert causes(report) == BROKEN[factory]
    with pytest.raises(CheckFailed, match=" and ".join(sorted(BROKEN[factory], key=CHECKS.index))):
        require(report)


@pytest.mark.parametrize("factory", RIGHT, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [None, "float64"])
def test_a_right_model_passes(factory: Callable[[], nn.Module], dtype: str | None) -> None:
    report = asked(factory, dtype=dtype)
    assert [check.id for check in report.checks] == CHECKS
    assert report.failed == ()
    require(report)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rope", "alibi", "none"])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_projects_own_models_pass(placement: Any, positions: Any) -> None:
    report = asked(lambda: core(placement=placement, positions=positions, dropout=0.1))
    assert report.failed == ()
    assert figures(report, "ties") == {"embed.tokens.weight = head.weight": "one parameter"}


@given(plain_specs().filter(lambda spec: spec.d_model > 2))  # a layer norm of one or two features has Jacobian 0
@settings(max_examples=15)
def test_any_spec_passes(spec: ModelSpec) -> None:
    assert model_checks(build(spec, seed=1), trials=1).failed == ()


@pytest.mark.parametrize("seed", range(5))
def test_verdicts_do_not_depend_on_the_seed(seed: int) -> None:
    assert model_checks(made(Small, seed), seed=seed).failed == ()
    assert causes(model_checks(made(models.OneAhead, seed), seed=seed)) == {"causality"}
    assert causes(model_checks(made(models.PositionsFromBatch, seed), seed=seed)) == {"batch"}


def test_two_runs_give_the_same_figures() -> None:
    one, other = (asked(models.MaskAfterSoftmax).to_dict() for _ in range(2))
    for report in (one, other):
        for check in report["checks"]:
            del check["seconds"]
    assert json.dumps(one) == json.dumps(other)


# Causality


def test_the_matrix_says_which_token_changes_which_row() -> None:
    # Two layers, each seeing one position ahead: row i sees tokens up to i + 2, and of 8 positions 7 + 6 pairs leak.
    report = asked(models.OneAhead)
    (matrix,) = of(report, "causality").findings.matrices
    for token, row in ((j, i) for j in range(8) for i in range(j)):
        assert (matrix.rows[token][row] != 0.0) == (token - row <= 2)
    assert "13 of 28 pairs" in notes(report, "causality")
    assert "up to 2 positions ahead" in notes(report, "causality")
    assert max(size for j in range(8) for size in matrix.rows[j][:j]) == figures(report, "causality")["evaluation"]


def test_without_a_mask_every_pair_leaks() -> None:
    assert "28 of 28 pairs" in notes(asked(models.Unmasked), "causality")
    assert "1 of 1 pairs" in notes(asked(models.Unmasked, seq_len=2), "causality")


def test_what_a_right_model_must_not_see_changes_nothing_at_all() -> None:
    assert figures(asked(Small), "causality") == {"evaluation": 0.0, "with noise": 0.0, "training": 0.0}


def test_a_leak_that_starts_as_zero_is_found_with_noise_in_the_weights() -> None:
    found = figures(asked(models.IdleUnmasked), "causality")
    assert found["evaluation"] == 0.0
    assert found["with noise"] > 0.01


def test_statistics_over_the_batch_show_in_training_alone() -> None:
    report = asked(models.BatchNormed)
    found = figures(report, "batch")
    assert found["other neighbours, evaluation"] == found["other neighbours, with noise"] == 0.0
    assert found["other neighbours, training"] > 0.01
    assert of(report, "causality").follows_from == "batch"


def test_a_leak_below_the_rounding_of_one_format_is_found_in_a_finer_one() -> None:
    # e^−30 = 9.4e-14 lies below the step of float32 (1.2e-07) and above that of float64 (2.2e-16).
    assert causes(asked(models.WeakMask)) == set()
    assert causes(asked(models.WeakMask, dtype="float64")) == {"causality"}


def test_rounding_is_told_from_a_leak() -> None:
    report = asked(models.ConvolvedByFourier)
    assert 0.0 < figures(report, "causality")["evaluation"] < 1e-5
    assert "within rounding" in notes(report, "causality")
    finer = asked(models.ConvolvedByFourier, dtype="float64")
    assert 0.0 < figures(finer, "causality")["evaluation"] < 1e-14


def test_a_model_that_mixes_nothing_is_said_to_be_causal_for_free() -> None:
    assert "nothing is mixed" in notes(asked(models.Bigram), "causality")
    assert "mixed" not in notes(asked(Small), "causality")


# What follows from what


@pytest.mark.parametrize(
    ("factory", "follows"),
    [
        (models.Unmasked, {"prefix": "causality"}),
        (models.DropoutLeftOn, {"prefix": "determinism", "batch": "determinism"}),
        (models.NoNumberAtFive, {"loss": "finite"}),
        (models.BatchNormed, {"causality": "batch"}),
        (models.RemembersTokens, {}),
        (models.StaleCache, {}),
    ],
)
def test_a_failure_names_the_one_that_it_follows_from(factory: type[Small], follows: dict[str, str]) -> None:
    report = asked(factory)
    assert {check.id: check.follows_from for check in report.failed if check.follows_from} == follows
    said = [row.cells["meaning"] for table in report.tables() if table.title == "Failures" for row in table.rows]
    assert sum("Follows from" in str(words) for words in said) == len(follows)


def test_a_check_alone_follows_from_nothing() -> None:
    report = asked(models.Unmasked, "prefix")
    assert [check.id for check in report.checks] == ["prefix"]
    assert causes(report) == {"prefix"}


# Determinism


@pytest.mark.parametrize(
    ("factory", "why"),
    [
        (models.DropoutLeftOn, "draws random numbers"),
        (models.OwnGenerator, "draws random numbers"),
        (models.RemembersTokens, "leaves something behind"),
        (models.CountsInPlace, "leaves something behind"),
        (models.DecaysWeights, "leaves something behind"),
        (models.CountsElsewhere, "although"),
    ],
)
def test_why_equal_passes_differ_is_said(factory: type[Small], why: str) -> None:
    assert why in notes(asked(factory), "determinism")


def test_what_cannot_be_repeated_is_not_compared() -> None:
    report = asked(models.CountsElsewhere)
    assert [c.id for c in report.checks if c.reason and "determinism" in c.reason] == ["causality", "prefix", "batch"]


# Numbers, gradients, ties, loss


def test_positions_without_a_number_are_named() -> None:
    report = asked(models.NoNumberAtFive)
    assert figures(report, "finite")["non-finite logits"] == 3 * V  # 3 rows, one position of 8
    assert "position 5 " in notes(report, "finite")
    assert "position" not in notes(asked(Small), "finite")


def test_a_row_without_a_key_makes_everything_no_number() -> None:
    report = asked(models.OwnPositionHidden)
    assert of(report, "causality").verdict == "not applicable"


def test_parameters_without_a_gradient_are_counted_and_named() -> None:
    # A block has 12 tensors: four linear maps and two norms, a weight and a bias each.
    uncalled, zeroed, detached = (
        asked(f) for f in (models.UncalledBlock, models.ZeroedBlock, models.DetachedBlock)
    )  # fmt: skip
    assert figures(uncalled, "gradients")["no gradient"] == 12
    assert "blocks.1.attn.qkv.weight" in notes(uncalled, "gradients")
    assert figures(zeroed, "gradients")["zero gradient"] == 12
    assert figures(detached, "gradients")["no gradient"] == 12 + 2
    assert "tokens.weight, positions.weight, blocks.0" in notes(detached, "gradients")


def test_frozen_parameters_are_not_asked_for() -> None:
    def frozen() -> nn.Module:
        model = Small()
        model.blocks[1].requires_grad_(False)
        return model

    report = asked(frozen)
    assert report.failed == ()
    assert figures(report, "gradients")["parameter tensors"] == 2 * 12 + 5 - 12
    assert of(asked(lambda: Small().requires_grad_(False)), "gradients").verdict == "not applicable"


@pytest.mark.parametrize(
    ("factory", "relation"),
    [
        (models.Tied, "one parameter"),
        (models.CopiedHead, "equal values, two storages"),
        (models.SameStorageHead, "one storage, two parameters"),
        (models.DeclaredHead, "different values"),
    ],
)
def test_how_table_and_head_belong_together(factory: type[Small], relation: str) -> None:
    assert set(figures(asked(factory, "ties"), "ties").values()) == {relation}


def test_an_untied_head_is_nobodys_mistake() -> None:
    assert of(asked(Small), "ties").verdict == "not applicable"
    assert of(asked(lambda: core(tied_head=False)), "ties").verdict == "not applicable"


def test_logits_that_are_all_equal_cost_exactly_ln_v() -> None:
    found = figures(asked(models.ZeroInitialised), "loss")
    assert found["loss"] == pytest.approx(math.log(V), abs=1e-12)


def test_the_loss_is_judged_where_the_weights_are_known_to_be_fresh() -> None:
    def seeded() -> nn.Module:
        torch.manual_seed(1337)
        return models.LoudHead()

    assert of(asked(models.LoudHead), "loss").verdict == "fail"
    for report in (asked(seeded), asked(models.LoudHead, rebuild=None)):
        assert of(report, "loss").verdict == "measured"
        assert "may be trained" in notes(report, "loss")
    assert of(asked(Small, rebuild=None), "loss").verdict == "pass"


# The cache


def test_the_place_where_a_stale_cache_first_errs_is_named() -> None:
    # The first token is at position 0 with and without a cache; the second is not.
    assert "first differ at position 1" in notes(asked(models.StaleCache), "cache")


def test_a_cache_that_takes_one_token_at_a_time_is_asked_for_no_more() -> None:
    report = asked(models.OneAtATimeCache)
    assert "were not tried" in notes(report, "cache")
    assert not any("two pieces" in name for name in figures(report, "cache"))
    assert any("two pieces" in name for name in figures(asked(models.Cached), "cache"))


def test_a_cache_that_stays_in_the_model_is_found() -> None:
    report = asked(models.cache_on_module)
    assert figures(report, "cache")["a plain pass afterwards"] > 1e-4
    assert "stays in the model" in notes(report, "cache")


def test_without_a_cache_there_is_nothing_to_check() -> None:
    assert "tfinspect_cache_step" in of(asked(Small), "cache").reason


def test_a_past_that_is_taken_and_not_returned_is_no_cache() -> None:
    class Forgets(models.Cached):
        def forward(self, tokens: Tensor, past_key_values: Any = None, use_cache: bool = False) -> Any:
            return super().forward(tokens, past_key_values, use_cache)["logits"]

    assert "returns none" in of(asked(Forgets), "cache").reason


# Sizes and formats


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_judged_by_its_own_rounding(dtype: torch.dtype) -> None:
    for factory in (models.Tied, models.TorchEncoder, core):
        assert asked(lambda factory=factory: factory().to(dtype)).failed == ()
    for factory in (models.OneAhead, models.PositionsFromBatch, models.UncalledBlock):
        assert causes(asked(lambda factory=factory: factory().to(dtype))) == BROKEN[factory]


def test_one_position_has_nothing_to_leak() -> None:
    report = asked(models.FirstPosition, seq_len=1)
    assert report.failed == ()
    assert [c.id for c in report.checks if c.verdict == "not applicable"] == ["causality", "prefix", "cache", "ties"]
    with pytest.raises(InputError, match=r"IndexError: .*models\.py:\d+"):
        asked(models.FirstPosition)


def test_one_row_has_no_neighbours() -> None:
    report = asked(models.Unmasked, batch=1)
    assert of(report, "batch").verdict == "not applicable"
    assert causes(report) == {"causality"}


def test_two_ids_are_enough() -> None:
    assert asked(lambda: models.CausalMeans(vocab_size=2)).failed == ()


def test_long_sequences_are_cut_to_a_window_that_shows_the_leak() -> None:
    class LooksAheadLate(Small):
        """Row 10 adds the last token."""

        def embedded(self, tokens: Tensor) -> Tensor:
            x = super().embedded(tokens)
            late = (torch.arange(tokens.shape[1]) == 10).to(x)[:, None]
            return x + late * self.tokens(tokens[:, -1:])

    report = asked(LooksAheadLate, seq_len=16)
    assert causes(report) == {"causality"}
    table = report.tables()[-1]
    assert [column.title for column in table.columns][1:] == [f"row {i}" for i in range(8, 16)]
    assert "Positions 8 to 15 of 16" in " ".join(table.notes)


def test_the_vocabulary_can_be_narrower_than_the_logits() -> None:
    class Padded(Small):
        """A head that is wider than the token table."""

        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(D, V + 3, bias=False)

    with pytest.raises(InputError, match="IndexError") as caught:
        asked(Padded)
    assert "--vocab" in caught.value.hint
    report = asked(Padded, vocab_size=V)
    assert (report.failed, report.vocab_size, report.n_ids) == ((), V + 3, V)


# What cannot be checked


class AnswersShapes(nn.Module):
    def __init__(self, answer: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.answer, self.weight = answer, nn.Parameter(torch.ones(1))

    def forward(self, tokens: Tensor) -> Any:
        return self.answer(tokens)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda tokens: torch.zeros(*tokens.shape), r"\[3, 8\]"),
        (lambda tokens: torch.zeros(tokens.shape[0], 1, V), r"\[3, 1, 29\], not \[3, 8, V\]"),
        (lambda tokens: torch.zeros(tokens.shape[1], tokens.shape[0], V), r"\[8, 3, 29\]"),
        (lambda tokens: tokens[:, :, None], "int64"),
        (lambda tokens: {"loss": 1.0}, "'loss'"),
        (lambda tokens: None, "None"),
        (lambda tokens: torch.zeros(*tokens.shape, 1), "width of 1"),
        (lambda tokens: torch.zeros(2, 3) @ torch.zeros(2, 3), r"RuntimeError.*test_own_model\.py:\d+"),
        (lambda tokens: exec("raise SystemExit(3)"), "SystemExit: 3"),
    ],
)
def test_what_is_no_language_model_is_said_in_one_line(answer: Callable[[Tensor], Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        model_checks(AnswersShapes(answer))
    assert "\n" not in str(caught.value)


def test_parameters_without_values_are_refused() -> None:
    with pytest.raises(InputError, match=r"tokens\.weight is on the meta device"):
        model_checks(Small().to("meta"))
    with pytest.raises(InputError, match="has no shape yet"):
        model_checks(nn.Sequential(nn.Embedding(V, D), nn.LazyLinear(V)))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"seq_len": 0}, "--n"),
        ({"batch": -1}, "--batch"),
        ({"trials": 0}, "--trials"),
        ({"vocab_size": 1}, "--vocab"),
        ({"dtype": "int8"}, "'int8'"),
    ],
)
def test_sizes_that_ask_nothing_are_refused(how: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        asked(Small, **how)


def test_an_unknown_check_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="'causal'") as caught:
        asked(Small, "causal")
    assert all(name in caught.value.hint for name in CHECKS)


# Left as it was


class Stateful(models.CountsInPlace):
    """Everything that a pass can leave behind: a buffer, an attribute, a list, an object, a grown dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []
        self.box, self.by_name = models.Answered(torch.zeros(1)), {"first": 1}
        self.norm = nn.BatchNorm1d(D)
        self.dropout = nn.Dropout(0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.dropout(self.mixed(self.embedded(tokens)))
        self.seen.append(tokens)
        self.box.loss = x.sum()
        self.by_name[f"{len(self.seen)}"] = 2
        self.positions.weight.data.mul_(0.99)
        return self.head(self.norm(x.transpose(1, 2)).transpose(1, 2))


class RaisesLate(Stateful):
    """Raises in its twentieth pass."""

    passes = 0

    def forward(self, tokens: Tensor) -> Tensor:
        type(self).passes += 1
        logits = super().forward(tokens)
        if type(self).passes % 20 == 0:
            raise RuntimeError("late")
        return logits


@pytest.mark.parametrize("factory", [Small, Stateful, RaisesLate, models.DecaysWeights, models.cache_on_module])
@pytest.mark.parametrize("dtype", [None, "float64", "bfloat16"])
def test_the_model_and_all_randomness_are_left_as_they_were(
    factory: Callable[[], nn.Module], dtype: str | None
) -> None:
    model = made(factory)
    model.train()
    next(model.children()).eval()
    weight = next(model.parameters())
    weight.grad = torch.full_like(weight, 7.0)
    list(model.parameters())[-1].requires_grad_(False)
    hooks: list[Tensor] = []
    handle = model.register_forward_hook(lambda module, args, output: hooks.append(args[0]))
    pointers = [p.data_ptr() for p in model.parameters()]
    twin, attributes = copy.deepcopy(model.state_dict()), {m: dict(vars(m)) for m in model.modules()}
    contents = {name: len(vars(model)[name]) for name in ("seen", "by_name") if hasattr(model, name)}
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    threads = torch.get_num_threads()

    try:
        model_checks(model, dtype=dtype)
        raised = False
    except InputError as error:
        raised = "late" in error.message

    assert raised == (factory is RaisesLate)
    assert hooks
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before[1:]
    assert torch.get_num_threads() == threads
    assert [p.data_ptr() for p in model.parameters()] == pointers
    assert model.state_dict().keys() == twin.keys()
    for name, value in model.state_dict().items():
        assert value.dtype == twin[name].dtype
        assert torch.equal(value, twin[name]), name
    for module, saved in attributes.items():
        assert vars(module).keys() == saved.keys()
        assert all(vars(module)[name] is value for name, value in saved.items())
    assert contents == {name: len(vars(model)[name]) for name in contents}
    if isinstance(model, Stateful):
        assert model.box.loss is None
    assert torch.equal(weight.grad, torch.full_like(weight, 7.0))
    assert [p.requires_grad for p in model.parameters()][-1] is False
    assert all(p.grad is None for p in list(model.parameters())[1:])
    handle.remove()


# The report


def test_the_report_says_what_was_checked() -> None:
    report = asked(models.Tied, name="my_model:build")
    assert report.conventions.startswith("my_model:build: Tied, ")
    assert report.n_params == sum(p.numel() for p in models.Tied().parameters())
    content = report.to_dict()
    assert content["failed"] == content["causes"] == []
    json.dumps(content, allow_nan=False)
    assert [row.cells["verdict"] for row in report.tables()[0].rows] == [
        "not applicable" if check.id == "cache" else "pass" for check in report.checks
    ]


def test_explain_shows_each_figure_and_the_matrix_of_a_model_that_passes() -> None:
    brief, full = asked(Small), asked(Small, explain=True)
    assert len(brief.tables()) == 1
    shown = [str(row.cells.get("name")) for table in full.tables() for row in table.rows]
    for check in full.checks:
        assert all(figure.name in shown for figure in check.findings.figures)
    assert full.tables()[-1].title.startswith("Largest change of a logit")


class RaisesInTraining(nn.Module):
    """Answers in evaluation mode only."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(7, 6), nn.Linear(6, 7)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        if self.training:
            raise ValueError("not in training")
        return self.head(self.table(tokens))


class AllNaN(RaisesInTraining):
    """No number in any answer."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(tokens)) * float("nan")


def test_a_model_that_raises_in_training_mode_is_not_sound() -> None:
    report = model_checks(RaisesInTraining())
    finite = next(check for check in report.checks if check.id == "finite")
    assert finite.verdict == "fail"
    assert any("not in training" in note for note in finite.findings.notes)


def test_where_nothing_is_a_number_only_that_fails() -> None:
    verdicts = {check.id: check.verdict for check in model_checks(AllNaN()).checks}
    assert verdicts["finite"] == "fail"
    assert verdicts["determinism"] == verdicts["gradients"] == verdicts["causality"] == "not applicable"


def test_a_pass_of_more_tokens_than_it_is_worth_is_refused() -> None:
    with pytest.raises(InputError, match="300,000,000 tokens"):
        model_checks(AllNaN(), seq_len=100_000_000)
