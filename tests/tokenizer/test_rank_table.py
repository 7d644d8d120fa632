"""The embedded rank table is the published one, whatever the locale."""

import hashlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import tiktoken_ext.openai_public

import tfinspect
from tfinspect import tokenizer

TABLE = Path(tfinspect.__file__).parent / "data" / "gpt2.tiktoken"

# tiktoken, tiktoken_ext/openai_public.py, r50k_base: the hash that its download has to have
PUBLISHED = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"


def test_the_table_has_the_hash_that_tiktoken_pins() -> None:
    assert hashlib.sha256(TABLE.read_bytes()).hexdigest() == PUBLISHED
    assert PUBLISHED in inspect.getsource(tiktoken_ext.openai_public.r50k_base)


def test_the_lines_are_in_rank_order() -> None:
    assert [int(line.split()[1]) for line in TABLE.read_bytes().splitlines()] == list(range(50_256))


def test_the_vocabulary_is_bytes_merges_and_one_special_token() -> None:
    # Radford et al. 2019, 2.3: a vocabulary of 50,257
    assert len(tokenizer.ranks()) == 256 + 50_000
    assert tokenizer.VOCAB_SIZE == 256 + 50_000 + 1
    assert tokenizer.decode([tokenizer.SPECIAL_ID]) == b"<|endoftext|>"


def test_every_token_is_a_byte_or_two_tokens_of_lower_rank() -> None:
    ranks = tokenizer.ranks()
    for token, rank in ranks.items():
        halves = ((ranks.get(token[:at], rank), ranks.get(token[at:], rank)) for at in range(1, len(token)))
        assert len(token) == 1 or any(left < rank and right < rank for left, right in halves), token


def test_the_table_loads_in_an_ascii_locale() -> None:
    # openai/gpt-2 #26: reading the vocabulary with the locale's encoding failed on Windows
    program = "from tfinspect import tokenizer as t; print(len(t.ranks()), t.encode('\\u8494'.encode()))"
    environ = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "50256 [164, 240, 242]"
