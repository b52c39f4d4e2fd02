"""The public bins in which covariates are counted: fixed by the schema before a row is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from noisewise.data import GAP, Column, Schema, fill_value, indicator_name, is_gap

_LINEAR = 16
_HALVINGS = 12
_MOST_SINGLE_COUNTS = 32
_HIDDEN = 0.75
"""Noise sds of a variance. On real columns, bought sds were right to a third above it, and up to
twelve times too large below (`python -m benchmarks.bought_spreads`)."""


@dataclass(frozen=True, eq=False)
class Bins:
    """The states of one number in a row: a column's, or one entry's of a vector column.

    A category's levels and a binary column's two values are states as they are. A real column, or a
    count with many values, has a state of its own for each bound, and for zero: values pile up
    there. Between the bounds lie sixteen equal intervals, of which the outermost are halved again
    and again, as are those beside zero: in wide bounds most people may sit close to one of these.
    Where cells may be missing, the last state is that of a gap.
    """

    name: str
    column: Column
    entry: int | None
    """Place in a vector column's row; None for a column of single numbers."""
    low: np.ndarray
    high: np.ndarray
    """The ends of every state but a gap's; the same number twice where it is a single value."""
    told: bool = True
    """Whether values are told from each other; if not, there are two states: a value, and a gap."""

    def __len__(self) -> int:
        return len(self.low) + self.column.gaps

    @property
    def ordered(self) -> bool:
        """Whether states are intervals of numbers, in order: no levels of a category."""
        return self.told and self.column.bounds is not None

    @property
    def middle(self) -> np.ndarray:
        """The middle of every state but a gap's."""
        return (self.low + self.high) / 2

    def present(self, share: np.ndarray) -> np.ndarray:
        """Shares of the states among people whose cell is not missing."""
        found = share[: len(self.low)]
        total = found.sum()
        return found / total if total > 0 else np.full(len(found), 1 / len(found))

    def mean_and_sd(self, share: np.ndarray) -> tuple[float, float]:
        """Of an ordered column, from the shares of its states; gaps do not count."""
        share = self.present(share)
        mean, width = float(share @ self.middle), self.high - self.low
        variance = share @ ((self.middle - mean) ** 2 + width**2 / 12)
        return mean, float(np.sqrt(max(variance, 0.0)))

    def spread_is_hidden(self, share: np.ndarray, noise: float) -> bool:
        """Whether an ordered column's variance is no more than what noise of this sd in the shares
        makes of it: people who hardly differ, in wide bounds."""
        mean, sd = self.mean_and_sd(share)
        return sd**2 < _HIDDEN * noise * float(np.linalg.norm((self.middle - mean) ** 2))

    def states(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """The state of every row. **Rows in, rows out**: only a mechanism may use it."""
        values = np.asarray(arrays[self.column.name])
        if self.entry is not None:
            values = values.reshape(len(values), -1)[:, self.entry]
        if not self.column.gaps:
            return self._states(values)
        gaps = is_gap(values)
        if not self.told:
            return gaps.astype(np.int64)
        valid = np.where(gaps, np.asarray(fill_value(self.column), values.dtype), values)
        return np.where(gaps, len(self) - 1, self._states(valid))

    def _states(self, values: np.ndarray) -> np.ndarray:
        """Of values that are there."""
        if not self.ordered:
            return values.astype(np.int64)
        # The last state that begins at or below the value; single values come before intervals.
        place = np.searchsorted(self.low, values, side="right") - 1
        single = np.searchsorted(self.low, values, side="left")
        last = len(self.low) - 1
        exact = self.high[np.minimum(single, last)] == values
        return np.where(exact, single, place).clip(0, last)

    def draw(self, rng: np.random.Generator, states: np.ndarray) -> np.ndarray:
        """Values within the states, all equally probable, and gaps."""
        if not self.column.gaps:
            return self._draw(rng, states)
        gaps = states == len(self) - 1
        gap = np.nan if self.column.kind == "real" else GAP
        if not self.told:
            return np.where(gaps, gap, fill_value(self.column))
        return np.where(gaps, gap, self._draw(rng, np.where(gaps, 0, states)))

    def _draw(self, rng: np.random.Generator, states: np.ndarray) -> np.ndarray:
        """Without gaps."""
        if not self.ordered:
            return states
        low, high = self.low[states], self.high[states]
        if self.column.kind == "count":
            return rng.integers(low.astype(np.int64), high.astype(np.int64) + 1)
        # The lower end belongs to the state before it where that is a single value.
        return low + (high - low) * (1 - rng.random(len(states)))


def covariate_bins(schema: Schema, columns: tuple[str, ...]) -> tuple[Bins, ...]:
    """Bins of every number that the named columns hold.

    Args:
        schema: The table's.
        columns: Names of the columns to be described; ``age (missing)`` is where ``age`` has gaps.
    """
    found: list[Bins] = []
    outcomes = {indicator_name(column.name): column for column in schema if column.gaps}
    for name in columns:
        if name in outcomes and name not in schema:
            only = np.zeros(1)
            found.append(Bins(name, outcomes[name], None, only, only, told=False))
            continue
        column = schema[name]
        low, high = _ends(column)
        entries = range(len(column.entry_names)) if column.shape else (None,)
        found += [
            Bins(entry_name, column, entry, low, high)
            for entry_name, entry in zip(column.entry_names, entries, strict=True)
        ]
    return tuple(found)


def _ends(column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper end of every state, in order; of levels, their codes twice."""
    if column.bounds is None:
        codes = np.arange(2 if column.categories is None else len(column.categories), dtype=float)
        return codes, codes
    low, high = map(float, column.bounds)
    if column.kind == "count" and high - low < _MOST_SINGLE_COUNTS:
        values = np.arange(low, high + 1)
        return values, values
    return _whole(low, high) if column.kind == "count" else _intervals(low, high)


def _edges(low: float, high: float) -> np.ndarray:
    """Equal steps, halved on towards each bound; and towards zero, if it lies between."""
    width = (high - low) / _LINEAR
    halves = width * 0.5 ** np.arange(1, _HALVINGS + 1)
    inner = np.linspace(low, high, _LINEAR + 1)[1:-1]
    edges = np.concatenate([low + halves, inner, high - halves])
    if low < 0 < high:
        edges = np.concatenate([edges, -halves, [0.0], halves])
    # Far from zero the smallest halves are lost to rounding.
    return np.unique(edges[(edges > low) & (edges < high)])


def _intervals(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    edges = np.concatenate([[low], _edges(low, high), [high]])
    singles = [end for end in (low, 0.0, high) if low <= end <= high]
    starts = np.concatenate([np.unique(singles), edges[:-1]])
    ends = np.concatenate([np.unique(singles), edges[1:]])
    order = np.lexsort((ends, starts))
    return starts[order], ends[order]


def _whole(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """The same in whole numbers, both ends included: zero and the bounds on their own."""
    starts = np.unique(np.ceil(np.concatenate([[low, low + 1], _edges(low, high), [high]])))
    return starts, np.append(starts[1:] - 1, high)
