"""One of three and more ordered levels."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from noisewise._validate import NoisewiseError
from noisewise.data import Column
from noisewise.models.families.family import Family, Priors, Slopes
from noisewise.models.families.ratios import CUMULATIVE_ODDS, Ratio

_LOG_SD = 0.7


@dataclass(frozen=True)
class Ordinal(Family):
    """Ordered (proportional odds) logistic regression.

    The predictor is the log odds of lying above the first level; of lying above a later one they
    are lower by the ``gaps`` up to there. So the intercept is minus the first threshold of other
    software, and the gaps are the thresholds' differences.

    Coefficients are log odds ratios of being higher, Normal(0, 1) on the encoded scale. The
    intercept is around what declared shares imply (equal ones, if none are), and gaps are
    LogNormal(log m, 0.7) around what they imply.
    """

    levels: tuple[str, ...] = ()
    usual: tuple[float, ...] = ()
    """Prior medians of the gaps."""

    title: ClassVar[str] = "Ordered logistic regression"
    kinds: ClassVar[tuple[str, ...]] = ("category",)
    levels_from: ClassVar[int] = 3
    ratio: ClassVar[Ratio | None] = CUMULATIVE_ODDS
    joint: ClassVar[bool] = True

    def of(self, target: Column, event: Column | None = None) -> Self:
        """See `Family.of`."""
        levels = tuple(target.categories or ())
        found = tuple((-np.diff(_log_odds(target))).tolist())
        return replace(self, levels=levels, usual=found)

    def priors(self, target: Column, event: Column | None = None) -> Priors:
        """See `Family.priors`."""
        return Priors(centre=float(_log_odds(target)[0]))

    def coordinates(self, features: list[str]) -> dict[str, list[str]]:
        """See `Family.coordinates`."""
        inner = self.levels[1:-1]
        return {"coefficients": features, "gaps": [f"gap over {level}" for level in inner]}

    def nuisance(self, scale: float) -> Mapping[str, dist.Distribution]:
        """See `Family.nuisance`."""
        if not self.usual:
            raise NoisewiseError(
                "ordinal knows no levels yet: fit it to a category column of three and more"
            )
        median = jnp.asarray(self.usual) * scale
        return {"gaps": dist.LogNormal(jnp.log(median), _LOG_SD).to_event(1)}

    def likelihood(self, predictor: Any, *nuisance: Any) -> dist.Distribution:
        """See `Family.likelihood`."""
        (gaps,) = nuisance
        above = predictor[..., None] - _starts(gaps)  # log odds of lying above each threshold
        between = jnp.log(-jnp.expm1(-gaps))
        # P(between) = sigmoid(lower) sigmoid(-upper) (1 - exp(-gap)): no difference of near ones.
        inner = jax.nn.log_sigmoid(above[..., :-1]) + jax.nn.log_sigmoid(-above[..., 1:]) + between
        ends = jax.nn.log_sigmoid(-above[..., :1]), jax.nn.log_sigmoid(above[..., -1:])
        return dist.Categorical(logits=jnp.concatenate([ends[0], inner, ends[1]], axis=-1))

    def slopes(self, predictor: Array, y: Array, nuisance: Array) -> Slopes:
        """See `Family.slopes`."""
        gaps = jnp.exp(nuisance)
        starts = jnp.concatenate([jnp.zeros_like(gaps[:1]), jnp.cumsum(gaps, axis=0)])
        last = len(starts)
        by_predictor, by_gaps = jnp.zeros_like(predictor), [jnp.zeros_like(predictor)] * len(gaps)
        for place in range(last):
            below = jax.nn.sigmoid(starts[place] - predictor)
            above = jax.nn.sigmoid(predictor - starts[place])
            # A record whose level begins, or ends, at this threshold.
            begins, ends = y == place + 1, y == place
            by_predictor += jnp.where(begins, -below, 0.0) + jnp.where(ends, above, 0.0)
            slope = jnp.where(begins, below, 0.0) - jnp.where(ends, above, 0.0)
            for gap in range(place):
                by_gaps[gap] = by_gaps[gap] + slope * gaps[gap]
        for gap in range(len(gaps)):
            inside = gaps[gap] / jnp.expm1(gaps[gap])  # of a level that lies between two thresholds
            by_gaps[gap] = by_gaps[gap] - jnp.where(y == gap + 1, inside, 0.0)
        return Slopes(by_predictor, tuple(by_gaps))


def _log_odds(target: Column) -> np.ndarray:
    """Of lying above each level but the last, by declared shares or equal ones."""
    count = len(target.categories or ("", "", ""))
    shares = np.full(count, 1 / count)
    if target.shares is not None and min(target.shares) > 0:
        shares = np.asarray(target.shares, float)
    below = np.cumsum(shares)[:-1]
    return np.log1p(-below) - np.log(below)


def _starts(gaps: Any) -> Any:
    """Thresholds, the first of which is 0."""
    return jnp.concatenate([jnp.zeros_like(gaps[..., :1]), jnp.cumsum(gaps, axis=-1)], axis=-1)
