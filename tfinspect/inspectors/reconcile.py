"""Which conventions give somebody else's number for a model: parameters, bytes, multiplications or FLOPs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from tfinspect.closed_form import param_conventions, work_conventions
from tfinspect.closed_form.formula import letters
from tfinspect.closed_form.readings import Ground, nearest, search
from tfinspect.errors import CheckFailed, InputError
from tfinspect.presets import Preset
from tfinspect.results.reconcile import SHOWN, Number, Reading, Reconciliation, Unit
from tfinspect.results.subject import Described, Subject
from tfinspect.spec import ModelSpec

__all__ = ["read", "reconcile", "require"]

#: Most characters, and most digits before the point, of a number that is read.
MOST_CHARACTERS: Final = 100
MOST_DIGITS: Final = 60

#: Longest sequence and largest batch that readings are worked out for.
LONGEST: Final = 10**12

#: Nearest readings that are listed where none fits.
NEAREST: Final = 8

_SCALES: Final = {
    "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9, "t": 10**12, "p": 10**15, "e": 10**18, "z": 10**21,
    "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40,
    "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
}  # fmt: skip

_ALL: Final[tuple[Unit, ...]] = ("parameters", "bytes", "multiplications", "FLOPs")
#: How units are spelled, in lower case and without the plural.
_UNITS: Final[dict[str, tuple[Unit, ...]]] = {
    "param": ("parameters",),
    "parameter": ("parameters",),
    "b": ("bytes",),
    "byte": ("bytes",),
    "mac": ("multiplications",),
    "mult-add": ("multiplications",),
    "multiplication": ("multiplications",),
    "flop": ("FLOPs",),
}

_DIGITS: Final = r"[0-9]{1,3}(?:[,_][0-9]{3})+(?:\.[0-9]*)?|[0-9]+(?:\.[0-9]*)?|\.[0-9]+"
#: A number, then what multiplies it and what it counts: 124,439,808; 291.6 GFLOPs; 548MB; 3.14e23; 0.9202x; 92.02 %.
_NUMBER: Final = re.compile(
    rf"(?P<digits>{_DIGITS})(?:e\+?(?P<power>[0-9]{{1,3}}))?\s*(?:(?P<ratio>[x×%])"
    rf"|(?P<scale>{'|'.join(sorted(_SCALES, key=len, reverse=True))})?\s*(?P<unit>{'|'.join(_UNITS)})?s?)",
    re.IGNORECASE | re.ASCII,
)

_HOW: Final = "give 163037184, 163,037,184, 124M, 146 GMACs, 3.14e23, or 0.8675x for a multiple of the model's own"


def reconcile(
    number: int | str,
    model: ModelSpec | Preset | Described,
    *,
    seq_len: int | None = None,
    batch: int = 1,
    tokens: int | str | None = None,
) -> Reconciliation:
    """Which ways to count a model give a number: its own, or up to three conventions away, fewest first.

    The number is an int, or a str as people write it: "124M" is rounded, and all that rounds to it fits. seq_len None
    means the model's n_ctx, and that other usual lengths are tried; tokens is the number that a model is trained on.

    Raises:  InputError for a number that cannot be read or is no more than 0, a negative n, a batch below 1.

    >>> found = tfinspect.reconcile(163_037_184, tfinspect.preset("gpt2"))
    >>> [step.convention.words for step in found.readings[0].steps]
    ['the tied head counted a second time']
    """
    subject = Subject.of(model)
    spec = subject.spec
    given = read(number)
    n = spec.n_ctx if seq_len is None else _size("n (--n)", seq_len)
    n_sequences = _size("batch (--batch)", batch)
    trained_on = None if tokens is None else _tokens(tokens)
    grounds = (
        *param_conventions.grounds(spec, batch_tokens=n * n_sequences, tokens=trained_on),
        *work_conventions.grounds(spec, seq_len=n, batch=n_sequences, tokens=trained_on, other_lengths=seq_len is None),
    )
    readings = list(search(grounds, given))
    bound = letters(spec, batch=n_sequences, seq_len=n, source_len=n)
    return Reconciliation(
        subject=subject,
        given=given,
        seq_len=n,
        batch=n_sequences,
        tokens=trained_on,
        own=tuple(_own(grounds)),
        readings=tuple(readings[:SHOWN]),
        n_fitting=len(readings),
        nearest=() if readings else nearest(grounds, given, bound, NEAREST),
    )


def require(report: Reconciliation) -> None:
    """Nothing, where some convention gives the number.

    Raises:  CheckFailed where none does.
    """
    if not report.explained:
        digits = ", and is every digit of it exact" if report.given.is_exact else ""
        raise CheckFailed(
            f"no known convention gives {report.given.shown} for {report.subject.name}",
            f"is it this model, with this --n{digits}?",
        )


def read(number: int | str) -> Number:
    """A number as people write it, with all that rounds to it.

    Raises:  InputError for what is no number, and for a number that is not above 0 or too long.
    """
    text = f"{number:,}" if isinstance(number, int) and not isinstance(number, bool) else number
    if not isinstance(text, str):
        raise InputError(f"the number is {number!r}", _HOW)
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"the number has {len(text):,} characters", f"the most that is read is {MOST_CHARACTERS}")
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{text!r} is no number that a model can have", _HOW)
    before, _, after = match["digits"].replace(",", "").replace("_", "").partition(".")
    power = int(match["power"] or 0)
    if len(before) + power > MOST_DIGITS:
        raise InputError(f"{text!r} has more than {MOST_DIGITS} digits", _HOW)
    scale = Fraction(10**power * _SCALES.get((match["scale"] or "").lower(), 1), 100 if match["ratio"] == "%" else 1)
    step = scale / 10 ** len(after)
    figure = int(before + after) * step
    if figure <= 0:
        raise InputError(f"{text!r} is not above 0", _HOW)
    is_ratio = match["ratio"] is not None
    if figure < 1 and not is_ratio:
        raise InputError(f"{text!r} is less than 1", f"a multiple of the model's own figure is {text.strip()}x")
    half = Fraction(0) if step == 1 and not is_ratio else step / 2
    units = _UNITS.get((match["unit"] or "").lower(), _ALL)
    return Number(text.strip(), figure - half, figure + half, units, is_ratio)


def _own(grounds: tuple[Ground, ...]) -> Iterator[Reading]:
    """Parameters, multiplications and FLOPs as this project counts them."""
    for ground in grounds:
        if not ground.made_by:
            yield Reading(ground.unit, ground.start, ground.own, ())


def _size(what: str, given: object, least: int = 1) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise InputError(f"{what} must be an integer, not {given!r}")
    if not least <= given <= LONGEST:
        raise InputError(
            f"{what} must be from {least} to {LONGEST:,}, not {given}"
            if abs(given) < 10**40
            else f"{what} is too large"
        )
    return given


def _tokens(given: int | str) -> int:
    """Training tokens, "300B" and "3e11" included; what is typed is taken as exact."""
    read_as = read(given)
    tokens = (read_as.low + read_as.high) / 2
    if read_as.ratio or read_as.units != _ALL or tokens.denominator != 1:
        raise InputError(f"training tokens (--tokens) are {given!r}", "give an integer, or 300B, or 3e11")
    return tokens.numerator
