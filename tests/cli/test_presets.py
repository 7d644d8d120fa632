"""``tfinspect presets`` as a user meets it."""

from __future__ import annotations

import json

from rich.cells import cell_len

from tests.cli.conftest import Program
from tests.public_models import PUBLIC
from tfinspect.presets import PRESETS

#: Presets of models whose configurations are pinned.
SAME = {
    "gpt2": "openai-community/gpt2", "gpt1": "openai-community/openai-gpt", "distilgpt2": "distilbert/distilgpt2",
    "llama-7b": "huggyllama/llama-7b", "llama-13b": "huggyllama/llama-13b", "llama-33b": "huggyllama/llama-30b",
    "llama-65b": "huggyllama/llama-65b", "llama2-70b": "meta-llama/Llama-2-70b-hf",
    "llama3-8b": "meta-llama/Meta-Llama-3-8B", "llama3-70b": "meta-llama/Meta-Llama-3-70B",
    "llama3.1-405b": "meta-llama/Llama-3.1-405B", "llama3.2-1b": "meta-llama/Llama-3.2-1B",
    "llama3.2-3b": "meta-llama/Llama-3.2-3B", "tinyllama-1.1b": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    "smollm-135m": "HuggingFaceTB/SmolLM-135M", "yi-34b": "01-ai/Yi-34B", "mistral-7b": "mistralai/Mistral-7B-v0.1",
    "mixtral-8x7b": "mistralai/Mixtral-8x7B-v0.1", "mixtral-8x22b": "mistralai/Mixtral-8x22B-v0.1",
    "qwen2-0.5b": "Qwen/Qwen2-0.5B", "qwen2-1.5b": "Qwen/Qwen2-1.5B", "qwen2-7b": "Qwen/Qwen2-7B",
    "qwen2-72b": "Qwen/Qwen2-72B", "qwen3-0.6b": "Qwen/Qwen3-0.6B", "qwen3-4b": "Qwen/Qwen3-4B",
    "qwen3-8b": "Qwen/Qwen3-8B", "qwen3-30b-a3b": "Qwen/Qwen3-30B-A3B", "gemma-2b": "google/gemma-2b",
    "gemma-7b": "google/gemma-7b", "gemma2-2b": "google/gemma-2-2b", "gemma2-9b": "google/gemma-2-9b",
    "phi-2": "microsoft/phi-2", "pythia-70m": "EleutherAI/pythia-70m", "pythia-160m": "EleutherAI/pythia-160m",
    "pythia-410m": "EleutherAI/pythia-410m", "pythia-1.4b": "EleutherAI/pythia-1.4b",
    "pythia-12b": "EleutherAI/pythia-12b", "opt-125m": "facebook/opt-125m", "opt-1.3b": "facebook/opt-1.3b",
    "opt-66b": "facebook/opt-66b", "bloom-560m": "bigscience/bloom-560m", "bloom-176b": "bigscience/bloom",
    "falcon-7b": "tiiuae/falcon-7b", "falcon-40b": "tiiuae/falcon-40b", "bert-base": "google-bert/bert-base-uncased",
    "bert-large": "google-bert/bert-large-uncased", "t5-small": "google-t5/t5-small", "t5-base": "google-t5/t5-base",
    "t5-11b": "google-t5/t5-11b", "bart-base": "facebook/bart-base", "bart-large": "facebook/bart-large",
}  # fmt: skip

#: Brown et al. 2020, table 2.1, in millions; rounded as the table rounds.
GPT3 = {"125m": 125, "350m": 350, "760m": 760, "1.3b": 1_300, "2.7b": 2_700, "6.7b": 6_700, "13b": 13_000}


def test_every_preset_is_listed_with_its_count(tfinspect: Program) -> None:
    ended = tfinspect("presets", "--json")
    listed = {item["name"]: item for item in json.loads(ended.out)["presets"]}
    assert list(listed) == list(PRESETS)
    assert {name: listed[name]["params"] for name in SAME} == {name: PUBLIC[hub][1] for name, hub in SAME.items()}
    assert listed["mixtral-8x7b"]["active_params"] == 12_879_925_248
    assert listed["gpt3-175b"]["params"] == 174_604_259_328
    for size, millions in GPT3.items():
        assert abs(listed[f"gpt3-{size}"]["params"] / 1e6 - millions) < 0.02 * millions
    assert all(item["source"] for item in listed.values())


def test_the_page_fits_and_a_search_finds(tfinspect: Program) -> None:
    ended = tfinspect("presets")
    assert (ended.code, ended.err) == (0, "")
    assert max(map(cell_len, ended.out.splitlines())) <= 80
    found = tfinspect("presets", "--search", "Llama 70B").out
    assert "llama3-70b" in found
    assert "llama-7b " not in found
    assert "2 of" in found


def test_a_mixture_says_what_is_active_on_any_page(tfinspect: Program) -> None:
    page = " ".join(tfinspect("presets", "--search", "mixtral").out.split())
    assert "mixtral-8x7b 46,702,792,704" in page
    assert "take part in each token, of a mixture of experts: mixtral-8x7b 12,879,925,248" in page
    assert "Jiang et al. 2024" in page


def test_a_model_that_is_left_out_says_why(tfinspect: Program) -> None:
    for name in ("deepseek-v3", "DeepSeek-V3"):
        ended = tfinspect("params", name)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith(f"error: {name!r} is no preset: its latent attention is not in the core; ")
    assert "embedding is 512 wide" in tfinspect("flops", "--preset", "opt-350m").err


def test_a_search_without_a_find_is_an_error(tfinspect: Program) -> None:
    ended = tfinspect("presets", "--search", "no such model")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: no preset has 'no such model'; tfinspect presets lists all\n"
