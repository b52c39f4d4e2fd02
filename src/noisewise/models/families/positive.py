"""What families of positive numbers share: a log scale, and priors from the declaration."""

import math
from dataclasses import dataclass
from typing import ClassVar

from noisewise.data import Column
from noisewise.models.families.family import LOG_RATE_SD, Family, Priors


@dataclass(frozen=True)
class Positive(Family):
    """Coefficients are log ratios, Normal(0, 0.5). The intercept is around what the declared mean
    implies; without one, around the geometric middle of the bounds, with an sd of a quarter of
    their logarithmic range."""

    positive: ClassVar[bool] = True

    def priors(self, target: Column, event: Column | None = None) -> Priors:
        """See `Family.priors`."""
        if target.mean and target.sd:
            return self.around(target.mean, target.sd / target.mean)
        low, high = target.bounds or (1.0, 1.0)
        if not low > 0:
            return Priors(LOG_RATE_SD)
        reach = math.log(high / low)
        middle, spread = math.sqrt(low * high), min(0.7 * reach / 4, 1.0)
        return self.around(middle, spread)._replace(intercept_scale=max(reach / 4, LOG_RATE_SD))

    def around(self, mean: float, variation: float) -> Priors:
        """Priors around a mean and a coefficient of variation."""
        raise NotImplementedError
