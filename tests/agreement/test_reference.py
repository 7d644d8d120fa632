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
from tfinspect.errors import InputError
from tfinspect.model.build import build
from tfinspect.model.positions import relative_buckets
from tfinspect.spec import ModelSpec

Arrays = Mapping[str, Any]

IN_FLOAT64 = 1e-10
#: Per unit of a tensor's largest value: 24 bits of mantissa, a few dozen operations in a row, sums over up to 43 terms.
IN_FLOAT32 = 1e-4

TOKENS = np.array([[3, 1, 4, 1, 5, 9], [2, 7, 1, 8, 2, 8]])
SOURCE = np.array([[1, 6, 1, 8, 0, 3, 3, 9], [5, 7, 7, 2, 1, 5, 6, 6]])
BASE = ModelSpec(
    vocab_size=11, n_ctx=13, d_model=12, n_layers=2, n_heads=3, d_ff=17, activation="gelu", tied_head=False
)

#: The definitions themselves, where a test breaks one of them in one place.
SOFTMAX, BIAS = reference.softmax, reference.relative_bias


class Keeper:
    """A tap that keeps every tensor, each of the shape that it says it has."""

    sees_scores = True

    def __init__(self, kept: dict[str, Tensor], bound: Mapping[str, int], at: str = "") -> None:
        self.kept, self.bound, self.at = kept, bound, at

    def __call__(self, name: str, tensor: Tensor, dims: str) -> Tensor:
        assert tuple(tensor.shape) == sizes(dims, self.bound), name
        self.kept[self.at + name] = tensor
        return tensor

    def within(self, place: str) -> Keeper:
        return Keeper(self.kept, self.bound, f"{self.at}{place}.")


@dataclasses.dataclass(frozen=True)
class Case:
    """A model in torch, its parameters, and every tensor of a pass of it."""

    spec: ModelSpec
    tokens: Any
    source: Any
    weights: Arrays
    by_torch: Arrays

    def in_numpy(self, spec: ModelSpec | None = None, weights: Arrays | None = None) -> dict[str, Any]:
        """The same pass in NumPy, or that of another spec or of other parameters."""
        return reference.forward(spec or self.spec, weights or self.weights, self.tokens, self.source)


