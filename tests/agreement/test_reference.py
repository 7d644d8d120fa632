"""Two implementations of one forward pass, torch and NumPy, held against each other on every named tensor."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.specs import specs
from tfinspect import reference
from tfinspect.closed_form.shapes import expected
from tfinspect.dims import bind, sizes
from tfinspect.model.build import build
from tfinspect.spec import ModelSpec

Arrays = Mapping[str, Any]

IN_FLOAT64 = 1e-10
#: Per unit of a tensor's largest value: 24 bits of mantissa, a few dozen operations in a row, sums over up to 43 terms.
IN_FLOAT32 = 1e-4

TOKENS = np.array([[3, 1, 4, 1, 5, 9], [2, 7, 1, 8, 2, 8]])
BASE = ModelSpec(
    vocab_size=11, n_ctx=13, d_model=12, n_layers=2, n_heads=3, d_ff=17, activation="gelu", tied_head=False
)


class Keeper:
    """A tap that keeps every tensor."""

    sees_scores = True

    def __init__(self, kept: dict[str, Tensor], at: str = "") -> None:
        self.kept, self.at = kept, at

    def __call__(self, name: str, tensor: Tensor, dims: str) -> Tensor:
        self.kept[self.at + name] = tensor
        return tensor

    def within(self, place: str) -> Keeper:
        return Keeper(self.kept, f"{self.at}{place}.")


@dataclasses.dataclass(frozen=True)
class Case:
    """A model in torch, its parameters, and every tensor of a pass of it."""

    spec: ModelSpec
    tokens: Any
    weights: Arrays
    by_torch: Arrays


@torch.no_grad()
def case(spec: ModelSpec, tokens: Any, seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """A pass with parameters large enough for every part to matter: gains, biases and tables are random too."""
    model = build(spec).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.copy_(values / math.sqrt(parameter.shape[-1]) if parameter.ndim == 2 else 1 + values / 2)
    kept: dict[str, Tensor] = {}
    model(torch.tensor(tokens), Keeper(kept))
    weights = {name: parameter.numpy() for name, parameter in model.state_dict().items()}
    return Case(spec, tokens, weights, {name: tensor.numpy() for name, tensor in kept.items()})


def distance(one: Any, other: Any) -> float:
    """The largest difference, per unit of the largest value where that is above 1; ∞ where other cells are masked."""
    if one.shape != other.shape or not np.array_equal(np.isinf(one), np.isinf(other)):
        return math.inf
    finite = np.isfinite(other)
    scale = max(1.0, float(np.abs(other[finite]).max()))
    return float(np.abs(one[finite] - other[finite]).max()) / scale


def distances(made: Case, by_numpy: Arrays) -> dict[str, float]:
    """How far the two passes are apart, tensor by tensor."""
    assert list(by_numpy) == list(made.by_torch)
    return {name: distance(made.by_torch[name], tensor) for name, tensor in by_numpy.items()}


@st.composite
def batches(draw: st.DrawFn) -> tuple[ModelSpec, Any, int]:
    spec = draw(specs())
    n = draw(st.integers(1, min(spec.n_ctx, 12)))
    row = st.lists(st.integers(0, spec.vocab_size - 1), min_size=n, max_size=n)
    return spec, np.array(draw(st.lists(row, min_size=1, max_size=3))), draw(st.integers(0, 2**32))


@given(batches())
@settings(max_examples=120)
def test_every_named_tensor_is_the_same_in_float64_and_is_what_the_spec_implies(
    batch: tuple[ModelSpec, Any, int],
) -> None:
    spec, tokens, seed = batch
    made = case(spec, tokens, seed)
    by_numpy = reference.forward(spec, made.weights, tokens)
    bound = bind(spec, *tokens.shape)
    plan = [(e.name, sizes(e.dims, bound)) for e in expected(spec, *tokens.shape)]
    assert [(name, tensor.shape) for name, tensor in by_numpy.items()] == plan
    assert {str(tensor.dtype) for name, tensor in by_numpy.items() if name != "tokens"} == {"float64"}
    assert {name: d for name, d in distances(made, by_numpy).items() if not d <= IN_FLOAT64} == {}


@given(batches())
@settings(max_examples=60)
def test_every_named_tensor_is_near_in_float32(batch: tuple[ModelSpec, Any, int]) -> None:
    spec, tokens, seed = batch
    spec = spec.replace(norm_eps=1e-2)  # rows of one or two features may have next to no variance, and 1/σ blows up
    made = case(spec, tokens, seed, torch.float32)
    by_numpy = reference.forward(spec, made.weights, tokens)
    assert {name: d for name, d in distances(made, by_numpy).items() if not d <= IN_FLOAT32} == {}


def test_a_context_of_gpt2s_length_keeps_its_angles() -> None:
    for positions in ("sinusoidal", "rope", "alibi"):
        spec = BASE.replace(positions=positions, n_ctx=1_024, n_layers=1)
        made = case(spec, np.arange(1_024)[None] % 11)
        assert max(distances(made, reference.forward(spec, made.weights, made.tokens)).values()) <= IN_FLOAT64


def test_a_pass_costs_no_more_than_what_is_taken_from_it() -> None:
    taken = reference.named_tensors(BASE, case(BASE, TOKENS).weights, TOKENS)
    assert [next(taken)[0] for _ in range(4)] == ["tokens", "embed.tokens", "embed.positions", "embed.sum"]
    only = {"embed.tokens.weight": np.eye(11, 12), "embed.positions.weight": np.eye(13, 12)}
    taken = reference.named_tensors(BASE, only, TOKENS)
    assert [next(taken)[0] for _ in range(4)][-1] == "embed.sum"  # no other parameter was looked at
    with pytest.raises(KeyError, match="norm1"):
        next(taken)


#: One change of the model in NumPy, and the first tensor that has to show it.
WRONG_SPECS = [
    ({}, {"activation": "gelu_tanh"}, "blocks.0.mlp.activated"),
    ({}, {"activation": "relu"}, "blocks.0.mlp.activated"),
    ({"activation": "gelu_tanh"}, {"activation": "gelu"}, "blocks.0.mlp.activated"),
    ({}, {"norm_eps": 1e-6}, "blocks.0.norm1"),
    ({}, {"tied_head": True}, "logits"),
    ({"positions": "alibi"}, {"positions": "none"}, "blocks.0.attn.scores"),
    ({"positions": "rope"}, {"positions": "none"}, "blocks.0.attn.q"),
]


@pytest.mark.parametrize(("right", "wrong", "name"), WRONG_SPECS)
def test_another_choice_is_seen_where_it_acts_and_not_before(
    right: dict[str, Any], wrong: dict[str, Any], name: str
) -> None:
    spec = BASE.replace(**right)
    made = case(spec, TOKENS)
    apart = distances(made, reference.forward(spec.replace(**wrong), made.weights, TOKENS))
    assert next(other for other, d in apart.items() if d > IN_FLOAT64) == name
    assert apart["logits"] > IN_FLOAT64


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_other_placement_of_the_norms_is_another_model(placement: str) -> None:
    made = case(BASE.replace(placement=placement), TOKENS)
    other = BASE.replace(placement="post" if placement == "pre" else "pre")
    by_numpy = reference.forward(other, made.weights, TOKENS)
    assert distance(made.by_torch["embed.sum"], by_numpy["embed.sum"]) <= IN_FLOAT64
    assert distance(made.by_torch["blocks.0.attn.q"], by_numpy["blocks.0.attn.q"]) > 0.1
    assert distance(made.by_torch["logits"], by_numpy["logits"]) > 0.1


@pytest.mark.parametrize(
    ("positions", "function", "broken", "name"),
    [
        ("learned", "mask", lambda spec, n: np.zeros((n, n)), "blocks.0.attn.scores"),
        ("learned", "mask", lambda spec, n: np.triu(np.full((n, n), -np.inf), 2), "blocks.0.attn.scores"),
        ("learned", "math", SimpleNamespace(**{**vars(math), "sqrt": lambda x: 1.0}), "blocks.0.attn.scores"),
        ("learned", "softmax", lambda x: np.exp(x) / np.exp(x).sum(axis=-2, keepdims=True), "blocks.0.attn.weights"),
        ("learned", "heads_together", lambda x: x.swapaxes(1, 3).reshape(2, 6, 12), "blocks.0.attn.concat"),
        ("alibi", "slopes", lambda h: [2**-i for i in range(1, h + 1)], "blocks.0.attn.scores"),
        ("sinusoidal", "angles", lambda n, d: np.outer(np.arange(n), 1e4 ** -np.linspace(0, 1, d // 2)),
         "embed.positions"),
        ("rope", "turned", lambda x: x[..., ::-1], "blocks.0.attn.q"),
    ],
)  # fmt: skip
def test_a_broken_definition_is_seen_where_it_acts(
    positions: str, function: str, broken: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = BASE.replace(positions=positions)
    made = case(spec, TOKENS)
    monkeypatch.setattr(reference, function, broken)
    apart = distances(made, reference.forward(spec, made.weights, TOKENS))
    assert next(other for other, d in apart.items() if d > IN_FLOAT64) == name


def test_a_forgotten_bias_is_seen() -> None:
    made = case(BASE, TOKENS)
    for name in (name for name in made.weights if name.endswith(".bias")):
        without = {other: array for other, array in made.weights.items() if other != name}
        apart = distances(made, reference.forward(BASE, without, TOKENS))
        changes_nothing = name.endswith("attn.k.bias")  # it adds the same to every score of a row
        assert (apart["logits"] <= IN_FLOAT64) is changes_nothing, name


def test_gelu_is_its_definition() -> None:
    # x·Φ(x): Φ(0) = 1/2, Φ(1) = 0.841344746..., Φ(−1) = 1 − Φ(1), tables of the normal distribution.
    values = reference.gelu(np.array([0.0, 1.0, -1.0]))
    assert values.tolist() == pytest.approx([0, 0.8413447460685429, -0.15865525393145707], abs=1e-15)


def test_slopes_are_the_papers() -> None:
    # Press et al. 2022, 3: 8 heads 1/2, 1/4, ..., 1/256; 16 heads begin with 2^-0.5.
    assert reference.slopes(8) == pytest.approx([2**-i for i in range(1, 9)], abs=1e-15)
    assert reference.slopes(16)[:2] == pytest.approx([2**-0.5, 2**-1], abs=1e-15)
    assert reference.slopes(12) == pytest.approx([*reference.slopes(8), *reference.slopes(16)[:8:2]], abs=1e-15)
