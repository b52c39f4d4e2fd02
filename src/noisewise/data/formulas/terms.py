"""Columns of a formula's design: products of numbers and of contrasts, and what they span."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from noisewise.data.errors import SchemaError
from noisewise.data.formulas.coding import Category
from noisewise.data.formulas.expressions import Expression

_TINY = 1e-9
_INTERCEPT = "Intercept"


@dataclass(frozen=True)
class Number:
    """One column of a factor of numbers, and how it is brought to about unit size."""

    factor: Expression
    place: int
    centre: float
    scale: float

    @property
    def label(self) -> str:
        """As coefficients are called."""
        return self.factor.labels[self.place]

    @property
    def size(self) -> float:
        """By which it is divided where it is not moved."""
        return float(np.hypot(self.centre, self.scale))

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns of the table behind it."""
        return self.factor.sources


@dataclass(frozen=True, eq=False)
class Contrast:
    """One column of a category's coding."""

    factor: Category
    label: str
    weights: np.ndarray
    """Its value at each level."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns of the table behind it."""
        return (self.factor.column.name,)


Part = Number | Contrast


@dataclass(frozen=True, eq=False)
class Product:
    """One column of the design: a product of parts, none for the intercept."""

    parts: tuple[Part, ...]
    missing: tuple[str, int] | None = None
    """Where it says that a cell is missing, of which column, and of which entry of a vector."""
    name: str = ""

    @property
    def label(self) -> str:
        """As its coefficient is called."""
        return self.name or ":".join(part.label for part in self.parts) or _INTERCEPT

    @property
    def term(self) -> str:
        """The formula's term that it belongs to."""
        return self.name or ":".join(part.factor.text for part in self.parts) or _INTERCEPT

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns of the table behind it."""
        own = () if self.missing is None else (self.missing[0],)
        return tuple(dict.fromkeys((*own, *(s for part in self.parts for s in part.sources))))

    @property
    def numbers(self) -> tuple[Number, ...]:
        """Its parts that are numbers."""
        return tuple(part for part in self.parts if isinstance(part, Number))


@dataclass(frozen=True, eq=False)
class Encoded:
    """A column of the encoded design: each number is scaled, and moved to its centre where the
    other columns can take that up."""

    product: Product
    centred: frozenset[str]
    """Labels of the numbers that are moved."""

    def move(self, part: Number) -> tuple[float, float]:
        """Centre and scale of one of its numbers: about a unit either way."""
        return (part.centre, part.scale) if part.label in self.centred else (0.0, part.size)


@dataclass(frozen=True, eq=False)
class Group:
    """Effects of a category's levels that vary around 0: one of the columns of ``(age | ward)``."""

    name: str
    """As in ``1|ward`` or ``age|ward``."""
    category: Category
    slope: Number | None
    """What the effects multiply; None is 1."""

    @property
    def columns(self) -> tuple[Encoded, ...]:
        """A column for each level, its number moved to its centre."""
        number = () if self.slope is None else (self.slope,)
        coding = self.category.contrasts(whole=True)
        return tuple(
            Encoded(
                Product(
                    (*number, Contrast(self.category, label, weights)),
                    name=f"{self.name}[{level}]",
                ),
                frozenset(part.label for part in number),
            )
            for level, (label, weights) in zip(self.category.levels, coding.items(), strict=True)
        )


@dataclass(frozen=True, eq=False)
class Encoding:
    """The encoded design, and what its coefficients are in the formula's own terms."""

    columns: tuple[Encoded, ...]
    original: np.ndarray
    """Coefficients as the formula has them = this matrix times the encoded ones."""
    constant: tuple[float, ...] | None
    """Coefficients whose predictor is 1 for everybody; None if the columns cannot make that."""


def encode(columns: tuple[Product, ...]) -> Encoding:
    """Columns of about unit size that span what the formula's own span.

    A number that is moved to its centre takes the columns along that lack it: ``(age - 45) * sex``
    is ``age:sex - 45 sex``. Where the formula has no such column, moving would change the model,
    and the number is only scaled.

    Args:
        columns: As the formula has them.
    """
    space = _Space()
    # In units of their sizes, lest what is small in one's is taken for rounding in another's.
    own = [space.vector(each, {n.label: (0.0, n.size) for n in each.numbers}) for each in columns]
    sizes = np.array([np.prod([n.size for n in each.numbers]) for each in columns])
    matrix = space.matrix(own)
    _refuse_repeated(columns, matrix)
    _refuse_repeated(*_straight_lines(columns))
    chosen: list[Encoded] = [Encoded(each, frozenset()) for each in columns]
    weights = np.zeros((len(columns), len(columns)))
    waiting = {place: _ways(each) for place, each in enumerate(columns)}
    while waiting:
        tried = {place: Encoded(columns[place], ways.pop(0)) for place, ways in waiting.items()}
        vectors = [
            space.vector(one.product, {n.label: one.move(n) for n in one.product.numbers})
            for one in tried.values()
        ]
        found, fits = _in_span(space, own, vectors)
        for k, (place, one) in enumerate(tried.items()):
            if fits[k]:
                chosen[place], weights[:, place] = one, found[:, k]
                del waiting[place]
    ones, fits = _in_span(space, own, [{_NOTHING: 1.0}])
    constant = None
    if fits[0]:
        constant = tuple(np.round(np.linalg.solve(weights, ones[:, 0]), 9).tolist())
    return Encoding(tuple(chosen), weights / sizes[:, None], constant)