@torch.no_grad()
def case(
    spec: ModelSpec, tokens: Any = TOKENS, source: Any = None, *, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Case:
    """A pass with parameters large enough for every part to matter: gains, biases and tables are random too.

    An encoder–decoder reads SOURCE where no source is given.
    """
    if source is None and spec.architecture == "encoder_decoder":
        source = SOURCE
    model = filled(spec, seed).to(dtype)
    kept: dict[str, Tensor] = {}
    keeper = Keeper(kept, bind(spec, *tokens.shape, n_source=0 if source is None else source.shape[1]))
    model(torch.tensor(tokens), keeper, source=None if source is None else torch.tensor(source))
    weights = {name: parameter.numpy() for name, parameter in model.state_dict().items()}
    return Case(spec, tokens, source, weights, {name: tensor.numpy() for name, tensor in kept.items()})


@torch.no_grad()
def filled(spec: ModelSpec, seed: int) -> torch.nn.Module:
    """A model with random numbers for every parameter."""
    model = build(spec).double()
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.copy_(values / math.sqrt(parameter.shape[-1]) if parameter.ndim == 2 else 1 + values / 2)
    return model


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


def first_apart(made: Case, by_numpy: Arrays) -> str | None:
    """The first tensor of the torch pass that the other lacks, or that is another one there; or one too many there."""
    for name, tensor in made.by_torch.items():
        if name not in by_numpy or not distance(tensor, by_numpy[name]) <= IN_FLOAT64:
            return name
    return next((name for name in by_numpy if name not in made.by_torch), None)


@st.composite
def batches(draw: st.DrawFn) -> tuple[ModelSpec, Any, Any, int]:
    """A spec, tokens, a source where an encoder reads one, and a seed."""
    spec = draw(specs())
    n_sequences = draw(st.integers(1, 3))

    def ids() -> Any:
        n = draw(st.integers(1, min(spec.n_ctx, 12)))
        row = st.lists(st.integers(0, spec.vocab_size - 1), min_size=n, max_size=n)
        return np.array(draw(st.lists(row, min_size=n_sequences, max_size=n_sequences)))

    tokens, source = ids(), ids() if spec.architecture == "encoder_decoder" else None
    return spec, tokens, source, draw(st.integers(0, 2**32))


@given(batches())
@settings(max_examples=240)
def test_every_named_tensor_is_the_same_in_float64_and_is_what_the_spec_implies(
    batch: tuple[ModelSpec, Any, Any, int],
) -> None:
    spec, tokens, source, seed = batch
    made = case(spec, tokens, source, seed=seed)
    by_numpy = made.in_numpy()
    n_source = 0 if source is None else source.shape[1]
    bound = bind(spec, *tokens.shape, n_source=n_source)
    plan = [(e.name, sizes(e.dims, bound)) for e in expected(spec, *tokens.shape, source_len=n_source)]
    assert [(name, tensor.shape) for name, tensor in by_numpy.items()] == plan
    assert {str(tensor.dtype) for name, tensor in by_numpy.items() if not name.endswith("tokens")} == {"float64"}
    assert {name: d for name, d in distances(made, by_numpy).items() if not d <= IN_FLOAT64} == {}


@given(batches())
@settings(max_examples=100)
def test_every_named_tensor_is_near_in_float32(batch: tuple[ModelSpec, Any, Any, int]) -> None:
    spec, tokens, source, seed = batch
    spec = spec.replace(norm_eps=1e-2)  # rows of one or two features may have next to no variance, and 1/σ blows up
    made = case(spec, tokens, source, seed=seed, dtype=torch.float32)
    assert {name: d for name, d in distances(made, made.in_numpy()).items() if not d <= IN_FLOAT32} == {}


def test_a_context_of_gpt2s_length_keeps_its_angles() -> None:
    for positions in ("sinusoidal", "rope", "alibi"):
        spec = BASE.replace(positions=positions, n_ctx=1_024, n_layers=1)
        made = case(spec, np.arange(1_024)[None] % 11)
        assert max(distances(made, made.in_numpy()).values()) <= IN_FLOAT64


def test_a_pass_costs_no_more_than_what_is_taken_from_it() -> None:
    taken = reference.named_tensors(BASE, case(BASE).weights, TOKENS)
    assert [next(taken)[0] for _ in range(4)] == ["tokens", "embed.tokens", "embed.positions", "embed.sum"]
    only = {"embed.tokens.weight": np.eye(11, 12), "embed.positions.weight": np.eye(13, 12)}
    taken = reference.named_tensors(BASE, only, TOKENS)
    assert [next(taken)[0] for _ in range(4)][-1] == "embed.sum"  # no other parameter was looked at
    with pytest.raises(KeyError, match="norm1"):
        next(taken)


ENCODER = {"architecture": "encoder"}
BOTH = {"architecture": "encoder_decoder", "n_encoder_layers": 1}
ROPE = {"positions": "rope"}
RELATIVE = {"positions": "relative", "n_buckets": 4, "max_distance": 9}
EXPERTS = {"n_experts": 5, "n_experts_per_token": 2, "d_expert": 7}
NO_EXPERTS = {"n_experts": 0, "n_experts_per_token": 0, "d_expert": 0}

#: What a model has, what the pass in NumPy has in its place, and the first tensor that has to show it.
FEATURES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"norm": "rmsnorm"}, {"norm": "layernorm"}, "blocks.0.norm1"),
    ({"norm_eps": 1e-3}, {"norm_eps": 1e-5}, "blocks.0.norm1"),
    ({"placement": "pre"}, {"placement": "post"}, "blocks.0.norm1"),
    ({"placement": "post"}, {"placement": "pre"}, "blocks.0.attn.q"),
    ({"placement": "sandwich"}, {"placement": "pre"}, "blocks.0.norm1_out"),
    ({"placement": "parallel"}, {"placement": "pre"}, "blocks.0.norm2"),
    ({"placement": "parallel_one_norm"}, {"placement": "parallel"}, "blocks.0.mlp.hidden"),
    ({"final_norm": False}, {"final_norm": True}, "logits"),
    ({"activation": "gelu"}, {"activation": "gelu_tanh"}, "blocks.0.mlp.activated"),
    ({"activation": "gelu_tanh"}, {"activation": "gelu"}, "blocks.0.mlp.activated"),
    ({"activation": "relu"}, {"activation": "gelu"}, "blocks.0.mlp.activated"),
    ({"activation": "silu"}, {"activation": "gelu"}, "blocks.0.mlp.activated"),
    ({"activation": "swiglu"}, {"activation": "silu"}, "blocks.0.mlp.gate"),
    ({"activation": "geglu"}, {"activation": "geglu_tanh"}, "blocks.0.mlp.activated"),
    ({"activation": "geglu_tanh"}, {"activation": "swiglu"}, "blocks.0.mlp.activated"),
    ({"d_head": 5}, {"d_head": 4}, "blocks.0.attn.scores"),
    ({"qk_norm": True}, {"qk_norm": False}, "blocks.0.attn.q"),
    ({"qk_norm": True, **ROPE}, {"positions": "none"}, "blocks.0.attn.q"),
    ({"scale_scores": False}, {"scale_scores": True}, "blocks.0.attn.scores"),
    ({"window": 3}, {"window": 0}, "blocks.0.attn.scores"),
    ({"window": 3}, {"window": 4}, "blocks.0.attn.scores"),
    ({"window": 3, "global_every": 2}, {"global_every": 0}, "blocks.1.attn.scores"),
    ({"positions": "sinusoidal"}, {"positions": "none"}, "embed.positions"),
    ({"position_offset": 2}, {"position_offset": 0}, "embed.positions"),
    (ROPE, {"positions": "none"}, "blocks.0.attn.q"),
    ({**ROPE, "rope_dim": 2}, {"rope_dim": 4}, "blocks.0.attn.q"),
    ({**ROPE, "rope_base": 500.0}, {"rope_base": 1e4}, "blocks.0.attn.q"),
    ({"positions": "alibi"}, {"positions": "none"}, "blocks.0.attn.scores"),
    (RELATIVE, {"positions": "none"}, "blocks.0.attn.scores"),
    (RELATIVE, {"max_distance": 128}, "blocks.0.attn.scores"),
    ({**RELATIVE, "n_buckets": 8}, {"n_buckets": 4}, "blocks.0.attn.scores"),
    ({**RELATIVE, **ENCODER}, {"positions": "none"}, "blocks.0.attn.scores"),
    ({"embed_scale": True}, {"embed_scale": False}, "embed.scaled"),
    ({"embed_norm": True}, {"embed_norm": False}, "embed.norm"),
    (EXPERTS, NO_EXPERTS, "blocks.0.mlp.router"),
    (EXPERTS, {"n_experts_per_token": 3}, "blocks.0.mlp.gates"),
    ({**EXPERTS, "activation": "swiglu"}, {"activation": "geglu"}, "blocks.0.mlp.experts"),
    ({**EXPERTS, "n_shared_experts": 2}, {"n_shared_experts": 0}, "blocks.0.mlp.shared"),
    ({**EXPERTS, "n_dense_layers": 1}, {"n_dense_layers": 0}, "blocks.0.mlp.hidden"),
    ({"tied_head": False}, {"tied_head": True}, "logits"),
    ({"head_bias": True}, {"head_bias": False}, "logits"),
    ({"head": "none"}, {"head": "lm"}, "logits"),
    (ENCODER, {"architecture": "decoder"}, "blocks.0.attn.scores"),
    ({**ENCODER, "n_token_types": 2}, {"n_token_types": 0}, "embed.types"),
    ({**ENCODER, "head": "mlm"}, {"head": "lm"}, "mlm.dense"),
    ({**ENCODER, "head": "mlm", "activation": "swiglu"}, {"activation": "geglu"}, "blocks.0.mlp.activated"),
    ({**ENCODER, "pooler": True}, {"pooler": False}, "pooled"),
    ({**ENCODER, "pooler": True, "head": "none"}, {"pooler": False}, "pooled"),
    (BOTH, {"n_encoder_layers": 2}, "encoder.final_norm"),
    ({**BOTH, "placement": "post"}, {"placement": "pre"}, "encoder.blocks.0.attn.q"),
    ({**BOTH, "final_norm": False}, {"final_norm": True}, "decoder.blocks.0.cross.k"),
    ({**BOTH, **ROPE}, {"positions": "none"}, "encoder.blocks.0.attn.q"),
    ({**BOTH, **RELATIVE}, {"positions": "none"}, "encoder.blocks.0.attn.scores"),
    ({**BOTH, "embed_norm": True}, {"embed_norm": False}, "encoder.embed.norm"),
    ({**BOTH, "position_offset": 2}, {"position_offset": 0}, "encoder.embed.positions"),
    ({**BOTH, "qk_norm": True}, {"qk_norm": False}, "encoder.blocks.0.attn.q"),
    ({**BOTH, "tied_head": True, "head_bias": True}, {"head_bias": False}, "logits"),
]


