"""A Hugging Face ``config.json`` as a ModelSpec, for the families that a spec describes exactly.

A family is a function from a `Reading` to the spec's fields (`families`). A key that the file leaves out takes the
default of the library's own class, and the reading remembers that it did. A key that no family asks for and that is not
known to change no count makes the result incomplete, and is named.

Source:  the configuration and model files of huggingface/transformers, release 5.24, family by family.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tfinspect.errors import InputError
from tfinspect.sources.families import FAMILIES, Fields
from tfinspect.sources.json_file import read_object
from tfinspect.sources.reading import Reading, short
from tfinspect.spec import ModelSpec

__all__ = ["Configured", "from_dict", "read"]

#: Families whose attention the core does not have, and why.
_REFUSED: Final[Mapping[str, str]] = {
    "deepseek_v2": "its latent attention is not in the core",
    "deepseek_v3": "its latent attention is not in the core",
    "mamba": "it is no Transformer",
    "mamba2": "it is no Transformer",
    "rwkv": "it is no Transformer",
}


#: Keys that are named where many are not understood.
_NAMED: Final = 12


@dataclasses.dataclass(frozen=True)
class Configured:
    """What a configuration says."""

    model_type: str
    spec: ModelSpec
    assumed: tuple[str, ...]
    """Values that the file leaves out, by the library's default: "num_key_value_heads = 32"."""
    incomplete: tuple[str, ...]
    """What could change a count and is not understood; empty where the spec is the whole truth."""
    remarks: tuple[str, ...]
    """What a reader should know about how the file was read."""


def read(path: Path) -> Configured:
    """What a config.json says, or the one in a directory.

    Raises:  InputError naming the file and what is wrong with it, and as `from_dict` does.
    """
    if path.is_dir():
        path = path / "config.json"
        if not path.exists():
            raise InputError(f"{str(path.parent)!r} holds no config.json", "give a directory that does, or the file")
    return from_dict(read_object(path), where=repr(str(path)))


def from_dict(config: Mapping[str, Any], *, where: str = "the configuration") -> Configured:
    """What a configuration says, from its keys.

    Raises:  InputError for a family that is not known or cannot be described, and naming a key whose value is of the
             wrong kind, out of range, or of a meaning that the core does not have.
    """
    kind, config, remarks = _text_part(config, where)
    reading = Reading(config, where)
    fields = FAMILIES[kind](reading)
    _heads_of(reading, kind, fields)
    left = reading.left()
    reading.incomplete += [f"{short(key)[1:-1]} is not understood" for key in left[:_NAMED]]
    if left[_NAMED:]:
        reading.incomplete.append(f"{len(left) - _NAMED:,} more keys are not understood")
    try:
        spec = ModelSpec(**fields)
    except InputError as error:
        raise InputError(f"{where}: {error.message}", error.hint) from None
    assumed = tuple(dict.fromkeys(reading.assumed))
    return Configured(kind, spec, assumed, tuple(reading.incomplete), (*remarks, *reading.remarks))


def _text_part(config: Mapping[str, Any], where: str) -> tuple[str, Mapping[str, Any], list[str]]:
    """The family, the keys that describe its text model, and what to say about that."""
    kind, inner = config.get("model_type"), config.get("text_config")
    known = f"known: {', '.join(FAMILIES)}"
    if kind is None and not isinstance(inner, dict):
        raise InputError(f"{where} has no model_type", known)
    if kind is not None and not isinstance(kind, str):
        raise InputError(f"{where}: model_type must be a word, not {short(kind)}", known)
    if kind in FAMILIES and inner is None:
        return str(kind), config, []
    if kind in _REFUSED:
        raise InputError(f"{where}: {kind} cannot be described: {_REFUSED[str(kind)]}", known)
    if isinstance(inner, dict):
        inner_kind = inner.get("model_type")
        if isinstance(inner_kind, str) and inner_kind in FAMILIES:
            said = [f"text_config ({inner_kind}) alone is counted; the rest of {kind or 'the model'} is not"]
            if "tie_word_embeddings" in config:  # the whole model's own word on its head
                inner = {**inner, "tie_word_embeddings": config["tie_word_embeddings"]}
                said.append("tie_word_embeddings is the whole model's")
            return inner_kind, inner, said
        raise InputError(
            f"{where}: model_type {short(kind)} has a text_config of the unknown model_type {short(inner_kind)}",
            known,
        )
    raise InputError(f"{where}: model_type {short(kind)} is not known", known)


def _heads_of(reading: Reading, kind: str, fields: Fields) -> None:
    """The head by the class that the configuration names: a bare model has none, a classifier has one of its own."""
    names = reading.config.get("architectures")
    reading.ignore("architectures")
    if names is None:
        return
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{reading.where}: architectures must be a list of names, not {short(names)}")
    name = names[0] if names else ""
    own = re.sub(r"[^a-z0-9]", "", kind.lower().removesuffix("_text"))
    if name and not name.lower().startswith(own):
        reading.incomplete.append(f"{name[:60]} is no class of {kind}: what it adds or leaves out is not known")
    elif re.search(r"LMHeadModel$|For(CausalLM|MaskedLM|ConditionalGeneration)$|^$", name):
        _language_model(reading, name, fields)
    elif name.endswith("DoubleHeadsModel"):
        reading.incomplete.append(f"{name}: its second head is not counted")
    elif name.endswith("ForPreTraining") and kind == "bert":
        fields["pooler"] = True
        reading.incomplete.append(f"{name}: the head that tells whether two sentences follow is not counted")
    elif fields.get("architecture") == "encoder_decoder":
        _of_two_stacks(reading, name, fields)
    else:
        bare = name.endswith("Model")
        pooler = bare and kind in ("bert", "camembert", "roberta", "xlm-roberta")
        fields |= {"head": "none", "pooler": pooler, "tied_head": True}
        fields.pop("head_bias", None)
        (reading.remarks if bare else reading.incomplete).append(
            f"{name} has no head" if bare else f"{name}: its own head is not counted"
        )


def _language_model(reading: Reading, name: str, fields: Fields) -> None:
    """A class that predicts tokens, where it is the one that the family is described as."""
    kind = fields.get("architecture", "decoder")
    if (kind == "encoder" and not name.endswith("ForMaskedLM") and name) or (
        kind == "encoder_decoder" and name.endswith("ForCausalLM")
    ):
        raise InputError(f"{reading.where}: {name} is another model of the same parts", "it is not described here")


def _of_two_stacks(reading: Reading, name: str, fields: Fields) -> None:
    """A class of an encoder-decoder that predicts no tokens: bare, one stack alone, or with a head of its own."""
    if name.endswith("EncoderModel"):
        raise InputError(f"{reading.where}: {name} is the encoder alone", "it is not described here")
    fields["tied_head"] = True  # its own table is none of the model's
    fields.pop("head_bias", None)
    said = "has no head: its work is counted with one" if name.endswith("Model") else "has a head that is not counted"
    reading.incomplete.append(f"{name} {said}")
