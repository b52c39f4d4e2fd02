"""Yes or no, by normal quantiles."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jax.scipy.stats import norm

from noisewise.models.families.family import Family, Slopes


@dataclass(frozen=True)
class Probit(Family):
    """Coefficients are in sds of a latent normal, Normal(0, 1) on the encoded scale."""

    title: ClassVar[str] = "Probit regression"
    kinds: ClassVar[tuple[str, ...]] = ("binary", "category")
    site: ClassVar[str | None] = "probit"

    def likelihood(self, predictor: Any, *nuisance: Any) -> dist.Distribution:
        """See `Family.likelihood`."""
        # The log odds from log Phi on both sides: no probability is rounded to 0 or 1.
        return dist.Bernoulli(logits=norm.logcdf(predictor) - norm.logcdf(-predictor))

    def slopes(self, predictor: Array, y: Array, nuisance: Array) -> Slopes:
        """See `Family.slopes`."""
        sign = 2 * y - 1
        ratio = jnp.exp(norm.logpdf(predictor) - norm.logcdf(sign * predictor))
        return Slopes(-sign * ratio)
