"""Whether a checkpoint holds what its configuration says: config.json, headers and the built module."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from tfinspect import naming
from tfinspect.closed_form import params as closed_form
from tfinspect.errors import InputError
from tfinspect.results.agreement import Agreement
from tfinspect.results.checkpoint_check import CheckpointCheck, Finding, Kind, TensorPair, require
from tfinspect.results.subject import Described, Subject
from tfinspect.spec import ModelSpec

__all__ = ["Files", "check", "checked", "require"]

#: Most tensors that a configuration may ask for.
MOST_TENSORS: Final = 100_000
#: Of the tensors that are asked for, the part that is there where the file is of the family at all.
LEAST_THERE: Final = 0.5
#: A table of tokens is padded to a multiple of one of these.
PADDED_TO: Final = (128, 64, 16, 8)
#: Rows of GPT-2's table, and as they are often padded.
GPT2_ROWS: Final = (50_257, 50_304)
#: Names of blocks, tensors and files that a sentence tells.
NAMED: Final = 4

#: The library's names of number formats, and the files'.
_DTYPES: Final[Mapping[str, str]] = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float": "F32", "half": "F16",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
}  # fmt: skip

_HOW: Final = "torch module on the meta device, each parameter by the name that a file has for it"


class Stored(Protocol):
    """A tensor as a header describes it."""

    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def n_elements(self) -> int: ...
    @property
    def n_bytes(self) -> int: ...


class Files(Protocol):
    """What a checkpoint's files say, such as `tfinspect.sources.checkpoint_files.CheckpointFiles`."""

    @property
    def path(self) -> str: ...
    @property
    def config_path(self) -> str | None: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def model(self) -> Described: ...
    @property
    def family(self) -> str: ...
    @property
    def recognised(self) -> str | None: ...
    @property
    def untold(self) -> tuple[str, ...]: ...
    @property
    def names(self) -> Mapping[str, str]: ...
    @property
    def tensors(self) -> Mapping[str, Stored]: ...
    @property
    def missing_files(self) -> tuple[str, ...]: ...
    @property
    def missing_tensors(self) -> tuple[str, ...]: ...
    @property
    def unlisted(self) -> tuple[str, ...]: ...
    @property
    def cut(self) -> Mapping[str, tuple[int, tuple[str, ...]]]: ...
    @property
    def n_files(self) -> int: ...
    @property
    def n_header_bytes(self) -> int: ...

    def same_bytes(self, one: str, other: str) -> bool | None: ...


def check(checkpoint: Files, *, check: bool = True) -> CheckpointCheck:
    """Every difference between a checkpoint's configuration, its files and the built module, by kind.

    check=False leaves the module out, and needs no torch for safetensors. Of the tensors' numbers none is read, but
    where two tables may be one: then their bytes are compared.

    >>> import pathlib, tempfile, torch
    >>> sizes = {"wte": (9, 4), "wpe": (5, 4), "h.0.ln_1": (4,), "h.0.attn.c_attn": (12, 4), "h.0.attn.c_proj": (4, 4),
    ...          "h.0.ln_2": (4,), "h.0.mlp.c_fc": (16, 4), "h.0.mlp.c_proj": (4, 16), "ln_f": (4,), "extra": (3,)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "model.pt"
    ...     torch.save({f"{name}.weight": torch.zeros(shape) for name, shape in sizes.items()}, file)
    ...     report = tfinspect.check(tfinspect.checkpoint(file))
    >>> report.expected_params, report.found_params, report.built_params
    (260, 260, 260)
    >>> [(finding.kind, finding.what) for finding in report.differences]
    [('unexpected tensors', '1 tensor of the file is not in the configuration, 3 numbers.')]

    Raises:  InputError where the configuration asks for more than 100,000 tensors.
    Agrees:  measured.params.count, in total, and in the tensors that a file has in their shape.
    """
    subject = Subject.of(checkpoint.model)
    if closed_form.n_tensors(subject.spec) > MOST_TENSORS:
        raise InputError(
            f"the model has {closed_form.n_tensors(subject.spec):,} tensors, and the most is {MOST_TENSORS:,}"
        )
    sides = _Sides(checkpoint, subject.spec)
    wanted = sides.wanted((t.name, t.shape) for t in closed_form.tensors(subject.spec))
    findings = (*_of_files(checkpoint), *_Comparison(sides, wanted).findings(), *_of_config(checkpoint, subject))
    found = [want for want in wanted.values() if sides.fits(want)]
    report = CheckpointCheck(
        path=checkpoint.path,
        config=checkpoint.config_path,
        subject=subject,
        family=checkpoint.family,
        recognised=checkpoint.recognised,
        untold=checkpoint.untold,
        n_files=checkpoint.n_files,
        n_header_bytes=checkpoint.n_header_bytes,
        expected_params=sum(want.n_params for want in wanted.values()),
        expected_tensors=len(wanted),
        found_tensors=len(found),
        found_params=sum(want.n_params for want in found),
        held=sides.held(wanted),
        findings=findings,
    )
    return checked(report, checkpoint) if check else report


