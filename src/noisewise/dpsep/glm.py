"""Sites of generalised linear models with a full covariance: linear, probit, logistic.

A record sees its parameters along one direction x only, so its site is a number times x x' and a
number times x; both follow from log Z, the log of the likelihood averaged over the cavity's
N(mu, v) of the linear predictor. Linear: exact. Probit: closed form. Logistic: by quadrature.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.stats import norm
from scipy import special

from noisewise._validate import NoisewiseError, integer_at_least, positive
from noisewise.data import Rows
from noisewise.dpsep.family import Blocks
from noisewise.dpsep.site import (
    Gaussian,
    Natural,
    NoiseSite,
    Site,
    SiteUpdates,
    kept_share,
    line_site,
)

_SHAPE = 1.4263
"""Of the Gamma distribution whose logarithm has an sd of one."""
_GRID = np.linspace(-5.0, 5.0, 17)
_NODES = np.linspace(-7.0, 7.0, 65)


@dataclass(frozen=True)
class GlmSite(Site):
    """Coefficients ~ N(0, prior_scale^2 I); rows are ``X`` (with any column of ones) and ``y``."""

    width: int
    prior_scale: float = 1.0

    usual_residual = 2.0
    """What a record's slope of log Z hardly exceeds, in noise sds: its gradient is that times x."""
    usual_weight = 1.0
    """What a record's minus second derivative of log Z hardly exceeds."""

    def __post_init__(self) -> None:
        integer_at_least("width", self.width, 1)
        positive("prior_scale", self.prior_scale, finite=True)

    @property
    def family(self) -> Blocks:
        """One full matrix."""
        return Blocks(1, self.width)

    def clipped_at(self, bound: float) -> GlmSite:
        """The site where half squared residuals are clipped to ``bound`` noise variances."""
        return self

    def prior(self, mean: Array, variance: Array) -> Natural:
        """N(0, prior_scale^2 I)."""
        return Natural(jnp.zeros(self.width), self.family.identity(self.prior_scale**-2))

    def updates(
        self, cavity: Gaussian, extra: Array, public_count: Array | float, batch: Rows
    ) -> SiteUpdates:
        """The batch's sites: numbers times x, and times x x'."""
        X = batch["X"]
        if X.shape[-1] != self.width:
            raise NoisewiseError(f"the site has {self.width} coefficients, X {X.shape[-1]} columns")
        covariance = self.family.matrices(cavity.covariance)[0]
        variance = jnp.einsum("ni,ij,nj->n", X, covariance, X)
        predictor, y = X @ cavity.mean, batch["y"]
        noise_variance = self.noise_variance(extra, public_count)
        slope, curvature = self.derivatives(predictor, variance, y, noise_variance)
        gradient, precision = line_site(slope, curvature, variance)
        outer = self.family.pack((X[:, :, None] * X[:, None, :])[:, None])
        residual = (((y - predictor) ** 2 + variance) / 2)[:, None][:, : self.extras]
        return SiteUpdates(gradient[:, None] * X, precision[:, None] * outer, residual)

    def noise_variance(self, extra: Array, public_count: Array | float) -> Array:
        """Of the target around the linear predictor, where the model has one."""
        return jnp.ones(())

    def derivatives(
        self, mean: Array, variance: Array, y: Array, noise_variance: Array
    ) -> tuple[Array, Array]:
        """First and minus second derivative of log Z by the cavity's mean of the predictor."""
        raise NotImplementedError

    def outcomes(self, predictor: Array, variance: Array) -> Array:
        """Targets that stand for all likely ones, records x outcomes: both where there are two.

        Args:
            predictor: Of every record, about.
            variance: Of targets around it, however little is known of the truth.
        """
        return jnp.broadcast_to(jnp.asarray([0.0, 1.0], predictor.dtype), (len(predictor), 2))

    def log_likelihood(self, predictor: Array, y: Array, noise_variance: Array) -> Array:
        """Of targets at linear predictors, up to a constant."""
        raise NotImplementedError


@dataclass(frozen=True)
class LinearSite(GlmSite):
    """y ~ N(x'w, noise^2) with known noise: the site is the likelihood itself."""

    noise: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("noise", self.noise, finite=True)

    def noise_variance(self, extra: Array, public_count: Array | float) -> Array:
        """Known."""
        return jnp.full((), self.noise**2)

    def derivatives(
        self, mean: Array, variance: Array, y: Array, noise_variance: Array
    ) -> tuple[Array, Array]:
        """log Z = log N(y; mu, v + noise^2)."""
        total = variance + noise_variance
        return (y - mean) / total, 1 / total

    def outcomes(self, predictor: Array, variance: Array) -> Array:
        """A grid over five sds to either side: sums over it are integrals to four digits."""
        grid = jnp.asarray(_GRID, predictor.dtype)
        return predictor[:, None] + jnp.sqrt(variance)[:, None] * grid

    def log_likelihood(self, predictor: Array, y: Array, noise_variance: Array) -> Array:
        """Gaussian."""
        return -0.5 * (y - predictor) ** 2 / noise_variance


