"""The model of the released gradients (NA-DPVI eq. 20), coordinate by coordinate.

    g_t ~ N(kappa a (phi_t - phi*), w),    w = (sigma C / beta)^2 + s^2

with the optimum phi*, the curvature a > 0 and the subsampling standard deviation s unknown
(mathematics.md eq. (5)). It depends on the trace only through `TraceStatistics`. (NA-DPVI eq. A60
prints the noise divided by beta instead of beta^2; dividing noise by beta divides its variance by
beta^2, which is used here.)
"""

from typing import Any, NamedTuple

import numpy as np

from noisewise._shapes import Float
from noisewise.dpvi import TraceStatistics
from noisewise.posterior.context import FitContext


class Priors(NamedTuple):
    """Priors of the trace model: everything per coordinate."""

    optimum_mean: Float[np.ndarray, " dim"]
    optimum_sd: Float[np.ndarray, " dim"]
    curvature_map: str
    """How the free parameter v becomes the curvature: ``softplus`` (the paper) or ``exp``."""
    curvature_mean: Float[np.ndarray, " dim"]
    """Of v."""
    curvature_sd: Float[np.ndarray, " dim"]
    subsampling_sd: Float[np.ndarray, " dim"]
    """s ~ N(0, this^2); only its square matters."""

    def curvature(self, free: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
        """The curvature a of the free parameter v."""
        return np.exp(free) if self.curvature_map == "exp" else np.logaddexp(free, 0.0)


class TraceModel(NamedTuple):
    """Statistics of the kept trace, what is known of its noise, and priors."""

    statistics: TraceStatistics
    sampling_rate: float
    noise_variance: Float[np.ndarray, " dim"]
    """(sigma C / beta)^2 per coordinate: the known part of w."""
    priors: Priors


def diagonal_model(statistics: TraceStatistics, context: FitContext) -> TraceModel:
    """The coordinate-wise model of the gradients with the priors that the settings ask for."""
    settings, marginal = context.settings, statistics.diagonal()
    kappa, noise = context.sampling_rate, context.noise_variance
    # Simulation has a curvature of the means to offer, none of released scales.
    released_scales = context.rule.observed > context.dim
    if settings.paper_priors or settings.curvature is None or released_scales:
        priors = paper_priors(marginal, kappa, noise)
    else:
        priors = _simulated_priors(context)
    return TraceModel(marginal, kappa, noise, priors)


def _simulated_priors(context: FitContext) -> Priors:
    dim, kappa = context.dim, context.sampling_rate
    # What clipped gradients of a Poisson sample can add at most.
    most = np.sqrt(kappa * (1 - kappa) * context.public_count) * context.clip_norm
    return planned_priors(
        optimum_mean=np.zeros(dim),
        optimum_sd=np.sqrt(np.diag(np.linalg.inv(context.prior_precision))),
        curvature=np.ones(dim),
        log_curvature_sd=context.settings.curvature_sd,
        subsampling_sd=np.full(dim, max(float(most), 1e-6 * float(context.clip_norm))),
    )


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
    noise_variance: Float[np.ndarray, " dim"],
    printed: bool = False,
) -> Priors:
    """NA-DPVI App. H.3: optimum N(tail mean, 1), v around the curvature's least-squares estimate.

    The prior's sd of v is the estimate's standard error, as in the authors' code; ``printed``
    squares it, as the paper prints it.
    """
    marginal = statistics.diagonal()
    error = np.sqrt(noise_variance / marginal.spread) / sampling_rate
    ones = np.ones_like(marginal.parameters)
    return Priors(
        optimum_mean=marginal.parameters,
        optimum_sd=ones,
        curvature_map="softplus",
        curvature_mean=np.abs(marginal.cross) / (sampling_rate * marginal.spread),
        curvature_sd=error**2 if printed else error,
        subsampling_sd=ones,
    )


def planned_priors(
    *,
    optimum_mean: Float[np.ndarray, " dim"],
    optimum_sd: Float[np.ndarray, " dim"],
    curvature: Float[np.ndarray, " dim"],
    log_curvature_sd: float,
    subsampling_sd: Float[np.ndarray, " dim"],
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


def log_evidence(
    model: TraceModel,
    curvature: Float[np.ndarray, "dim curvatures 1"],
    variance: Float[np.ndarray, "dim 1 variances"],
) -> Float[np.ndarray, "dim curvatures variances"]:
    """log p(gradients | a, w) with the optimum integrated out: mathematics.md eq. (8)."""
    stats, prior = model.statistics, model.priors
    n = stats.steps[..., None, None, None]
    slope = model.sampling_rate * curvature
    wide = TraceStatistics(*(np.asarray(part)[..., None, None] for part in stats))
    centre, width = prior.optimum_mean[..., None, None], prior.optimum_sd[..., None, None]
    residual = wide.power - 2 * slope * wide.cross + slope**2 * wide.spread
    mean_variance = variance / n + (slope * width) ** 2
    off = wide.gradient - slope * (wide.parameters - centre)
    return (
        -0.5 * (n - 1) * np.log(variance)
        - 0.5 * residual / variance
        - 0.5 * np.log(mean_variance)
        - 0.5 * off**2 / mean_variance
    )


def optimum_given_curvature(
    model: TraceModel, curvature: Float[Any, "*draws dim"], variance: Float[Any, "*draws dim"]
) -> tuple[Float[Any, "*draws dim"], Float[Any, "*draws dim"]]:
    """Mean and sd of the optimum given a and w: it is Gaussian, mathematics.md eq. (7).

    Arithmetic alone, so NumPy and JAX arrays both pass.
    """
    stats, prior = model.statistics, model.priors
    slope = model.sampling_rate * curvature
    weight = stats.steps * slope / variance
    precision = weight * slope + prior.optimum_sd**-2.0
    eta = weight * (slope * stats.parameters - stats.gradient)
    mean = (eta + prior.optimum_mean * prior.optimum_sd**-2.0) / precision
    return mean, precision**-0.5
