"""A training step under observation: what the instruments see, and what the step does."""

from __future__ import annotations

import hashlib
import math

import pytest
import torch

from tfinspect.inspectors.train_step import ROUNDINGS
from tfinspect.measured.train_step import Kept, by_formula, loss_by_hand, sha256, train_step, update
from tfinspect.model.build import build
from tfinspect.presets import PRESETS
from tfinspect.results.train_step import Held, Optimizer

TINY = PRESETS["tiny-568"].spec
SGD = Optimizer("sgd", 0.1)
# torch's settings: Loshchilov and Hutter 2019 with λ = 0.01.
ADAMW = Optimizer("adamw", 0.001, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01)
IDS = [[3, 1, 4, 1, 5, 9]]


def test_a_fingerprint_is_the_sha256_of_all_bytes_and_sees_one_bit() -> None:
    one, two = torch.arange(6.0).view(2, 3), torch.tensor([1.5])
    assert sha256([one, two]) == hashlib.sha256(one.numpy().tobytes() + two.numpy().tobytes()).hexdigest()
    assert sha256([one.T]) == hashlib.sha256(one.T.contiguous().numpy().tobytes()).hexdigest()
    changed = two.clone()
    changed.view(torch.int32)[0] ^= 1  # the last bit of the fraction
    assert changed.item() == pytest.approx(1.5)
    assert sha256([one, two]) != sha256([one, changed])


def test_what_autograd_keeps_is_counted_once_without_parameters_and_is_gone_after_backward() -> None:
    layer = torch.nn.Linear(3, 5, bias=False)
    kept = Kept(layer)
    x = torch.ones(7, 3, requires_grad=True)
    with kept.hooks():
        y = layer(x)  # keeps x and the weight
        z = (y * y.view(7, 5)).exp().sum()  # keeps y, under two names, and exp(y²)
    assert kept.held == Held(3, 4 * (7 * 3 + 7 * 5 + 7 * 5))
    assert kept.parameters == Held(1, 4 * 15)
    z.backward()
    assert kept.held == Held(0, 0)


def test_what_is_kept_without_a_backward_goes_with_its_graph() -> None:
    kept = Kept(torch.nn.Linear(1, 1))
    with kept.hooks():
        y = torch.ones(4, requires_grad=True).exp()  # an output that is kept
    assert kept.held == Held(1, 16)
    del y
    assert kept.held == Held(0, 0)


def test_the_loss_by_hand_is_the_mean_of_minus_log_softmax() -> None:
    logits = torch.tensor([[[1.0, 2.0, 3.0], [0.0, 0.0, 1000.0], [5.0, 5.0, 5.0]]])
    first = -math.log(math.exp(3) / (math.exp(1) + math.exp(2) + math.exp(3)))
    assert loss_by_hand(logits, torch.tensor([[2, 0, 1]])) == pytest.approx((first + 1000 + math.log(3)) / 3, abs=1e-12)
    assert loss_by_hand(logits, torch.tensor([[2, -100, -100]])) == pytest.approx(first, abs=1e-12)


def test_the_first_step_of_adamw_is_that_of_the_published_algorithm() -> None:
    # Loshchilov and Hutter 2019, algorithm 2, lines 5 to 12 at t = 1, number by number.
    for p, g in ((0.5, 0.01), (-1.0, -3.0), (0.25, 0.0), (0.0, 1e-9)):
        m, v = (1 - 0.9) * g, (1 - 0.999) * g * g
        corrected = (m / (1 - 0.9)) / (math.sqrt(v / (1 - 0.999)) + 1e-8)
        wanted = p - 0.001 * (corrected + 0.01 / 0.001 * 0.001 * p)
        p64, g64 = torch.tensor([p], dtype=torch.float64), torch.tensor([g], dtype=torch.float64)
        assert by_formula(ADAMW, p64, g64).item() == pytest.approx(wanted, rel=1e-12, abs=1e-18)


