"""gpt2.tiktoken from the two files that OpenAI published: ``python make_rank_table.py vocab.bpe encoder.json OUT``.

vocab.bpe lists 50,000 merges in order, encoder.json gives each token its id. tiktoken's own reader turns both into
ranks and refuses files that contradict each other. A line of the result is ``base64(token) rank``, in rank order: the
format, and byte for byte the content, of the r50k_base.tiktoken that tiktoken pins by SHA-256.
"""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path


def rank_table(vocab_bpe: str, encoder_json: str) -> bytes:
    """The content of gpt2.tiktoken: 50,256 lines."""
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks

    os.environ["TIKTOKEN_CACHE_DIR"] = ""  # read the two files themselves, never a cached copy of an earlier pair
    ranks = data_gym_to_mergeable_bpe_ranks(vocab_bpe, encoder_json)
    in_order = sorted(ranks.items(), key=lambda item: item[1])
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in in_order)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python make_rank_table.py vocab.bpe encoder.json OUT")
    Path(sys.argv[3]).write_bytes(rank_table(sys.argv[1], sys.argv[2]))
