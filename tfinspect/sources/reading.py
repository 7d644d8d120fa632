"""A configuration that is being read: what was asked for, what was assumed, what nobody understands."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from tfinspect.errors import InputError
from tfinspect.spec import GATES, LARGEST_SIZE

__all__ = ["CURVES", "Reading", "curves", "short"]

Assumed = TypeVar("Assumed", int, bool, str)

#: Keys that change no shape, no count and no work, whatever they say.
_SILENT: Final = re.compile(
    r"^_|_token_id$|_token_ids$|dropout|_pdrop$|drop$|initializer|^init_|_init_|^use_cache$|dtype$|^transformers_version$"
    r"|^architectures$|^model_type$|^auto_map$|^quantization_config$|^compression_config$|rope_scaling|^rope_parameters$"
    r"|^rope_theta$|^rotary_emb_base$|^rope_local_base_freq$|^partial_rotary_factor$|^rope_interleaved$|^pretraining_tp$"
    r"|^task_specific_params$|^gradient_checkpointing$|^output_|^return_dict|^id2label$|^label2id$|^num_labels$"
    r"|^problem_type$|^finetuning_task$|^summary_|^tokenizer_class$|^prefix$|^use_flash|^attn_implementation$"
    r"|^router_aux_loss_coef$|^router_jitter_noise$|^norm_topk_prob$|^slow_but_exact$|^offset_alibi$|^skip_bias_add"
    r"|^masked_softmax_fusion$|^unk_index$|^pad_index$|logit_softcapping$|^query_pre_attn_scalar$|^attn_logit|^final_logit"
    r"|^original_max_position_embeddings$|^classifier_|^is_decoder$|^is_encoder_decoder$"
    r"|^num_beams$|^max_length$|^min_length$|^early_stopping$|^no_repeat_ngram_size$|^length_penalty$|^gpt_neox_"
    r"|^n_special$|^predict_special_tokens$|^reorder_and_upcast_attn$|^scale_attn_by_inverse_layer_idx$"
    r"|^use_bfloat16$|^torchscript$|^chunk_size_feed_forward$|^do_sample$|^temperature$|^top_[kp]$|^bad_words_ids$"
    r"|^directionality$|^pooler_|^qa_|^seq_classif|^decoder_start|^forced_|^add_bias_logits$|^normalize_|^extra_pos_"
    r"|^static_position_embeddings$|^force_bos|^gradient_|^sinusoidal_pos_embds$|^n_embed$"
    r"|^inference_softmax|^attention_softmax_in_fp32$|^scale_attention_softmax_in_fp32$|^validate_|^activation_function$"
    r"|^afn$|^cache_implementation$|^pad_vocab|^use_parallel_residual$|^rotary$|^model_max_length$"
    r"|^max_sequence_length$|^max_batch_size$|^inference_runner$|^pad_key_length$|^pre_allocate_kv_cache$"
    r"|^unsloth_|^use_mrope$|^tie_weights_$"
)  # fmt: skip

#: Activations by the library's names.
CURVES: Final[Mapping[str, str]] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def curves(*, gated: bool) -> Mapping[str, str]:
    """Activations by the library's names, as the curve of a gate or alone."""
    if not gated:
        return CURVES
    gates = {curve: name for name, curve in GATES.items()}
    return {theirs: gates[ours] for theirs, ours in CURVES.items() if ours in gates}


