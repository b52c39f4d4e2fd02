"""How often each state of each covariate occurs: noisy counts, and what they say of the true ones.

One record is in one state of each column, so it adds a one to as many counts as there are columns:
the L2 sensitivity of all counts together is the root of the number of columns, however many states
they have.

Where the schema declares units, a unit adds up to ``max_rows`` times as much, all its rows in the
same states. How many rows it has is one more state, counted ``max_rows`` times, so that it weighs
as much as a column does: the shares of units by size are then known better than anything else.

A count is not negative, and many are tiny: levels that hardly anybody has, intervals far out in
wide bounds. Taken as they are, or cut off at zero, noisy counts would people all of them. So counts
get a prior, nobody with some chance and otherwise any order of magnitude alike; what is reported
is the posterior, as a mean or as a draw.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noisewise.covariates.bins import Bins
from noisewise.data import SIZE, PrivateRows, Rows, Unit
from noisewise.mechanism import Budget, Release, release_sum

COUNTS = "counts of covariates' values"
"""How certificates name the release."""

_POINTS = 400
_CERTAIN = 8.0
"""Noise sds above zero from which a count's posterior is the noise alone."""
_FEWEST = 0.25
_EMPTY_LEVEL = 0.1
_ROUNDS = 50


class Marginals(NamedTuple):
    """Noisy counts, column by column, all with the same noise."""

    counts: tuple[np.ndarray, ...]
    ordered: tuple[bool, ...]
    """Whether a column's states are intervals, of which many may be empty; no levels."""
    noise_sd: float
    release: Release
    sizes: np.ndarray | None = None
    """Noisy numbers of units with 1, 2, ... rows, where they were bought."""

    def size_shares(self, rng: np.random.Generator | None = None) -> np.ndarray | None:
        """Shares of units with 1, 2, ... rows, likewise; None where they were not bought."""
        if self.sizes is None:
            return None
        return _shares(self.sizes, self.noise_sd / len(self.sizes), True, rng)

    def shares(self, rng: np.random.Generator | None = None) -> tuple[np.ndarray, ...]:
        """Shares of the states of every column: their posterior means, or with ``rng`` a draw."""
        return tuple(
            _shares(counts, self.noise_sd, ordered, rng)
            for counts, ordered in zip(self.counts, self.ordered, strict=True)
        )


def release_marginals(
    rows: PrivateRows,
    bins: tuple[Bins, ...],
    budget: Budget,
    *,
    unit: Unit | None = None,
    insecure_seed: int | None = None,
    bought: dict[str, np.ndarray] | None = None,
) -> Marginals:
    """Buy the counts of all states of all columns for the whole of ``budget``; of units also how
    many rows they have, where that is not declared."""
    starts = np.cumsum([0, *(len(column) for column in bins)])
    sizes = 0 if unit is None or unit.sizes_known else unit.max_rows

    def indicators(columns: Rows) -> Rows:
        found = np.zeros((len(next(iter(columns.values()))), starts[-1] + sizes))
        for column, start in zip(bins, starts, strict=False):
            states = column.states(columns)
            found[np.arange(len(states)), start + states] = 1.0
        if sizes:
            (first,) = np.nonzero(columns[SIZE])
            found[first, starts[-1] + columns[SIZE][first] - 1] = sizes
        return {"indicators": found}

    found = release_sum(
        rows.wide(indicators, int(starts[-1]) + sizes),
        marginals_sensitivity(len(bins), unit),
        budget,
        what=COUNTS,
        insecure_seed=insecure_seed,
        bought=bought,
    )
    counts = tuple(np.split(found.total[: starts[-1]], starts[1:-1])) if bins else ()
    ordered = tuple(column.ordered for column in bins)
    by_size = found.total[starts[-1] :] / sizes if sizes else None
    return Marginals(counts, ordered, found.noise_sd, found.release, by_size)


def marginals_sensitivity(columns: int, unit: Unit | None) -> float:
    """How far, in L2 norm, one record moves the counts together.

    Args:
        columns: Number of columns, or of entries, whose states are counted.
        unit: Whose rows are one record, if not each is one.
    """
    if unit is None:
        return math.sqrt(columns)
    return unit.max_rows * math.sqrt(columns + (not unit.sizes_known))


def _shares(
    counts: np.ndarray, noise_sd: float, ordered: bool, rng: np.random.Generator | None
) -> np.ndarray:
    """One column's shares from its noisy counts; they sum to one."""
    small = counts < _CERTAIN * noise_sd
    found = counts + (0.0 if rng is None else noise_sd * rng.standard_normal(len(counts)))
    if small.any():
        grid, chances = _posterior(counts[small], noise_sd, ordered)
        if rng is None:
            found[small] = chances @ grid
        else:
            ranks = np.cumsum(chances, axis=1) < rng.random((len(chances), 1))
            found[small] = grid[np.minimum(ranks.sum(1), len(grid) - 1)]
    found = np.maximum(found, 0.0)
    total = found.sum()
    return found / total if total > 0 else np.full(len(found), 1 / len(found))


def _posterior(counts: np.ndarray, noise_sd: float, ordered: bool) -> tuple[np.ndarray, np.ndarray]:
    """Values that a small count may have, zero first, and their chances (counts x values).

    A level that is declared is seldom empty. Of intervals many may be: the chance of zero is the
    likeliest for their counts together, by expectation maximisation, with one empty and one other
    state on top, as a single small count does not say much of it.
    """
    most = max(float(counts.max()), 0.0) + _CERTAIN * noise_sd
    grid = np.concatenate([[0.0], np.geomspace(_FEWEST, most, _POINTS)])
    z = (counts[:, None] - grid) / noise_sd
    likelihood = np.exp(-0.5 * (z * z - (z * z).min(1, keepdims=True)))
    empty = 0.5 if ordered else _EMPTY_LEVEL
    for _ in range(_ROUNDS if ordered else 1):
        prior = np.append(empty, np.full(_POINTS, (1 - empty) / _POINTS))
        chances = likelihood * prior
        chances /= chances.sum(1, keepdims=True)
        empty = float(chances[:, 0].sum() + 1) / (len(counts) + 2)
    return grid, chances
