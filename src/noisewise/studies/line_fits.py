"""Linear regression, private and not, as yardsticks of networks."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from noisewise.baselines import private_line
from noisewise.dpsep import Prediction
from noisewise.mechanism import Budget
from noisewise.studies.regression_tables import Split

__all__ = ["LINES"]


def _line(split: Split, budget: Budget, seed: int) -> Prediction:
    """Least squares, no privacy."""
    design, test = (np.column_stack([np.ones(len(X)), X]) for X in (split.X, split.X_test))
    weights = np.linalg.lstsq(design, split.y, rcond=None)[0]
    noise = np.mean((split.y - design @ weights) ** 2)
    return _even(test @ weights, float(noise))


def _private_line(split: Split, budget: Budget, seed: int) -> Prediction:
    """A record (1, x, y) of standardised columns has a squared length of about inputs + 2."""
    line = private_line(
        split.X,
        split.y,
        budget,
        clip_norm=float(split.X.shape[1] + 2),
        others=split.releases,
        insecure_seed=seed,
    )
    return _even(line.predict(split.X_test), line.variance)


def _even(mean: np.ndarray, variance: float) -> Prediction:
    """Predictions with one variance for all, noise included."""
    return Prediction(jnp.asarray(mean), jnp.full(len(mean), variance))


LINES: dict[str, Callable[[Split, Budget, int], Prediction]] = {
    "line": _line,
    "private-line": _private_line,
}
"""What is left of the budget after the scaling goes into one release; the seed is its noise's."""