def _ways(column: Product) -> list[frozenset[str]]:
    """Which of its numbers may be moved to their centres, the most first."""
    moved = [part.label for part in column.numbers if part.centre]
    sizes = range(len(moved), -1, -1)
    return [frozenset(some) for size in sizes for some in combinations(moved, size)]


_Monomial = tuple[frozenset[str], frozenset[tuple[str, int]]]
_NOTHING: _Monomial = (frozenset(), frozenset())
_Vector = dict[_Monomial, float]


class _Space:
    """Products of numbers and of indicators of levels other than the first, as coordinates."""

    def __init__(self) -> None:
        self.places: dict[_Monomial, int] = {}

    def vector(self, column: Product, moves: dict[str, tuple[float, float]]) -> _Vector:
        """A column after these numbers are moved and scaled."""
        if column.missing is not None:
            return {(frozenset({column.label}), frozenset()): 1.0}
        factors: list[_Vector] = []
        for part in column.parts:
            if isinstance(part, Number):
                centre, scale = moves.get(part.label, (0.0, 1.0))
                one: _Vector = {(frozenset({part.label}), frozenset()): 1 / scale}
                factors.append(one | ({_NOTHING: -centre / scale} if centre else {}))
            else:
                first, *others = part.weights.tolist()
                name = part.factor.column.name
                levels: _Vector = {
                    (frozenset(), frozenset({(name, k)})): weight - first
                    for k, weight in enumerate(others, 1)
                    if weight != first
                }
                factors.append(levels | ({_NOTHING: first} if first else {}))
        found: _Vector = {}
        for picked in product(*(factor.items() for factor in factors)):
            key = (
                frozenset().union(*(numbers for (numbers, _), _ in picked)),
                frozenset().union(*(levels for (_, levels), _ in picked)),
            )
            found[key] = found.get(key, 0.0) + float(np.prod([weight for _, weight in picked]))
        return found

    def matrix(self, vectors: list[_Vector]) -> np.ndarray:
        """Vectors as columns; coordinates that are new are added."""
        for vector in vectors:
            for key in vector:
                self.places.setdefault(key, len(self.places))
        found = np.zeros((len(self.places), len(vectors)))
        for k, vector in enumerate(vectors):
            for key, weight in vector.items():
                found[self.places[key], k] = weight
        return found


def _in_span(
    space: _Space, own: list[_Vector], others: list[_Vector]
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the own vectors that make the others, and which can be made so."""
    space.matrix(others)  # every coordinate has its place
    matrix, wanted = space.matrix(own), space.matrix(others)
    found = np.linalg.lstsq(matrix, wanted, rcond=None)[0]
    size = np.abs(wanted).max(axis=0)
    fits = np.abs(matrix @ found - wanted).max(axis=0) <= _TINY * size
    return _clean(found), fits


def _clean(found: np.ndarray) -> np.ndarray:
    """Without what is only rounding."""
    return np.where(np.abs(found) < 1e-12 * max(1.0, float(np.abs(found).max())), 0.0, found)


def _straight_lines(columns: tuple[Product, ...]) -> tuple[tuple[Product, ...], np.ndarray]:
    """The intercept and columns such as ``center(age)``, and what straight lines they are: each
    cell of the table that they are made of is a coordinate."""
    lines: list[tuple[Product, tuple[str, ...], float, float]] = []
    for each in columns:
        if each.missing is None and not each.parts:
            lines.append((each, (), 1.0, 0.0))
        elif len(each.parts) == len(each.numbers) == 1:
            (part,) = each.numbers
            start, slope = part.factor.affine
            if slope and len(part.factor.range.low) == 1:
                high, low = part.factor.range.high[0], part.factor.range.low[0]
                # In its own range, lest large numbers hide a small one.
                middle, half = (high + low) / 2, (high - low) / 2 * np.sign(slope)
                lines.append((each, part.sources, float(middle), float(half)))
    names = list(dict.fromkeys(sources for _, sources, _, _ in lines if sources))
    matrix = np.zeros((1 + len(names), len(lines)))
    for k, (_, sources, start, slope) in enumerate(lines):
        matrix[0, k] = start
        if sources:
            matrix[1 + names.index(sources), k] = slope
    sizes = np.maximum(np.abs(matrix).max(0), 1e-300)
    return tuple(line[0] for line in lines), matrix / sizes


def _refuse_repeated(columns: tuple[Product, ...], matrix: np.ndarray) -> None:
    if np.linalg.matrix_rank(matrix) < len(columns):
        raise SchemaError(
            f"the formula says the same twice: its columns {_repeated(columns, matrix)} follow "
            "from each other; leave one out"
        )


def _repeated(columns: tuple[Product, ...], matrix: np.ndarray) -> str:
    """Names of columns that depend on each other linearly."""
    null = np.linalg.svd(matrix)[2][-1]
    names = [c.label for c, weight in zip(columns, null, strict=True) if abs(weight) > 1e-6]
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
