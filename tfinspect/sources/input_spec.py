"""How an input is written on the command line, and what was meant.

    input     [name =] value                        mask=bool[2,16]
    value     tensor | mapping | list | tuple | literal
    tensor    dtype [ axes ] [< bound]              int64[B=2,T=16]<50257, f32[] (a scalar)
    axes      [name =] size, ...                    an axis that has a name may change its size
    mapping   {key: value, ...}                     {ids: int64[2,16]<100, mask: bool[2,16]}
    list      [value, ...]                          [f32[1], None]
    tuple     (value, ...)                          (f32[2,3],)
    literal   True, False, None, 3, 0.5, "text"

A spec written out with `str` reads back as itself.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import math
import re
import warnings
from collections.abc import Iterator
from typing import Final, NoReturn, TypeAlias, Union

from tfinspect.errors import InputError

__all__ = ["BYTES", "DTYPES", "InputSpec", "ListSpec", "Literal", "MappingSpec", "TensorSpec", "Value", "parse"]

#: Bytes of one element, by torch's name of the dtype.
BYTES: Final[dict[str, int]] = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2, "uint32": 4, "uint64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
    "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip

#: torch's name of a dtype by each of its spellings.
DTYPES: Final[dict[str, str]] = {
    **{name: name for name in BYTES},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"{short}{bits}": f"float{bits}" for short in ("f", "fp") for bits in (16, 32, 64)},
    "bf16": "bfloat16", "c64": "complex64", "c128": "complex128",
    "half": "float16", "float": "float32", "double": "float64", "short": "int16", "int": "int32", "long": "int64",
}  # fmt: skip

#: Longest input that is read, in characters.
LONGEST: Final = 10_000
#: Deepest nest of brackets.
DEEPEST: Final = 32
#: Most axes of a tensor: torch's own limit is the same.
MOST_AXES: Final = 64
#: One more than the largest number of bytes that torch can address.
BEYOND: Final = 2**63

_EXAMPLE: Final = 'for example "int64[2,16]<50257", "mask=bool[2,16]" or "x=f32[2,3]"'
_NAME: Final = re.compile(r"[^\W\d]\w*")
_WORD: Final = re.compile(r"[^\W\d][\w.]*")
_WHOLE: Final = re.compile(r"-?[0-9][0-9_]*")
_NUMBER: Final = re.compile(r"-?(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_STRING: Final = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_CONSTANTS: Final[dict[str, bool | None]] = {"True": True, "False": False, "None": None}
_DIGITS: Final = 40


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """A tensor to draw."""

    dtype: str
    """torch's name: "int64"."""
    axes: tuple[tuple[str | None, int], ...]
    """Each with its name, or None, and its size."""
    bound: int | None = None
    """Integers are drawn below it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes alone."""
        return tuple(size for _, size in self.axes)

    @property
    def n_bytes(self) -> int:
        """What the tensor takes in memory."""
        return math.prod(self.shape) * BYTES[self.dtype]

    @property
    def integral(self) -> bool:
        """Whether it holds integers, and may have a bound."""
        return self.dtype.startswith(("int", "uint"))

    def __str__(self) -> str:
        axes = ",".join(f"{name}={size}" if name else str(size) for name, size in self.axes)
        return f"{self.dtype}[{axes}]" + ("" if self.bound is None else f"<{self.bound}")


@dataclasses.dataclass(frozen=True)
class MappingSpec:
    """Values by key."""

    items: tuple[tuple[str, Value], ...]

    def __str__(self) -> str:
        return (
            "{" + ", ".join(f"{key if _NAME.fullmatch(key) else repr(key)}: {item}" for key, item in self.items) + "}"
        )


@dataclasses.dataclass(frozen=True)
class ListSpec:
    """A list or a tuple."""

    items: tuple[Value, ...]
    is_tuple: bool

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.items))
        if self.is_tuple:
            return f"({inner},)" if len(self.items) == 1 else f"({inner})"
        return f"[{inner}]"


@dataclasses.dataclass(frozen=True)
class Literal:
    """A Python value as it is."""

    value: bool | int | float | str | None

    def __str__(self) -> str:
        return repr(self.value)


