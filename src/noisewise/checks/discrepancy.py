"""How far a bought table is from what the model expects, and how often chance goes as far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewise._shapes import Float
from noisewise.checks.reference import Expectation

_REPLICATES = 9999
_SMALLEST = 1e-10


@dataclass(frozen=True, eq=False)
class Discrepancy:
    """A chi-square of the table, and its tail probability under the model."""

    statistic: float
    degrees: int
    p_value: float
    covariance: Float[np.ndarray, "size size"]
    """Of the table's deviations under the model: outcomes, posterior and privacy noise."""


def discrepancy(
    deviations: Float[np.ndarray, " size"],
    expectation: Expectation,
    noise: Float[np.ndarray, "size size"],
) -> Discrepancy:
    """Compare the table's deviations with replicates of them under the model.

    A replicate has its own posterior draw, its own outcomes and its own noise. The p-value is the
    share of tables, this one among them, that are as far from expectation: uniform if the model is
    right, up to the normal approximation of sums over people.

    Args:
        deviations: Bought sums minus their expectation.
        expectation: What the model says of them.
        noise: Covariance of the release's noise in them.
    """
    rng = np.random.default_rng(11)  # what was bought decides the answer, not another seed
    chance = expectation.sampling + noise
    covariance = chance + expectation.by_parameters
    inverse, degrees = _pseudo_inverse(covariance)
    shifts = expectation.moves[rng.integers(len(expectation.moves), size=_REPLICATES)]
    replicates = shifts @ expectation.response.T
    replicates = replicates + rng.standard_normal((_REPLICATES, len(chance))) @ _factor(chance).T
    theirs = np.einsum("ri,ij,rj->r", replicates, inverse, replicates)
    ours = float(deviations @ inverse @ deviations)
    p_value = (1 + np.count_nonzero(theirs >= ours)) / (1 + _REPLICATES)
    return Discrepancy(ours, degrees, float(p_value), covariance)


def _pseudo_inverse(covariance: np.ndarray) -> tuple[np.ndarray, int]:
    """The inverse where there is variance: shares of a histogram sum to one."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > _SMALLEST * values.max()
    return (vectors[:, kept] / values[kept]) @ vectors[:, kept].T, int(kept.sum())


def _factor(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