def checked(report: CheckpointCheck, checkpoint: Files) -> CheckpointCheck:
    """The same report with the torch module of the configuration built beside it."""
    spec = report.subject.spec
    if reason := closed_form.unindexable(spec):
        unbuilt = Agreement("parameters", report.expected_params, None, _HOW, reason=reason)
        return dataclasses.replace(report, agreements=(unbuilt,))
    from tfinspect.measured.params import count

    built = count(spec)
    sides = _Sides(checkpoint, spec)
    wanted = sides.wanted((name, shape) for name, shape, _ in built.tensors)
    found = [want for want in wanted.values() if sides.fits(want)]
    agreements = (
        Agreement("parameters", report.expected_params, built.total, _HOW),
        Agreement("tensors that hold them in a file", report.expected_tensors, len(wanted), _HOW),
        Agreement("of these, stored in their shape", report.found_tensors, len(found), _HOW),
        Agreement("parameters in them", report.found_params, sum(want.n_params for want in found), _HOW),
    )
    return dataclasses.replace(report, built_params=built.total, agreements=agreements)


@dataclasses.dataclass
class _Want:
    """A tensor that a file of the family would have, and what of ours it holds."""

    name: str
    """Without what stands before all names."""
    shape: tuple[int, ...]
    there: bool
    ours: list[str] = dataclasses.field(default_factory=list)
    n_params: int = 0


class _Sides:
    """The tensors that are stored, and those that are wanted, by the same names."""

    def __init__(self, files: Files, spec: ModelSpec) -> None:
        self.files, self.spec = files, spec
        self.forms = {naming.as_form(name) for name in files.names}

    def stored(self, name: str) -> Stored:
        """A tensor by its name without what stands before all names."""
        return self.files.tensors[self.files.names[name]]

    def wanted(self, ours: Iterable[tuple[str, tuple[int, ...]]]) -> dict[str, _Want]:
        """The tensors that hold these of ours, by name."""
        found: dict[str, _Want] = {}
        for name, shape in ours:
            place = naming.find(self.files.family, name, self.files.names)
            there = place is not None
            place = place or naming.expected(self.files.family, name, self.forms)
            if place is None:  # no file of the family has it
                place = naming.Place(name, naming.Origin(name), ())
            want = found.get(place.name)
            if want is None:
                whole = naming.stored_shape(place.origin, shape, self.spec)
                want = found[place.name] = _Want(place.name, whole, there)
            want.ours.append(name)
            want.n_params += _product(shape)
        return found

    def fits(self, want: _Want) -> bool:
        """Whether a wanted tensor is stored in its shape."""
        return want.there and self.stored(want.name).shape == want.shape

    def held(self, wanted: Mapping[str, _Want]) -> dict[str, tuple[int, int]]:
        """How many tensors and numbers the file holds, by what they belong to."""
        tensors, elements = Counter[str](), Counter[str]()
        copies = naming.second_names(self.files.family)
        for name in self.files.names:
            key = "model" if name in wanted else "unexpected"
            if key == "unexpected":
                if naming.is_mask(name) or _is_no_parameter(name):
                    key = "masks"
                elif name in copies:
                    key = "copies"
                elif naming.is_no_weight(name):
                    key = "other_heads"
            tensors[key] += 1
            elements[key] += self.stored(name).n_elements
        return {key: (tensors[key], elements[key]) for key in ("model", "copies", "masks", "other_heads", "unexpected")}


