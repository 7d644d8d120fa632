"""A model with the weights of a checkpoint does what the same model does with these weights under a seed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.stored import GPT2, LLAMA, TINY, as_gpt2, as_llama, folder, save
from tfinspect.errors import InputError
from tfinspect.inspectors.attention import attention
from tfinspect.inspectors.generate import generate
from tfinspect.inspectors.model_checks import model_checks
from tfinspect.inspectors.trace import trace
from tfinspect.inspectors.train_step import train_step
from tfinspect.results.weights import Filled
from tfinspect.sources.resolve import resolve
from tfinspect.spec import ModelSpec

SEED = 5
IDS = [[3, 1, 4, 1, 5]]
#: What is said of the model, and of what its ids mean: a file's are its own, and random weights have none.
OF_THE_MODEL = ("model", "conventions", "weights", "seed", "text")

RUNS: dict[str, Callable[..., Any]] = {
    "trace": lambda model, **given: trace(model, ids=IDS, stats=True, last=True, **given),
    "generate": lambda model, **given: generate(model, ids=IDS, max_new=4, top_k=5, **given),
    "attention": lambda model, **given: attention(model, ids=IDS, layer=1, head=1, **given),
    "train_step": lambda model, **given: train_step(model, ids=IDS, **given),
}


@pytest.fixture(params=[TINY, LLAMA], ids=["gpt2", "llama"])
def spec(request: pytest.FixtureRequest) -> ModelSpec:
    given: ModelSpec = request.param
    return given


def figures(value: Any) -> Any:
    """All that a result says but where its model comes from; its real numbers to rounding.

    A matrix that is stored the other way round is multiplied in another order.
    """
    if isinstance(value, dict):
        said = {name: part for name, part in value.items() if not name.endswith("sha256")}
        return {name: figures(part) for name, part in said.items() if name not in OF_THE_MODEL}
    if isinstance(value, list | tuple):
        return [figures(part) for part in value]
    return pytest.approx(value, rel=1e-4, abs=1e-6) if isinstance(value, float) else value


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("run", RUNS)
def test_the_weights_of_a_file_give_what_the_same_weights_give(run: str, spec: ModelSpec, tmp_path: Path) -> None:
    place = folder(tmp_path / "model", spec, seed=SEED)
    before = sha256(place / "model.safetensors")
    model = resolve(weights=str(place))
    assert model.spec == spec.replace(activation=model.spec.activation)
    # generate's seed fills random weights and seeds the draws, so that both runs have to draw under the same
    report = RUNS[run](model, seed=SEED)
    assert {a.verdict for a in report.agreements} == {"agree"}
    assert figures(report.to_dict()) == figures(RUNS[run](model.spec, seed=SEED).to_dict())
    assert report.filled == Filled("float32", str(place), model.name)
    assert str(place) in report.conventions
    assert "random" not in report.conventions
    assert sha256(place / "model.safetensors") == before


def test_another_seed_would_show(tmp_path: Path) -> None:
    model = resolve(weights=str(folder(tmp_path / "model", TINY, seed=SEED)))
    other = attention(model.spec, ids=IDS, seed=SEED + 1)
    assert figures(attention(model, ids=IDS).to_dict()) != figures(other.to_dict())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("run", ["trace", "generate", "attention"])
def test_the_format_of_the_file_is_kept(run: str, dtype: torch.dtype, spec: ModelSpec, tmp_path: Path) -> None:
    model = resolve(weights=str(folder(tmp_path / "model", spec, dtype=dtype)))
    report = RUNS[run](model)
    assert report.filled.dtype == str(dtype).removeprefix("torch.")
    assert {a.verdict for a in report.agreements} == {"agree"}


@pytest.mark.parametrize("run", RUNS)
def test_another_format_can_be_asked_for(run: str, spec: ModelSpec, tmp_path: Path) -> None:
    place = str(folder(tmp_path / "model", spec, dtype=torch.bfloat16))
    report = RUNS[run](resolve(weights=place), dtype="float32")
    assert report.filled.dtype == "float32"
    assert {a.verdict for a in report.agreements} == {"agree"}


@pytest.mark.parametrize("run", ["trace", "generate", "attention"])
def test_random_weights_can_have_any_format(run: str) -> None:
    report = RUNS[run](TINY, dtype="bfloat16")
    assert report.filled == Filled("bfloat16")
    assert {a.verdict for a in report.agreements} == {"agree"}


def test_bytes_are_those_of_the_format() -> None:
    sizes = {
        dtype: {row.name: row.n_bytes for row in trace(TINY, ids=IDS, dtype=dtype, meta=meta).tensors}
        for dtype, meta in (("float64", False), ("bfloat16", True))
    }
    assert sizes["float64"]["logits"] == 4 * sizes["bfloat16"]["logits"] == 8 * 5 * TINY.vocab_size
    assert sizes["float64"]["tokens"] == sizes["bfloat16"]["tokens"] == 8 * 5
    assert generate(TINY, ids=IDS, max_new=1, dtype="float16").steps[-1].cache_bytes == 2 * 2 * 5 * 8 * 2


def test_a_training_step_is_made_in_float32(tmp_path: Path) -> None:
    model = resolve(weights=str(folder(tmp_path / "model", TINY, dtype=torch.bfloat16)))
    with pytest.raises(InputError, match=r"a training step is made in float32, and .* is in bfloat16"):
        train_step(model, ids=IDS)
    with pytest.raises(InputError, match="a training step is made in float32, not in 'float64'"):
        train_step(model, ids=IDS, dtype="float64")


def test_weights_in_two_formats_run_in_one_that_is_asked_for(tmp_path: Path) -> None:
    place = folder(tmp_path / "model", TINY)
    tensors = {name: t.bfloat16() if t.ndim == 2 else t for name, t in as_gpt2(TINY).items()}
    model = resolve(weights=str(save(place / "model.safetensors", tensors).parent))
    with pytest.raises(InputError, match="are in bfloat16 and float32; --dtype float32 runs all in one format"):
        trace(model, ids=IDS)
    assert trace(model, ids=IDS, dtype="float32").filled.dtype == "float32"


def test_an_unknown_format_is_refused() -> None:
    for run in RUNS.values():
        with pytest.raises(InputError, match="int8"):
            run(TINY, dtype="int8")


def test_values_and_no_values_are_not_asked_for_at_once(tmp_path: Path) -> None:
    model = resolve(weights=str(folder(tmp_path / "model", TINY)))
    with pytest.raises(InputError, match="--meta holds no values, and --weights are values"):
        trace(model, ids=IDS, meta=True)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"n_layers": 3}, "has nothing for blocks.2.norm1.weight"),
        ({"n_layers": 1}, "has unknown tensors: h.1."),
        ({"vocab_size": 12}, r"does not fit: wte.weight \[11, 8\] \(embed.tokens.weight is \[12, 8\]\)"),
        ({"n_ctx": 12}, r"does not fit: wpe.weight"),
    ],
)
def test_weights_of_another_model_are_refused(changed: dict[str, int], words: str, tmp_path: Path) -> None:
    model = resolve(weights=str(folder(tmp_path / "model", TINY)), **changed)
    for run in ("trace", "generate", "train_step"):
        with pytest.raises(InputError, match=words):
            RUNS[run](model)
    with pytest.raises(InputError, match=words):
        attention(model, ids=IDS)


def test_a_text_is_split_only_for_a_model_that_knows_gpt2s_ids(tmp_path: Path) -> None:
    model = resolve(weights=str(folder(tmp_path / "gpt2", GPT2)))
    report = generate(model, "Hello, world!", max_new=1)
    assert report.rows[0].ids == (15496, 11, 995, 0)
    assert report.rows[0].new_data is not None
    llama = LLAMA.replace(vocab_size=60_000)  # larger than GPT-2's, and none of it GPT-2's
    other = resolve(weights=str(folder(tmp_path / "llama", llama)))
    for run in (trace, attention, train_step, generate):
        with pytest.raises(InputError, match="this model has 60,000 of its own"):
            run(other, "Hello, world!")  # type: ignore[operator]
    assert generate(other, ids=IDS, max_new=1).rows[0].new_data is None
    assert generate(llama, ids=IDS, max_new=1).rows[0].new_data is not None


def test_without_a_configuration_names_and_shapes_tell_the_model(tmp_path: Path) -> None:
    spec = TINY.replace(d_model=128, d_ff=512, n_heads=2, d_head=64, n_kv_heads=2)
    file = save(tmp_path / "any.safetensors", as_gpt2(spec))
    model = resolve(weights=str(file))
    assert (model.name, model.spec) == ("gpt2", spec)
    assert "names and shapes" in model.origin
    assert any("not told by the file" in said for said in model.derived)
    assert trace(model, ids=IDS).params == sum(tensor.numel() for tensor in as_gpt2(spec).values())
    exact = resolve(weights=str(file), activation="gelu")
    assert exact.spec == spec.replace(activation="gelu")
    assert "activation changed" in exact.origin


def test_a_model_that_is_named_goes_before_the_configuration_beside(tmp_path: Path) -> None:
    place = folder(tmp_path / "model", TINY)
    (place / "config.json").write_text("not read")
    fields = {"d_model": 8, "n_layers": 2, "n_heads": 2, "d_ff": 32, "vocab_size": 11, "n_ctx": 16}
    model = resolve("gpt2", weights=str(place), **fields)
    assert model.spec == TINY
    assert trace(model, ids=IDS).filled.family == "gpt2"
    other = folder(tmp_path / "other", TINY)
    assert resolve(config=str(other), weights=str(place)).spec == TINY
    with pytest.raises(InputError, match=r"config\.json"):
        resolve(weights=str(place))


def test_gemmas_gains_are_stored_less_one(tmp_path: Path) -> None:
    spec = LLAMA.replace(tied_head=True, activation="geglu_tanh", embed_scale=True)
    stored = {name: t - 1 if "norm" in name else t for name, t in as_llama(spec, SEED).items()}
    file = save(tmp_path / "any.safetensors", stored)
    fields = {name: value for name, value in spec.to_dict().items() if name != "d_head"}
    model = resolve("gemma-2b", weights=str(file), d_head=spec.d_head, **fields)
    assert model.spec == spec
    run = RUNS["attention"]
    assert figures(run(model).to_dict()) == figures(run(spec, seed=SEED).to_dict())


def test_the_checks_of_a_language_model_hold_for_a_checkpoint(spec: ModelSpec, tmp_path: Path) -> None:
    place = folder(tmp_path / "model", spec)
    before = sha256(place / "model.safetensors")
    report = model_checks(resolve(weights=str(place)))
    assert {check.id: check.verdict for check in report.checks} == {
        **dict.fromkeys(
            ("finite", "determinism", "causality", "prefix", "batch", "cache", "gradients", "loss"), "pass"
        ),
        "ties": "pass" if spec.tied_head else "not applicable",
    }
    assert (report.name, report.kind) == (str(place), "llama" if spec is LLAMA else "gpt2")
    assert report.n_params == sum(tensor.numel() for tensor in (as_llama if spec is LLAMA else as_gpt2)(spec).values())
    assert sha256(place / "model.safetensors") == before


def test_no_checks_of_what_is_no_language_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a ModelSpec is no torch\.nn\.Module; nor a model with weights"):
        model_checks(TINY)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="an encoder, which sees them, predicts none"):
        model_checks(resolve(weights=str(folder(tmp_path / "model", TINY)), architecture="encoder"))


def test_weights_of_0_stop_gradients_and_break_no_claim(tmp_path: Path) -> None:
    place = folder(tmp_path / "model", LLAMA)
    stored = {name: t * 0 if "_proj" in name else t for name, t in as_llama(LLAMA).items()}
    save(place / "model.safetensors", stored)
    for run in RUNS.values():
        assert {a.verdict for a in run(resolve(weights=str(place))).agreements} == {"agree"}


def test_weights_that_are_no_numbers_are_said_to_be_none(tmp_path: Path) -> None:
    place = folder(tmp_path / "model", LLAMA)
    stored = as_llama(LLAMA)
    stored["model.layers.0.self_attn.q_proj.weight"] = stored["model.layers.0.self_attn.q_proj.weight"] * math.nan
    save(place / "model.safetensors", stored)
    model = resolve(weights=str(place))
    for run, words in (
        ("attention", "the scores of layer 1, head 1 are no numbers; see tfinspect verify --weights"),
        ("train_step", "is nan, no number to train on; see tfinspect verify --weights"),
        ("generate", "the logits of step 1 are not all finite"),
    ):
        with pytest.raises(InputError, match=words):
            RUNS[run](model)
    report = RUNS["trace"](model)
    seen = {row.name: row.stats.non_finite for row in report.tensors if row.stats is not None}
    assert (seen["blocks.0.norm1"], seen["blocks.0.attn.q"]) == (0, 5 * LLAMA.d_model)
    assert [check.id for check in model_checks(model, "finite").failed] == ["finite"]
