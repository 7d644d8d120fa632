"""Seeded weights: what a seed means, and what building leaves alone."""

from __future__ import annotations

import math
import os

import pytest
import torch

from tfinspect.model import build as building
from tfinspect.model.build import build
from tfinspect.spec import ModelSpec

SPEC = ModelSpec(vocab_size=509, n_ctx=61, d_model=96, n_layers=3, n_heads=3, d_ff=384)


def test_a_seed_gives_the_same_weights_whatever_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "CHUNK", 1_000)  # several chunks even in a small table
    weights = []
    for n_cores in (1, 4):
        monkeypatch.setattr(os, "cpu_count", lambda n=n_cores: n)
        weights.append(build(SPEC, seed=3).state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    other = build(SPEC, seed=4).state_dict()
    assert not torch.equal(weights[0]["embed.tokens.weight"], other["embed.tokens.weight"])


def test_no_two_chunks_repeat_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "CHUNK", 1_000)
    flat = torch.cat([p.detach().flatten()[:1_000] for p in build(SPEC).parameters() if p.ndim > 1])
    table = build(SPEC).embed.tokens.weight.detach().flatten()
    chunks = torch.cat([flat, table])[: 1_000 * ((len(flat) + len(table)) // 1_000)].view(-1, 1_000)
    firsts = {tuple(chunk[:8].tolist()) for chunk in chunks}
    assert len(firsts) >= len(chunks) - 1  # the token table's first chunk is in both halves


def test_building_leaves_the_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    build(SPEC)
    assert torch.equal(before, torch.get_rng_state())


def test_weights_have_gpt2s_spread() -> None:
    # openai/gpt-2, src/model.py: 0.02 for matrices and tokens, 0.01 for positions; Radford et al. 2019, 2.3: 1/√N on
    # the layers that write to the residual stream, of which there are two in each block.
    model = build(SPEC)
    expected = {
        "embed.tokens.weight": 0.02,
        "embed.positions.weight": 0.01,
        "blocks.1.attn.q.weight": 0.02,
        "blocks.1.mlp.up.weight": 0.02,
        "blocks.1.attn.out.weight": 0.02 / math.sqrt(6),
        "blocks.1.mlp.down.weight": 0.02 / math.sqrt(6),
    }
    weights = model.state_dict()
    for name, std in expected.items():
        assert weights[name].std().item() == pytest.approx(std, rel=0.05), name
        assert abs(weights[name].mean().item()) < 5 * std / math.sqrt(weights[name].numel()), name
    assert (weights["blocks.0.norm1.weight"] == 1).all()
    assert all((w == 0).all() for name, w in weights.items() if name.endswith("bias"))


def test_the_meta_device_holds_no_memory_and_the_same_names() -> None:
    real, meta = build(SPEC), build(SPEC, device="meta")
    assert {p.device.type for p in meta.parameters()} == {"meta"}
    shapes = [{name: p.shape for name, p in model.named_parameters()} for model in (real, meta)]
    assert shapes[0] == shapes[1]
    assert not real.training
