"""What a checkpoint holds: elements, parameters and bytes, by number format, by module and by tensor.

Units: an element is a number as the file has it; a parameter is a number of the model. They differ where a byte holds
two weights, where masks are stored beside the weights, and where one table is stored twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

from tfinspect.dims import brackets
from tfinspect.results.agreement import Agreement
from tfinspect.results.report import Answer
from tfinspect.results.table import Cell, Column, Row, Table

__all__ = ["Copy", "Format", "ModuleSum", "Role", "StoredGroup", "StoredParams", "StoredRow"]

Role = Literal["parameter", "buffer", "scale"]
"""buffer: a mask, a table of angles, a counter.  scale: what turns packed numbers back into weights."""

#: Most rows of a table on a page; JSON has all.
MOST_ROWS: Final = 200
#: Longest name on a page.
MOST_LETTERS: Final = 120

_CONV1D: Final = (
    "Weights of c_attn, c_fc and c_proj are [in, out], as GPT-2's Conv1D has them; nn.Linear keeps [out, in]."
)


@dataclasses.dataclass(frozen=True, slots=True)
class StoredRow:
    """One tensor of the checkpoint."""

    name: str
    """As the file has it."""
    dtype: str
    """The number format as safetensors calls it."""
    sizes: tuple[int, ...]
    elements: int
    n_bytes: int
    params: int
    """Parameters that it stands for: 0 for a buffer or a scale."""
    role: Role = "parameter"
    packing: str = ""
    """How weights are packed into the elements, where they are: "4-bit, bitsandbytes nf4"."""
    copy_of: str = ""
    """The tensor that it is a second copy of: it counts no parameters then."""
    complete: bool = True
    """Whether the file holds its bytes to their end."""

    @property
    def own_params(self) -> int:
        """Parameters that no other tensor has."""
        return 0 if self.copy_of else self.params


@dataclasses.dataclass(frozen=True)
class StoredGroup:
    """Tensors that are alike: one name with "*" for the numbers that differ, one shape, one number format."""

    pattern: str
    """ "h.*.attn.c_attn.weight"; the name itself where there is one."""
    copies: int
    dtype: str
    sizes: tuple[int, ...]
    role: Role
    packing: str
    elements: int
    """Elements of one."""
    params: int
    """Parameters of all, second copies left out."""
    n_bytes: int
    """Bytes of all."""


@dataclasses.dataclass(frozen=True)
class ModuleSum:
    """A module, or modules that differ in a number only, with everything below."""

    path: str
    """ "h.*.attn": its path, with "*" for a number."""
    depth: int
    """How many modules it is in, as they are shown."""
    copies: int
    """How many modules the path stands for."""
    tensors: int
    params: int
    n_bytes: int
    folded: bool
    """Whether it has modules inside that are not shown."""


@dataclasses.dataclass(frozen=True)
class Format:
    """Tensors of one number format."""

    dtype: str
    packing: str
    tensors: int
    elements: int
    params: int
    """Parameters, second copies left out."""
    n_bytes: int


@dataclasses.dataclass(frozen=True)
class Copy:
    """Two tensors of the same shape and format that could be one."""

    name: str
    of: str
    shared: bool
    """Whether the file itself has one tensor under both names."""
    equal: bool | None
    """Whether their bytes are equal; None where nobody looked."""
    n_compared: int
    """Bytes of each that were compared."""
    n_bytes: int
    """Bytes that each has."""
    tied: bool | None
    """Whether the config.json beside says that the model has one for both; None where it says nothing of them."""

    @property
    def words(self) -> str:
        """What is known of the two."""
        if self.shared:
            return "one tensor in the file"
        said = "not compared"
        if self.equal is not None:
            said = "equal bytes" if self.equal else "the bytes DIFFER"
        if self.equal and self.n_compared < self.n_bytes:
            said = f"equal in {self.n_compared:,} bytes from all over"
        return said if self.tied is None else f"{said}; config.json says {'tied' if self.tied else 'untied'}"


@dataclasses.dataclass(frozen=True)
class StoredParams(Answer):
    """What a checkpoint holds: parameters, elements and bytes, and what is missing."""

    schema: ClassVar[str] = "tfinspect.stored/1"
    main_table: ClassVar[str] = "Every tensor"

    path: str
    format: str
    """ "safetensors" or "torch"."""
    family: str | None
    """Whose names the tensors have, "gpt2"; None where they are those of no known family."""
    n_files: int
    n_file_bytes: int
    """Bytes of the files that are there."""
    n_read_bytes: int
    """Bytes that were read for the names, formats and shapes."""
    rows: tuple[StoredRow, ...]
    """Every tensor, in the order of the files."""
    groups: tuple[StoredGroup, ...]
    modules: tuple[ModuleSum, ...]
    copies: tuple[Copy, ...] = ()
    missing_files: tuple[str, ...] = ()
    missing_tensors: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    """Tensors that are there and that the index does not name."""
    faults: tuple[str, ...] = ()
    """Why the checkpoint is not whole, in sentences."""
    remarks: tuple[str, ...] = ()
    index_total_size: int | None = None
    """Bytes of the tensors as the index says."""
    flipped: bool = False
    """Whether linear weights are [in, out], as in GPT-2's files."""
    per_tensor: bool = False
    """Whether each tensor is listed."""
    whole: bool = False
    """Whether tables have every row, however many there are."""
    expected: int | None = None
    """The number of parameters that the user expects."""
    agreements: tuple[Agreement, ...] = ()

    @property
    def total(self) -> int:
        """Parameters, each counted once."""
        return sum(row.own_params for row in self.rows)

    @property
    def elements(self) -> int:
        """Elements of all tensors."""
        return sum(row.elements for row in self.rows)

    @property
    def n_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(row.n_bytes for row in self.rows)

    @property
    def formats(self) -> tuple[Format, ...]:
        """Tensors by number format, the most bytes first."""
        kinds: dict[tuple[str, str], list[StoredRow]] = {}
        for row in self.rows:
            kinds.setdefault((row.dtype, row.packing), []).append(row)
        found = (
            Format(
                dtype,
                packing,
                len(rows),
                sum(row.elements for row in rows),
                sum(row.own_params for row in rows),
                sum(row.n_bytes for row in rows),
            )
            for (dtype, packing), rows in kinds.items()
        )
        return tuple(sorted(found, key=lambda kind: -kind.n_bytes))

    @property
    def surplus(self) -> int | None:
        """Total minus expected total; None where nothing is expected."""
        return None if self.expected is None else self.total - self.expected

    @property
    def conventions(self) -> str:
        """What was read, and what counts as a parameter."""
        files = "1 file" if self.n_files == 1 else f"{self.n_files:,} files"
        tensors = "1 tensor" if len(self.rows) == 1 else f"{len(self.rows):,} tensors"
        tensors += f" with names of {self.family}," if self.family else ""
        incomplete = "INCOMPLETE, " if self.faults else ""
        return (
            f"{incomplete}{self.path}: {tensors} in {files} of {self.format}, read from {self.n_read_bytes:,} of "
            f"{self.n_file_bytes:,} bytes. Parameters, each counted once: packed weights count as many as they stand "
            "for, buffers and scales 0."
        )

    def unfolded(self) -> StoredParams:
        """The same with every row in its tables, and with every tensor."""
        return dataclasses.replace(self, whole=True, per_tensor=True)

    def elements_of(self, role: Role) -> int:
        """Elements of the tensors of one role."""
        return sum(row.elements for row in self.rows if row.role == role)

    def tables(self) -> tuple[Table, ...]:
        """From elements to parameters, by number format, by module, by group, and the tensors where asked for."""
        missing = (self._missing(),) if self.faults else ()
        copies = (self._copies(),) if self.copies else ()
        tensors = (self._tensors(),) if self.per_tensor else ()
        return (*missing, self._bridge(), self._formats(), *copies, self._modules(), self._groups(), *tensors)

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values."""
        return {
            "conventions": self.conventions,
            "path": self.path,
            "format": self.format,
            "family": self.family,
            "files": self.n_files,
            "file_bytes": self.n_file_bytes,
            "read_bytes": self.n_read_bytes,
            "complete": not self.faults,
            "faults": list(self.faults),
            "missing_files": list(self.missing_files),
            "missing_tensors": list(self.missing_tensors),
            "unlisted_tensors": list(self.unlisted),
            "remarks": list(self.remarks),
            "total_params": self.total,
            "total_elements": self.elements,
            "buffer_elements": self.elements_of("buffer"),
            "scale_elements": self.elements_of("scale"),
            "copied_params": sum(row.params for row in self.rows if row.copy_of),
            "tensor_bytes": self.n_bytes,
            "index_total_size": self.index_total_size,
            "input_first": self.flipped,
            "formats": [_keyed(kind) for kind in self.formats],
            "copies": [_keyed(copy) for copy in self.copies],
            "modules": [_keyed(module) for module in self.modules],
            "groups": [{**_keyed(group), "sizes": list(group.sizes)} for group in self.groups],
            "tensors": [{**_keyed(row), "sizes": list(row.sizes), "copy_of": row.copy_of or None} for row in self.rows]
            if self.per_tensor
            else None,
            "expected": None if self.expected is None else {"params": self.expected, "surplus": self.surplus},
        }

    def _missing(self) -> Table:
        names = [("file", name) for name in self.missing_files]
        names += [("tensor", name) for name in self.missing_tensors]
        names += [("tensor, cut off", row.name) for row in self.rows if not row.complete]
        rows = [Row({"what": what, "name": _short(name)}) for what, name in names]
        columns = (Column("what", "what", keep=9), Column("name", "name", keep=9))
        notes = ("Incomplete: the counts below are those of what is there.", *map(_sentence, self.faults))
        return Table("Missing", columns, self._cut(rows, "name"), notes)

    def _bridge(self) -> Table:
        packed = sum(row.params - row.elements for row in self.rows if row.packing and row.role == "parameter")
        copied = sum(row.params for row in self.rows if row.copy_of)
        steps = (
            ("masks and other buffers", -self.elements_of("buffer")),
            ("scales and zero points of packed weights", -self.elements_of("scale")),
            ("weights beyond one per element, where they are packed", packed),
            ("second copies", -copied),
        )
        rows = [Row({"what": "elements of all tensors", "count": self.elements})]
        rows += [Row({"what": what, "count": count}) for what, count in steps if count]
        total = Row({"what": "parameters", "count": self.total}, "total")
        columns = (Column("what", "what", keep=9), Column("count", "count", "count", keep=9))
        return Table("From elements to parameters", columns, (*rows, total), self.remarks)

    def _formats(self) -> Table:
        rows = [
            Row(
                {
                    "format": _short(", ".join(filter(None, (kind.dtype, kind.packing)))),
                    "tensors": kind.tensors,
                    "elements": kind.elements,
                    "params": kind.params,
                    "bytes": kind.n_bytes,
                }
            )
            for kind in self.formats
        ]
        total = Row(
            {
                "format": "total",
                "tensors": len(self.rows),
                "elements": self.elements,
                "params": self.total,
                "bytes": self.n_bytes,
            },
            "total",
        )
        columns = (
            Column("format", "number format", keep=9),
            Column("tensors", "tensors", "count", keep=5),
            Column("elements", "elements", "count", keep=8),
            Column("params", "parameters", "count", keep=9),
            Column("bytes", "bytes", "bytes", keep=9),
        )
        notes = []
        if self.index_total_size is not None and self.index_total_size != self.n_bytes:
            notes.append(f"The index says {self.index_total_size:,} bytes, and is not believed.")
        return Table("By number format", columns, (*self._cut(rows, "format"), total), tuple(notes))

    def _copies(self) -> Table:
        rows = [Row({"name": _short(c.name), "of": _short(c.of), "how": c.words}) for c in self.copies]
        columns = (
            Column("name", "tensor", keep=9),
            Column("of", "the same as", keep=9),
            Column("how", "how that is known", keep=9),
        )
        return Table("Held twice, or alike", columns, self._cut(rows, "name"))

    def _modules(self) -> Table:
        rows = []
        above: list[str] = []
        for module in self.modules:
            del above[module.depth :]
            inside = module.path.removeprefix(f"{above[-1]}.") if above else module.path
            above.append(module.path)
            name = f"{_short(inside)} × {module.copies:,}" if module.copies > 1 else _short(inside)
            cells: dict[str, Cell] = {"path": name, "tensors": module.tensors, "params": module.params}
            cells |= {"share": module.params / self.total if self.total else 0.0, "bytes": module.n_bytes}
            rows.append(Row(cells, indent=module.depth))
        cells = {"path": "all", "tensors": len(self.rows), "params": self.total, "bytes": self.n_bytes}
        total = Row({**cells, "share": 1.0} if self.total else cells, "total")
        columns = (
            Column("path", "module", keep=9),
            Column("tensors", "tensors", "count", keep=5),
            Column("params", "parameters", "count", keep=9),
            Column("share", "share", "share", keep=6),
            Column("bytes", "bytes", "bytes", keep=7),
        )
        folded = any(module.folded for module in self.modules)
        depth = max((module.depth for module in self.modules), default=0) + 1
        notes = (f"Folded below this depth: --depth {depth + 1} shows more.",) if folded else ()
        return Table("By module", columns, (*self._cut(rows, "path"), total), notes)

    def _groups(self) -> Table:
        rows = [
            Row(
                {
                    "pattern": f"{_short(g.pattern)} × {g.copies:,}" if g.copies > 1 else _short(g.pattern),
                    "dtype": g.dtype,
                    "sizes": brackets(g.sizes),
                    "each": g.elements,
                    "all": g.elements * g.copies,
                    "kind": "" if g.role == "parameter" else g.role,
                }
            )
            for g in self.groups
        ]
        columns = (
            Column("pattern", "tensor", keep=9),
            Column("dtype", "format", keep=7),
            Column("sizes", "sizes", "shape", keep=9),
            Column("each", "elements", "count", keep=5),
            Column("all", "in all", "count", keep=8),
            *([Column("kind", "kind", keep=7)] if any(g.role != "parameter" for g in self.groups) else []),
        )
        notes = (_CONV1D,) if self.flipped else ()
        return Table("Tensors, those that repeat together", columns, self._cut(rows, "pattern"), notes)

    def _tensors(self) -> Table:
        rows = [
            Row(
                {
                    "name": f"{_short(row.name)} = {_short(row.copy_of)}" if row.copy_of else _short(row.name),
                    "dtype": row.dtype,
                    "sizes": brackets(row.sizes),
                    "params": row.own_params,
                    "bytes": row.n_bytes,
                }
            )
            for row in self.rows
        ]
        total = Row({"name": f"{len(rows):,} tensors", "params": self.total, "bytes": self.n_bytes}, "total")
        columns = (
            Column("name", "tensor", keep=9),
            Column("dtype", "format", keep=7),
            Column("sizes", "sizes", "shape", keep=8),
            Column("params", "parameters", "count", keep=9),
            Column("bytes", "bytes", "bytes", keep=6),
        )
        return Table("Every tensor", columns, (*rows, total))

    def _cut(self, rows: Sequence[Row], first: str) -> tuple[Row, ...]:
        """The first rows of many, and a row that says how many are not shown."""
        if self.whole or len(rows) <= MOST_ROWS:
            return tuple(rows)
        return (*rows[:MOST_ROWS], Row({first: f"{len(rows) - MOST_ROWS:,} more; --json has all"}, "fold"))


def _keyed(value: Any) -> dict[str, Any]:
    """The fields of a row by their JSON keys: n_bytes is "bytes"."""
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {{"n_bytes": "bytes", "n_compared": "compared_bytes"}.get(name, name): v for name, v in fields.items()}


def _short(name: str) -> str:
    return name if len(name) <= MOST_LETTERS else f"{name[:MOST_LETTERS]}..."


def _sentence(fault: str) -> str:
    return f"{fault[:1].upper()}{fault[1:]}."
