"""Positive numbers whose sd grows with their mean."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jax.scipy.special import digamma

from noisewise.models.families.family import LOG_RATE_SD, Priors, Slopes, positive_prior
from noisewise.models.families.positive import Positive
from noisewise.models.families.ratios import MEANS, Ratio


@dataclass(frozen=True)
class Gamma(Positive):
    """Mean exp(predictor), sd the mean over the root of ``shape``, which is LogNormal(log m, 0.7)
    with m what the declared mean and sd imply. Other priors as for `Positive`."""

    title: ClassVar[str] = "Gamma regression"
    ratio: ClassVar[Ratio | None] = MEANS

    def around(self, mean: float, variation: float) -> Priors:
        """See `Positive.around`."""
        return Priors(LOG_RATE_SD, noise_scale=variation**-2, centre=math.log(mean))

    def nuisance(self, scale: float) -> Mapping[str, dist.Distribution]:
        """See `Family.nuisance`."""
        return {"shape": positive_prior(scale, 0.7)}

    def likelihood(self, predictor: Any, *nuisance: Any) -> dist.Distribution:
        """See `Family.likelihood`."""
        (shape,) = nuisance
        return dist.Gamma(shape, shape * jnp.exp(-predictor))

    def slopes(self, predictor: Array, y: Array, nuisance: Array) -> Slopes:
        """See `Family.slopes`."""
        shape, ratio = jnp.exp(nuisance[0]), y * jnp.exp(-predictor)
        gap = digamma(shape) - nuisance[0] - jnp.log(y) + predictor + ratio - 1
        return Slopes(shape * (1 - ratio), (shape * gap,))
