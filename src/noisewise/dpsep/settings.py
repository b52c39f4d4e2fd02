"""Every number that a DP-SEP fit needs besides the data and the budget; none comes from rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from noisewise._validate import (
    NoisewiseError,
    finite_array,
    integer_at_least,
    known_fields,
    positive,
    shown,
)
from noisewise.mechanism import Mechanism
from noisewise.mechanism.accounting import check_sampling_rate


class Bounds(NamedTuple):
    """Clip norms of a record's blocks, in the site's units; infinity clips nothing."""

    mean: float
    """Of the centred gradient g, or of eta_s where the natural form is released."""
    precision: float
    extra: float = 1.0


class Rates(NamedTuple):
    """One entry per step: public, so that what follows from them is post-processing."""

    mean: Any
    precision: Any
    extra: Any
    centred: Any
    keep: Any
    """Weight of this step's mean in the average that is reported; they sum to one."""
    observe: Any
    """Weight of this step in the `Window` that a regression's posterior is read from."""


@dataclass(frozen=True, kw_only=True)
class SepSettings:
    """How a fit goes: a step moves the share ``mean_rate`` of the way to the batch's sites.

    In the papers' terms one record at a time with gamma/N is mean_rate = gamma/N^2; SEP itself
    (Li et al. 2015) is gamma = N. Smaller is not more private: signal and noise shrink alike.
    """

    bounds: Bounds
    sampling_rate: float = 0.1
    steps: int = 400
    natural_steps: int = 0
    """First so many steps release eta_s instead of the centred g: finds modes from far away."""
    natural_bounds: Bounds | None = None
    weights: tuple[float, float, float] = (1.0, 0.5, 0.1)
    """How the noise is shared: a block's sum has noise sigma |weights| bound / weight."""
    mean_rate: float = 0.1
    precision_rate: float = 0.05
    """From a first full step the running mean of the precision slows down to this rate."""
    extra_rate: float | None = None
    """Of the extras' running mean from the first step on; None is as the precision's. The first
    release of a few records may be mostly noise, which a noise variance must not follow."""
    decay_from: float = 0.5
    """Share of the run after which both rates fall, as 1/t, ..."""
    last_rate: float = 0.1
    """... to this fraction of themselves."""
    averaged: float = 0.2
    """Share of the last steps whose means are averaged."""
    observed: float = 0.75
    """Share of the last steps whose releases a regression's posterior is read from. Means need not
    have settled there; only the first steps, from far away, would blur what is simulated."""
    floor: float = 2.0
    """Eigenvalues of the precision are read as at least this many sds of their known noise."""
    max_dispersion: float = 0.1
    """How far, in prior sds, noise alone may spread a coordinate: shortens steps where the data say
    little. Infinity never does."""

    def __post_init__(self) -> None:
        check_sampling_rate(self.sampling_rate)
        integer_at_least("steps", self.steps, 1)
        integer_at_least("natural_steps", self.natural_steps, 0)
        if self.natural_steps and self.natural_bounds is None:
            raise NoisewiseError("natural_steps need natural_bounds: clip norms of eta_s")
        finite_array("weights", self.weights, above_zero=True)
        if np.shape(self.weights) != (3,):
            raise NoisewiseError(
                f"weights must be three positive numbers, got {shown(self.weights)}"
            )
        shares = ("mean_rate", "precision_rate", "extra_rate", "last_rate", "averaged", "observed")
        for name in (*shares, "decay_from", "floor"):
            finite_array(name, getattr(self, name))
        for name in shares:
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1:
                raise NoisewiseError(f"{name} must be in (0, 1], got {shown(value)}")
        if not 0 <= self.decay_from <= 1:
            raise NoisewiseError(f"decay_from must be in [0, 1], got {shown(self.decay_from)}")
        if not self.floor >= 0:
            raise NoisewiseError(f"floor must be at least 0, got {shown(self.floor)}")
        positive("max_dispersion", self.max_dispersion)
        for bounds in (self.bounds, self.natural_bounds or self.bounds):
            for name, value in bounds._asdict().items():
                positive(f"bounds.{name}", value)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        tuples = ("bounds", "natural_bounds", "weights")
        return found | {name: None if found[name] is None else list(found[name]) for name in tuples}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> SepSettings:
        """Back from `to_dict`."""
        given = dict(known_fields(cls, plain))
        for name in ("bounds", "natural_bounds", "weights"):
            if given.get(name) is not None:
                given[name] = tuple(given[name]) if name == "weights" else Bounds(*given[name])
        return cls(**given)

    def clip_norm(self, extras: int) -> float:
        """The joint clip norm sqrt(sum C_k^2) in scaled units: block k is clipped to its weight."""
        used = self.weights if extras else self.weights[:2]
        return math.hypot(*used)

    def mechanism(self, extras: int) -> Mechanism:
        """The mechanism that accounts such a fit of a site with so many extras; calibrate it."""
        return Mechanism(
            clip_norm=self.clip_norm(extras), sampling_rate=self.sampling_rate, steps=self.steps
        )

    def rates(self) -> Rates:
        """The schedule."""
        steps = np.arange(self.steps)
        # One until ``decay_from``, then falling as 1/t to ``last_rate``.
        late = steps / max(self.steps - 1, 1) - self.decay_from
        late = np.clip(late / max(1 - self.decay_from, 1e-9), 0, 1)
        decay = 1 / (1 + late * (1 / self.last_rate - 1))
        mean = self.mean_rate * decay
        precision = np.maximum(self.precision_rate * decay, 1 / (steps + 1.0))
        keep, observe = (self._last(share) for share in (self.averaged, self.observed))
        extra = precision if self.extra_rate is None else self.extra_rate * decay
        columns = (mean, precision, extra, steps >= self.natural_steps, keep, observe)
        return Rates(*(np.asarray(column, np.float32) for column in columns))

    def _last(self, share: float) -> np.ndarray:
        """Equal weights of the last steps, which sum to one."""
        tail = max(1, round(share * self.steps))
        return np.where(np.arange(self.steps) >= self.steps - tail, 1 / tail, 0.0)
