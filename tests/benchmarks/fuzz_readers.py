"""Hostile checkpoints by the hundred thousand: each is a result or an InputError, soon, and in little memory.

Run by hand: ``python tests/benchmarks/fuzz_readers.py [N [SEED]]``; by default 150,000 inputs from seed 0. An input is
a file that was whole and has been damaged, or one that was never whole: safetensors, or an index with its shards. What
ends otherwise is written into the current folder, and the exit code is 1.
"""

from __future__ import annotations

import collections
import datetime
import json
import platform
import random
import shutil
import signal
import string
import struct
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import tfinspect
from tfinspect.errors import InputError
from tfinspect.inspectors.stored import stored
from tfinspect.results.stored import StoredParams
from tfinspect.sources import checkpoint, safetensors_header

#: Seconds after which an input counts as one that hangs, and bytes after which it counts as greedy.
SECONDS, MOST_BYTES = 10.0, 100_000_000

SIZES: Final = (
    0,
    1,
    2,
    3,
    7,
    64,
    255,
    256,
    65_535,
    2**31 - 1,
    2**31,
    2**32,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64,
    10**30,
)
NUMBERS: Final = (
    *(str(size).encode() for size in SIZES),
    b"-1", b"-0", b"1.0", b"1e5", b"1e400", b"NaN", b"Infinity", b"true", b"null", b'"3"', b"[]", b"{}", b"9" * 5_000,
)  # fmt: skip
WORDS: Final = (
    b'"__metadata__":', b'"dtype":', b'"shape":', b'"data_offsets":', b'"F32"', b'"F4"', b'"', b"\\", b"\\u0000",
    b"\\ud800", b"{", b"}", b"[", b"]", b",", b":", b"\0", b"\xff", b"\xef\xbb\xbf", b" " * 100, b"[" * 3_000,
    b'{"a":' * 3_000, "\N{GRINNING FACE}".encode(), "\u202e".encode(),
)  # fmt: skip
DTYPES: Final = (*safetensors_header.BITS, "", "F128", "f32", "\U0001f600" * 9)
FILES: Final = (
    "a.safetensors",
    "b.safetensors",
    "c.safetensors",
    "../a.safetensors",
    "/etc/passwd",
    "",
    ".",
    "a\0",
    "d/e",
)


def main() -> int:
    n = int(sys.argv[1].replace(",", "")) if len(sys.argv) > 1 else 150_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    chance = random.Random(seed)
    tally: collections.Counter[str] = collections.Counter()
    longest, most, failed = 0.0, 0, 0
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    signal.signal(signal.SIGALRM, _hangs)
    tracemalloc.start()
    begin = time.perf_counter()
    try:
        for at in range(n):
            kind, target = chance.choice(KINDS)(chance, folder)
            tracemalloc.reset_peak()
            held, _ = tracemalloc.get_traced_memory()
            started = time.perf_counter()
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            outcome = _outcome(target)
            signal.setitimer(signal.ITIMER_REAL, 0)
            seconds = time.perf_counter() - started
            n_bytes = tracemalloc.get_traced_memory()[1] - held
            longest, most = max(longest, seconds), max(most, n_bytes)
            tally[f"{kind}: {outcome}"] += 1
            if outcome not in ("read", "incomplete", "refused") or n_bytes > MOST_BYTES:
                failed += 1
                shutil.copytree(folder, Path.cwd() / f"fuzz-{seed}-{at}", dirs_exist_ok=True)
                print(f"input {at:,}: {outcome}, {seconds:.3f} s, {n_bytes:,} bytes")
    finally:
        shutil.rmtree(folder)
    print(f"date          {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}")
    print(f"tfinspect     {tfinspect.__version__}, Python {platform.python_version()}, {platform.system()}")
    print(f"seed          {seed}")
    print(f"inputs        {n:,} in {time.perf_counter() - begin:,.0f} s")
    for outcome, count in sorted(tally.items()):
        print(f"              {count:>9,}  {outcome}")
    print(f"longest       {longest:.3f} s")
    print(f"most memory   {most:,} bytes")
    print(f"failed        {failed:,}")
    return 1 if failed else 0


def _hangs(*_: object) -> None:
    raise TimeoutError


def _outcome(target: Path) -> str:
    """What became of an input: read, incomplete, refused, or anything else by its name."""
    try:
        if target.name.endswith(".safetensors"):
            safetensors_header.read(target)
        report = stored(checkpoint.read(target), tied_head=checkpoint.tied_by_config(target))
        _require_sound(report)
    except InputError as error:
        return "refused" if len(str(error)) < 2_000 and "\n" not in str(error) else f"a long message: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "incomplete" if report.faults else "read"


def _require_sound(report: StoredParams) -> None:
    """Nothing, where the parts add up and can be written down."""
    assert sum(group.params for group in report.groups) == report.total
    assert sum(kind.n_bytes for kind in report.formats) == report.n_bytes
    assert report.faults or all(agreement.verdict != "differ" for agreement in report.agreements), report.agreements
    json.dumps(report.to_dict())
    report.tables()


def _name(chance: random.Random) -> str:
    parts = (
        "h",
        "layers",
        "attn",
        "wte",
        "lm_head",
        "weight",
        "bias",
        "qweight",
        "scales",
        "qzeros",
        "absmax",
        "0",
        "11",
    )
    if chance.random() < 0.05:
        return "".join(chance.choices(string.printable + "äß\u202e\U0001f600", k=chance.randrange(40)))
    return ".".join(chance.choices(parts, k=chance.choice((1, 2, 3, 4, 5, 40))))


