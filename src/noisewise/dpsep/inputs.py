"""Inputs on an equal footing: a whitening of the features, bought from the budget.

A network, like any method that moves all weights alike, cannot see what hides in directions along
which its inputs hardly vary. Scaling by declared bounds does not help where columns are nearly
copies of each other. So second moments are released in a few rounds, each with a small part of the
budget, each in the coordinates that the last one found: once the widest directions are scaled down,
records are shorter, the clip norm falls, and the next round resolves directions a factor narrower
(the idea of CoinPress; Biswas, Dong, Kamath, Ullman 2020). Directions lost in the noise keep the
scale of the noise. At last all directions are multiplied by one factor that makes the inputs' mean
square about one. All of this needs rows: with a few hundred at epsilon 1 the noise decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from noisewise._validate import NoisewiseError, fraction, integer_at_least
from noisewise.data import PrivateRows, Rows
from noisewise.dpsep.family import outer_products, unpacked
from noisewise.mechanism import Budget, Release, calibrate, in_blocks, release_sum

_ROOM = 2.0
_MOST_GAIN = 6.0
"""Most that the last factor may multiply squares by: the length it rests on is noisy."""


@dataclass(frozen=True, eq=False)
class Whitening:
    """x -> (x - centre) matrix, and what it cost."""

    centre: np.ndarray
    matrix: np.ndarray
    releases: tuple[Release, ...]

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Whitened inputs."""
        return ((np.asarray(X, float) - self.centre) @ self.matrix).astype(np.float32)


def scale_by_bounds(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Declared bounds to mean 0 and sd 1, were the column uniform between them; clipped to them.

    Args:
        values: Records x columns.
        low: Of every column.
        high: Of every column.
    """
    low, high = np.asarray(low, float), np.asarray(high, float)
    if not np.all(high > low):
        raise NoisewiseError("every upper bound must lie above its lower bound")
    inside = np.clip(np.asarray(values, float), low, high)
    return (inside - (low + high) / 2) / ((high - low) / np.sqrt(12))


def whitening_cost(
    budget: Budget, *, rounds: int = 4, share: float = 0.1, what: str = "inputs"
) -> tuple[Release, ...]:
    """The ledger's lines of `buy_whitening`: known before anything is bought.

    Args:
        budget: The whole one.
        rounds: Releases.
        share: Of the budget's epsilon, for each release on its own.
        what: How the ledger calls the inputs.
    """
    integer_at_least("rounds", rounds, 1)
    fraction("share", share)
    noise = calibrate(_part(budget, share), 1.0, 1)
    names = (f"second moments of the {what}, round {number + 1}" for number in range(rounds))
    return tuple(Release(what=name, noise_multiplier=noise) for name in names)


def _part(budget: Budget, share: float) -> Budget:
    return replace(budget, epsilon=share * budget.epsilon)


def buy_whitening(
    rows: PrivateRows,
    width: int,
    public_count: int,
    budget: Budget,
    *,
    rounds: int = 4,
    share: float = 0.1,
    what: str = "inputs",
    insecure_seed: int | None = None,
    bought: dict[str, np.ndarray] | None = None,
) -> Whitening:
    """Whiten inputs that were scaled by declared bounds.

    Every round is one Gaussian release of (1, u)(1, u)' summed over the records u. Put the lines of
    `whitening_cost` beside the fit's when calibrating.

    Args:
        rows: The inputs, as one column ``X`` (records x ``width``).
        width: Number of inputs.
        public_count: Number of records as everybody may know it.
        budget: The whole one.
        rounds: Releases.
        share: Of the budget's epsilon, for each release on its own.
        what: How the ledger calls the inputs.
        insecure_seed: Makes the noise repeatable, and therefore not private.
        bought: As `mechanism.release_sum` has it.
    """
    lines = whitening_cost(budget, rounds=rounds, share=share, what=what)
    part = _part(budget, share)
    centre, matrix = np.zeros(width), np.eye(width)
    spread = float(width)
    for line in lines:
        found = release_sum(
            rows.map(partial(in_blocks, partial(_products, centre, matrix))),
            1 + spread,
            part,
            what=line.what,
            insecure_seed=insecure_seed,
            bought=bought,
        )
        moments = unpacked(found.total, width + 1) / public_count
        noise = found.noise_sd / public_count
        shift = moments[0, 1:]
        covariance = moments[1:, 1:] - np.outer(shift, shift)
        values, vectors = np.linalg.eigh(covariance)
        # The spectral norm of symmetric noise whose packed entries have this sd.
        raised = np.maximum(values, noise * np.sqrt(2 * width))
        centre = centre + np.linalg.solve(matrix.T, shift)
        matrix = matrix @ vectors / np.sqrt(raised)
        whitened = np.clip(values, 0, None) / raised
        spread = _ROOM * max(1.0, float(whitened.sum()))
    # The noisy values themselves sum up to the inputs' mean squared length without bias.
    length = max(1.0, width / _MOST_GAIN, float((values / raised).sum()))
    return Whitening(centre, matrix * np.sqrt(width / length), lines)


def _products(centre: np.ndarray, matrix: np.ndarray, rows: Rows) -> Rows:
    """(1, u)(1, u)' of every record, by whose norm `release_sum` shortens records."""
    inputs = (np.asarray(rows["X"], float) - centre) @ matrix
    return {"products": outer_products(np.column_stack([np.ones(len(inputs)), inputs]))}
