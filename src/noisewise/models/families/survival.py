"""Times to an event, right-censored: what the survival families share.

A record's outcome is a pair: a time, and 1 if the event happened then, 0 if it had not by then. The
likelihood conditions on the censoring, whatever it is like (as long as it tells nothing of the
event to come). Simulated records need censoring times all the same. They have two: the end of
follow-up, which is the time column's upper bound, and, where a share of events is declared that
this alone does not bring about, a random one with a constant hazard.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import constraints

from noisewise.data import Column
from noisewise.models.families.family import LOG_RATE_SD, Family, Priors
from noisewise.models.families.ratios import HAZARD, Ratio

_USUAL_SHARE = 0.5
_HALVINGS = 60


class CensoredTimes(dist.Distribution):
    """Pairs of a time and whether it is an event's, with a hazard of any kind."""

    support = constraints.real_vector

    def __init__(self, shape: tuple[int, ...], follow_up: float, censoring: float) -> None:
        self.follow_up, self.censoring = follow_up, censoring
        super().__init__(batch_shape=shape, event_shape=(2,))

    def hazards(self, time: Any) -> tuple[Array, Array]:
        """The log hazard at these times, and the cumulative hazard up to them."""
        raise NotImplementedError

    def reached(self, cumulative: Any) -> Array:
        """The time at which the cumulative hazard is so much."""
        raise NotImplementedError

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        """The event's time or that of the censoring, whichever comes first."""
        key_event, key_lost = jax.random.split(key)
        shape = (*sample_shape, *self.batch_shape)
        event = self.reached(jax.random.exponential(key_event, shape))
        end = jnp.full(shape, self.follow_up)
        if self.censoring > 0:
            lost = jax.random.exponential(key_lost, shape) / self.censoring
            end = jnp.minimum(end, lost)
        happened = event <= end
        return jnp.stack([jnp.minimum(event, end), happened.astype(event.dtype)], axis=-1)

    def log_prob(self, value: Any) -> Array:
        """The event's density, or the probability to be without it for longer."""
        log_hazard, cumulative = self.hazards(value[..., 0])
        return jnp.where(value[..., 1] > 0, log_hazard, 0.0) - cumulative


@dataclass(frozen=True)
class Survival(Family):
    """Base of the survival families: hazards in proportion.

    ``unit`` is a typical time: the declared mean, or the middle of the bounds. Coefficients are log
    hazard ratios, Normal(0, 0.5). The intercept, the log of the events expected of a record within
    that time, is around the log of the declared share of events, or of a half, with an sd of 1.
    """

    unit: float = 1.0
    follow_up: float = math.inf
    """Of simulated records: no time is longer."""
    censoring: float = 0.0
    """Hazard of simulated records to be lost before."""

    kinds: ClassVar[tuple[str, ...]] = ("real", "count")
    survival: ClassVar[bool] = True
    ratio: ClassVar[Ratio | None] = HAZARD
    joint: ClassVar[bool] = True

    def cumulative_hazard(self, time: Any, predictor: Any, own: Any) -> Any:
        """Up to these times; survival is the exponential of minus it.

        Args:
            time: Of any shape that goes with the others'.
            predictor: Linear predictors.
            own: The family's own parameter; where that is a vector, it is the last axis.
        """
        raise NotImplementedError

    def of(self, target: Column, event: Column | None = None) -> Self:
        """See `Family.of`."""
        low, high = target.bounds or (0.0, 1.0)
        unit = float(target.mean if target.mean else (low + high) / 2)
        share = None if event is None else event.share
        rate = 0.0 if not share else _censoring(share, share / unit, high)
        return replace(self, unit=unit, follow_up=float(high), censoring=rate)

    def priors(self, target: Column, event: Column | None = None) -> Priors:
        """See `Family.priors`."""
        share = (None if event is None else event.share) or _USUAL_SHARE
        return Priors(LOG_RATE_SD, centre=math.log(share), intercept_scale=1.0)


def _censoring(share: float, hazard: float, follow_up: float) -> float:
    """The hazard of being lost at which this share of records with a constant hazard of the event
    have it before, and before the end of follow-up; 0 where fewer have it without any loss."""

    def seen(lost: float) -> float:
        total = hazard + lost
        return -hazard / total * math.expm1(-total * follow_up)

    if seen(0.0) <= share:
        return 0.0
    low, high = 0.0, hazard / share
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if seen(middle) > share else (low, middle)
    return high
