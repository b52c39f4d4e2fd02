"""Yes or no, by log odds."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpyro.distributions as dist
from jax import Array

from noisewise.models.families.family import Family, Slopes
from noisewise.models.families.ratios import ODDS, Ratio


@dataclass(frozen=True)
class Logistic(Family):
    """Coefficients are log odds ratios, Normal(0, 1) on the encoded scale."""

    title: ClassVar[str] = "Logistic regression"
    kinds: ClassVar[tuple[str, ...]] = ("binary", "category")
    ratio: ClassVar[Ratio | None] = ODDS
    site: ClassVar[str | None] = "logistic"

    def likelihood(self, predictor: Any, *nuisance: Any) -> dist.Distribution:
        """See `Family.likelihood`."""
        return dist.Bernoulli(logits=predictor)

    def slopes(self, predictor: Array, y: Array, nuisance: Array) -> Slopes:
        """See `Family.slopes`."""
        return Slopes(jax.nn.sigmoid(predictor) - y)