class _Comparison:
    """What is wanted against what is stored."""

    def __init__(self, sides: _Sides, wanted: Mapping[str, _Want]) -> None:
        self.sides, self.files, self.spec, self.wanted = sides, sides.files, sides.spec, wanted
        self.names = sides.files.names
        self.second_names = naming.second_names(self.files.family)
        self.missing = [want for want in wanted.values() if not want.there]
        self.left = [name for name in self.names if name not in wanted]

    def findings(self) -> Iterator[Finding]:
        """Everything, or that the file is of another family, which explains all else."""
        n_there = len(self.wanted) - len(self.missing)
        told = self.files.recognised
        if told not in (None, self.files.family) and n_there < LEAST_THERE * len(self.wanted):
            yield Finding(
                "another family",
                True,
                f"The configuration is of {self.files.family}, and the names in the file are those of {told}: "
                f"{n_there:,} of {len(self.wanted):,} tensors are there.",
                "Give the config.json of this checkpoint.",
            )
            return
        yield from self._missing()
        yield from self._misshapen()
        yield from self._left_over()
        yield from self._tables()
        yield from self._dtypes()

    def _missing(self) -> Iterator[Finding]:
        """What the configuration has and the file has not."""
        rest = list(self.missing)
        there = {block for want in self.wanted.values() if want.there for block in _blocks_of(want)}
        lost = {block for want in rest for block in _blocks_of(want)} - there
        gone = [want for want in rest if lost.intersection(_blocks_of(want))]
        if gone and there:
            yield self._absent(
                "missing blocks",
                gone,
                f"The configuration has {_n_blocks(self.spec)}, and {len(lost):,} of them "
                f"{'are' if len(lost) > 1 else 'is'} not in the file: {_some(sorted(lost, key=_in_order))}.",
                "Is the number of layers in config.json that of this checkpoint, or is a shard missing?",
            )
            rest = _without(rest, gone)
        head = [want for want in rest if all(name.startswith(("head.", "mlm.", "pooler.")) for name in want.ours)]
        if head:
            # a base model saved without its head, where the configuration names no class that has one
            named = isinstance(self.files.config.get("architectures"), list)
            yield self._absent(
                "missing head",
                head,
                f"{_n(len(head), 'tensor')} of the output head or pooler {_are(len(head))} not in the file.",
                "Is the head tied (tie_word_embeddings), or is this the model without its head (architectures)?",
                differs=named or not self.spec.tied_head,
            )
            rest = _without(rest, head)
        biases = [want for want in rest if want.name.endswith("bias") and self._module_is_there(want.name)]
        if biases:
            yield self._absent(
                "missing biases",
                biases,
                f"{_n(len(biases), 'bias', 'biases')} of the configuration {_are(len(biases))} not in the file, "
                f"{sum(want.n_params for want in biases):,} parameters.",
                "Was the model trained without biases? Then the configuration is of another model.",
            )
            rest = _without(rest, biases)
        if rest:
            n_params = sum(want.n_params for want in rest)
            yield self._absent(
                "missing tensors",
                rest,
                f"{_n(len(rest), 'tensor')} of the configuration {_are(len(rest))} not in the file, "
                f"{n_params:,} parameters.",
                "Is a shard missing, or is the configuration of another model?",
            )

    def _absent(self, kind: Kind, wants: list[_Want], what: str, advice: str, *, differs: bool = True) -> Finding:
        before = self._before()
        pairs = tuple(TensorPair(f"{before}{want.name}", want.shape, None) for want in wants)
        return Finding(kind, differs, what, advice, pairs)

    def _before(self) -> str:
        """What stands before all names of the file."""
        for bare, whole in self.names.items():
            return whole.removesuffix(bare)
        return ""

    def _module_is_there(self, bias: str) -> bool:
        module = bias.rpartition(".")[0]
        return any(f"{module}.{kind}" in self.names for kind in ("weight", "gamma"))

    def _misshapen(self) -> Iterator[Finding]:
        """What has another shape than the configuration gives it."""
        wrong = [want for want in self.wanted.values() if want.there and not self.sides.fits(want)]
        rows = [want for want in wrong if self._differs_in_rows(want)]
        tokens = [want for want in rows if all("embed.tokens" in o or o.startswith("head.") for o in want.ours)]
        positions = [want for want in rows if all("embed.positions" in name for name in want.ours)]
        if tokens:
            yield self._of_vocabulary(tokens)
        if positions:
            n_rows, asked = self.sides.stored(positions[0].name).shape[0], positions[0].shape[0]
            offset = f" ({self.spec.position_offset} rows before the first included)" * bool(self.spec.position_offset)
            yield self._unlike(
                "wrong n_ctx",
                positions,
                f"The position table has {n_rows:,} rows, and the configuration gives it {asked:,}{offset}.",
                f"Set n_positions or max_position_embeddings to {n_rows:,} less what stands before the first."
                if offset
                else f"Set n_positions or max_position_embeddings to {n_rows:,}.",
            )
        rest = _without(wrong, [*tokens, *positions])
        turned = [want for want in rest if self.sides.stored(want.name).shape == want.shape[::-1]]
        if turned:
            lie = "[out, in], as nanoGPT's do" if self.files.family == "gpt2" else "the other way"
            yield self._unlike(
                "transposed",
                turned,
                f"{_n(len(turned), 'matrix', 'matrices')} of the file lie {lie}, and {self.files.family}'s are read as "
                f"{'[in, out]' if self.files.family == 'gpt2' else 'expected'}. Square ones show no difference.",
                "Transpose them, square ones too, or read the file with the code that wrote it.",
            )
            rest = _without(rest, turned)
        if rest:
            yield self._unlike(
                "wrong shapes",
                rest,
                f"{_n(len(rest), 'tensor')} of the file {_have(len(rest))} another shape than the configuration gives.",
                "Are the sizes in config.json those of this checkpoint?",
            )

    def _differs_in_rows(self, want: _Want) -> bool:
        shape = self.sides.stored(want.name).shape
        return len(shape) == len(want.shape) and bool(shape) and shape[1:] == want.shape[1:]

    def _of_vocabulary(self, wants: list[_Want]) -> Finding:
        """A token table with more or fewer rows than the configuration has tokens."""
        n_rows, asked = self.sides.stored(wants[0].name).shape[0], self.spec.vocab_size
        padding = n_rows - asked
        multiple = next((k for k in PADDED_TO if padding > 0 and n_rows % k == 0 and padding < k), None)
        told = f"The token table has {n_rows:,} rows, and the configuration's vocabulary {asked:,}"
        if multiple:
            return self._unlike(
                "padded vocabulary",
                wants,
                f"{told}: it is padded by {padding:,} to a multiple of {multiple}, "
                f"{padding * self.spec.d_model:,} numbers of which no token has any.",
                f"Set vocab_size to {n_rows:,}; the tokenizer stays as it is.",
            )
        return self._unlike("wrong vocabulary", wants, f"{told}.", f"Is vocab_size {n_rows:,}, or is a token added?")

    def _unlike(self, kind: Kind, wants: list[_Want], what: str, advice: str) -> Finding:
        return Finding(kind, True, what, advice, tuple(self._pair(want.name, want.shape) for want in wants))

    def _pair(self, name: str, expected: tuple[int, ...] | None = None) -> TensorPair:
        tensor = self.sides.stored(name)
        return TensorPair(self.names[name], expected, tensor.shape, tensor.dtype)

    def _left_over(self) -> Iterator[Finding]:
        """What the file has and the configuration has not, but for second copies of tables."""
        masks = [name for name in self.left if naming.is_mask(name) or _is_no_parameter(name)]
        if masks:
            elements = sum(self.sides.stored(name).n_elements for name in masks)
            yield self._surplus(
                "masks",
                masks,
                f"{_n(len(masks), 'tensor')} of the file {_are(len(masks))} no parameters but masks or other buffers: "
                f"{elements:,} numbers.",
                "They are counted apart.",
                differs=False,
            )
            yield from self._of_masks(masks)
        rest = _except(self.left, masks)
        heads = [name for name in rest if naming.is_no_weight(name) and name not in self.second_names]
        if heads:
            yield self._surplus(
                "another head",
                heads,
                f"{_n(len(heads), 'tensor')} of the file belong to a head that the configured model has not.",
                "No output of the model hangs on them.",
                differs=False,
            )
        rest = [name for name in _except(rest, heads) if not self._twin(name)]
        in_block = {naming.as_form(want.name) for want in self.wanted.values() if _blocks_of(want)}
        blocks = [name for name in rest if naming.as_form(name) in in_block]
        if blocks:
            yield self._surplus(
                "more blocks",
                blocks,
                f"The file has more than {_n_blocks(self.spec)}: {_n(len(blocks), 'tensor')} beyond those.",
                "Is the number of layers in config.json that of this checkpoint?",
            )
        known = {want.name.rpartition(".")[0] for want in self.wanted.values()}
        rest = _except(rest, blocks)
        biases = [name for name in rest if name.endswith("bias") and name.rpartition(".")[0] in known]
        if biases:
            yield self._surplus(
                "unexpected biases",
                biases,
                f"{_n(len(biases), 'bias', 'biases')} of the file {_are(len(biases))} not in the configuration.",
                "Does config.json switch them off, or is it of another model?",
            )
        rest = _except(rest, biases)
        if rest:
            yield self._surplus(
                "unexpected tensors",
                rest,
                f"{_n(len(rest), 'tensor')} of the file {_are(len(rest))} not in the configuration, "
                f"{sum(self.sides.stored(name).n_elements for name in rest):,} numbers.",
                "Is the configuration of another model, or are these adapters, quantised weights or an optimiser's?",
            )

    def _surplus(self, kind: Kind, names: list[str], what: str, advice: str, *, differs: bool = True) -> Finding:
        return Finding(kind, differs, what, advice, tuple(map(self._pair, names)))

    def _of_masks(self, masks: list[str]) -> Iterator[Finding]:
        """Causal masks of another length than the model's."""
        shapes = {name: self.sides.stored(name).shape for name in masks}
        square = {n: s for n, s in shapes.items() if len(s) >= 2 and s[-1] == s[-2] and s[-1] > 1}
        wrong = [name for name, shape in square.items() if shape[-1] != self.spec.n_ctx]
        if wrong:
            yield self._surplus(
                "wrong n_ctx",
                wrong,
                f"The causal mask in the file is of {square[wrong[0]][-1]:,} positions, and the configuration has "
                f"{self.spec.n_ctx:,}.",
                f"Set n_positions or max_position_embeddings to {square[wrong[0]][-1]:,}.",
            )

    def _twin(self, name: str) -> str | None:
        """The tensor of the model that a left one is a second copy of, by its name and shape."""
        if name not in self.second_names:
            return None
        shape, is_bias = self.sides.stored(name).shape, name.endswith("bias")
        return next(
            (
                want.name
                for want in self.wanted.values()
                if want.there
                and want.name in self.second_names
                and want.name.endswith("bias") == is_bias
                and self.sides.stored(want.name).shape == shape
            ),
            None,
        )

    def _tables(self) -> Iterator[Finding]:
        """Tables that are stored twice, tied or not."""
        for name in self.left:
            if twin := self._twin(name):
                yield self._copy(name, twin)
        tables = [want.name for want in self.wanted.values() if want.there and self._is_table(want)]
        if len(tables) == 2 and not self.spec.tied_head:
            one, other = (self.sides.stored(name) for name in tables)
            whole = [self.names[name] for name in tables]
            if (one.shape, one.dtype) == (other.shape, other.dtype) and self.files.same_bytes(*whole):
                yield self._surplus(
                    "equal tables",
                    tables,
                    f"{whole[0]} and {whole[1]} hold the same bytes, and the configuration does not tie them.",
                    f"If they are meant to be one, tie them: {one.n_elements:,} parameters fewer.",
                    differs=False,
                )

    def _is_table(self, want: _Want) -> bool:
        return any(name.endswith("embed.tokens.weight") or name == "head.weight" for name in want.ours)

    def _copy(self, name: str, twin: str) -> Finding:
        """A second copy of a table that the configuration ties."""
        one, other = self.sides.stored(twin), self.sides.stored(name)
        theirs = f"{self.names[name]} and {self.names[twin]}"
        names = [twin, name]
        same = self.files.same_bytes(self.names[twin], self.names[name]) if one.dtype == other.dtype else False
        if same is False:
            how = "hold different numbers" if one.dtype == other.dtype else f"are {other.dtype} and {one.dtype}"
            return self._surplus(
                "two tables",
                names,
                f"The configuration ties {theirs}, and they {how}: one of them is lost when the model is loaded.",
                "If both are meant, set tie_word_embeddings to false; otherwise save the model again.",
            )
        read = "" if same else "; their first bytes are the same, and not all of them could be compared"
        return self._surplus(
            "second copy",
            names,
            f"{theirs} are one in the model and are stored twice: {other.n_elements:,} numbers more{read}.",
            "The model is complete without the second.",
            differs=False,
        )

    def _dtypes(self) -> Iterator[Finding]:
        """Number formats against the one that the configuration names."""
        elements = Counter[str]()
        for want in self.wanted.values():
            if want.there:
                elements[self.sides.stored(want.name).dtype] += self.sides.stored(want.name).n_elements
        if not elements:
            return
        (most, _), *others = elements.most_common()
        said = _dtype_of(self.files.config)
        if said is not None and said != most:
            yield Finding(
                "dtype",
                True,
                f"The configuration says {said}, and the tensors are {_some([d for d, _ in elements.most_common()])}.",
                "Set dtype in config.json, or convert the tensors.",
            )
        elif others:
            odd = [w.name for w in self.wanted.values() if w.there and self.sides.stored(w.name).dtype != most]
            yield self._surplus(
                "mixed dtypes",
                odd,
                f"Most numbers are {most}; {_n(len(odd), 'tensor')} {_are(len(odd))} {_some([d for d, _ in others])}.",
                "Each is read as it is stored.",
                differs=False,
            )


