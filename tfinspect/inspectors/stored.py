"""What a checkpoint holds: which of its elements are parameters, of which module, and which are there twice."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tfinspect.errors import CheckFailed, InputError
from tfinspect.naming import is_mask
from tfinspect.results import agreement
from tfinspect.results.agreement import Agreement
from tfinspect.results.stored import Copy, ModuleSum, Role, StoredGroup, StoredParams, StoredRow

if TYPE_CHECKING:
    from tfinspect.sources.checkpoint import Checkpoint
    from tfinspect.sources.safetensors_header import StoredTensor

__all__ = ["is_checkpoint", "require", "stored"]

#: Most tensors that are listed one by one.
MOST_LISTED: Final = 100_000
#: Rows of the tree of modules that fit a page.
PAGE: Final = 24
#: Most parts of a name that are told apart: modules in modules.
MOST_PARTS: Final = 32
#: Most pairs of tensors whose bytes are compared.
MOST_PAIRS: Final = 8

#: What the maps from features to logits are called, and the tables of tokens.
_HEAD: Final = re.compile(r"(^|\.)(lm_head|embed_out|output|predictions\.decoder|head)\.weight$")
_TABLE: Final = re.compile(
    r"(^|\.)(wte|tokens_embed|embed_tokens|word_embeddings|tok_embeddings|embed_in|shared|tok_emb|embeddings?)\.weight$"
)
#: Buffers of other layers than attention.
_BUFFERS: Final = re.compile(
    r"(^|\.)(running_mean|running_var|num_batches_tracked|token_type_ids|causal_mask|attn_mask|tril|"
    r"(cos|sin)_cached|freqs_cis|weight_format)$"
)
#: What turns packed numbers back into weights, beside the tensor that it belongs to.
_SCALES: Final = re.compile(
    r"(?P<of>.+?)(?P<joint>[._])(absmax|quant_map|nested_absmax|nested_quant_map|quant_state\.[\w.]+|SCB|qzeros|scales|g_idx|"
    r"scale|scale_inv|scale_2|shape|zero_point|global_scale|input_scale|weight_scale|input_global_scale)$"
)


def is_checkpoint(value: object) -> bool:
    """Whether a value is what the headers of a checkpoint say."""
    return hasattr(type(value), "n_header_bytes") and hasattr(type(value), "compare")


def stored(
    checkpoint: Checkpoint,
    *,
    check: bool = True,
    expect: int | None = None,
    per_tensor: bool = False,
    depth: int | None = None,
    tied_head: bool | None = None,
    family: str | None = None,
) -> StoredParams:
    """What a checkpoint holds: parameters, elements and bytes by number format, by module and by tensor.

    check=False reads no byte of a tensor; otherwise tables and heads of one size are compared. depth is how many levels
    of modules are shown, by default as many as fit a page. tied_head is what a configuration beside the files says, and
    family whose names the tensors have.

    Raises:  InputError for a negative expectation or depth, and for more than 100,000 tensors to list.
    Agrees:  the sizes of the files, less their headers; the places of the tensors, by number format.
    """
    if expect is not None and (isinstance(expect, bool) or not isinstance(expect, int) or expect < 0):
        raise InputError(f"the expected number of parameters (--expect) is {expect!r}", "give an integer, 0 or more")
    if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int) or depth < 0):
        raise InputError(f"the depth of the tree (--depth) is {depth!r}", "give an integer, 0 or more")
    if per_tensor and len(checkpoint.tensors) > MOST_LISTED:
        raise InputError(
            f"--per-tensor would list {len(checkpoint.tensors):,} tensors, and the most is {MOST_LISTED:,}",
            "without it, tensors that repeat stand together",
        )
    rows = _rows(checkpoint)
    copies = tuple(_copies(checkpoint, rows, tied_head, check))
    copied = {copy.name: copy.of for copy in copies if _is_second(copy)}
    rows = [dataclasses.replace(row, copy_of=copied[row.name]) if row.name in copied else row for row in rows]
    return StoredParams(
        path=str(checkpoint.path),
        format="torch" if checkpoint.saved else "safetensors",
        family=family,
        n_files=len(checkpoint.files),
        n_file_bytes=checkpoint.n_file_bytes,
        n_read_bytes=checkpoint.n_header_bytes,
        rows=tuple(rows),
        groups=_groups(rows),
        modules=tuple(_modules(rows, depth)),
        copies=copies,
        missing_files=checkpoint.missing_files,
        missing_tensors=checkpoint.missing_tensors,
        unlisted=checkpoint.unlisted,
        faults=checkpoint.faults,
        remarks=checkpoint.remarks,
        index_total_size=checkpoint.total_size,
        flipped=_flipped(rows),
        per_tensor=per_tensor,
        expected=expect,
        agreements=tuple(_agreements(checkpoint)) if check else (),
    )


def require(report: StoredParams) -> None:
    """Nothing, where the checkpoint is whole, has as many parameters as expected, and the files have as many bytes.

    Raises:  CheckFailed with what is missing, or both figures.
    """
    if report.faults:
        more = f" ({len(report.faults) - 1:,} more)" if len(report.faults) > 1 else ""
        raise CheckFailed(f"the checkpoint is not whole: {report.faults[0]}{more}", "fetch what is missing again")
    if report.expected is not None and report.surplus:
        more = "more" if report.surplus > 0 else "fewer"
        raise CheckFailed(
            f"the checkpoint has {report.total:,} parameters, {abs(report.surplus):,} {more} than "
            f"the expected {report.expected:,}"
        )
    agreement.require(report.agreements)


def _rows(checkpoint: Checkpoint) -> list[StoredRow]:
    """Every tensor with the part that it plays."""
    cut_off = checkpoint.incomplete
    rows = []
    for tensor in checkpoint.tensors.values():
        role, packing, params = _part(tensor, checkpoint.tensors)
        rows.append(
            StoredRow(
                tensor.name,
                tensor.dtype,
                tensor.shape,
                tensor.n_elements,
                tensor.n_bytes,
                params,
                role,
                packing,
                complete=tensor.name not in cut_off,
            )
        )
    return rows


def _part(tensor: StoredTensor, others: Mapping[str, StoredTensor]) -> tuple[Role, str, int]:
    """What a tensor is, how weights are packed in it, and how many parameters it stands for."""
    if packed := _packed(tensor, others):
        return "parameter", *packed
    found = _SCALES.fullmatch(tensor.name)
    if found and any(
        f"{found['of']}{end}" in others for end in ("", ".qweight", ".weight", ".weight_packed", "_blocks")
    ):
        return "scale", "", 0
    if _is_buffer(tensor):
        return "buffer", "", 0
    return "parameter", "", tensor.n_elements


def _packed(tensor: StoredTensor, others: Mapping[str, StoredTensor]) -> tuple[str, int] | None:
    """How weights are packed in a tensor, and how many; None for one weight per element.

    Source:  bitsandbytes.nn.Linear4bit, the linear modules of AutoGPTQ and AutoAWQ, MXFP4 in transformers, and
             compressed-tensors: the names and shapes that they save.
    """
    name, shape, n = tensor.name, tensor.shape, tensor.n_elements
    if tensor.dtype == "U8":
        for kind in ("nf4", "fp4"):
            if f"{name}.quant_state.bitsandbytes__{kind}" in others:
                return f"4-bit, bitsandbytes {kind}", 2 * n
        if name.endswith("_blocks") and name.removesuffix("blocks") + "scales" in others:
            return "4-bit, MXFP4", 2 * n
        if f"{name}.absmax" in others and len(shape) == 2 and shape[1] == 1:
            return "4-bit, bitsandbytes", 2 * n
        scale = others.get(f"{name}_scale")
        if scale and scale.dtype == "F8_E4M3" and shape and scale.shape and 16 * scale.shape[-1] == 2 * shape[-1]:
            return "4-bit, NVFP4", 2 * n
    if tensor.dtype == "I32" and name.endswith(".qweight") and len(shape) == 2:
        module = name.removesuffix("qweight")
        scales, zeros = others.get(f"{module}scales"), others.get(f"{module}qzeros")
        if scales and zeros and len(scales.shape) == len(zeros.shape) == 2 and scales.shape[1]:
            n_out = scales.shape[1]
            bits, rest = divmod(32 * zeros.shape[1], n_out)
            if bits in (2, 3, 4, 8) and not rest:
                if shape[1] == n_out:
                    return f"{bits}-bit, GPTQ", 32 * n // bits
                if 32 * shape[1] == bits * n_out:
                    return f"{bits}-bit, AWQ", shape[0] * n_out
        return "packed, bits unknown", n
    if name.endswith(".weight_packed") and tensor.dtype in ("I32", "U8"):
        return ("4-bit, NVFP4", 2 * n) if tensor.dtype == "U8" else ("packed, bits unknown", n)
    return None


def _is_buffer(tensor: StoredTensor) -> bool:
    """Whether a tensor is a mask, a table of angles, or a counter, which training does not change."""
    if tensor.dtype in ("BOOL", "I64", "U64"):
        return True
    if tensor.name.endswith((".attn.bias", ".attention.bias")):  # a bias vector in some models
        return len(tensor.shape) == 4 and tensor.shape[:2] == (1, 1) and tensor.shape[2] == tensor.shape[3]
    return is_mask(tensor.name) or bool(_BUFFERS.search(tensor.name))


def _flipped(rows: Iterable[StoredRow]) -> bool:
    """Whether c_attn is [in, out]: its output is three times as wide as its input."""
    return any(
        row.name.endswith("attn.c_attn.weight") and len(row.sizes) == 2 and row.sizes[1] == 3 * row.sizes[0]
        for row in rows
    )


def _copies(checkpoint: Checkpoint, rows: Sequence[StoredRow], tied_head: bool | None, check: bool) -> Iterator[Copy]:
    """Tensors that are one under two names, and tables and heads of one size outside the blocks."""
    sizes = {row.name: row.n_bytes for row in rows}
    shared = set()
    for first, *others in checkpoint.tied:
        for name in others:
            shared.add(name)
            yield Copy(name, first, True, True, sizes[name], sizes[name], None)
    alike = defaultdict(list)
    for row in rows:
        outside = not any(part.isdecimal() for part in row.name.split(".", MOST_PARTS))
        if outside and len(row.sizes) == 2 and row.role == "parameter" and row.n_bytes and row.name not in shared:
            alike[row.sizes, row.dtype].append(row)
    n_left = MOST_PAIRS
    for same in alike.values():
        originals: list[StoredRow] = []
        for row in sorted(same, key=_rank):
            for of in originals:
                tied = tied_head if _HEAD.search(row.name) and _TABLE.search(of.name) else None
                n_left -= 1
                if n_left < 0:
                    return
                look = check and row.complete and of.complete
                found = checkpoint.compare(row.name, of.name) if look else None
                equal = found.equal if found else None
                if equal or tied is not None:
                    n_compared = found.n_compared if found else 0
                    yield Copy(row.name, of.name, False, equal, n_compared, row.n_bytes, tied)
                    break
            else:
                originals.append(row)


def _rank(row: StoredRow) -> int:
    """Tables of tokens first and heads last: a tied head is a copy of the table."""
    return 0 if _TABLE.search(row.name) else 2 if _HEAD.search(row.name) else 1


def _is_second(copy: Copy) -> bool:
    """Whether the model has one tensor for both."""
    return copy.shared or bool(copy.tied) or (copy.tied is None and bool(copy.equal))


def _groups(rows: Iterable[StoredRow]) -> tuple[StoredGroup, ...]:
    """Tensors whose names differ in numbers only, of one shape and one format, in the order of their first."""
    found: dict[tuple[object, ...], list[StoredRow]] = {}
    for row in rows:
        pattern = tuple("*" if part.isdecimal() else part for part in row.name.split("."))
        found.setdefault((pattern, row.sizes, row.dtype, row.role, row.packing), []).append(row)
    return tuple(
        StoredGroup(
            _pattern([row.name for row in same]),
            len(same),
            same[0].dtype,
            same[0].sizes,
            same[0].role,
            same[0].packing,
            same[0].elements,
            sum(row.own_params for row in same),
            sum(row.n_bytes for row in same),
        )
        for same in found.values()
    )


def _pattern(names: list[str]) -> str:
    """Names that differ in numbers only as one, with "*" for the numbers that differ."""
    parts = names[0].split(".")
    for at, part in enumerate(parts):
        if part.isdecimal() and any(name.split(".", at + 1)[at] != part for name in names[1:]):
            parts[at] = "*"
    return ".".join(parts)


class _Node:
    """A module while tensors are added to it."""

    __slots__ = ("inside", "n_bytes", "numbers", "own", "params", "tensors")

    def __init__(self) -> None:
        self.inside: dict[str, _Node] = {}
        self.numbers: set[tuple[str, ...]] = set()
        self.tensors = self.params = self.n_bytes = self.own = 0

    def label(self, part: str) -> str:
        """What a path calls it: its number where it is the only one."""
        return next(iter(self.numbers))[-1] if len(self.numbers) == 1 else part

    def add(self, row: StoredRow) -> None:
        self.tensors += 1
        self.params += row.own_params
        self.n_bytes += row.n_bytes


def _modules(rows: Iterable[StoredRow], depth: int | None) -> Iterator[ModuleSum]:
    """The tree of modules to a depth, by default the greatest whose rows fit a page."""
    root = _Node()
    for row in rows:
        node = root
        numbers: tuple[str, ...] = ()
        for part in _path(row):
            numbered = part.isdecimal()
            numbers = (*numbers, part) if numbered else numbers
            node = node.inside.setdefault("*" if numbered else part, _Node())
            node.add(row)
            if numbered:
                node.numbers.add(numbers)
        node.own += 1
    if depth is None:
        depth = 1
        while depth < MOST_PARTS and _fits(_unfolded(root, depth + 1)):
            depth += 1
    yield from _unfolded(root, depth)


def _path(row: StoredRow) -> list[str]:
    """The modules that a tensor is in; a scale is where its weight is."""
    *path, last = row.name.split(".", MOST_PARTS)
    if row.role == "scale" and (found := _SCALES.fullmatch(row.name)):
        *path, last = found["of"].split(".", MOST_PARTS)
        if last not in ("weight", "bias") and found["joint"] == ".":
            path.append(last)
    return path


def _fits(modules: Iterator[ModuleSum]) -> bool:
    return next(itertools.islice(modules, PAGE, None), None) is None


def _unfolded(root: _Node, depth: int, prefix: str = "", level: int = 0) -> Iterator[ModuleSum]:
    """The modules in a module to a depth; one that only wraps another stands in one row with it."""
    if level == depth:
        return
    for part, node in root.inside.items():
        path = f"{prefix}{node.label(part)}"
        while len(node.inside) == 1 and not node.own and len(node.numbers) < 2:
            ((part, node),) = node.inside.items()
            path = f"{path}.{node.label(part)}"
        folded = bool(node.inside) and level + 1 == depth
        yield ModuleSum(path, level, max(1, len(node.numbers)), node.tensors, node.params, node.n_bytes, folded)
        yield from _unfolded(node, depth, f"{path}.", level + 1)


def _agreements(checkpoint: Checkpoint) -> Iterator[Agreement]:
    """Bytes by shapes and number formats, against the sizes of the files and the places of the tensors in them."""
    again = {name for _, *others in checkpoint.tied for name in others}
    said: dict[str, int] = defaultdict(int)
    placed: dict[str, int] = defaultdict(int)
    n_once = 0
    for tensor in checkpoint.tensors.values():
        n_bytes = tensor.n_bytes if tensor.bits is None else tensor.n_elements * tensor.bits // 8
        n_once += 0 if tensor.name in again else n_bytes
        if tensor.bits is not None:
            said[tensor.dtype] += n_bytes
            placed[tensor.dtype] += tensor.n_bytes
    reason = "" if checkpoint.n_data_bytes is not None else "the files hold more than these tensors"
    how = "sizes of the files, less their headers"
    yield Agreement("bytes of all tensors", n_once, checkpoint.n_data_bytes, how, reason=reason)
    how = "torch's own sizes" if checkpoint.saved else "places in the headers"
    for dtype in said:
        yield Agreement(f"bytes in {dtype}", said[dtype], placed[dtype], how)