Value: TypeAlias = Union[TensorSpec, MappingSpec, ListSpec, Literal]  # noqa: UP007 - its parts come later by name


@dataclasses.dataclass(frozen=True)
class InputSpec:
    """One argument of a call: a keyword where it has a name."""

    name: str | None
    value: Value

    def __str__(self) -> str:
        return f"{self.value}" if self.name is None else f"{self.name}={self.value}"

    def tensors(self) -> Iterator[TensorSpec]:
        """Every tensor in it."""
        return _tensors(self.value)


def parse(text: str) -> InputSpec:
    """What an input says.

    Raises:  InputError naming what was expected, the character where it was, counted from 1, and what to write.
    """
    return _Reader(text).whole_input()


def _tensors(value: Value) -> Iterator[TensorSpec]:
    if isinstance(value, TensorSpec):
        yield value
    elif isinstance(value, ListSpec):
        for item in value.items:
            yield from _tensors(item)
    elif isinstance(value, MappingSpec):
        for _, item in value.items:
            yield from _tensors(item)


class _Reader:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        if len(text) > LONGEST:
            raise InputError(f"--input has {len(text):,} characters", f"give at most {LONGEST:,}, or --input-file")
        if not text.strip():
            raise InputError("--input is empty", _EXAMPLE)

    def whole_input(self) -> InputSpec:
        name = self._name_before("=")
        value = self._value()
        self._space()
        if self.at < len(self.text):
            self._fail("the end", self._hint_at_end(value))
        return InputSpec(name, value)

    def _value(self) -> Value:
        self._space()
        start = self.text[self.at : self.at + 1]
        if start in ("{", "[", "("):
            return self._nested(start)
        if found := self._take(_STRING):
            return Literal(self._literal(found))
        if word := self._take(_WORD):
            if word in _CONSTANTS:
                return Literal(_CONSTANTS[word])
            return self._tensor(word)
        if found := self._take(_NUMBER):
            return self._number(found)
        self._fail("a value", _EXAMPLE)

    def _nested(self, opening: str) -> Value:
        self.depth += 1
        if self.depth > DEEPEST:
            raise InputError(
                f"--input is nested deeper than {DEEPEST}", "give it with --inputs package.module:function"
            )
        self._skip(opening)
        value = self._mapping() if opening == "{" else self._list(opening)
        self.depth -= 1
        return value

    def _mapping(self) -> MappingSpec:
        items: dict[str, Value] = {}
        while not self._skip("}"):
            if items:
                self._require(",", "a comma or }")
                if self._skip("}"):
                    break
            self._space()
            begin = self.at
            key = self._take(_NAME) or self._literal(self._take(_STRING) or self._fail("a key"))
            if key in items:
                self._refuse(begin, f"the key {key[:80]!r} stands twice", "give it once")
            self._require(":", "a colon")
            items[key] = self._value()
        return MappingSpec(tuple(items.items()))

    def _list(self, opening: str) -> Value:
        closing = "]" if opening == "[" else ")"
        items: list[Value] = []
        comma = False
        while not self._skip(closing):
            if items:
                self._require(",", f"a comma or {closing}")
                comma = True
                if self._skip(closing):
                    break
            items.append(self._value())
        if opening == "(" and len(items) == 1 and not comma:
            return items[0]  # brackets around one value, as in Python
        return ListSpec(tuple(items), opening == "(")

    def _tensor(self, word: str) -> TensorSpec:
        begin = self.at - len(word)
        dtype = DTYPES.get(word.removeprefix("torch."))
        if dtype is None:
            near = difflib.get_close_matches(word.removeprefix("torch."), DTYPES, n=1, cutoff=0.5)
            hint = (
                f"did you mean {near[0]}?"
                if near
                else f"for example float32 or int64; a text takes quotes: '\"{word[:20]}\"'"
            )
            self._refuse(begin, f"{word[:40]!r} is no dtype", hint)
        if not self._skip("["):
            self._fail("[", f"sizes stand in square brackets: {dtype}[2,16], and {dtype}[] is a scalar")
        axes: list[tuple[str | None, int]] = []
        while not self._skip("]"):
            if axes:
                self._require(",", "a comma or ]", f"sizes are separated by commas: {dtype}[2,16]")
            if len(axes) == MOST_AXES:
                self._fail(f"at most {MOST_AXES} axes")
            axes.append(self._axis())
        spec = TensorSpec(dtype, tuple(axes), self._bound(dtype) if self._skip("<") else None)
        if spec.n_bytes >= BEYOND or math.prod(size or 1 for size in spec.shape) >= BEYOND:
            self._refuse(begin, f"{str(spec)[:80]} is more than torch can address", "give smaller sizes")
        return spec

    def _axis(self) -> tuple[str | None, int]:
        name = self._name_before("=")
        self._space()
        begin = self.at
        found = self._take(_WHOLE)
        if found is None:
            word = self._take(_NAME)
            self.at = begin
            self._fail("a size", f"an axis is named with its size: {word}=16" if word else "for example 16, or T=16")
        size = self._integer(found, begin)
        if size < 0:
            self._refuse(begin, f"the size {size} is below 0", "give 0 or more")
        return name, size

    def _bound(self, dtype: str) -> int:
        self._space()
        begin = self.at
        if not dtype.startswith(("int", "uint")):
            self._refuse(begin - 1, f"{dtype} takes no bound", "a bound is for integers: int64[2,16]<50257")
        found = self._take(_WHOLE)
        if found is None:
            self._fail("a bound", "ids are drawn below it: int64[2,16]<50257")
        bound = self._integer(found, begin)
        bits = 8 * BYTES[dtype] - (not dtype.startswith("u"))
        most = min(2**bits, BEYOND - 1)
        if not 1 <= bound <= most:
            self._refuse(begin, f"the bound {bound} is not from 1 to {most}", f"an {dtype} goes up to {most - 1}")
        return bound

    def _number(self, found: str) -> Literal:
        begin = self.at - len(found)
        if _WHOLE.fullmatch(found):
            return Literal(self._integer(found, begin))
        number = float(found.replace("_", ""))
        if math.isinf(number):
            self._refuse(begin, f"{found[:40]!r} is no finite number", "for example 0.5")
        return Literal(number)

    def _integer(self, found: str, begin: int) -> int:
        if len(found) > _DIGITS:
            self._refuse(begin, f"a number of {len(found):,} digits is no size", f"give at most {_DIGITS} digits")
        return int(found.replace("_", ""))

    def _literal(self, found: str) -> str:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an escape that Python does not know stands for itself
                return str(ast.literal_eval(found))
        except (ValueError, SyntaxError):
            self._refuse(self.at - len(found), f"{found[:40]!r} is no text", "mind the backslashes")

    def _name_before(self, sign: str) -> str | None:
        """A name that this sign follows; otherwise nothing is read."""
        self._space()
        begin = self.at
        name = self._take(_NAME)
        if name is not None and self._skip(sign):
            return name
        self.at = begin
        return None

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found.group()

    def _skip(self, sign: str) -> bool:
        self._space()
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True

    def _space(self) -> None:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1

    def _require(self, sign: str, expected: str, hint: str = "") -> None:
        if not self._skip(sign):
            self._fail(expected, hint)

    def _hint_at_end(self, value: Value) -> str:
        rest = self.text[self.at :]
        if isinstance(value, TensorSpec) and value.bound is not None and rest.startswith(","):
            return "write a number without commas"
        if rest.startswith(","):
            return "each argument takes an --input of its own; sizes follow a dtype: float32[2,16]"
        return "a bound is written <50257" if rest.startswith((">", "=", "%")) else ""

    def _fail(self, expected: str, hint: str = "") -> NoReturn:
        self._space()
        rest = self.text[self.at : self.at + 20]
        self._refuse(self.at, f"expected {expected}" + (f", not {rest!r}," if rest else ""), hint or _EXAMPLE)

    def _refuse(self, at: int, fact: str, hint: str) -> NoReturn:
        place = f"character {at + 1}" if at < len(self.text) else "the end"
        text = self.text if len(self.text) <= 80 else f"{self.text[:80]}..."
        raise InputError(f"--input {text!r}: {fact} at {place}", hint)