def _without(wants: list[_Want], removed: list[_Want]) -> list[_Want]:
    gone = {want.name for want in removed}
    return [want for want in wants if want.name not in gone]


def _except(names: list[str], removed: list[str]) -> list[str]:
    gone = set(removed)
    return [name for name in names if name not in gone]


def _of_files(files: Files) -> Iterator[Finding]:
    """What is wrong with the files themselves."""
    if files.missing_files:
        n = len(files.missing_files)
        yield Finding(
            "missing files",
            True,
            f"{_n(n, 'file')} of the checkpoint {_are(n)} not there: {_some(files.missing_files)}.",
            "Fetch what is missing.",
        )
    for name, (n_bytes, tensors) in files.cut.items():
        yield Finding(
            "truncated files",
            True,
            f"{name[:80]} ends {n_bytes:,} bytes early: {_n(len(tensors), 'tensor')} {_are(len(tensors))} not whole.",
            "Fetch the file again.",
            tuple(TensorPair(t, None, files.tensors[t].shape, files.tensors[t].dtype) for t in tensors),
        )
    for names, what in (
        (files.missing_tensors, "in the index and not in the file that it names"),
        (files.unlisted, "in a file and not in the index"),
    ):
        if names:
            pairs = tuple(
                TensorPair(name, None, files.tensors[name].shape, files.tensors[name].dtype)
                if name in files.tensors
                else TensorPair(name, None, None)
                for name in names
            )
            yield Finding("index", True, f"{_n(len(names), 'tensor')} {_are(len(names))} {what}.", "", pairs)


