"""The noise-aware posterior without a Markov chain: quadrature over (v, s), then a Gaussian.

Given curvature and noise variance a coordinate's optimum is Gaussian and its evidence known
(mathematics.md eqs. (7) and (8)), so two dimensions per coordinate are all there is to integrate.
The cost does not depend on the number of steps.
"""

from typing import NamedTuple

import numpy as np

from noisewise._shapes import Float
from noisewise.posterior.status import NoiseAwarePosterior
from noisewise.posterior.trace_model import TraceModel, log_evidence, optimum_given_curvature

_CURVATURE_POINTS = 128
_SUBSAMPLING_POINTS = 24
_REFINEMENTS = 4
_REACH = 6.0


class _Grid(NamedTuple):
    """Points of v and s for every coordinate, and the weights of their pairs."""

    free: Float[np.ndarray, "dim curvatures"]
    extra: Float[np.ndarray, "dim subsamplings"]
    weights: Float[np.ndarray, "dim curvatures subsamplings"]


def infer(model: TraceModel, draws: int, rng: np.random.Generator) -> NoiseAwarePosterior:
    """Draws from p(phi*, a | trace), independent across coordinates."""
    free, extra, weights = _refined_grid(model)
    picked_free = np.empty((draws, free.shape[0]))
    picked_extra = np.empty_like(picked_free)
    for j in range(free.shape[0]):
        cumulative = np.cumsum(weights[j].ravel())
        cells = np.searchsorted(cumulative, rng.random(draws) * cumulative[-1])
        rows, columns = np.divmod(np.minimum(cells, cumulative.size - 1), extra.shape[1])
        # Uniform within its cell: the grid is fine against the posterior, its points are not it.
        jitter = rng.random((2, draws)) - 0.5
        picked_free[:, j] = free[j, rows] + jitter[0] * (free[j, 1] - free[j, 0])
        picked_extra[:, j] = extra[j, columns] + jitter[1] * (extra[j, 1] - extra[j, 0])
    curvature = model.priors.curvature(picked_free)
    mean, sd = optimum_given_curvature(model, curvature, model.noise_variance + picked_extra**2)
    optimum = mean + sd * rng.standard_normal(mean.shape)
    narrowing = picked_free.std(0) / model.priors.curvature_sd
    return NoiseAwarePosterior(optimum, curvature, bool(np.all(narrowing < 0.9)))


def _refined_grid(model: TraceModel) -> _Grid:
    """The grid over the posterior's bulk, found by refining one over the prior's."""
    prior = model.priors
    reach = _REACH * prior.curvature_sd
    of_free = np.stack([prior.curvature_mean - reach, prior.curvature_mean + reach])
    of_extra = np.stack([np.zeros_like(prior.subsampling_sd), _REACH * prior.subsampling_sd])
    grid = _grid(model, of_free, of_extra)
    for _ in range(_REFINEMENTS):
        of_free = _bulk(grid.free, grid.weights.sum(-1))
        of_extra = np.maximum(_bulk(grid.extra, grid.weights.sum(-2)), 0.0)
        grid = _grid(model, of_free, of_extra)
    return grid


def _grid(
    model: TraceModel, of_free: Float[np.ndarray, "2 dim"], of_extra: Float[np.ndarray, "2 dim"]
) -> _Grid:
    """The posterior at evenly spaced points between the ends of these ranges."""
    prior = model.priors
    free = np.linspace(of_free[0], of_free[1], _CURVATURE_POINTS, axis=-1)
    extra = np.linspace(of_extra[0], of_extra[1], _SUBSAMPLING_POINTS, axis=-1)
    curvature = prior.curvature(free)[..., :, None]
    variance = model.noise_variance[..., None, None] + extra[..., None, :] ** 2
    logs = log_evidence(model, curvature, variance)
    off = (free - prior.curvature_mean[..., None]) / prior.curvature_sd[..., None]
    logs = logs - 0.5 * (off**2)[..., :, None]
    logs = logs - 0.5 * ((extra / prior.subsampling_sd[..., None]) ** 2)[..., None, :]
    return _Grid(free, extra, np.exp(logs - logs.max((-2, -1), keepdims=True)))


def _bulk(
    points: Float[np.ndarray, "dim points"], weights: Float[np.ndarray, "dim points"]
) -> Float[np.ndarray, "2 dim"]:
    """Where the mass is: its mean plus and minus several sds, never less than a grid cell."""
    weights = weights / weights.sum(-1, keepdims=True)
    mean = (weights * points).sum(-1)
    sd = np.sqrt((weights * (points - mean[..., None]) ** 2).sum(-1))
    reach = np.maximum(_REACH * sd, 1.5 * (points[..., 1] - points[..., 0]))
    return np.stack([mean - reach, mean + reach])