@pytest.mark.parametrize("settings", [SGD, Optimizer("sgd", 0.1, momentum=0.9), ADAMW], ids=lambda s: s.title)
def test_an_update_by_another_rule_is_seen(settings: Optimizer) -> None:
    before = torch.linspace(-1, 1, 101)
    gradient = torch.linspace(3, -2, 101)
    parameter = torch.nn.Parameter(before.clone())
    parameter.grad = gradient.clone()
    make = {
        "sgd": lambda: torch.optim.SGD([parameter], lr=settings.lr, momentum=settings.momentum),
        "adamw": lambda: torch.optim.AdamW([parameter], lr=settings.lr, weight_decay=settings.weight_decay),
    }
    make[settings.name]().step()
    after = parameter.detach()
    found = update(settings, "head.weight", before.clone(), after, gradient)
    assert found.deviation <= ROUNDINGS[settings.name]
    assert found.changed == int((before != after).sum())
    assert found.norm == pytest.approx((after.double() - before.double()).norm().item())
    assert found.first_order == pytest.approx((gradient.double() * (after.double() - before.double())).sum().item())
    faster = Optimizer(**{**vars(settings), "lr": settings.lr * 1.001})
    assert update(faster, "head.weight", before, after, gradient).deviation > ROUNDINGS[settings.name]


def test_an_update_that_is_no_number_is_not_near_the_formula() -> None:
    before, gradient = torch.zeros(3), torch.ones(3)
    after = torch.tensor([-0.1, math.nan, -0.1])
    assert math.isnan(update(SGD, "head.weight", before, after, gradient).deviation)


def test_the_stages_touch_what_they_should_and_nothing_else() -> None:
    # Chapter B, 15.8.
    ran = train_step(TINY, IDS, lengths=[6], optimizer=ADAMW)
    stages = {stage.name: stage for stage in ran.stages}
    assert list(stages) == ["start", "forward", "loss", "backward", "step", "zero_grad"]
    digests = [stage.parameters_sha256 for stage in ran.stages]
    assert digests[0] == digests[1] == digests[2] == digests[3] == sha256(build(TINY).parameters())
    assert digests[3] != digests[4] == digests[5]
    assert [stage.gradients.tensors for stage in ran.stages] == [0, 0, 0, 36, 36, 0]
    assert stages["backward"].gradients_sha256 == stages["step"].gradients_sha256
    assert [stage.state.tensors for stage in ran.stages] == [0, 0, 0, 0, 108, 108]
    assert [stage.kept.tensors > 0 for stage in ran.stages] == [False, True, True, False, False, False]


def test_gradients_are_those_of_a_plain_backward() -> None:
    ran = train_step(TINY, IDS, lengths=[6], optimizer=SGD)
    model, tokens = build(TINY), torch.tensor(IDS)
    logits = model(tokens)
    loss = -logits[:, :-1].log_softmax(-1).gather(2, tokens[:, 1:, None]).mean()
    loss.backward()
    assert ran.losses.from_logits == pytest.approx(loss.item(), rel=1e-6)
    for gradient, (name, parameter) in zip(ran.gradients, model.named_parameters(), strict=True):
        assert (gradient.name, gradient.shape) == (name, tuple(parameter.shape))
        assert parameter.grad is not None
        assert gradient.norm == pytest.approx(parameter.grad.norm().item(), rel=1e-4, abs=1e-9)


def test_probabilities_in_the_place_of_logits_give_another_loss_and_hardly_a_gradient() -> None:
    losses = train_step(TINY, IDS, lengths=[6], optimizer=SGD).losses
    logits = build(TINY)(torch.tensor(IDS)).detach()[:, :-1]
    mistaken = loss_by_hand(logits.softmax(-1), torch.tensor(IDS)[:, 1:])
    assert losses.from_probabilities == pytest.approx(mistaken, rel=1e-6)
    assert losses.from_probabilities != pytest.approx(losses.from_logits, rel=1e-4)
    assert losses.mistaken_logit_gradient < losses.logit_gradient / 5