class Reading:
    """A configuration that is being read: what was asked for, what was assumed, what is not understood."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        self.config, self.where = config, where
        self.asked: set[str] = set()
        self.assumed: list[str] = []
        self.incomplete: list[str] = []
        self.remarks: list[str] = []

    def size(self, default: int, *keys: str, least: int = 1) -> int:
        """An integer."""
        key, value = self._find(keys)
        if key is None:
            return self._assume(keys[0], default)
        return self._integer(key, value, least)

    def maybe(self, default: int | None, *keys: str, rule: int | None = None) -> int | None:
        """An integer, or null, which the family reads as `rule`."""
        key, value = self._find(keys)
        if key is None:
            if default is None and rule is not None:
                return self._assume(keys[0], rule)
            return default
        return rule if value is None else self._integer(key, value, 1)

    def flag(self, default: bool, *keys: str) -> bool:
        """True or false."""
        key, value = self._find(keys)
        if key is None:
            return self._assume(keys[0], default)
        if not isinstance(value, bool):
            raise InputError(f"{self.where}: {key} must be true or false, not {short(value)}")
        return value

    def real(self, default: float, *keys: str) -> float:
        """A finite number."""
        key, value = self._find(keys)
        if key is None or value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
            raise InputError(f"{self.where}: {key} must be a finite number, not {short(value)}")
        return float(value)

    def word(self, default: str, *keys: str) -> str:
        """A word."""
        key, value = self._find(keys)
        if key is None or value is None:
            return self._assume(keys[0], default)
        if not isinstance(value, str):
            raise InputError(f"{self.where}: {key} must be a word, not {short(value)}")
        return value

    def curve(self, default: str, *keys: str, gated: bool = False) -> str:
        """An activation by our name, of a gate where the family has one."""
        word = self.word(default, *keys)
        known = curves(gated=gated)
        if word not in known:
            place = " in a gate" if gated else ""
            raise InputError(f"{self.where}: the activation {word!r} is not known{place}", f"known: {', '.join(known)}")
        return known[word]

    def rope(self, factor: float = 1.0, *keys: str, theta: float = 10_000.0) -> tuple[float, float]:
        """The base of RoPE's angles, and which part of a head it turns."""
        nested = self.config.get("rope_parameters")
        nested = {} if nested is None else nested
        if not isinstance(nested, dict):
            raise InputError(f"{self.where}: rope_parameters must be an object, not {short(nested)}")
        inner = Reading(nested, f"{self.where}: rope_parameters")
        base = self.real(inner.real(theta, "rope_theta"), "rope_theta", "rotary_emb_base")
        part = self.real(inner.real(factor, "partial_rotary_factor"), "partial_rotary_factor", *keys)
        if not 0 < part <= 1:
            raise InputError(f"{self.where}: {(keys or ('partial_rotary_factor',))[0]} is {part:g}", "give 0 to 1")
        return base, part

    def require(self, wanted: Any, *keys: str) -> None:
        """Nothing, where a key is left out or says what the family's count is known for."""
        key, value = self._find(keys)
        if key is not None and value != wanted:
            raise InputError(f"{self.where}: {key} = {short(value)} is not supported", f"supported: {wanted!r}")

    def ignore(self, *keys: str) -> None:
        """Keys of this family that change no count."""
        self.asked.update(keys)

    def left(self) -> list[str]:
        """Keys that nobody asked for and that might change a count."""
        return sorted(key for key in self.config if key not in self.asked and not _SILENT.search(key))

    def _find(self, keys: tuple[str, ...]) -> tuple[str | None, Any]:
        self.asked.update(keys)
        found = [key for key in keys if key in self.config]
        values = [self.config[key] for key in found]
        if any(value != values[0] for value in values[1:]):
            raise InputError(f"{self.where} says {found[0]} = {short(values[0])} and {found[1]} = {short(values[1])}")
        return (found[0], values[0]) if found else (None, None)

    def _assume(self, key: str, value: Assumed) -> Assumed:
        said = str(value).lower() if isinstance(value, bool) else value
        self.assumed.append(f"{key} = {said}")
        return value

    def _integer(self, key: str, value: object, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"{self.where}: {key} must be an integer, not {short(value)}")
        if not least <= value <= LARGEST_SIZE:
            raise InputError(f"{self.where}: {key} must be from {least} to {LARGEST_SIZE}, not {short(value)}")
        return value


def short(value: object) -> str:
    """A value as it stands in the file, cut where it is long."""
    said = repr(value) if not isinstance(value, float) or math.isfinite(value) else "an infinite number"
    return said if len(said) <= 60 else f"{said[:60]}..."
