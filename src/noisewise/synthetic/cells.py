"""Columns cut into cells, by what was released alone: categories, counts, bins of real numbers."""

import itertools
from dataclasses import dataclass

import numpy as np

from noisewise.data import Column, Schema

_MOST_CELLS = 12
_BINS = 10
_COARSE = 5
_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, eq=False)
class Cells:
    """How one column (or one entry of a vector column) is cut."""

    name: str
    column: str
    entry: int
    """Place of the entry in a row of the column."""
    labels: tuple[str, ...]
    codes: np.ndarray | None = None
    """Category columns: the cell of each code, rare ones together in the last."""
    edges: np.ndarray | None = None
    """Numbers: a value belongs to the cell after the last edge that is not above it."""
    coarse: np.ndarray | None = None
    """Fewer edges, for tables of two columns."""

    @property
    def numeric(self) -> bool:
        """Whether means and sds of the column make sense."""
        return self.edges is not None

    def values(self, columns: dict[str, np.ndarray]) -> np.ndarray:
        """This entry's values, one a row."""
        found = columns[self.column]
        return found.reshape(len(found), -1)[:, self.entry]

    def place(self, values: np.ndarray) -> np.ndarray:
        """The cell of each value."""
        if self.codes is not None:
            return self.codes[values]
        assert self.edges is not None
        return np.searchsorted(self.edges, values, side="right")

    def place_coarsely(self, values: np.ndarray) -> np.ndarray:
        """The cell of each value where fewer are wanted."""
        if self.coarse is None:
            return self.place(values)
        return np.searchsorted(self.coarse, values, side="right")


def cut(schema: Schema, pilot: dict[str, np.ndarray]) -> list[Cells]:
    """Cells for every column, chosen on ``pilot``, rows that were drawn from the posterior."""
    found = []
    for column in schema:
        entries = pilot[column.name].reshape(len(pilot[column.name]), -1).T
        for entry, name in enumerate(column.entry_names):
            found.append(_cells(column, name, entry, entries[entry]))
    return found


def _cells(column: Column, name: str, entry: int, values: np.ndarray) -> Cells:
    if column.categories is not None:
        return _categories(column, values)
    if column.kind == "binary":
        return Cells(name, name, 0, ("0", "1"), codes=np.arange(2))
    whole = column.kind == "count"
    low, high = np.quantile(values, [0.01, 0.99])
    if not whole and high - low <= max(1e-12 * max(abs(low), abs(high)), _TINY):
        edges, labels = _around(column, low, high)
        return Cells(name, column.name, entry, labels, edges=edges)
    edges = _count_edges(column, int(low), int(high)) if whole else _real_edges(low, high)
    labels = _count_labels(column, edges) if whole else _real_labels(edges)
    coarse = None if low == high else _coarse_edges(column, values)
    return Cells(name, column.name, entry, labels, edges=edges, coarse=coarse)


def _coarse_edges(column: Column, values: np.ndarray) -> np.ndarray:
    """Fifths of the values, as far as they differ."""
    assert column.bounds is not None
    fifths = np.quantile(values, np.arange(1, _COARSE) / _COARSE)
    if column.kind == "count":  # between whole numbers: the first cell holds the lowest of them
        return np.unique(np.floor(fifths) + 0.5)
    # No value is below the lower bound: an edge there would not tell a pile on it from the rest.
    return np.unique(np.where(fifths <= column.bounds[0], np.nextafter(fifths, np.inf), fifths))


def _categories(column: Column, values: np.ndarray) -> Cells:
    """Every category, or the most frequent ones and one cell for the rest."""
    levels = column.categories
    assert levels is not None
    if len(levels) <= _MOST_CELLS:
        codes, labels = np.arange(len(levels)), levels
    else:
        counts = np.bincount(values, minlength=len(levels))
        kept = np.sort(np.argsort(-counts, kind="stable")[: _MOST_CELLS - 1])
        codes = np.full(len(levels), len(kept))
        codes[kept] = np.arange(len(kept))
        rest = f"{len(levels) - len(kept)} others"
        labels = (*(levels[code] for code in kept), rest)
    return Cells(column.name, column.name, 0, labels, codes=codes)


def _count_edges(column: Column, first: int, last: int) -> np.ndarray:
    """Single counts where there are few; else steps of equal width, the tail in one cell.

    Where nearly all values are one count, it has a cell between those below and above.
    """
    assert column.bounds is not None
    if first == last:
        low, high = column.bounds
        return np.array([edge for edge in (first - 0.5, first + 0.5) if low < edge < high])
    step = max(1, -(-(last - first + 1) // _BINS))
    return np.arange(first + step, last + 1, step) - 0.5


def _count_labels(column: Column, edges: np.ndarray) -> tuple[str, ...]:
    assert column.bounds is not None
    starts = [int(column.bounds[0]), *(int(edge + 0.5) for edge in edges)]
    ends = [*(start - 1 for start in starts[1:]), int(column.bounds[1])]
    pairs = zip(starts, ends, strict=True)
    return tuple(f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in pairs)


def _around(column: Column, low: float, high: float) -> tuple[np.ndarray, tuple[str, ...]]:
    """Below, at and above the one number that nearly all values are, as far as bounds allow.

    ``low`` and ``high`` are that number, or the ends of what rounding has made of it.
    """
    assert column.bounds is not None
    shown = f"{high:,.7g}".replace("-", "−")
    edges, labels = [], [shown]
    if low > column.bounds[0]:
        edges, labels = [low], [f"below {shown}", *labels]
    if high < column.bounds[1]:
        edges, labels = [*edges, np.nextafter(high, np.inf)], [*labels, f"above {shown}"]
    return np.array(edges), tuple(labels)


def _real_edges(low: float, high: float) -> np.ndarray:
    """Round numbers, about ten cells between the values that all but one in fifty lie between."""
    rough = (high - low) / _BINS
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(k for k in (1, 2, 5, 10) if k * power >= 0.999 * rough)
    first, last = np.floor(low / step) + 1, np.ceil(high / step) - 1
    return np.arange(first, last + 1) * step


def _real_labels(edges: np.ndarray) -> tuple[str, ...]:
    """Numbers with as many digits as tell an edge from the next."""
    largest, step = float(np.abs(edges).max()), float(np.diff(edges).min())
    decimals = max(0, -_power(step))
    form = f",.{decimals}f" if largest >= 1e4 else f".{max(4, 1 + _power(largest) + decimals)}g"
    shown = [f"{edge:{form}}".replace("-", "−") for edge in edges]
    middle = [f"{a} to {b}" for a, b in itertools.pairwise(shown)]
    return (f"below {shown[0]}", *middle, f"{shown[-1]} and above")


def _power(value: float) -> int:
    """The power of ten of the first digit, whatever rounding did to a one with zeros."""
    return int(np.floor(np.log10(value) + 1e-9))
