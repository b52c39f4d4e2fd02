"""Counts whose variance is their mean."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array

from noisewise.data import Column
from noisewise.models.families.family import LOG_RATE_SD, Family, Priors, Slopes
from noisewise.models.families.ratios import RATE, Ratio


@dataclass(frozen=True)
class Poisson(Family):
    """Coefficients are log rate ratios, Normal(0, 0.5); the intercept around log of the declared
    mean."""

    title: ClassVar[str] = "Poisson regression"
    kinds: ClassVar[tuple[str, ...]] = ("count",)
    ratio: ClassVar[Ratio | None] = RATE

    def priors(self, target: Column, event: Column | None = None) -> Priors:
        """See `Family.priors`."""
        return Priors(LOG_RATE_SD, centre=math.log(target.mean) if target.mean else 0.0)

    def likelihood(self, predictor: Any, *nuisance: Any) -> dist.Distribution:
        """See `Family.likelihood`."""
        return dist.Poisson(jnp.exp(predictor))

    def slopes(self, predictor: Array, y: Array, nuisance: Array) -> Slopes:
        """See `Family.slopes`."""
        return Slopes(jnp.exp(predictor) - y)
