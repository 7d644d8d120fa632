"""How long commands take as whole processes, against bare scripts that do the unavoidable part of the same work.

Run by hand, on a quiet machine: ``python tests/benchmarks/startup.py``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from pairs import of_processes, report

TFINSPECT = shutil.which("tfinspect", path=str(Path(sys.executable).parent)) or "tfinspect"
TEXT = "蒔絵師が硯箱を"

IMPORTS = "import typer, rich.console, rich.table"
TOKENIZE = f"""
{IMPORTS}
import base64, tiktoken, pathlib, importlib.util
folder = pathlib.Path(importlib.util.find_spec("tfinspect").origin).parent
lines = (folder / "data" / "gpt2.tiktoken").read_bytes().splitlines()
ranks = {{base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}}
pattern = r"'(?:[sdmt]|ll|ve|re)| ?\\p{{L}}++| ?\\p{{N}}++| ?[^\\s\\p{{L}}\\p{{N}}]++|\\s++$|\\s+(?!\\S)|\\s"
special = {{"<|endoftext|>": 50256}}
encoding = tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
print(encoding.encode({TEXT!r}))
"""
TRACE = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        B, T, d = x.shape
        q, k, v = (t.view(B, T, 12, 64).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(d, dim=-1))
        heads = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(B, T, d))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        self.blocks, self.norm = nn.Sequential(*(Block(768) for _ in range(12))), nn.LayerNorm(768)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        return self.norm(self.blocks(x)) @ self.tokens.weight.T

model = GPT2().eval()
ids = torch.tensor([[164, 240, 242, 163, 113, 113, 30585, 104, 35585, 163, 94, 107, 163, 106, 109, 31758]])
with torch.no_grad():
    print(model(ids).shape)
"""


def main() -> None:
    python = sys.executable
    imports, torch = [python, "-c", IMPORTS], [python, "-c", "import torch"]
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    bare = (
        ("--help", 1.5, ["--help"], imports),
        ("--version", 1.5, ["--version"], imports),
        ("params --no-check", 1.5, ["params", "--no-check"], imports),
        ("flops --no-check", 1.5, ["flops", "--no-check"], imports),
        ("tokenize", 1.5, ["tokenize", TEXT], [python, "-c", TOKENIZE]),
        ("params", 1.2, ["params"], torch),
        ("flops", 1.2, ["flops"], torch),
        ("trace", 1.15, ["trace", TEXT], [python, "-c", TRACE]),
    )
    report([of_processes(name, bar, [TFINSPECT, *arguments], b, pairs) for name, bar, arguments, b in bare])


if __name__ == "__main__":
    main()