@pytest.mark.parametrize(("has", "in_its_place", "name"), FEATURES)
def test_a_feature_is_the_same_in_both_and_seen_where_it_acts_and_not_before(
    has: dict[str, Any], in_its_place: dict[str, Any], name: str
) -> None:
    spec = BASE.replace(**has)
    made, in_float32 = case(spec), case(spec.replace(norm_eps=1e-3), dtype=torch.float32)
    assert max(distances(made, made.in_numpy()).values()) <= IN_FLOAT64
    assert max(distances(in_float32, in_float32.in_numpy()).values()) <= IN_FLOAT32
    other = spec.replace(**in_its_place)
    own = {name: parameter.detach().numpy() for name, parameter in filled(other, 1).state_dict().items()}
    assert first_apart(made, made.in_numpy(other, {**own, **made.weights})) == name


def test_a_shared_key_is_a_key_of_its_own_for_each_head_of_its_group() -> None:
    spec = BASE.replace(n_heads=6, n_kv_heads=2, d_head=2)
    made, each = case(spec), spec.replace(n_kv_heads=6)
    assert first_apart(made, made.in_numpy()) is None

    def apart(shared: list[int]) -> str | None:
        copies = {
            name: tensor.reshape(2, 2, *tensor.shape[1:])[shared].reshape(12, *tensor.shape[1:])
            for name, tensor in made.weights.items()
            if ".attn.k." in name or ".attn.v." in name
        }
        by_numpy = made.in_numpy(each, {**made.weights, **copies})
        shown = {name: t[:, ::3] if name.endswith((".attn.k", ".attn.v")) else t for name, t in by_numpy.items()}
        return first_apart(made, shown)

    assert apart([0, 0, 0, 1, 1, 1]) is None
    assert apart([0, 1, 0, 1, 0, 1]) == "blocks.0.attn.scores"
    assert apart([1, 1, 1, 0, 0, 0]) == "blocks.0.attn.k"


