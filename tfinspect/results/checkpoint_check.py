"""A checkpoint's config.json, its files and the built module, held against each other.

expected    what the configuration asks for: each tensor by the name that a checkpoint of its family has for it
stored      what the headers of the files say is there
built       the parameters of the torch module that the configuration describes
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Literal

from tfinspect.dims import brackets
from tfinspect.errors import CheckFailed
from tfinspect.naming import as_form
from tfinspect.results import agreement
from tfinspect.results.agreement import Agreement
from tfinspect.results.report import Answer
from tfinspect.results.subject import Subject
from tfinspect.results.table import Column, Given, Row, Table

__all__ = ["HOLDINGS", "CheckpointCheck", "Finding", "Kind", "TensorPair", "require"]

Kind = Literal[
    "another family", "missing files", "truncated files", "index", "missing blocks", "missing tensors",
    "missing biases", "missing head", "more blocks", "unexpected tensors", "unexpected biases", "wrong shapes",
    "transposed", "padded vocabulary", "wrong vocabulary", "wrong n_ctx", "two tables", "second copy", "equal tables",
    "masks", "another head", "dtype", "mixed dtypes", "not understood",
]  # fmt: skip

#: What the stored numbers belong to: key, and what a reader calls it.
HOLDINGS: Final[Mapping[str, str]] = {
    "model": "tensors of the model",
    "copies": "second copies of its tables",
    "masks": "masks and other buffers",
    "other_heads": "weights of another head",
    "unexpected": "tensors that it has not",
}

#: How many lines of tensors a finding shows, and how much of a name.
SHOWN: Final = 12
LONGEST_NAME: Final = 100


@dataclasses.dataclass(frozen=True, slots=True)
class TensorPair:
    """One tensor: as the configuration has it, and as the file does."""

    name: str
    """As the file has it, or would have it."""
    expected: tuple[int, ...] | None
    """None where the configuration has no such tensor."""
    stored: tuple[int, ...] | None
    """None where the file has no such tensor."""
    dtype: str | None = None
    """The format's name of the numbers in the file."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that was found, with all tensors that it is about."""

    kind: Kind
    differs: bool
    """Whether something does not fit, or is merely worth knowing."""
    what: str
    """The fact, in a sentence."""
    advice: str = ""
    """What to do about it."""
    tensors: tuple[TensorPair, ...] = ()


