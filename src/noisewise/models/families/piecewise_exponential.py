"""Survival with a hazard that is constant within intervals of time."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from noisewise._validate import NoisewiseError, finite_array
from noisewise.data import Column
from noisewise.models.families.family import Slopes
from noisewise.models.families.survival import CensoredTimes, Survival

_QUARTILES = (math.log(4 / 3), math.log(2), math.log(4))


class _PiecewiseTimes(CensoredTimes):
    """Hazard exp(predictor + baseline of the interval) / unit."""

    def __init__(self, predictor: Any, baseline: Any, family: "PiecewiseExponential") -> None:
        zero = jnp.zeros_like(baseline[..., :1])
        steps = jnp.concatenate([zero, baseline], axis=-1)
        self.log_hazards = predictor[..., None] + steps - jnp.log(family.unit)
        self.starts, self.widths = family.intervals
        super().__init__(self.log_hazards.shape[:-1], family.follow_up, family.censoring)

    def hazards(self, time: Any) -> tuple[Array, Array]:
        """See `CensoredTimes.hazards`."""
        place, exposure = _within(time, self.starts, self.widths)
        log_hazard = jnp.sum(jnp.where(place, self.log_hazards, 0.0), axis=-1)
        return log_hazard, jnp.sum(jnp.exp(self.log_hazards) * exposure, axis=-1)

    def reached(self, cumulative: Any) -> Array:
        """See `CensoredTimes.reached`."""
        hazards = jnp.exp(self.log_hazards)
        before = jnp.cumsum(hazards[..., :-1] * self.widths[:-1], axis=-1)
        before = jnp.concatenate([jnp.zeros_like(hazards[..., :1]), before], axis=-1)
        spent = (cumulative[..., None] - before) / hazards
        return jnp.sum(jnp.clip(spent, 0.0, self.widths), axis=-1)


@dataclass(frozen=True)
class PiecewiseExponential(Survival):
    """Hazard exp(predictor + baseline) / unit, with a ``baseline`` for every interval of time but
    the first: log hazard ratios against that one, Normal(0, 1). Other priors as for `Survival`.

    Without ``cuts``, intervals end at the quartiles of exponential times with the declared mean,
    or at quarters of the time's upper bound.
    """

    cuts: tuple[float, ...] = ()

    title: ClassVar[str] = "Piecewise-exponential survival regression"

    def __post_init__(self) -> None:
        found = finite_array("cuts", self.cuts)
        if found.ndim != 1 or not (np.diff(found) > 0).all() or not (found > 0).all():
            raise NoisewiseError(f"cuts must be rising times above 0, got {self.cuts!r}")

    @property
    def suffix(self) -> str:
        """See `Family.suffix`."""
        return f"(cuts={', '.join(f'{cut:.12g}' for cut in self.cuts)})" if self.cuts else ""

    def of(self, target: Column, event: Column | None = None) -> Self:
        """See `Family.of`."""
        family = super().of(target, event)
        cuts = self.cuts
        if not cuts and target.mean:
            ends = (float(f"{share * family.unit:.3g}") for share in _QUARTILES)
            cuts = tuple(end for end in ends if end < family.follow_up)
        if not cuts:
            cuts = tuple(float(f"{share * family.follow_up:.3g}") for share in (0.25, 0.5, 0.75))
        if cuts[-1] >= family.follow_up:
            raise NoisewiseError(
                f"cuts must lie below the time's upper bound {family.follow_up:g}, got "
                f"{cuts[-1]:g}: leave it out, or declare a larger bound"
            )
        return replace(family, cuts=cuts)

    @property
    def intervals(self) -> tuple[Array, Array]:
        """Their starts, and their widths."""
        starts = jnp.asarray((0.0, *self.cuts), jnp.float32)
        return starts, jnp.diff(starts, append=jnp.inf)

    def nuisance(self, scale: float) -> Mapping[str, dist.Distribution]:
        """See `Family.nuisance`."""
        if not self.cuts:
            raise NoisewiseError(
                "piecewise-exponential knows no intervals yet: fit it to a table, or give it cuts="
            )
        return {"baseline": dist.Normal(0, scale).expand([len(self.cuts)]).to_event(1)}

    def coordinates(self, features: list[str]) -> dict[str, list[str]]:
        """See `Family.coordinates`."""
        return {"coefficients": features, "baseline": [f"after {cut:.4g}" for cut in self.cuts]}

    def likelihood(self, predictor: Any, *nuisance: Any) -> dist.Distribution:
        """See `Family.likelihood`."""
        (baseline,) = nuisance
        return _PiecewiseTimes(predictor, baseline, self)

    def slopes(self, predictor: Array, y: Array, nuisance: Array) -> Slopes:
        """See `Family.slopes`."""
        place, exposure = _within(y[..., 0], *self.intervals)
        event = y[..., 1]
        excess = [jnp.exp(predictor) * exposure[..., 0] / self.unit - event * place[..., 0]]
        for number, step in enumerate(nuisance, start=1):
            hazard = jnp.exp(predictor + step) / self.unit
            excess.append(hazard * exposure[..., number] - event * place[..., number])
        return Slopes(sum(excess[1:], excess[0]), tuple(excess[1:]))

    def cumulative_hazard(self, time: Any, predictor: Any, own: Any) -> Any:
        """See `Survival.cumulative_hazard`."""
        return _PiecewiseTimes(predictor, own, self).hazards(time)[1]


def _within(time: Any, starts: Array, widths: Array) -> tuple[Array, Array]:
    """Whether a time lies in each interval (ends belong to the earlier one), and the time spent
    there: intervals are the last axis."""
    since = time[..., None] - starts
    inside = (since > 0) & (since <= widths)
    first = jnp.arange(len(starts)) == 0
    inside = inside | (first & (since <= widths))
    return inside, jnp.clip(since, 0.0, widths)