def test_one_key_for_all_heads_is_the_same_in_both() -> None:
    for kind in ({}, BOTH, {**ROPE, "qk_norm": True}):
        made = case(BASE.replace(n_kv_heads=1, **kind))
        assert first_apart(made, made.in_numpy()) is None


def test_a_decoder_reads_its_own_source() -> None:
    made = case(BASE.replace(**BOTH, tied_head=True))
    assert first_apart(made, made.in_numpy()) is None
    alike = dataclasses.replace(made, source=np.roll(SOURCE, 1, axis=0))
    assert first_apart(made, {**alike.in_numpy(), "source.tokens": SOURCE}) == "encoder.embed.tokens"
    read = dataclasses.replace(made, tokens=TOKENS[:, ::-1])
    assert first_apart(made, {**read.in_numpy(), "tokens": TOKENS}) == "decoder.embed.tokens"


def test_a_source_is_read_by_an_encoder_and_an_encoder_reads_a_source() -> None:
    made, both = case(BASE), case(BASE.replace(**BOTH))
    with pytest.raises(InputError, match="reads no source"):
        reference.forward(BASE, made.weights, TOKENS, SOURCE)
    with pytest.raises(InputError, match="give the source"):
        reference.forward(both.spec, both.weights, TOKENS)


@pytest.mark.parametrize(
    ("has", "function", "broken", "name"),
    [
        ({}, "mask", lambda spec, n, window, causal: np.zeros((n, n)), "blocks.0.attn.scores"),
        ({}, "mask", lambda spec, n, window, causal: np.triu(np.full((n, n), -np.inf), 2), "blocks.0.attn.scores"),
        ({}, "math", SimpleNamespace(**{**vars(math), "sqrt": lambda x: 1.0}), "blocks.0.attn.scores"),
        ({}, "softmax", lambda x: np.exp(x) / np.exp(x).sum(axis=-2, keepdims=True), "blocks.0.attn.weights"),
        ({}, "heads_together", lambda x: x.swapaxes(1, 3).reshape(2, 6, 12), "blocks.0.attn.concat"),
        ({"positions": "alibi"}, "slopes", lambda h: [2**-i for i in range(1, h + 1)], "blocks.0.attn.scores"),
        ({"positions": "sinusoidal"}, "angles", lambda n, d, base: np.outer(np.arange(n), np.linspace(1, 0, d // 2)),
         "embed.positions"),
        (ROPE, "turned", lambda x, width, base: x[..., ::-1], "blocks.0.attn.q"),
        (RELATIVE, "buckets", lambda back, n, far, both_ways: np.clip(back, 0, n - 1), "blocks.0.attn.scores"),
        ({**RELATIVE, **ENCODER}, "buckets", lambda back, n, far, both_ways: (np.abs(back) > 0) + 2 * (back > 0),
         "blocks.0.attn.scores"),
        (EXPERTS, "softmax", lambda x: np.full(x.shape, 0.5) if x.shape[-1] == 2 else SOFTMAX(x),
         "blocks.0.mlp.gates"),
        ({**BOTH, **RELATIVE}, "relative_bias", lambda spec, table, n, causal: BIAS(spec, table, n, causal=True),
         "encoder.blocks.0.attn.scores"),
        ({**BOTH, **RELATIVE}, "relative_bias", lambda spec, table, n, causal: BIAS(spec, table, n, causal=False),
         "decoder.blocks.0.attn.scores"),
    ],
)  # fmt: skip
def test_a_broken_definition_is_seen_where_it_acts(
    has: dict[str, Any], function: str, broken: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = case(BASE.replace(**has))
    monkeypatch.setattr(reference, function, broken)
    assert first_apart(made, made.in_numpy()) == name


@pytest.mark.parametrize(
    "has",
    [
        {},
        {"qk_norm": True, **EXPERTS, "n_experts_per_token": 5, "n_shared_experts": 1, "activation": "swiglu"},
        {**ENCODER, "head": "mlm", "embed_norm": True, "placement": "post", "pooler": True},
        {**BOTH, "embed_norm": True, "head_bias": True},
    ],
)
def test_a_forgotten_bias_is_seen(has: dict[str, Any]) -> None:
    made = case(BASE.replace(**has))
    of_no_effect = "k_norm.bias" if made.spec.qk_norm else ".k.bias"  # it adds the same to every score of a row
    for name in (name for name in made.weights if name.endswith(".bias") and name != "head.bias"):
        without = {other: array for other, array in made.weights.items() if other != name}
        apart = distances(made, made.in_numpy(weights=without))
        end = "pooled" if name.startswith("pooler") else "logits"
        assert (apart[end] <= IN_FLOAT64) is name.endswith(of_no_effect), name


def test_gelu_is_its_definition() -> None:
    # x·Φ(x): Φ(0) = 1/2, Φ(1) = 0.841344746..., Φ(−1) = 1 − Φ(1), tables of the normal distribution.
    values = reference.gelu(np.array([0.0, 1.0, -1.0]))
    assert values.tolist() == pytest.approx([0, 0.8413447460685429, -0.15865525393145707], abs=1e-15)


def test_slopes_are_the_papers() -> None:
    # Press et al. 2022, 3: 8 heads 1/2, 1/4, ..., 1/256; 16 heads begin with 2^-0.5.
    assert reference.slopes(8) == pytest.approx([2**-i for i in range(1, 9)], abs=1e-15)
    assert reference.slopes(16)[:2] == pytest.approx([2**-0.5, 2**-1], abs=1e-15)
    assert reference.slopes(12) == pytest.approx([*reference.slopes(8), *reference.slopes(16)[:8:2]], abs=1e-15)


def test_buckets_are_the_papers() -> None:
    # Raffel et al. 2020, 2.1: 32 biases, a range of distances each, growing logarithmically up to 128, and one beyond.
    ahead_and_back = reference.buckets(np.arange(-200, 201), 32, 128, both_ways=True)
    back = reference.buckets(np.arange(-200, 201), 32, 128, both_ways=False)
    assert set(back.tolist()) == set(range(32))
    assert set(ahead_and_back.tolist()) == set(range(32)) - {16}  # no key is ahead by 0
    assert back[:201].tolist() == [0] * 201  # a later key, which a causal mask hides
    assert back[200:].tolist() == sorted(back[200:].tolist())
    assert back[200 + 112] < back[200 + 113] == back[-1] == 31  # the last begins at 16·8^(15/16) = 112.4
    assert back[200:217].tolist() == list(range(17))
    # Half of the 16 buckets of one direction hold one distance; 16 = 8·√4, 32 and 64 follow at every second bucket.
    assert ahead_and_back[[200, 207, 208, 216, 232, 264, 328]].tolist() == [0, 7, 8, 10, 12, 14, 15]
    assert ahead_and_back[[199, 193, 192, 184, 168, 136, 72]].tolist() == [17, 23, 24, 26, 28, 30, 31]


@given(st.integers(1, 32), st.integers(1, 32), st.integers(1, 64), st.booleans())
def test_buckets_begin_at_the_same_distance_in_both(quarter: int, times: int, beyond: int, causal: bool) -> None:
    n_buckets = 4 * quarter
    for max_distance in (n_buckets * (times + 1), n_buckets + beyond):  # of the first, ranges begin at whole numbers
        by_torch = relative_buckets(201, 201, n_buckets, max_distance, causal).numpy()
        asking, answering = np.indices((201, 201))
        by_numpy = reference.buckets(asking - answering, n_buckets, max_distance, both_ways=not causal)
        seen = (answering <= asking) | (not causal)
        assert np.array_equal(by_torch[seen], by_numpy[seen])
