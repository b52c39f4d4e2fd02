"""The site of a one-hidden-layer Bayesian neural network, by probabilistic back-propagation.

PBP (Hernandez-Lobato and Adams 2015): every weight is an independent Gaussian; means and variances
are pushed through the ReLU layer in closed form, log Z = log N(y; m_f, v_f + noise variance), and
its gradients by every weight's mean and variance give the site. The noise precision has a Gamma
prior and learns from the records' expected squared residuals (an extra of the site); the weights'
prior precision has one too and is refined by looking at the posterior, for free.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.stats import norm

from noisewise._validate import integer_at_least, positive
from noisewise.data import Rows
from noisewise.dpsep.family import Diagonal
from noisewise.dpsep.site import Gaussian, Natural, NoiseSite, SiteUpdates, line_site
from noisewise.models import Network

_LEAST_ALPHA = -8.0
_UNIT_POWER = 0.75


class Prediction(NamedTuple):
    """Mean and variance of the network's output; noise not included."""

    mean: Array
    variance: Array


@dataclass(frozen=True)
class NetworkSite(NoiseSite):
    """Inputs ``X`` (rows x inputs), standardised target ``y``; biases in both layers."""

    inputs: int
    units_hidden: int = 50
    shape: float = 6.0
    rate: float = 6.0
    kept: float = 1.0
    """Share of the mean squared residual that is left where each is clipped (`kept_share`)."""

    def __post_init__(self) -> None:
        integer_at_least("inputs", self.inputs, 1)
        integer_at_least("units_hidden", self.units_hidden, 1)
        positive("shape", self.shape, finite=True)
        positive("rate", self.rate, finite=True)

    @property
    def _first(self) -> int:
        return self.units_hidden * (self.inputs + 1)

    @property
    def family(self) -> Diagonal:
        """Independent weights: hidden x (inputs + 1), then hidden + 1."""
        return Diagonal(self._first + self.units_hidden + 1)

    def start(self, seed: int) -> np.ndarray:
        """Random public means, sd 2/sqrt(fan-in + 1): what served simulated regressions best."""
        rng = np.random.default_rng(seed)
        first = 2 * rng.standard_normal(self._first) / np.sqrt(self.inputs + 1)
        last = 2 * rng.standard_normal(self.units_hidden + 1) / np.sqrt(self.units_hidden + 1)
        return np.concatenate([first, last]).astype(np.float32)

    def prior(self, mean: Array, variance: Array) -> Natural:
        """N(0, 1/lambda) with the mean of lambda's Gamma given the posterior's second moments."""
        squares = jnp.sum(mean**2 + variance)
        precision = (self.shape + self.family.dim / 2) / (self.rate + squares / 2)
        return Natural(jnp.zeros(self.family.dim), self.family.identity(precision))

    def first_extra(self) -> Array:
        """Half a squared residual of one: the target is standardised."""
        return jnp.full(1, 0.5)

    def noise_gamma(self, extra: Array, public_count: Array | float) -> tuple[Array | float, Array]:
        """Shape and rate of the noise precision's Gamma posterior."""
        rate = self.rate + public_count * jnp.clip(extra[..., 0] / self.kept, 1e-4, None)
        return self.shape + public_count / 2, rate

    def noise_variance(self, extra: Array, public_count: Array | float) -> Array:
        """Mean of the noise variance under its inverse Gamma."""
        shape, rate = self.noise_gamma(extra, public_count)
        return rate / (shape - 1)

    def units(self, posterior: Gaussian, extra: Array, public_count: Array | float) -> Array:
        """Gradients grow as 1/noise sd, precisions as 1/noise variance, residuals as it.

        And a weight of precision Lambda has gradients as large as sqrt(Lambda), so in units of a
        power of it noise does the least harm for a given clip norm: the sum of noise^2/Lambda over
        weights, times the mean squared norm of a gradient, is least at the power 1/2. Simulated
        regressions, whose Lambda is noisy, liked 3/4 a little better.
        """
        variance = self.noise_variance(extra, public_count)
        relative = posterior.precision / jnp.mean(posterior.precision)
        gradient = relative**_UNIT_POWER * variance**-0.5
        precision = jnp.full(self.family.dim, 1 / variance)
        return jnp.concatenate([gradient, precision, jnp.full(1, variance)])

    def layers(self, weights: Array) -> tuple[Array, Array]:
        """The layers of a flat vector of weights: hidden x (inputs + 1), and hidden + 1."""
        first, last = weights[: self._first], weights[self._first :]
        return first.reshape(self.units_hidden, self.inputs + 1), last

    def forward(self, weights: Array, X: Array) -> Array:
        """The network's output at these weights, for every record.

        Args:
            weights: A flat vector, as `layers` takes it apart.
            X: Records x inputs.
        """
        return Network(self.units_hidden).output(*self.layers(weights), X)

    def output(self, mean: Array, variance: Array, x: Array) -> Prediction:
        """Moments of the output for one record (PBP eqs. 10 to 14)."""
        first, last = self.layers(mean)
        first_v, last_v = self.layers(variance)
        x = jnp.concatenate([x, jnp.ones(1)])
        width = np.sqrt(self.inputs + 1)
        hidden = _relu(first @ x / width, first_v @ x**2 / width**2)
        m = jnp.concatenate([hidden.mean, jnp.ones(1)])
        v = jnp.concatenate([hidden.variance, jnp.zeros(1)])
        wide = np.sqrt(self.units_hidden + 1)
        out = last @ m / wide
        spread = (last_v @ m**2 + last**2 @ v + last_v @ v) / wide**2
        return Prediction(out, spread)

    def predict(self, posterior: Gaussian, X: Array) -> Prediction:
        """Moments of the output for every record."""
        return jax.vmap(self.output, (None, None, 0))(posterior.mean, posterior.covariance, X)

    def updates(
        self, cavity: Gaussian, extra: Array, public_count: Array | float, batch: Rows
    ) -> SiteUpdates:
        """The batch's sites: h = g_m^2 - 2 g_v in place of a second derivative."""
        noise = self.noise_variance(extra, public_count)

        def log_z(mean: Array, variance: Array, x: Array, y: Array) -> tuple[Array, Prediction]:
            output = self.output(mean, variance, x)
            total = output.variance + noise
            return -0.5 * ((y - output.mean) ** 2 / total + jnp.log(total)), output

        gradients = jax.vmap(jax.grad(log_z, argnums=(0, 1), has_aux=True), (None, None, 0, 0))
        (by_mean, by_variance), output = gradients(
            cavity.mean, cavity.covariance, batch["X"], batch["y"]
        )
        curvature = by_mean**2 - 2 * by_variance
        gradient, precision = line_site(by_mean, curvature, cavity.covariance)
        residual = ((batch["y"] - output.mean) ** 2 + output.variance) / 2
        return SiteUpdates(gradient, precision, residual[:, None])


def _relu(mean: Array, variance: Array) -> Prediction:
    """Moments of max(0, a) for a ~ N(mean, variance); no difference of squares, which cancels."""
    sd = jnp.sqrt(variance)
    alpha = jnp.maximum(mean / sd, _LEAST_ALPHA)
    above = norm.cdf(alpha)
    ratio = jnp.exp(norm.logpdf(alpha) - norm.logcdf(alpha))
    height = alpha + ratio
    first = above * sd * height
    # Phi s^2 (1 - ratio height), within the positive part, and Phi (1 - Phi) s^2 height^2, between.
    inside = jnp.maximum(1 - ratio * height, 0.0)
    second = variance * above * (inside + (1 - above) * height**2)
    return Prediction(first, second)
