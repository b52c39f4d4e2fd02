"""The site of a mixture of Gaussians with known covariance: posterior over means and assignments.

A record belongs to component j with probability r_j under the cavity. So, for the mean of j, the
tilted distribution is a two-part mixture: with weight r_j updated by the record, with 1 - r_j left
as it was. Its first two moments give the site in closed form in the eigenbasis of the cavity's
covariance, which all records share: no inverse per record.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from noisewise._validate import integer_at_least, positive
from noisewise.data import Rows
from noisewise.dpsep.family import Blocks
from noisewise.dpsep.site import Gaussian, Natural, Site, SiteUpdates


class _Eigenbasis(NamedTuple):
    """Eigenvectors and eigenvalues of every component's covariance, and x - m in that basis."""

    vectors: Array
    values: Array
    off: Array


@dataclass(frozen=True)
class MixtureSite(Site):
    """x ~ N(mu_j, sd^2 I) for some j, all alike likely; mu_j ~ N(0, prior_sd^2 I); rows: ``X``."""

    components: int
    width: int
    sd: float
    prior_sd: float = 1.0

    def __post_init__(self) -> None:
        integer_at_least("components", self.components, 1)
        integer_at_least("width", self.width, 1)
        positive("sd", self.sd, finite=True)
        positive("prior_sd", self.prior_sd, finite=True)

    @property
    def family(self) -> Blocks:
        """A full matrix per component."""
        return Blocks(self.components, self.width)

    def prior(self, mean: Array, variance: Array) -> Natural:
        """N(0, prior_sd^2 I) for every mean."""
        family = self.family
        return Natural(jnp.zeros(family.dim), family.identity(self.prior_sd**-2))

    def assignments(self, posterior: Gaussian, X: Array) -> Array:
        """Probability of each component for each record: rows x components."""
        _, values, off = self._eigenbasis(posterior, X)
        return self._responsibilities(values + self.sd**2, off)

    def _eigenbasis(self, cavity: Gaussian, X: Array) -> _Eigenbasis:
        values, vectors = jnp.linalg.eigh(self.family.matrices(cavity.covariance))
        means = cavity.mean.reshape(self.components, self.width)
        off = jnp.einsum("kij,nki->nkj", vectors, X[:, None, :] - means)
        return _Eigenbasis(vectors, values, off)

    def _responsibilities(self, total: Array, off: Array) -> Array:
        return jax.nn.softmax(-0.5 * jnp.sum(off**2 / total + jnp.log(total), axis=-1), axis=-1)

    def updates(
        self, cavity: Gaussian, extra: Array, public_count: Array | float, batch: Rows
    ) -> SiteUpdates:
        """The batch's sites."""
        vectors, v, off = self._eigenbasis(cavity, batch["X"])
        total = v + self.sd**2
        r = self._responsibilities(total, off)[..., None]
        a = (off / total) / (1 - r * v / total)
        undecided = r * (1 - r)
        divisor = 1 + undecided * jnp.sum(a * v * off / total, axis=-1, keepdims=True)
        gradient = jnp.einsum("kij,nkj->nki", vectors, r * a / divisor)
        within = r / (self.sd**2 + (1 - r) * v)
        around = jnp.einsum("kij,nkj,klj->nkil", vectors, within, vectors)
        along = jnp.einsum("kij,nkj->nki", vectors, a)
        between = (undecided / divisor)[..., None] * along[..., :, None] * along[..., None, :]
        count = len(batch["X"])
        return SiteUpdates(
            gradient.reshape(count, -1), self.family.pack(around - between), jnp.zeros((count, 0))
        )
