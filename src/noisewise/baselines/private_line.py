"""Linear regression from one noisy matrix of second moments: the plain private yardstick.

The whole budget goes into the sum of (1, x, y)(1, x, y)'; a ridge of the size of the noise's
spectral norm keeps the solution sane where the noise hides the data (Wang 2018, AdaSSP, in short).
"""

from typing import NamedTuple

import numpy as np

from noisewise._validate import positive
from noisewise.dpsep.family import outer_products, unpacked
from noisewise.mechanism import Budget, Release, release_sum


class PrivateLine(NamedTuple):
    """Intercept first, then one coefficient per column."""

    coefficients: np.ndarray
    variance: float
    """Of the residuals, from the same noisy moments; at least what their noise hides."""
    releases: tuple[Release, ...]

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predictions, one per row."""
        return self.coefficients[0] + np.asarray(X, float) @ self.coefficients[1:]


def private_line(
    X: np.ndarray,
    y: np.ndarray,
    budget: Budget,
    *,
    clip_norm: float,
    others: tuple[Release, ...] = (),
    insecure_seed: int | None = None,
) -> PrivateLine:
    """Least squares on noisy second moments.

    Args:
        X: Records (rows x columns), on a public scale.
        y: Their targets.
        budget: Spent whole, but for ``others``.
        clip_norm: The norm that a record's outer product has at most.
        others: What was released before, under the same budget.
        insecure_seed: Makes the noise repeatable, and therefore not private.
    """
    positive("clip_norm", clip_norm, finite=True)
    record = np.column_stack([np.ones(len(X)), X, y])
    found = release_sum(
        outer_products(record),
        clip_norm,
        budget,
        what="second moments",
        others=others,
        insecure_seed=insecure_seed,
    )
    moments = unpacked(found.total, record.shape[1])
    width = record.shape[1] - 1
    ridge = found.noise_sd * np.sqrt(2 * width)
    left = moments[:-1, :-1]
    values, vectors = np.linalg.eigh(left)
    positive_part = (vectors * np.maximum(values, 0)) @ vectors.T
    coefficients = np.linalg.solve(positive_part + ridge * np.eye(width), moments[:-1, -1])
    rows = max(1.0, moments[0, 0])
    weights = np.append(-coefficients, 1.0)
    residual = max(weights @ moments @ weights, found.noise_sd) / rows
    return PrivateLine(coefficients, float(residual), (found.release,))
