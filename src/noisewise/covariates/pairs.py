"""How covariates go together: noisy second moments of bounded features, all pairs at once.

Every column gets a feature vector, made from the marginals that were bought before. Levels of a
category are the corners of a simplex around zero; those too rare for any of their moments to be
told from noise are one corner together. Ordered columns have one feature, their value standardised
by the bought mean and sd, so that neither units nor wide bounds matter: a regression's information
is in second moments of values, which ranks do not give (columns that go together, but not in
order, have correlations of the other sign). All products of a record are clipped together, to a
norm from rows simulated with independent columns; simulated rows are clipped alike when they are
compared.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from noisewise.covariates.bins import Bins
from noisewise.covariates.marginals import Marginals
from noisewise.data import PrivateRows, Rows, Unit
from noisewise.mechanism import Budget, Release, release_sum

PAIRS = "products of pairs of covariates"
"""How certificates name the release."""

_SIMULATED = 10_000
_UNCLIPPED = 0.95
_FARTHEST = 4.0
"""Sds; further out a heavy tail would take all the clip norm."""
_TOLD_APART = 3.0
"""Noise sds that a level's count must have for features of its own."""


class Features(NamedTuple):
    """Feature vectors of every state of every column, and the norm that products are clipped to."""

    tables: tuple[np.ndarray, ...]
    """For each column, states x features."""
    clip_norm: float

    @property
    def blocks(self) -> tuple[slice, ...]:
        """Where each column's features stand among all."""
        ends = np.cumsum([0, *(table.shape[1] for table in self.tables)])
        return tuple(slice(a, b) for a, b in pairwise(ends))

    def of(self, states: np.ndarray) -> np.ndarray:
        """Features (rows x all) of states (rows x columns)."""
        parts = [table[states[:, j]] for j, table in enumerate(self.tables)]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def weights(self, features: np.ndarray) -> np.ndarray:
        """What clipping leaves of each row's products, as a factor."""
        norms = _pair_norms([features[:, block] for block in self.blocks])
        return np.minimum(1.0, self.clip_norm / np.maximum(norms, 1e-30))

    def products(self) -> tuple[np.ndarray, np.ndarray]:
        """Which two features every product is of: all pairs of different columns', once."""
        owner = np.concatenate([np.full(t.shape[1], j) for j, t in enumerate(self.tables)])
        found = np.nonzero(owner[:, None] < owner[None, :])
        return found[0], found[1]


class PairMoments(NamedTuple):
    """Noisy means of the clipped products, as a symmetric matrix with empty diagonal blocks."""

    features: Features
    moments: np.ndarray
    noise_sd: float
    """Of a mean."""
    release: Release


def make_features(shares: tuple[np.ndarray, ...], bins: tuple[Bins, ...], faint: float) -> Features:
    """Features from the bought shares; levels below ``faint`` have no features of their own."""
    tables = []
    for share, column in zip(shares, bins, strict=True):
        tables.append(_scores(column, share, faint) if column.ordered else _corners(share, faint))
    return Features(tuple(tables), _clip_norm(tables, shares))


def release_pairs(
    rows: PrivateRows,
    bins: tuple[Bins, ...],
    marginals: Marginals,
    row_count: float,
    budget: Budget,
    *,
    unit: Unit | None = None,
    insecure_seed: int | None = None,
    bought: dict[str, np.ndarray] | None = None,
) -> PairMoments:
    """Buy the mean products of all pairs of columns for the whole of ``budget``; ``row_count`` is
    as public as the number of records."""
    pairs = len(bins) * (len(bins) - 1) / 2
    # About as noisy, at sensitivity one, as the counts were.
    noise = marginals.noise_sd / len(bins) ** 0.5
    faint = _TOLD_APART * noise * pairs**0.5 / row_count
    features = make_features(marginals.shares(), bins, faint)
    first, second = features.products()

    def products(columns: Rows) -> Rows:
        states = np.stack([column.states(columns) for column in bins], axis=1)
        values = features.of(states).astype(float)
        found = values[:, first] * values[:, second]
        if most > 1:  # clipped row by row, as those are that it is compared with
            found *= features.weights(values)[:, None]
        return {"products": found}

    most = 1 if unit is None else unit.max_rows
    found = release_sum(
        rows.wide(products, len(first)),
        most * features.clip_norm,
        budget,
        what=PAIRS,
        insecure_seed=insecure_seed,
        bought=bought,
    )
    moments = np.zeros((features.blocks[-1].stop,) * 2)
    moments[first, second] = moments[second, first] = found.total / row_count
    return PairMoments(features, moments, found.noise_sd / row_count, found.release)


def _corners(share: np.ndarray, faint: float) -> np.ndarray:
    """Corners of a simplex around zero, a level each; faint levels share the last one."""
    own = share >= faint
    group = np.where(own, np.cumsum(own) - 1, own.sum())
    count = int(group.max()) + 1
    if count == 1:
        return np.zeros((len(share), 1))
    return (np.eye(count)[group] - 1 / count) * (count / (count - 1)) ** 0.5


def _scores(column: Bins, share: np.ndarray, faint: float) -> np.ndarray:
    """Standardised values of the states, as far out as a few sds; where enough cells are missing, a
    second feature for gaps, whose value is the mean."""
    mean, sd = column.mean_and_sd(share)
    values = (column.middle - mean) / sd if sd > 0 else np.zeros(len(column.low))
    found = np.clip(values, -_FARTHEST, _FARTHEST)[:, None]
    if not column.column.gaps:
        return found
    missing = share[-1]
    found = np.concatenate([found, np.zeros((1, 1))])
    if not faint <= missing < 1:
        return found
    off = (np.arange(len(found)) == len(found) - 1) - missing
    gaps = np.clip(off / (missing * (1 - missing)) ** 0.5, -_FARTHEST, _FARTHEST)
    return np.column_stack([found, gaps])


def _pair_norms(parts: list[np.ndarray]) -> np.ndarray:
    """Norm of all products of each row, from the squared lengths of its columns' features."""
    squares = np.stack([(part**2).sum(1) for part in parts], axis=1)
    return np.sqrt(np.maximum(squares.sum(1) ** 2 - (squares**2).sum(1), 0.0) / 2)


def _clip_norm(tables: list[np.ndarray], shares: tuple[np.ndarray, ...]) -> float:
    """A norm that nearly all rows with independent columns are within."""
    rng = np.random.default_rng(0)
    parts = [
        table[rng.choice(len(share), size=_SIMULATED, p=share)]
        for table, share in zip(tables, shares, strict=True)
    ]
    typical = 1.001 * float(np.quantile(_pair_norms(parts), _UNCLIPPED))
    return typical if typical > 0 else 1.0