def _of_config(files: Files, subject: Subject) -> Iterator[Finding]:
    """What the configuration says against itself, and what it says that nobody understands."""
    said, n_ctx = files.config.get("n_positions"), files.config.get("n_ctx")
    if type(said) is int and type(n_ctx) is int and said != n_ctx:
        yield Finding(
            "wrong n_ctx",
            True,
            f"The configuration says n_positions {said:,} and n_ctx {n_ctx:,}.",
            "Only n_positions is read; give both the same value.",
        )
    if files.config and subject.spec.vocab_size == GPT2_ROWS[1] and subject.name in ("gpt2", "gpt_bigcode"):
        yield Finding(
            "padded vocabulary",
            False,
            f"The vocabulary of {GPT2_ROWS[1]:,} is GPT-2's {GPT2_ROWS[0]:,} padded to a multiple of 64, as the "
            "configuration says.",
        )
    if subject.incomplete:
        yield Finding("not understood", False, f"Of the configuration: {'; '.join(subject.incomplete)}.")


def _dtype_of(config: Mapping[str, Any]) -> str | None:
    """The format that a configuration names, as files call it; None where it names none that is known."""
    for part in (config, config.get("text_config")):
        if isinstance(part, Mapping):
            for key in ("dtype", "torch_dtype"):
                word = part.get(key)
                if isinstance(word, str) and word.removeprefix("torch.") in _DTYPES:
                    return _DTYPES[word.removeprefix("torch.")]
    return None


def _is_no_parameter(name: str) -> bool:
    """Whether a tensor is a buffer besides the masks: BART's bias on logits, which training does not change."""
    return name.endswith("final_logits_bias")


def _blocks_of(want: _Want) -> set[str]:
    """The blocks of the model that a tensor belongs to: "blocks.3"."""
    found = (re.match(r"(?:\w+\.)?blocks\.\d+", name) for name in want.ours)
    return {match[0] for match in found if match}


def _in_order(block: str) -> tuple[str, int]:
    stack, _, number = block.rpartition(".")
    return stack, int(number)


def _n_blocks(spec: ModelSpec) -> str:
    encoder = f"{spec.n_encoder_layers} + " if spec.architecture == "encoder_decoder" else ""
    return f"{encoder}{_n(spec.n_layers, 'block')}"


def _some(names: Collection[str], shown: Callable[[str], str] = lambda name: name[:80]) -> str:
    first = ", ".join(shown(name) for name in list(names)[:NAMED])
    return first + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")


def _n(n: int, one: str, several: str = "") -> str:
    return f"{n:,} {one if n == 1 else several or f'{one}s'}"


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


def _have(n: int) -> str:
    return "has" if n == 1 else "have"


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
