"""Counts that scatter more than a Poisson's."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jax.scipy.special import digamma

from noisewise.data import Column
from noisewise.models.families.family import (
    LOG_RATE_SD,
    Family,
    Priors,
    Slopes,
    positive_prior,
)
from noisewise.models.families.ratios import RATE, Ratio

_LEAST, _MOST = 0.1, 4.0
_LOG_SD = 0.7


@dataclass(frozen=True)
class NegativeBinomial(Family):
    """Variance ``mean + dispersion mean^2``: a Poisson's where ``dispersion`` is 0.

    Coefficients are log rate ratios, Normal(0, 0.5). The intercept is around log of the declared
    mean; without one, around the geometric middle of the bounds (plus one), with an sd of a quarter
    of their logarithmic range. ``dispersion`` is LogNormal(log m, 0.7), where m is what the
    declared mean and sd imply, within [0.1, 4], or 1.
    """

    title: ClassVar[str] = "Negative binomial regression"
    kinds: ClassVar[tuple[str, ...]] = ("count",)
    ratio: ClassVar[Ratio | None] = RATE

    def priors(self, target: Column, event: Column | None = None) -> Priors:
        """See `Family.priors`."""
        if target.mean and target.sd:
            found = (target.sd**2 - target.mean) / target.mean**2
            median = min(max(found, _LEAST), _MOST)
            return Priors(LOG_RATE_SD, noise_scale=median, centre=math.log(target.mean))
        reach = math.log1p((target.bounds or (0, 1))[1])
        return Priors(LOG_RATE_SD, centre=reach / 2, intercept_scale=max(reach / 4, LOG_RATE_SD))

    def nuisance(self, scale: float) -> Mapping[str, dist.Distribution]:
        """See `Family.nuisance`."""
        return {"dispersion": positive_prior(scale, _LOG_SD)}

    def likelihood(self, predictor: Any, *nuisance: Any) -> dist.Distribution:
        """See `Family.likelihood`."""
        (dispersion,) = nuisance
        return dist.NegativeBinomial2(jnp.exp(predictor), 1 / dispersion)

    def slopes(self, predictor: Array, y: Array, nuisance: Array) -> Slopes:
        """See `Family.slopes`."""
        shape = jnp.exp(-nuisance[0])
        odds = predictor + nuisance[0]  # log of dispersion times mean
        share = jax.nn.sigmoid(odds)
        slope = shape * share - y * (1 - share)
        gap = digamma(y + shape) - digamma(shape) - jax.nn.softplus(odds)
        return Slopes(slope, (shape * (gap + share) - y * (1 - share),))