def test_the_tied_table_receives_both_gradients_and_neither_alone() -> None:
    ran = train_step(TINY, IDS, lengths=[6], optimizer=SGD)
    assert ran.tied is not None
    assert ran.tied.difference <= 1e-6
    table = ran.gradients[0]
    assert table.name == "embed.tokens.weight"
    for part in (ran.tied.look_up, ran.tied.head):
        assert part.norm > 0
        assert part.norm != pytest.approx(table.norm, rel=1e-3)
    assert ran.tied.look_up.rows == len({3, 1, 4, 5})  # 9 comes last: nothing is predicted from it
    assert ran.tied.head.rows == TINY.vocab_size
    assert train_step(TINY.replace(tied_head=False), IDS, lengths=[6], optimizer=SGD).tied is None


def test_positions_get_a_gradient_up_to_the_last_but_one() -> None:
    ran = train_step(TINY, IDS, lengths=[6], optimizer=SGD)
    positions = next(g for g in ran.gradients if g.component == "positions")
    assert positions.rows == 5
    assert positions.zeros == (8 - 5) * 4


def test_one_prediction_from_one_token_teaches_queries_and_keys_nothing() -> None:
    # The first position attends to itself with weight 1, whatever the score.
    ran = train_step(TINY, [[3, 1]], lengths=[2], optimizer=SGD)
    by_name = {g.name: g for g in ran.gradients}
    for layer in range(TINY.n_layers):
        assert by_name[f"blocks.{layer}.attn.q.weight"].norm == 0
        assert by_name[f"blocks.{layer}.attn.k.weight"].norm == 0
        assert by_name[f"blocks.{layer}.attn.v.weight"].norm > 0


def test_a_small_step_changes_the_loss_as_its_gradient_says() -> None:
    settings = Optimizer("sgd", 5e-5)
    ran = train_step(TINY, IDS, lengths=[6], optimizer=settings)
    first_order = sum(u.first_order for u in ran.updates)
    assert first_order == pytest.approx(-settings.lr * sum(g.norm**2 for g in ran.gradients), rel=1e-3)
    change = ran.losses.after_step - ran.losses.from_logits
    assert change == pytest.approx(first_order, rel=0.02)


def test_momentum_changes_what_is_remembered_and_not_the_first_step() -> None:
    plain = train_step(TINY, IDS, lengths=[6], optimizer=SGD)
    heavy = train_step(TINY, IDS, lengths=[6], optimizer=Optimizer("sgd", 0.1, momentum=0.9))
    assert plain.stages[-1].parameters_sha256 == heavy.stages[-1].parameters_sha256
    assert plain.stages[-1].state == Held(0, 0)
    assert heavy.stages[-1].state == Held(36, 4 * 568)


def test_padding_is_no_part_of_the_loss() -> None:
    long, short = [3, 1, 4, 1, 5], [9, 2, 6]
    both = train_step(TINY, [long, [*short, 9, 9]], lengths=[5, 3], optimizer=SGD).losses
    one, two = (train_step(TINY, [row], lengths=[len(row)], optimizer=SGD).losses for row in (long, short))
    assert both.n_predictions == 6
    assert both.from_logits == pytest.approx((4 * one.from_logits + 2 * two.from_logits) / 6, rel=1e-6)


def test_dropout_repeats_itself_and_leaves_the_global_random_state_alone() -> None:
    spec = TINY.replace(dropout=0.5)
    before = torch.random.get_rng_state()
    one, same, other = (train_step(spec, IDS, lengths=[6], optimizer=SGD, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert one.losses == same.losses != other.losses
    assert one.doubling <= 1e-6  # the second pass drops what the first one dropped
    assert one.tied is not None
    assert one.tied.difference <= 1e-6