@dataclasses.dataclass(frozen=True)
class CheckpointCheck(Answer):
    """What was found, and the counts of all sides."""

    schema: ClassVar[str] = "tfinspect.check/1"

    path: str
    """The checkpoint, as it was named."""
    config: str | None
    """The configuration; None where the file alone was there, and was held against the model that it tells."""
    subject: Subject
    """The model that is expected."""
    family: str
    """Whose names are expected."""
    recognised: str | None
    """The family that the file's names tell, whatever the configuration says."""
    untold: tuple[str, ...]
    """Without a configuration: what no tensor tells, with the value that is assumed."""
    n_files: int
    n_header_bytes: int
    """Bytes of the files that were read for names and shapes."""
    expected_params: int
    """Parameters that the configuration asks for, by the closed form."""
    expected_tensors: int
    """Tensors that hold them, as files of the family have them."""
    found_tensors: int
    """Those of them that the file has in the expected shape."""
    found_params: int
    """Parameters in them."""
    held: Mapping[str, tuple[int, int]]
    """(tensors, numbers) in the file, by key of HOLDINGS."""
    findings: tuple[Finding, ...]
    built_params: int | None = None
    """Parameters of the built module; None before it has been built."""
    agreements: tuple[Agreement, ...] = ()
    whole: bool = False
    """Whether the tables show every line."""

    @property
    def differences(self) -> tuple[Finding, ...]:
        """Findings that do not fit."""
        return tuple(finding for finding in self.findings if finding.differs)

    @property
    def notes(self) -> tuple[Finding, ...]:
        """Findings that are merely worth knowing."""
        return tuple(finding for finding in self.findings if not finding.differs)

    @property
    def stored_tensors(self) -> int:
        """Tensors in the file, whatever they are."""
        return sum(tensors for tensors, _ in self.held.values())

    @property
    def stored_elements(self) -> int:
        """Numbers in the file, whatever they are."""
        return sum(elements for _, elements in self.held.values())

    @property
    def conventions(self) -> str:
        """What is held against what."""
        sides = f"{self.config} and {self.path}" if self.config else f"{self.path}, without a configuration"
        return (
            f"{self.subject.opening()}. Held against each other: {sides}; names and shapes of tensors by the headers "
            "alone. Each parameter is counted once."
        )

    def tables(self) -> tuple[Table, ...]:
        """The counts of each side; each finding with its tensors, differences first."""
        found = (*self.differences, *self.notes)
        return (self._counts(), *(_finding_table(finding, None if self.whole else SHOWN) for finding in found))

    def unfolded(self) -> CheckpointCheck:
        """The same with every tensor in the tables."""
        return dataclasses.replace(self, whole=True)

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values."""
        return {
            "conventions": self.conventions,
            "path": self.path,
            "config": self.config,
            "model": self.subject.to_dict(),
            "family": self.family,
            "recognised": self.recognised,
            "untold": list(self.untold),
            "n_files": self.n_files,
            "n_header_bytes": self.n_header_bytes,
            "expected": {"params": self.expected_params, "tensors": self.expected_tensors},
            "found": {"params": self.found_params, "tensors": self.found_tensors},
            "stored": {
                "elements": self.stored_elements,
                "tensors": self.stored_tensors,
                "holdings": [
                    {"holding": key, "elements": elements, "tensors": tensors}
                    for key, (tensors, elements) in self.held.items()
                ],
            },
            "built_params": self.built_params,
            "n_differences": len(self.differences),
            "findings": [
                {
                    "kind": finding.kind,
                    "differs": finding.differs,
                    "what": finding.what,
                    "advice": finding.advice or None,
                    "tensors": [
                        {
                            "name": pair.name,
                            "expected": None if pair.expected is None else list(pair.expected),
                            "stored": None if pair.stored is None else list(pair.stored),
                            "dtype": pair.dtype,
                        }
                        for pair in finding.tensors
                    ],
                }
                for finding in (*self.differences, *self.notes)
            ],
        }

    def _counts(self) -> Table:
        asks = "the configuration asks for" if self.config else "a model of these shapes has"
        rows = [
            Row({"side": asks, "tensors": self.expected_tensors, "elements": self.expected_params}),
            Row(
                {
                    "side": "of these, stored in their shape",
                    "tensors": self.found_tensors,
                    "elements": self.found_params,
                }
            ),
            *(
                Row({"side": f"stored: {HOLDINGS[key]}", "tensors": tensors, "elements": elements})
                for key, (tensors, elements) in self.held.items()
                if tensors or key == "model"
            ),
            Row({"side": "stored in all", "tensors": self.stored_tensors, "elements": self.stored_elements}, "total"),
        ]
        columns = (
            Column("side", "side", keep=9),
            Column("tensors", "tensors", "count", keep=8),
            Column("elements", "numbers", "count", keep=9),
        )
        notes = [*self.subject.notes()]
        if self.untold:
            notes.append(f"Not told by the file, assumed: {', '.join(self.untold)}.")
        n_differences = len(self.differences)
        notes.append(
            f"{n_differences:,} {'thing differs' if n_differences == 1 else 'things differ'}."
            if n_differences
            else "Nothing differs."
        )
        return Table(f"Checkpoint of {self.family}", columns, tuple(rows), tuple(notes))


def require(report: CheckpointCheck) -> None:
    """Nothing, where all sides agree.

    Raises:  CheckFailed naming the first difference, and how many others there are.
    """
    if report.differences:
        first, *others = report.differences
        more = f" ({len(others):,} more)" if others else ""
        raise CheckFailed(f"{first.kind}: {_clause(first.what)}{more}", _clause(first.advice))
    agreement.require(report.agreements)


def _clause(sentence: str) -> str:
    """A sentence as the part of another; the error escapes what would break its line."""
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _finding_table(finding: Finding, shown: int | None) -> Table:
    """The tensors of a finding, repeated layers on one line, and what it says below; or what it says alone."""
    title = f"{'differs' if finding.differs else 'note'}: {finding.kind}"
    advice = (finding.advice,) if finding.advice else ()
    if not finding.tensors:
        return Table(title, (Column("what", "found", keep=9),), (Row({"what": Given(finding.what)}),), advice)
    lines = _grouped(finding.tensors)
    rows = [
        Row({"name": Given(name), "expected": _shape(p.expected), "stored": _shape(p.stored), "dtype": p.dtype})
        for name, p in lines[:shown]
    ]
    if len(lines) > len(rows):
        rows.append(Row({"name": f"and {len(lines) - len(rows):,} more lines; --json has all"}, "fold"))
    columns = [Column("name", "tensor", keep=9)]
    if any(pair.expected is not None for pair in finding.tensors):
        columns.append(Column("expected", "expected", "shape", keep=8))
    if any(pair.stored is not None for pair in finding.tensors):
        columns += [Column("stored", "stored", "shape", keep=8), Column("dtype", "dtype", keep=5)]
    return Table(title, tuple(columns), tuple(rows), (Given(finding.what), *advice))


def _grouped(pairs: Iterable[TensorPair]) -> list[tuple[str, TensorPair]]:
    """Pairs that differ by the numbers in their names alone, as one line each, with how many there are."""
    groups: dict[tuple[object, ...], list[TensorPair]] = {}
    for pair in pairs:
        groups.setdefault((as_form(pair.name), pair.expected, pair.stored, pair.dtype), []).append(pair)
    return [
        (_cut(as_form(same[0].name).replace("{}", "*") if same[1:] else same[0].name) + _times(len(same)), same[0])
        for same in groups.values()
    ]


def _times(n: int) -> str:
    return f" × {n:,}" if n > 1 else ""


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."


def _shape(shape: tuple[int, ...] | None) -> str | None:
    return None if shape is None else brackets(shape)
