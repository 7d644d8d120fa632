"""Every figure of a model that some combination of conventions gives, searched for a number.

    ground     a figure that counting starts from: this model's own, or one under a convention that changes the model
               (another vocabulary), the pass (another n), or all of it (what some tool counts)
    change     a convention that leaves a piece of it out, or adds one: signed, and independent of other pieces
    factor     a convention that multiplies the whole: bytes of each parameter, backward, per token

A reading is a ground, changes that touch different pieces, and factors of different kinds. Its distance is the number
of its conventions, and readings are searched by distance. All of it is arithmetic on integers and fractions.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

from tfinspect.closed_form.formula import gathered, value
from tfinspect.results.growth import whole
from tfinspect.results.reconcile import Convention, Multiple, Near, Number, Reading, Step, Unit

__all__ = ["Change", "Factor", "Ground", "distinct", "multiple", "nearest", "search", "within"]

#: Longest formula that a table shows, in characters.
LONGEST: Final = 24


#: Units that have the same ratio to this project's own figure.
WORK: Final = {"multiplications", "FLOPs"}


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A convention that leaves out or adds pieces."""

    convention: Convention
    pieces: frozenset[str]
    """What it touches; two conventions that touch the same piece are not combined."""
    by: int
    """What it adds to the figure; negative where it leaves something out."""
    formula: str = ""
    """The size of `by` in letters; empty where it has no short form."""


