"""What a site is: one record's likelihood, made Gaussian at a cavity.

A site is a frozen dataclass with the members below; nothing else here knows a model. With the
cavity N(m, V) and the record's tilted distribution projected on a Gaussian, the site's natural
parameters are the difference of the two (DP-SEP Alg. 2, lines 3 and 4). They are handed over
centred at the cavity,

    Lambda_s,    g = eta_s - Lambda_s m,

because the engine can release either form: the noise of Lambda_s never multiplies m in this one.
"""

import math
from typing import ClassVar, NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array
from scipy import special, stats

from noisewise.data import Rows
from noisewise.dpsep.family import Family

_LEAST_SHRINKAGE = 0.01


class Gaussian(NamedTuple):
    """A Gaussian by mean, packed precision and packed covariance."""

    mean: Array
    precision: Array
    covariance: Array


class Natural(NamedTuple):
    """A Gaussian by its natural parameters: eta = Lambda m, and Lambda packed."""

    eta: Array
    precision: Array


class SiteUpdates(NamedTuple):
    """What every record of a batch asks for, centred at the cavity."""

    gradient: Array
    """batch x dim: eta_s - Lambda_s m."""
    precision: Array
    """batch x packed: Lambda_s."""
    extra: Array
    """batch x extras: whatever else the model learns from a record; its mean becomes state."""


class Site(Protocol):
    """A model, as DP-SEP sees it; as it stands, one that learns nothing besides its Gaussian."""

    extras: ClassVar[int] = 0
    """How many numbers a record contributes besides its Gaussian."""

    @property
    def family(self) -> Family:
        """Shape of the posterior's precision."""

    def prior(self, mean: Array, variance: Array) -> Natural:
        """The prior; it may be refined by looking at the posterior (means and variances), which
        was released."""

    def first_extra(self) -> Array:
        """Where the extras' running mean starts: public."""
        return jnp.zeros(self.extras)

    def units(self, posterior: Gaussian, extra: Array, public_count: Array | float) -> Array:
        """Public scale of every released coordinate (gradient, precision, extra): divides before
        the clip, multiplies after it."""
        return jnp.ones(self.family.dim + self.family.packed + self.extras)

    def updates(
        self, cavity: Gaussian, extra: Array, public_count: Array | float, batch: Rows
    ) -> SiteUpdates:
        """The batch's sites. ``public_count`` is the number of records as everybody may know it."""


class NoiseSite(Site, Protocol):
    """A site that learns the target's noise, from an extra that is half a squared residual."""

    extras: ClassVar[int] = 1

    @property
    def kept(self) -> float:
        """Share of the mean squared residual that is left where each is clipped."""

    def noise_gamma(self, extra: Array, public_count: Array | float) -> tuple[Array | float, Array]:
        """Shape and rate of the noise precision's Gamma posterior."""


def line_site(slope: Array, curvature: Array, variance: Array) -> tuple[Array, Array]:
    """From derivatives of log Z by a mean (slope g, minus second derivative h) to a site.

    Along one direction with cavity variance v: Lambda_s = h/(1 - v h), and the centred natural
    parameter is g/(1 - v h). A record that would need 1 - v h < 0.01 counts as nothing.
    """
    shrinkage = 1 - variance * curvature
    usable = shrinkage >= _LEAST_SHRINKAGE
    divisor = jnp.where(usable, shrinkage, 1.0)
    return jnp.where(usable, slope / divisor, 0.0), jnp.where(usable, curvature / divisor, 0.0)


def kept_share(bound: float) -> float:
    """E min(z^2/2, bound) over E z^2/2 for a standard normal z: what a clip leaves of the mean
    squared residual, where residuals are Gaussian and ``bound`` is in noise variances."""
    edge = math.sqrt(2 * bound)
    inside = special.erf(math.sqrt(bound)) - 2 * edge * stats.norm.pdf(edge)
    return float(inside + 2 * bound * special.erfc(math.sqrt(bound)))
