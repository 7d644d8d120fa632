"""A checkpoint that the library saved gives, through --weights, what the library's own class gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.transformers_parity.test_values import CASES, TOLERANCE, difference, logits, spec_of, theirs
from tfinspect.inspectors.attention import attention
from tfinspect.inspectors.generate import generate
from tfinspect.inspectors.model_checks import model_checks
from tfinspect.inspectors.trace import trace
from tfinspect.inspectors.train_step import train_step
from tfinspect.measured.shapes import statistics
from tfinspect.measured.weights import model
from tfinspect.sources.resolve import Source, resolve

DECODERS = ("gpt2", "llama", "mistral", "qwen2", "gemma", "mixtral")
IDS = [[5, 17, 4, 90, 33, 21, 8]]


def ours(source: Source, dtype: str | None = None) -> Any:
    return model(source.spec, source.weights, batch=2, seq_len=13, dtype=dtype)


@pytest.fixture
def whole(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Source]:
    """A small random model of the library, and what is read of the folder that it was saved in."""
    name = request.param
    saved = theirs(name, spec_of(name))
    saved.save_pretrained(tmp_path)
    return saved, resolve(weights=str(tmp_path))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("most", ["5GB", "20KB"])
def test_logits_are_the_librarys_own(name: str, most: str, tmp_path: Path) -> None:
    spec = spec_of(name)
    saved = theirs(name, spec)
    saved.save_pretrained(tmp_path, max_shard_size=most)
    files = list(tmp_path.glob("*.safetensors"))
    assert (tmp_path / "model.safetensors.index.json").is_file() == (len(files) > 1) == (most == "20KB")
    # the class ties every T5 in its configuration; the test gives this one a head of its own, as T5 1.1 has
    source = resolve(weights=str(tmp_path), tied_head=spec.tied_head)
    assert source.spec == spec
    expected = logits(saved, spec, library=True)
    found = ours(source)
    assert difference(expected, logits(found, spec, library=False)) <= TOLERANCE
    sizes = {file.stat().st_size for file in files}
    large = [p for p in found.parameters() if p.ndim == 2]
    assert sum(p.untyped_storage().nbytes() in sizes for p in large) > len(large) // 2  # they lie in the files


@pytest.mark.parametrize("whole", DECODERS, indirect=True)
def test_the_librarys_own_greedy_tokens(whole: tuple[Any, Source]) -> None:
    saved, source = whole
    with torch.no_grad():
        tokens = torch.tensor(IDS)
        for _ in range(6):
            tokens = torch.cat((tokens, saved(tokens).logits[:, -1].argmax(dim=-1)[:, None]), dim=1)
    report = generate(source, ids=IDS, max_new=6)
    assert list(report.rows[0].new_ids) == tokens[0, len(IDS[0]) :].tolist()
    assert {a.verdict for a in report.agreements} == {"agree"}


@pytest.mark.parametrize("whole", [*DECODERS, "bert"], indirect=True)
def test_the_librarys_own_attention_weights(whole: tuple[Any, Source]) -> None:
    saved, source = whole
    saved.set_attn_implementation("eager")
    with torch.no_grad():
        expected = saved(torch.tensor(IDS), output_attentions=True).attentions
    for layer, head in ((0, 1), (source.spec.n_layers - 1, source.spec.n_heads - 1)):
        report = attention(source, ids=IDS, layer=layer, head=head)
        found = torch.tensor(report.texts[0].weights)
        assert (found - expected[layer][0, head]).abs().max() < TOLERANCE
        assert {a.verdict for a in report.agreements} == {"agree"}


@pytest.mark.parametrize("whole", [*DECODERS, "bert", "t5"], indirect=True)
def test_the_trace_is_of_the_librarys_own_logits(whole: tuple[Any, Source]) -> None:
    saved, source = whole
    tokens = torch.tensor(IDS)
    more = {"decoder_input_ids": tokens} if source.spec.architecture == "encoder_decoder" else {}
    with torch.no_grad():
        expected: Tensor = saved(tokens, **more).logits
    report = trace(source, ids=IDS, stats=True)
    found = next(row.stats for row in report.tensors if row.name == "logits")
    wanted = statistics(expected)
    assert found is not None
    assert found.std == pytest.approx(wanted.std, rel=1e-4)
    assert found.minimum == pytest.approx(wanted.minimum, rel=1e-4)
    assert found.maximum == pytest.approx(wanted.maximum, rel=1e-4)
    assert {a.verdict for a in report.agreements} == {"agree"}


@pytest.mark.parametrize("whole", DECODERS, indirect=True)
def test_the_librarys_own_loss_and_gradients(whole: tuple[Any, Source]) -> None:
    saved, source = whole
    for module in saved.modules():  # the core trains without dropout where the configuration's is not asked for
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    tokens = torch.tensor(IDS)
    loss = saved(tokens, labels=tokens)
    loss.loss.backward()
    squares = sum((p.grad.double() ** 2).sum() for p in saved.parameters() if p.grad is not None)
    report = train_step(Source(**{**vars(source), "spec": source.spec.replace(dropout=0.0)}), ids=IDS)
    assert report.losses.from_logits == pytest.approx(loss.loss.item(), rel=1e-5)
    assert report.gradient_norm == pytest.approx(float(squares) ** 0.5, rel=1e-4)
    assert {a.verdict for a in report.agreements} == {"agree"}


@pytest.mark.parametrize("whole", ["gpt2", "llama"], indirect=True)
def test_the_checks_of_a_language_model_hold(whole: tuple[Any, Source]) -> None:
    report = model_checks(whole[1])
    assert report.failed == ()


@pytest.mark.parametrize("whole", ["gpt2", "llama", "bert"], indirect=True)
def test_half_precision_is_near(whole: tuple[Any, Source], tmp_path: Path) -> None:
    saved, source = whole
    expected = logits(saved, source.spec, library=True)
    saved.to(torch.bfloat16).save_pretrained(tmp_path / "half")
    half = resolve(weights=str(tmp_path / "half"))
    assert next(ours(half).parameters()).dtype == torch.bfloat16
    assert difference(expected, logits(ours(half), source.spec, library=False).float()) < 0.1
    # of the rounded weights, in a format without more rounding
    rounded = type(saved).from_pretrained(tmp_path / "half", dtype=torch.float32).eval()
    library = logits(rounded, source.spec, library=True)
    assert difference(library, logits(ours(half, "float32"), source.spec, library=False)) <= TOLERANCE


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_a_file_of_torch_is_the_same(name: str, tmp_path: Path) -> None:
    spec = spec_of(name)
    saved = theirs(name, spec)
    saved.config.save_pretrained(tmp_path)
    torch.save(saved.state_dict(), tmp_path / "pytorch_model.bin")
    source = resolve(weights=str(tmp_path))
    found = logits(ours(source), spec, library=False)
    assert difference(logits(saved, spec, library=True), found) <= TOLERANCE