@dataclass(frozen=True)
class RegressionSite(LinearSite, NoiseSite):
    """A linear regression whose noise is learnt, from records' expected squared residuals.

    ``noise`` is the prior's middle. The noise's precision has a Gamma prior whose logarithm has an
    sd of one, so that of the noise's sd has one of a half: nearly LogNormal(log noise, 0.5), the
    prior of `noisewise.models.linear`.
    """

    kept: float = 1.0
    """Share of the mean squared residual that is left where each is clipped (`kept_share`)."""

    @property
    def log_variance_prior(self) -> tuple[float, float]:
        """Mean and sd of the logarithm of the noise variance."""
        return 2 * float(np.log(self.noise)), 1.0

    def clipped_at(self, bound: float) -> RegressionSite:
        """See `GlmSite.clipped_at`."""
        return replace(self, kept=kept_share(bound))

    def first_extra(self) -> Array:
        """That of the prior's middle."""
        return jnp.full(1, self.noise**2 / 2)

    def noise_gamma(self, extra: Array, public_count: Array | float) -> tuple[Array | float, Array]:
        """Shape and rate of the noise precision's Gamma posterior."""
        rate = float(np.exp(special.digamma(_SHAPE))) * self.noise**2
        residual = jnp.maximum(extra[..., 0] / self.kept, 1e-4 * self.noise**2)
        return _SHAPE + public_count / 2, rate + public_count * residual

    def noise_variance(self, extra: Array, public_count: Array | float) -> Array:
        """One over the precision's posterior mean."""
        shape, rate = self.noise_gamma(extra, public_count)
        return rate / shape

    def units(self, posterior: Gaussian, extra: Array, public_count: Array | float) -> Array:
        """Gradients grow as 1/noise sd, precisions as 1/noise variance, residuals as it."""
        variance = self.noise_variance(extra, public_count)
        gradient = jnp.full(self.width, variance**-0.5)
        precision = jnp.full(self.family.packed, 1 / variance)
        return jnp.concatenate([gradient, precision, jnp.full(1, variance)])


@dataclass(frozen=True)
class ProbitSite(GlmSite):
    """P(y = 1) = Phi(x'w), y in {0, 1}."""

    def derivatives(
        self, mean: Array, variance: Array, y: Array, noise_variance: Array
    ) -> tuple[Array, Array]:
        """log Z = log Phi(z), z = (2y - 1) mu / sqrt(1 + v); the ratio phi/Phi in logarithms."""
        sign = 2 * y - 1
        spread = jnp.sqrt(1 + variance)
        z = sign * mean / spread
        ratio = jnp.exp(norm.logpdf(z) - norm.logcdf(z))
        return sign * ratio / spread, ratio * (z + ratio) / (1 + variance)

    def log_likelihood(self, predictor: Array, y: Array, noise_variance: Array) -> Array:
        """log Phi."""
        return norm.logcdf((2 * y - 1) * predictor)


@dataclass(frozen=True)
class LogisticSite(GlmSite):
    """P(y = 1) = 1/(1 + exp(-x'w)), y in {0, 1}."""

    usual_residual = 1.0
    usual_weight = 0.25

    def derivatives(
        self, mean: Array, variance: Array, y: Array, noise_variance: Array
    ) -> tuple[Array, Array]:
        """Derivatives of Z are averages of the logistic function's: fine at any variance, where
        differences of tilted moments would cancel. The trapezoidal rule, which on an analytic
        function converges exponentially, needs fewer nodes here than Gauss-Hermite's for sds of the
        predictor above two."""
        nodes, weights = _NODES, np.exp(-(_NODES**2) / 2)
        weights = weights / weights.sum()
        sign = (2 * y - 1)[:, None]
        at = mean[:, None] + jnp.sqrt(variance)[:, None] * jnp.asarray(nodes, mean.dtype)
        # Relative to the largest: ratios are all that is wanted, and far out values underflow.
        log_value = jax.nn.log_sigmoid(sign * at)
        value = jnp.exp(log_value - jnp.max(log_value, axis=1, keepdims=True))
        other = jax.nn.sigmoid(-sign * at)
        first = sign * value * other
        second = value * other * (2 * other - 1)
        average = [part @ jnp.asarray(weights, mean.dtype) for part in (value, first, second)]
        slope = average[1] / average[0]
        return slope, slope**2 - average[2] / average[0]

    def log_likelihood(self, predictor: Array, y: Array, noise_variance: Array) -> Array:
        """Of the logistic function."""
        return jax.nn.log_sigmoid((2 * y - 1) * predictor)
