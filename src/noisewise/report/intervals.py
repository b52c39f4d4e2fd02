"""Numbers for the table and the forest plot: one row per scalar parameter."""

import math
from dataclasses import dataclass, replace

import numpy as np

from noisewise.data import in_own_terms
from noisewise.result import Result


@dataclass(frozen=True)
class Interval:
    """One posterior of one scalar: mean, sd, central 95% and 50% intervals."""

    mean: float
    sd: float
    lower: float
    upper: float
    lower_half: float
    upper_half: float

    @property
    def finite(self) -> bool:
        """Whether it can be drawn."""
        return all(map(math.isfinite, (self.mean, self.sd, self.lower, self.upper)))


@dataclass(frozen=True)
class Row:
    """A scalar parameter with its noise-aware posterior and, for comparison, plain DPVI's."""

    latent: str
    label: str
    aware: Interval
    unaware: Interval | None = None

    @property
    def width_ratio(self) -> float:
        """Width of the noise-unaware 95% interval over the noise-aware one's; NaN without one."""
        if self.unaware is None or not self.aware.upper > self.aware.lower:
            return math.nan
        return (self.unaware.upper - self.unaware.lower) / (self.aware.upper - self.aware.lower)


def interval_rows(result: Result) -> list[Row]:
    """All scalar parameters, latent by latent."""
    rows = []
    for latent, draws in result.reported(result.draws).items():
        aware = _intervals(result, latent, draws)
        without = result.noise_unaware.get(latent)
        unaware = {} if without is None else _intervals(result, latent, without)
        rows += [Row(latent, label, found, unaware.get(label)) for label, found in aware.items()]
    return rows


def _intervals(result: Result, latent: str, draws: np.ndarray) -> dict[str, Interval]:
    # Latent by latent: two latents may well have entries of the same name.
    alone = replace(result, draws={latent: draws})
    wide, half = alone.summary(0.95), alone.summary(0.5)
    columns = [wide["mean"], wide["sd"], wide["lower"], wide["upper"], half["lower"], half["upper"]]
    return {
        str(label): Interval(*map(float, values))
        for label, *values in zip(wide.index, *columns, strict=True)
    }


def per_unit_rows(result: Result) -> list[Row]:
    """Regression coefficients per original unit of each feature; empty where that has no meaning.

    A feature enters as (x - centre) / scale, so its coefficient per unit is b / scale, and the
    intercept at x = 0 is b0 - sum of b centre / scale; with a formula's products likewise. Draw by
    draw, so that correlations are kept.
    """
    encoding, names = result.request.encoding, result.coordinates.get("coefficients")
    draws = result.draws.get("coefficients")
    if draws is None or draws.ndim != 2 or names != [column["name"] for column in encoding]:
        return []
    change = in_own_terms(encoding)
    if change is None or (change == np.eye(len(names))).all():
        return []

    def in_units(posterior: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if "coefficients" not in posterior:
            return {}
        return {"coefficients": np.asarray(posterior["coefficients"], float) @ change.T}

    both = replace(
        result, draws=in_units(result.draws), noise_unaware=in_units(result.noise_unaware)
    )
    return interval_rows(both)


def decimals(interval: Interval) -> int | None:
    """Digits after the point that show the sd to three digits; None asks for scientific ones."""
    if not interval.finite or not interval.sd > 0:
        return None
    digits = 2 - math.floor(math.log10(interval.sd))
    return max(digits, 0) if digits <= 8 and abs(interval.mean) < 1e9 else None
