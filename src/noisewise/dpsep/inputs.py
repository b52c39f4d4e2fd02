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

from dataclasses import dataclass

import numpy as np

from noisewise._validate import NoisewiseError, fraction, integer_at_least
from noisewise.mechanism import Budget, Release, release_sum

__all__ = ["Whitening", "buy_whitening", "scale_by_bounds"]

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
    """Declared bounds to mean 0 and sd 1, were the column uniform between them; clipped to them."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    if not np.all(high > low):
        raise NoisewiseError("every upper bound must lie above its lower bound")
    inside = np.clip(np.asarray(values, float), low, high)
    return (inside - (low + high) / 2) / ((high - low) / np.sqrt(12))


def buy_whitening(
    X: np.ndarray,
    rows: int,
    budget: Budget,
    *,
    rounds: int = 4,
    share: float = 0.1,
    what: str = "inputs",
    insecure_seed: int | None = None,
) -> Whitening:
    """Whiten inputs that were scaled by declared bounds; ``what`` is how the ledger calls them.

    Every round is one Gaussian release of (1, u)(1, u)' summed over the records u, at ``share`` of
    the budget's epsilon on its own; put ``releases`` beside the fit's when calibrating. ``rows`` is
    the public number of records.
    """
    integer_at_least("rounds", rounds, 1)
    fraction("share", share)
    width = X.shape[1]
    centre, matrix = np.zeros(width), np.eye(width)
    spread, releases = float(width), []
    part = Budget(epsilon=share * budget.epsilon, delta=budget.delta, adjacency=budget.adjacency)
    for number in range(rounds):
        moments, noise, release = _second_moments(
            (X - centre) @ matrix,
            rows,
            1 + spread,
            part,
            f"{what}, round {number + 1}",
            insecure_seed,
        )
        releases.append(release)
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
    return Whitening(centre, matrix * np.sqrt(width / length), tuple(releases))


def _second_moments(
    U: np.ndarray,
    rows: int,
    clip_norm: float,
    budget: Budget,
    name: str,
    insecure_seed: int | None,
) -> tuple[np.ndarray, float, Release]:
    """Noisy mean of (1, u)(1, u)', the sd of a packed entry's noise, and the ledger line.

    A record is shortened until its outer product has norm at most ``clip_norm``.
    """
    ones = np.column_stack([np.ones(len(U)), U])
    row, column = np.triu_indices(ones.shape[1])
    # Packed as everywhere in this house: the L2 norm of a vector is its matrix's Frobenius norm.
    factor = np.where(row == column, 1.0, np.sqrt(2.0))
    products = ones[:, row] * ones[:, column] * factor
    what = f"second moments of the {name}"
    found = release_sum(products, clip_norm, budget, what=what, insecure_seed=insecure_seed)
    moments = np.zeros((ones.shape[1],) * 2)
    moments[row, column] = moments[column, row] = found.total / factor / rows
    return moments, found.noise_sd / rows, found.release
