"""The model of the released gradients (na-dpvi.txt eq. 20), coordinate by coordinate.

    g_t ~ N(kappa a (phi_t - phi*), w),    w = (sigma C / beta)^2 + s^2

with the optimum phi*, the curvature a > 0 and the subsampling standard deviation s unknown. It
depends on the trace only through `TraceStatistics`. (Equation A60 prints the noise divided by beta
instead of beta^2; dividing noise by beta divides its variance by beta^2, which is used here.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from noisewise.dpvi import TraceStatistics

__all__ = [
    "Priors",
    "TraceModel",
    "joined",
    "log_evidence",
    "optimum_given_curvature",
    "paper_priors",
    "planned_priors",
    "split",
]


class Priors(NamedTuple):
    """Priors of the trace model: everything per coordinate."""

    optimum_mean: np.ndarray
    optimum_sd: np.ndarray
    curvature_map: str
    """How the free parameter v becomes the curvature: ``softplus`` (the paper) or ``exp``."""
    curvature_mean: np.ndarray
    """Of v."""
    curvature_sd: np.ndarray
    subsampling_sd: np.ndarray
    """s ~ N(0, this^2); only its square matters."""

    def curvature(self, free: np.ndarray) -> np.ndarray:
        """The curvature a of the free parameter v."""
        return np.exp(free) if self.curvature_map == "exp" else np.logaddexp(free, 0.0)


class TraceModel(NamedTuple):
    """Statistics of the kept trace, what is known of its noise, and priors."""

    statistics: TraceStatistics
    sampling_rate: float
    noise_variance: np.ndarray
    """(sigma C / beta)^2 per coordinate: the known part of w."""
    priors: Priors


def split(model: TraceModel) -> tuple[TraceModel, str]:
    """The model's numbers, as a compiled function takes them, and the one thing that is none."""
    priors = model.priors
    return model._replace(priors=priors._replace(curvature_map=None)), priors.curvature_map  # type: ignore[arg-type]


def joined(numbers: TraceModel, curvature_map: str) -> TraceModel:
    """Both together again."""
    return numbers._replace(priors=numbers.priors._replace(curvature_map=curvature_map))


def paper_priors(
    statistics: TraceStatistics,
    sampling_rate: float,
    noise_variance: np.ndarray,
    printed: bool = False,
) -> Priors:
    """App. H.3: optimum N(tail mean, 1), v around the curvature's least-squares estimate.

    The prior's sd of v is the estimate's standard error, as in the authors' code; ``printed``
    squares it, as the paper prints it.
    """
    plain = statistics.diagonal()
    error = np.sqrt(noise_variance / plain.spread) / sampling_rate
    ones = np.ones_like(plain.parameters)
    return Priors(
        optimum_mean=plain.parameters,
        optimum_sd=ones,
        curvature_map="softplus",
        curvature_mean=np.abs(plain.cross) / (sampling_rate * plain.spread),
        curvature_sd=error**2 if printed else error,
        subsampling_sd=ones,
    )


def planned_priors(
    optimum_mean: np.ndarray,
    optimum_sd: np.ndarray,
    curvature: np.ndarray,
    log_curvature_sd: float,
    subsampling_sd: np.ndarray,
) -> Priors:
    """Priors from simulation: the optimum like the model's own prior, log-curvature around the
    prior-predictive one, subsampling up to what clipped gradients can amount to."""
    return Priors(
        optimum_mean=optimum_mean,
        optimum_sd=optimum_sd,
        curvature_map="exp",
        curvature_mean=np.log(curvature),
        curvature_sd=np.full_like(curvature, log_curvature_sd),
        subsampling_sd=subsampling_sd,
    )


def log_evidence(model: TraceModel, curvature: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """log p(gradients | a, w) with the optimum integrated out.

    ``curvature`` and ``variance`` carry two axes of grid points after the coordinates' axis.
    """
    stats, prior = model.statistics, model.priors
    n = stats.steps[..., None, None, None]
    slope = model.sampling_rate * curvature
    spread, cross, power, phi, g, centre, width = (
        part[..., None, None]
        for part in (
            stats.spread,
            stats.cross,
            stats.power,
            stats.parameters,
            stats.gradient,
            prior.optimum_mean,
            prior.optimum_sd,
        )
    )
    residual = power - 2 * slope * cross + slope**2 * spread
    mean_variance = variance / n + (slope * width) ** 2
    off = g - slope * (phi - centre)
    return (
        -0.5 * (n - 1) * np.log(variance)
        - 0.5 * residual / variance
        - 0.5 * np.log(mean_variance)
        - 0.5 * off**2 / mean_variance
    )


def optimum_given_curvature(model: TraceModel, curvature: Any, variance: Any) -> tuple[Any, Any]:
    """Mean and sd of the optimum given a and w (leading axis of draws): it is Gaussian.

    Arithmetic alone, so NumPy and JAX arrays both pass.
    """
    stats, prior = model.statistics, model.priors
    slope = model.sampling_rate * curvature
    weight = stats.steps * slope / variance
    precision = weight * slope + prior.optimum_sd**-2.0
    pull = weight * (slope * stats.parameters - stats.gradient)
    mean = (pull + prior.optimum_mean * prior.optimum_sd**-2.0) / precision
    return mean, precision**-0.5