def _fields(chance: random.Random, whole: float) -> dict[str, Any]:
    """A header: each tensor as it should be, with this probability."""
    found: dict[str, Any] = {}
    at = 0
    for _ in range(chance.choice((0, 1, 2, 3, 8, 30))):
        dtype = chance.choice(DTYPES)
        shape = chance.choices((0, 1, 2, 3, 8, 16), k=chance.randrange(4))
        n_bits = safetensors_header.BITS.get(dtype, 8)
        for size in shape:
            n_bits *= size
        end = at + n_bits // 8
        tensor: dict[str, Any] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
        if chance.random() > whole:
            key = chance.choice(list(tensor))
            tensor[key] = chance.choice(
                (None, [], [at], [at, at], [-1, 2], chance.choice(SIZES), [chance.choice(SIZES)] * 3)
            )
        found[_name(chance)] = tensor
    if chance.random() < 0.3:
        found["__metadata__"] = chance.choice(({}, {"format": "pt"}, None, [1], {"a": 3}, {"a": "x" * 10_000}))
    return found


def _file(fields: dict[str, Any], chance: random.Random) -> bytes:
    places = [field.get("data_offsets") for field in fields.values() if isinstance(field, dict)]
    ends = [place[-1] for place in places if isinstance(place, list) and place]
    n_data = max((end for end in ends if 0 <= end < 10**5), default=0)
    raw = json.dumps(fields, ensure_ascii=chance.random() < 0.5).encode() + b" " * chance.choice((0, 0, 5))
    return struct.pack("<Q", len(raw)) + raw + bytes(n_data)


def _damaged(data: bytes, chance: random.Random) -> bytes:
    """The same bytes after one to four accidents."""
    out = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        at, to = sorted((chance.randrange(len(out) + 1), chance.randrange(len(out) + 1)))
        match chance.randrange(9):
            case 0 if out:
                out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)
            case 1:
                del out[at : min(to, at + 20)]
            case 2:
                out[at:at] = out[at : min(to, at + 200)]
            case 3:
                out[at:at] = chance.choice(WORDS)
            case 4:
                digits = [i for i in range(8, len(out)) if chr(out[i]).isdigit()]
                if digits:
                    i = chance.choice(digits)
                    out[i : i + 1] = chance.choice(NUMBERS)
            case 5:
                del out[at:]
            case 6:
                out[:8] = struct.pack(
                    "<Q", chance.choice((*(s for s in SIZES if s < 2**64), len(out), max(0, len(out) - 8)))
                )
            case 7:
                out += bytes(chance.choice((1, 8, 1000)))
            case _:
                out[at:to] = bytes(chance.choices(range(256), k=min(50, to - at)))
    if chance.random() < 0.7 and len(out) >= 8:  # a length that fits, so that what comes after it is read
        out[:8] = struct.pack(
            "<Q", min(len(out) - 8, int.from_bytes(data[:8], "little") + len(out) - len(data)) % 2**64
        )
    return bytes(out)


def _one_whole(chance: random.Random, folder: Path) -> tuple[str, Path]:
    target = folder / "model.safetensors"
    target.write_bytes(_file(_fields(chance, 1.0), chance))
    return "safetensors, as written", target


def _one_wrong(chance: random.Random, folder: Path) -> tuple[str, Path]:
    target = folder / "model.safetensors"
    target.write_bytes(_file(_fields(chance, 0.8), chance))
    return "safetensors, wrong values", target


def _one_damaged(chance: random.Random, folder: Path) -> tuple[str, Path]:
    target = folder / "model.safetensors"
    target.write_bytes(_damaged(_file(_fields(chance, 1.0), chance), chance))
    return "safetensors, damaged", target


def _noise(chance: random.Random, folder: Path) -> tuple[str, Path]:
    target = folder / "model.safetensors"
    raw = chance.randbytes(chance.randrange(300))
    target.write_bytes((struct.pack("<Q", len(raw)) if chance.random() < 0.5 else b"") + raw)
    return "safetensors, noise", target


def _index(chance: random.Random, folder: Path) -> tuple[str, Path]:
    names: dict[str, Any] = {}
    for file in FILES[:2]:
        fields = _fields(chance, 0.99)
        (folder / file).write_bytes(_file(fields, chance))
        names |= {name: file for name in fields if name != "__metadata__"}
    if chance.random() < 0.3:
        names[_name(chance)] = chance.choice((*FILES, 3, None))
    total = chance.choice((*SIZES, -1, None, "1", 1.5, True))
    content = {"metadata": chance.choice(({"total_size": total}, {}, None, [])), "weight_map": names}
    raw = json.dumps(content).encode()
    target = folder / "model.safetensors.index.json"
    if damaged := chance.random() < 0.5:
        raw = _damaged(bytes(8) + raw, chance)[8:]
    target.write_bytes(raw)
    return "index, damaged" if damaged else "index, as written or wrong", target


KINDS: Final[tuple[Callable[[random.Random, Path], tuple[str, Path]], ...]] = (
    _one_whole, _one_wrong, _one_damaged, _one_damaged, _one_damaged, _noise, _index, _index,
)  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
