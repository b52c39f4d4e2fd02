"""Positive numbers whose logarithm is normal."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array

from noisewise.models.families.family import LOG_RATE_SD, Priors, Slopes, positive_prior
from noisewise.models.families.positive import Positive
from noisewise.models.families.ratios import MEDIANS, Ratio


@dataclass(frozen=True)
class LogNormal(Positive):
    """Median exp(predictor); the sd of the logarithm, ``noise``, is LogNormal(log m, 0.5) with m
    what the declared mean and sd imply. Other priors as for `Positive`."""

    title: ClassVar[str] = "Log-normal regression"
    ratio: ClassVar[Ratio | None] = MEDIANS

    def around(self, mean: float, variation: float) -> Priors:
        """See `Positive.around`."""
        spread = math.log1p(variation**2)
        centre = math.log(mean) - spread / 2
        return Priors(LOG_RATE_SD, noise_scale=math.sqrt(spread), centre=centre)

    def nuisance(self, scale: float) -> Mapping[str, dist.Distribution]:
        """See `Family.nuisance`."""
        return {"noise": positive_prior(scale, 0.5)}

    def likelihood(self, predictor: Any, *nuisance: Any) -> dist.Distribution:
        """See `Family.likelihood`."""
        return dist.LogNormal(predictor, *nuisance)

    def slopes(self, predictor: Array, y: Array, nuisance: Array) -> Slopes:
        """See `Family.slopes`."""
        precision = jnp.exp(-2 * nuisance[0])
        residual = predictor - jnp.log(y)
        return Slopes(residual * precision, (1 - residual * residual * precision,))
