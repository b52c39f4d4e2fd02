"""What linear regression releases, and the moments of x that its sampler needs."""

from typing import Any, NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError, positive, shown


def regression_sensitivity(weights: int, x_bound: Any, y_bound: float) -> float:
    """Largest L2 norm of a record's statistics, for ``weights`` weights, the intercept's included.

    With v = (x, 1, y), the sum of squared products v_i v_j over i <= j is
    ((sum v_i^2)^2 + sum v_i^4) / 2: it grows in every |v_i|, so it is largest at the bounds. The
    product 1 * 1 is not released.

    Args:
        weights: Their number.
        x_bound: One bound, or one for each column but the last.
        y_bound: Of the outcome.
    """
    squares = np.square([*_bounds(weights, x_bound), positive("y_bound", y_bound, finite=True)])
    return float(np.sqrt((squares.sum() ** 2 + (squares**2).sum()) / 2 - 1))


def regression_statistics(x: Any, y: Any, x_bound: Any, y_bound: float) -> np.ndarray:
    """Products of the clipped records, rows x k: x x' (upper triangle), x y, y^2.

    Args:
        x: Rows x columns, the last the constant 1. Its product with itself is left out, for its sum
            is the number of rows.
        y: Outcomes.
        x_bound: As in `regression_sensitivity`.
        y_bound: Of the outcome.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    if x.ndim != 2 or y.shape != x.shape[:1]:
        raise NoisewiseError(f"x must be rows x columns and y rows, got {x.shape} and {y.shape}")
    if not np.all(x[:, -1] == 1):
        raise NoisewiseError("the last column of x must be the constant 1, for the intercept")
    limits = _bounds(x.shape[1], x_bound)
    x = np.clip(x, -limits, limits)
    y = np.clip(y, -y_bound, y_bound)[:, None]
    first, second = released_pairs(x.shape[1])
    return np.concatenate([x[:, first] * x[:, second], x * y, y * y], axis=1)


def _bounds(weights: int, x_bound: Any) -> np.ndarray:
    """A bound for every column of x; the constant's is 1."""
    given = np.atleast_1d(np.asarray(x_bound, float))
    if given.shape not in ((1,), (weights - 1,)) or not np.all((given > 0) & np.isfinite(given)):
        raise NoisewiseError(
            f"x_bound must be one positive number or {weights - 1} of them, got {shown(x_bound)}"
        )
    return np.append(np.broadcast_to(given, (weights - 1,)), 1.0)


def released_pairs(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The products of x with itself that are released: upper triangle without 1 * 1."""
    first, second = np.triu_indices(dim)
    return first[:-1], second[:-1]


class XMoments(NamedTuple):
    """Moments of x, the constant last: E[x_i x_j] (d x d), E[x_i x_j x_k x_l] (d x d x d x d)."""

    second: np.ndarray
    fourth: np.ndarray


def gaussian_moments(mean: np.ndarray, covariance: np.ndarray) -> XMoments:
    """Moments of (x, 1) with Gaussian features, by Isserlis' theorem.

    In terms of second moments M and means m, E[x_i x_j x_k x_l] is the sum of M M over the three
    pairings, less twice m_i m_j m_k m_l.

    Args:
        mean: Of the features.
        covariance: Of the features.
    """
    mean = np.append(np.asarray(mean, float), 1.0)
    second = np.outer(mean, mean)
    second[:-1, :-1] += covariance
    pairings = sum(
        np.einsum(f"{a},{b}->ijkl", second, second)
        for a, b in (("ij", "kl"), ("ik", "jl"), ("il", "jk"))
    )
    fourth = pairings - 2 * np.einsum("i,j,k,l->ijkl", mean, mean, mean, mean)
    return XMoments(second, fourth)


def noisy_moments(released: np.ndarray, rows: int, dim: int) -> XMoments:
    """Moments of x from the noisy sums; the covariance loses its negative eigenvalues."""
    first, second = released_pairs(dim)
    sums = np.zeros((dim, dim))
    sums[first, second] = sums[second, first] = released[: len(first)] / rows
    mean = sums[:-1, -1]
    values, vectors = np.linalg.eigh(sums[:-1, :-1] - np.outer(mean, mean))
    return gaussian_moments(mean, (vectors * np.maximum(values, 0.0)) @ vectors.T)
