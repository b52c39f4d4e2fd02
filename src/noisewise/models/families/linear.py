"""Numbers with normal residuals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array

from noisewise.data import Column
from noisewise.models.families.family import Family, Priors, Slopes, positive_prior


@dataclass(frozen=True)
class Linear(Family):
    """Coefficients are in the target's units: Normal(0, s) with s the declared sd or a quarter of
    the range, the intercept around the declared mean or the middle of the bounds; the residual sd
    ``noise`` is LogNormal(log 0.7 s, 0.5)."""

    title: ClassVar[str] = "Linear regression"
    site: ClassVar[str | None] = "linear"

    def priors(self, target: Column, event: Column | None = None) -> Priors:
        """See `Family.priors`."""
        if target.bounds is None:
            return Priors()
        low, high = target.bounds
        scale = float(target.sd if target.sd is not None else (high - low) / 4)
        centre = float(target.mean if target.mean is not None else (low + high) / 2)
        return Priors(scale, noise_scale=0.7 * scale, centre=centre)

    def nuisance(self, scale: float) -> Mapping[str, dist.Distribution]:
        """See `Family.nuisance`."""
        return {"noise": positive_prior(scale, 0.5)}

    def likelihood(self, predictor: Any, *nuisance: Any) -> dist.Distribution:
        """See `Family.likelihood`."""
        return dist.Normal(predictor, *nuisance)

    def slopes(self, predictor: Array, y: Array, nuisance: Array) -> Slopes:
        """See `Family.slopes`."""
        precision = jnp.exp(-2 * nuisance[0])
        residual = predictor - y
        return Slopes(residual * precision, (1 - residual * residual * precision,))
