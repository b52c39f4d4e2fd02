"""Survival with a hazard that rises or falls as a power of time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from noisewise.models.families.family import Slopes, positive_prior
from noisewise.models.families.ratios import HAZARD, TIME, Ratio
from noisewise.models.families.survival import CensoredTimes, Survival


class _WeibullTimes(CensoredTimes):
    """Cumulative hazard exp(predictor) (time / unit)^shape."""

    def __init__(self, predictor: Any, shape: Any, family: "Weibull") -> None:
        self.predictor, self.shape_, self.unit = predictor, shape, family.unit
        lead = jnp.broadcast_shapes(jnp.shape(predictor), jnp.shape(shape))
        super().__init__(lead, family.follow_up, family.censoring)

    def hazards(self, time: Any) -> tuple[Array, Array]:
        """See `CensoredTimes.hazards`."""
        log_time = jnp.log(time / self.unit)
        log_cumulative = self.predictor + self.shape_ * log_time
        log_hazard = log_cumulative - log_time + jnp.log(self.shape_ / self.unit)
        return log_hazard, jnp.exp(log_cumulative)

    def reached(self, cumulative: Any) -> Array:
        """See `CensoredTimes.reached`."""
        return self.unit * jnp.exp((jnp.log(cumulative) - self.predictor) / self.shape_)


@dataclass(frozen=True)
class Weibull(Survival):
    """Cumulative hazard exp(predictor) (time / unit)^shape; ``shape`` is LogNormal(0, 0.5), and 1
    for a constant hazard. Other priors as for `Survival`."""

    title: ClassVar[str] = "Weibull survival regression"
    positive: ClassVar[bool] = True

    def nuisance(self, scale: float) -> Mapping[str, dist.Distribution]:
        """See `Family.nuisance`."""
        return {"shape": positive_prior(scale, 0.5)}

    def likelihood(self, predictor: Any, *nuisance: Any) -> dist.Distribution:
        """See `Family.likelihood`."""
        (shape,) = nuisance
        return _WeibullTimes(predictor, shape, self)

    def slopes(self, predictor: Array, y: Array, nuisance: Array) -> Slopes:
        """See `Family.slopes`."""
        shape, event = jnp.exp(nuisance[0]), y[..., 1]
        log_time = shape * jnp.log(y[..., 0] / self.unit)
        excess = jnp.exp(predictor + log_time) - event
        return Slopes(excess, (excess * log_time - event,))

    def ratios(self, slopes: np.ndarray, own: Mapping[str, np.ndarray]) -> dict[Ratio, np.ndarray]:
        """Of hazards, and of times: a Weibull's is the one family in which both are constant."""
        return {HAZARD: np.exp(slopes), TIME: np.exp(-slopes / own["shape"][:, None])}

    def cumulative_hazard(self, time: Any, predictor: Any, own: Any) -> Any:
        """See `Survival.cumulative_hazard`."""
        return jnp.exp(predictor) * (time / self.unit) ** own
