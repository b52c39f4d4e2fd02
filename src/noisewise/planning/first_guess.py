"""The analytic first guess: every hyper-parameter from prior-predictive gradients.

No row is read. The trade-off behind the step size is DESIGN's: with c = rho T time constants the
iterates wander sqrt(c/2) times as far as the error of one optimal release, and the curvature is
known to a relative error of sqrt(2/c).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noisewise.dpvi import Settings
from noisewise.mechanism import Budget
from noisewise.mechanism.accounting import gaussian_limit
from noisewise.models import RowView, Target
from noisewise.planning.simulation import PriorPredictive, simulate_gradients

__all__ = ["first_guess"]

_STEPS = 10_000
_LARGEST_BATCH = 4000
_QUANTILES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
_CURVATURE_LOSS = 0.02
_FULL_CURVATURE_DIM = 200
_BURN_IN = 0.2
_BOOST = 10.0


class _Clip(NamedTuple):
    norm: float
    error: float
    """Error, in posterior sds of a coordinate, that one release at this clip norm would have."""


def first_guess(
    target: Target, view: RowView, rows: int, budget: Budget, *, steps: int = _STEPS
) -> Settings:
    """Means-only settings for ``rows`` records at this budget, from simulation alone."""
    simulated = simulate_gradients(target, view)
    precision = np.linalg.inv(simulated.prior_covariance)
    curvature = _curvature(simulated, precision, rows, target.block_sizes())
    sampling_rate = min(0.1 if rows >= 1000 else 1.0, _LARGEST_BATCH / rows)
    clip = _clip(simulated, curvature, rows, budget)
    constants = _time_constants(clip.error, rows, target.dim)
    return Settings(
        clip_norm=clip.norm,
        sampling_rate=sampling_rate,
        steps=steps,
        burn_in=_BURN_IN,
        rate=constants / steps,
        boost=_BOOST,
        full_curvature=target.dim <= _FULL_CURVATURE_DIM,
        location=simulated.location,
        curvature=curvature,
        prior_precision=precision,
    )


def _curvature(
    simulated: PriorPredictive, precision: np.ndarray, rows: int, blocks: tuple[int, ...]
) -> np.ndarray:
    """Log-Euclidean mean over made-up parameters of N times their Fisher information.

    A plain mean would follow the few parameters with extreme information, say of a Poisson model.
    """
    records = simulated.gradients.shape[1]
    total = np.zeros_like(precision)
    for gradients in simulated.gradients:
        values, vectors = np.linalg.eigh(rows * gradients.T @ gradients / records + precision)
        total += (vectors * np.log(np.maximum(values, 1e-12))) @ vectors.T
    values, vectors = np.linalg.eigh(total / len(simulated.gradients))
    mean = (vectors * np.exp(values)) @ vectors.T
    start = 0
    kept = np.zeros_like(mean)
    for size in blocks:
        block = slice(start, start + size)
        kept[block, block] = mean[block, block]
        start += size
    return kept


def _clip(simulated: PriorPredictive, curvature: np.ndarray, rows: int, budget: Budget) -> _Clip:
    """The clip norm (whitened units) with the least sum of noise and clipping bias.

    Clipping also flattens the curvature that the posterior is read from, so norms that would take
    more than two percent of it are out.
    """
    mu = gaussian_limit(budget.epsilon, budget.delta)
    mu /= 2.0 if budget.adjacency == "replace-one" else 1.0
    whitened = simulated.gradients @ np.linalg.inv(np.linalg.cholesky(curvature)).T
    norms = np.linalg.norm(whitened, axis=-1)
    records = whitened.shape[1]
    best = None
    for quantile in _QUANTILES:
        norm = max(1.05 * float(np.quantile(norms, quantile)), 1e-12)
        cut = whitened * np.maximum(1 - norm / np.maximum(norms, 1e-30), 0.0)[..., None]
        lost = float((cut * whitened).sum() / (whitened**2).sum())
        if lost > _CURVATURE_LOSS and quantile < 1.0:
            continue
        # The simulated bias has a Monte Carlo error of its own, taken out in the mean.
        bias = (rows * cut.mean(1)) ** 2 - rows**2 * cut.var(1) / records
        noise = (norm / mu) ** 2
        error = noise + max(float(np.median(bias.mean(1))), 0.0)
        if best is None or error < best[0]:
            best = (error, _Clip(norm, math.sqrt(noise)))
    assert best is not None  # the last quantile is always a candidate
    return best[1]


def _time_constants(error: float, rows: int, dim: int) -> float:
    """c = rho T: as many as keep the bias from non-linearity at a tenth of the reported sd.

    The gradient's second-order term over a wander of w posterior sds shifts the optimum by about
    w^2 / (2 sqrt(N)) posterior sds, and w^2 = c error^2 / 2.
    """
    reported = math.sqrt(1 + error**2)
    most = 0.4 * math.sqrt(rows) * reported / max(error**2 * math.sqrt(dim), 1e-12)
    return float(np.clip(most, 10.0, 300.0))