@dataclasses.dataclass(frozen=True, slots=True)
class Factor:
    """A convention that multiplies the figure."""

    convention: Convention
    kind: str
    """Two factors of one kind are not combined."""
    by: Fraction
    unit: Unit
    """What the product counts."""
    formula: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Ground:
    """A figure that counting starts from, and what may be done to it."""

    unit: Unit
    start: str
    own: int
    """The figure of this project for the model as it is."""
    base: int | Fraction
    """The figure under the conventions that make this ground."""
    made_by: tuple[Convention, ...] = ()
    changes: tuple[Change, ...] = ()
    factors: tuple[Factor, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """A combination, before it is written out."""

    ground: Ground
    changes: tuple[Change, ...]
    factors: tuple[Factor, ...]

    @property
    def unit(self) -> Unit:
        return self.factors[-1].unit if self.factors else self.ground.unit

    @property
    def identity(self) -> tuple[object, ...]:
        """The same for two combinations that count the same in other words: no tables; no E and no P."""
        made_by = tuple(convention.key for convention in self.ground.made_by)
        touched = frozenset().union(*(change.pieces for change in self.changes))
        by = sum(change.by for change in self.changes)
        return self.unit, made_by, touched, by, frozenset(factor.convention.key for factor in self.factors)

    @property
    def keys(self) -> frozenset[str]:
        """Its conventions by name."""
        follows = [*self.ground.made_by, *(c.convention for c in self.changes), *(f.convention for f in self.factors)]
        return frozenset(convention.key for convention in follows)

    def reading(self) -> Reading:
        figure, steps = self.ground.base, []
        for convention in self.ground.made_by:
            steps.append(Step(convention, "", figure))
        for change in self.changes:
            figure += change.by
            steps.append(Step(change.convention, _signed(change), figure))
        for factor in self.factors:
            figure = whole(Fraction(figure) * factor.by)
            steps.append(Step(factor.convention, factor.formula, figure))
        return Reading(self.unit, self.ground.start, self.ground.own, tuple(steps))


def search(grounds: Sequence[Ground], given: Number) -> Iterator[Reading]:
    """Readings that give a number, fewest conventions first, each once.

    A reading with a convention more that changes nothing is none. A rounded number has readings at the least distance
    that has any, and at none beyond `Number.farthest`: enough conventions round to anything.
    """
    seen: set[tuple[object, ...]] = set()
    fitting: list[tuple[Unit, frozenset[str]]] = []
    for distance in range(given.farthest + 1):
        for found in itertools.chain.from_iterable(_at(ground, given, distance) for ground in grounds):
            same = [
                keys for unit, keys in fitting if unit == found.unit or (given.ratio and {unit, found.unit} == WORK)
            ]
            more = any(keys <= found.keys for keys in same) if given.is_exact else found.keys in same
            if found.identity in seen or more:
                continue
            seen.add(found.identity)
            fitting.append((found.unit, found.keys))
            yield found.reading()
        if seen and not given.is_exact:
            return


def within(grounds: Iterable[Ground], distance: int) -> Iterator[Reading]:
    """Every reading with at most so many conventions, whatever its figure."""
    for ground in grounds:
        for factors in _factors(ground):
            for n_changes in range(distance - len(ground.made_by) - len(factors) + 1):
                for changes in _combined(ground.changes, n_changes):
                    yield _Found(ground, changes, factors).reading()


def nearest(grounds: Iterable[Ground], given: Number, bound: Mapping[str, int], most: int) -> tuple[Near, ...]:
    """What comes nearest to a number that nothing gives: a figure of this project, then those one convention away."""
    found: dict[tuple[Unit, int | Fraction], Near] = {}
    for ground, reading in ((each, reading) for each in grounds for reading in within([each], 1)):
        if reading.unit not in given.units or (given.ratio and reading.unit != ground.unit) or not reading.figure:
            continue
        if reading.steps and reading.figure == reading.own:  # bytes of one byte
            continue
        low, high = given.bounds(reading.own)
        difference = whole((low if reading.figure < low else high) - reading.figure)
        known = multiple(difference, reading.unit, bound) if given.is_exact and isinstance(difference, int) else None
        if known is not None and reading.steps and not known.per_block and known.times > FEW_TIMES:
            known = None
        found.setdefault((reading.unit, reading.figure), Near(reading, difference, known))
    ordered = sorted(found.values(), key=lambda near: (abs(near.difference), len(near.reading.steps)))
    own = next((near for near in ordered if not near.reading.steps), None)
    first = [] if own is None else [own]
    return tuple([*first, *(near for near in ordered if near is not own)][:most])


#: Quantities that a difference may be a multiple of, in letters: of parameters, and of work.
KNOWN_PARAMETERS: Final = ("V·d", "n_ctx²", "n_ctx·d", "d·d_ff", "d²", "d_ff", "d", "V", "n_ctx")
KNOWN_WORK: Final = (
    "n·d·V", "n²·d", "n·d·d_ff", "n·d²", "h·n²", "n·d_ff", "n·V", "n·d", "n²", *KNOWN_PARAMETERS,
)  # fmt: skip

#: Most times that a difference is said to be a known quantity, unless it is once in each block: from a figure of this
#: project, and from one that is a convention away, where chance has more tries.
MOST_TIMES: Final = 64
FEW_TIMES: Final = 4


def distinct(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Changes, but of those that do the same to the same pieces the first alone: no biases, where only Q has one."""
    found: dict[tuple[frozenset[str], int], Change] = {}
    for change in changes:
        if change.by:
            found.setdefault((change.pieces, change.by), change)
    return tuple(found.values())


def multiple(difference: int, unit: Unit, bound: Mapping[str, int]) -> Multiple | None:
    """The known quantity that a difference is so many times: once in each block, or else fewest times; or None."""
    found = []
    for formula in KNOWN_WORK if unit in WORK else KNOWN_PARAMETERS:
        quantity = value(formula, bound)
        times, rest = divmod(abs(difference), quantity) if quantity > 1 else (0, 1)
        if not rest and times >= 1 and (times <= MOST_TIMES or times == bound["L"]):
            found.append(Multiple(times, formula, quantity, times == bound["L"] > 1))
    return min(found, key=lambda known: (not known.per_block, known.times), default=None)


def _at(ground: Ground, given: Number, distance: int) -> Iterator[_Found]:
    """Combinations of so many conventions, on one ground, that give the number."""
    bounds = given.bounds(ground.own)
    for factors in _factors(ground):
        n_changes = distance - len(ground.made_by) - len(factors)
        unit = factors[-1].unit if factors else ground.unit
        if n_changes < 0 or unit not in given.units or (given.ratio and unit != ground.unit):
            continue
        if factors and factors[0].by == 1 and ground.unit in given.units:  # bytes of one byte: parameters already
            continue
        times = math.prod((factor.by for factor in factors), start=Fraction(1))
        low, high = (end / times - ground.base for end in bounds)
        least, greatest = math.ceil(low), math.floor(high)
        if n_changes == 0:
            if low <= 0 <= high:
                yield _Found(ground, (), factors)
            continue
        for changes in _combined(ground.changes, n_changes):
            if least <= sum(change.by for change in changes) <= greatest:
                yield _Found(ground, changes, factors)


def _combined(changes: Sequence[Change], number: int) -> Iterator[tuple[Change, ...]]:
    """So many changes that touch different pieces."""
    for chosen in itertools.combinations(changes, number):
        n_pieces = sum(len(change.pieces) for change in chosen)
        if number == 1 or len(frozenset().union(*(change.pieces for change in chosen))) == n_pieces:
            yield chosen


def _factors(ground: Ground) -> Iterator[tuple[Factor, ...]]:
    """No factor, one, or two of different kinds."""
    yield ()
    for factor in ground.factors:
        yield (factor,)
    for one, other in itertools.combinations(ground.factors, 2):
        if one.kind != other.kind:
            yield one, other


def _signed(change: Change) -> str:
    """What a change adds, in letters, where that is short enough for a table."""
    if not change.formula:
        return ""
    written = gathered(change.formula)
    if len(written) > LONGEST:
        return ""
    bracketed = f"({written})" if " " in written and change.by < 0 else written
    return f"{'+' if change.by > 0 else '−'} {bracketed}"
