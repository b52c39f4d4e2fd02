"""Correlated data for a linear regression: DPVIm App. J."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError, integer_at_least

__all__ = ["RegressionTables", "correlation_matrix", "regression_tables"]

_LEAST_EIGENVALUE = 0.05
_STRENGTH = (8.0, 10.0)
"""alpha and beta of a correlation's Beta distribution."""
_SD_SPREAD = 0.2


class RegressionTables(NamedTuple):
    """Training and test rows of one made-up regression."""

    train: dict[str, np.ndarray]
    test: dict[str, np.ndarray]
    weights: np.ndarray


def correlation_matrix(dim: int, density: float, rng: np.random.Generator) -> np.ndarray:
    """Algorithm J.1, made positive definite.

    The algorithm's matrix has a share ``density`` of non-zero correlations of about 0.44 with
    random signs, and is far from positive definite: its least eigenvalue falls like minus the
    square root of the correlations in a row. All of them are therefore shrunk by one factor, the
    largest that leaves a least eigenvalue of 0.05. That keeps the zeros, and so the density,
    exactly, the signs and the ratios too; what it gives up is strength, which no matrix with such
    signs could have.
    """
    integer_at_least("dim", dim, 2)
    if not 0 <= density <= 1:
        raise NoisewiseError(f"density must be in [0, 1], got {density!r}")
    rows, columns = np.tril_indices(dim, -1)
    some = rng.choice(len(rows), round(density * len(rows)), replace=False)
    strengths = rng.beta(*_STRENGTH, len(some)) * rng.choice((-1.0, 1.0), len(some))
    off_diagonal = np.zeros((dim, dim))
    off_diagonal[rows[some], columns[some]] = strengths
    off_diagonal += off_diagonal.T
    least = np.linalg.eigvalsh(off_diagonal)[0]
    shrink = 1.0 if least >= _LEAST_EIGENVALUE - 1 else (1 - _LEAST_EIGENVALUE) / -least
    return np.eye(dim) + shrink * off_diagonal


def regression_tables(
    dim: int, density: float, rows: int, rng: np.random.Generator
) -> RegressionTables:
    """Covariates N(0, D C D) with sds D = exp(N(0, 0.2^2)), weights N(0, I), noise of sd 1."""
    sds = np.exp(_SD_SPREAD * rng.standard_normal(dim))
    root = sds[:, None] * np.linalg.cholesky(correlation_matrix(dim, density, rng))
    weights = rng.standard_normal(dim)

    def table() -> dict[str, np.ndarray]:
        X = rng.standard_normal((rows, dim)) @ root.T
        y = X @ weights + rng.standard_normal(rows)
        return {"X": X.astype(np.float32), "y": y.astype(np.float32)}

    return RegressionTables(table(), table(), weights)
