"""Named specs, each with the source of its figures and the count that was published for it."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Final

from tfinspect.errors import InputError
from tfinspect.spec import ModelSpec

__all__ = ["DEFAULT", "PRESETS", "Preset", "preset"]


@dataclasses.dataclass(frozen=True)
class Preset:
    """A published or textbook model."""

    name: str
    """What a user types."""
    title: str
    """What a reader knows it as."""
    spec: ModelSpec
    source: str
    """Where the figures stand."""
    remark: str = ""
    """What a careful reader should know about a published count, and no more."""


_GPT2: Final = "released configuration of GPT-2 (openai/gpt-2); Radford et al. 2019, table 2"
_GPT2_REMARK: Final = (
    "Table 2 of Radford et al. (2019) says {paper}; OpenAI's repository later noted that the paper's parameter counts "
    "were wrong. Neither says how {paper} arose."
)

_ALL: Final = (
    Preset("gpt2", "GPT-2 Small", ModelSpec(), _GPT2, _GPT2_REMARK.format(paper="117M")),
    Preset(
        "gpt2-medium",
        "GPT-2 Medium",
        ModelSpec(d_model=1_024, n_layers=24, n_heads=16, d_ff=4_096),
        _GPT2,
    ),
    Preset(
        "gpt2-large",
        "GPT-2 Large",
        ModelSpec(d_model=1_280, n_layers=36, n_heads=20, d_ff=5_120),
        _GPT2,
    ),
    Preset(
        "gpt2-xl",
        "GPT-2 XL",
        ModelSpec(d_model=1_600, n_layers=48, n_heads=25, d_ff=6_400),
        _GPT2,
    ),
    Preset(
        "gpt1",
        "GPT-1",
        ModelSpec(vocab_size=40_478, n_ctx=512, placement="post", final_norm=False),
        "released configuration of GPT-1 (openai/finetune-transformer-lm); Radford et al. 2018, section 4.1",
    ),
    Preset(
        "tiny-568",
        "the chapter's worked example",
        ModelSpec(vocab_size=10, n_ctx=8, d_model=4, n_layers=2, n_heads=2, d_ff=16, activation="gelu"),
        "chapter A, 5.2 and 7.2",
    ),
    Preset(
        "tiny-272256",
        "the chapter's exercise",
        ModelSpec(vocab_size=1_000, n_ctx=128, d_model=64, n_layers=4, n_heads=1, d_ff=256, activation="gelu"),
        "chapter A, exercise 11.1; heads by the rule d/64",
    ),
)

PRESETS: Final[Mapping[str, Preset]] = {p.name: p for p in _ALL}
DEFAULT: Final = PRESETS["gpt2"]


def preset(name: str) -> Preset:
    """The preset of this name.

    Raises:  InputError with the nearest names.
    """
    if isinstance(name, str) and name in PRESETS:
        return PRESETS[name]
    near = difflib.get_close_matches(str(name).lower(), PRESETS, n=1)
    known = f"known: {', '.join(PRESETS)}"
    raise InputError(f"unknown preset {name!r}", f"did you mean {near[0]}? {known}" if near else known)
