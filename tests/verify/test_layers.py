"""The kinds of layer, and where norms stand: each kind is refuted by a layer of another kind."""

from __future__ import annotations

import pytest
from torch import Tensor

from tests.verify.broken import failing
from tfinspect.model.encoder_decoder import DecoderBlock, encoder_block
from tfinspect.model.tap import Tap
from tfinspect.model.transformer import Block
from tfinspect.presets import PRESETS
from tfinspect.spec import ModelSpec
from tfinspect.verify import layers
from tfinspect.verify.propositions import Settings

SETTINGS = Settings()
GPT1, GPT2 = PRESETS["gpt1"].spec, PRESETS["gpt2"].spec


class DeafDecoder(DecoderBlock):
    """Cross-attention reads the decoder's own rows."""

    def forward(self, x: Tensor, memory: Tensor, tap: Tap, *past: object) -> Tensor:
        return super().forward(x, x, tap)


def unmasked_decoder(spec: ModelSpec) -> Block:
    block = DecoderBlock(spec)
    block.attn.causal = False
    return block


def encoder_without_mlp(spec: ModelSpec) -> Block:
    class AttentionAlone(type(encoder_block(spec))):  # type: ignore[misc]
        def forward(self, x: Tensor, tap: Tap, *past: object) -> Tensor:
            return self.norm1(x + self.attn(x, tap.within("attn")))

    block = encoder_block(spec)
    block.__class__ = AttentionAlone
    del block.mlp
    return block


@pytest.mark.breaks("A8.2")
@pytest.mark.parametrize(
    ("layer", "wrong"),
    [
        ({"encoder": layers.decoder_only}, ["encoder: mask"]),
        ({"encoder": encoder_without_mlp}, ["parts", "parts that ran", "MLPs"]),
        ({"decoder": unmasked_decoder}, ["decoder: mask"]),
        ({"decoder": DeafDecoder}, ["cross-attention"]),
        ({"decoder": layers.decoder_only}, ["cross-attention", "parts", "parts that ran"]),
        ({"only": encoder_block}, ["decoder-only: mask"]),
        ({"only": DecoderBlock}, ["cross-attention", "parts", "parts that ran"]),
    ],
)
def test_a_layer_of_another_kind_is_named(layer: dict[str, layers.Layer], wrong: list[str]) -> None:
    assert failing(layers.kinds(SETTINGS, **layer)) == wrong


@pytest.mark.breaks("B15.1.2")
@pytest.mark.parametrize(
    ("specs", "wrong"),
    [
        ({"gpt1": GPT1.replace(placement="pre")}, ["GPT-1: from LN(x + F(x))", "from x + F(LN(x))"]),
        ({"gpt1": GPT1.replace(final_norm=True)}, ["change before the head"]),
        ({"gpt2": GPT2.replace(placement="post")}, ["GPT-2: from LN(x + F(x))", "from x + F(LN(x))"]),
        ({"gpt2": GPT2.replace(final_norm=False)}, ["change before the head", "head reads LN(X): difference"]),
        ({"gpt2": GPT2.replace(n_ctx=512)}, ["positions, GPT-2 against GPT-1"]),
    ],
)
def test_norms_elsewhere_are_named(specs: dict[str, ModelSpec], wrong: list[str]) -> None:
    assert failing(layers.placements(SETTINGS, **specs)) == wrong
