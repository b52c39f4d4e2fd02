"""DPVIm's own posterior: average what has converged, add its dispersion (DPVIm sec. 3.2).

Around the optimum the iterates are an Ornstein-Uhlenbeck process: their mean estimates the optimum,
their variance is what the noise did to the last of them. Each parameter is averaged over the
longest tail along which it does not drift, and the tail's variance is added to the guide's
(mathematics.md eq. (37)).

Everything comes from the trace's block sums, so tails begin where blocks begin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisewise._shapes import Bool, Float, Int
from noisewise.dpvi import Trace
from noisewise.posterior.burn_in import gradient_z_squared

MOST_R_HAT = 1.1
"""Gelman and Rubin's own limit. Stricter ones (1.01) ask for hundreds of independent iterates, and
a private run has few: its iterates forget only once in a time constant, and there are 10 to 100."""
_TAILS = np.arange(0.1, 1.01, 0.05)
"""Candidate tails as shares of the run."""
_LEAST_BLOCKS = 4
"""Two blocks for each half of the split test."""


class Averaged(NamedTuple):
    """Every parameter over its own tail."""

    mean: Float[np.ndarray, " parameters"]
    variance: Float[np.ndarray, " parameters"]
    """Of the iterates along the tail, within and between its blocks."""
    blocks: Int[np.ndarray, " parameters"]
    """Length of the tail."""
    slope: Float[np.ndarray, " parameters"]
    """Drift from the tail's start to its end, by least squares."""
    r_hat: Float[np.ndarray, " parameters"]
    """Split R-hat of the tail, eq. (38): about one where its two halves agree."""
    flat: Bool[np.ndarray, " parameters"]
    """Whether some tail drifted less than the threshold; if not, the shortest was taken."""

    @property
    def converged(self) -> Bool[np.ndarray, " parameters"]:
        """Flat, and the halves agree: a parameter that passes both counts as converged."""
        return self.flat & (self.r_hat < MOST_R_HAT)


class Stationarity(NamedTuple):
    """A test of whether a group's mean gradient is zero: the statistic, and the most that noise
    makes of it."""

    statistic: float
    limit: float

    @property
    def passed(self) -> bool:
        """Whether noise alone explains the mean gradient."""
        return self.statistic < self.limit


def group_stationarity(
    trace: Trace, burn_in: float, groups: dict[str, Int[np.ndarray, " members"]]
) -> dict[str, Stationarity]:
    """For every group of parameters, the mean squared z-score of the mean gradient along the tail:
    eq. (39).

    A sum over a whole group does not depend on the order of interchangeable members. Noise alone
    exceeds the limit once in a thousand fits.
    """
    from scipy.stats import chi2

    z_squared = gradient_z_squared(trace, round(burn_in * trace.block_count))
    found = {}
    for name, group in groups.items():
        limit = float(chi2.isf(1e-3, len(group)) / len(group))
        found[name] = Stationarity(float(z_squared[group].mean()), limit)
    return found


class _Blocks(NamedTuple):
    """Steps, mean iterate and centred sum of squares of every block."""

    steps: Float[np.ndarray, "blocks 1"]
    mean: Float[np.ndarray, "blocks parameters"]
    squares: Float[np.ndarray, "blocks parameters"]

    def part(self, start: int = 0, stop: int | None = None) -> _Blocks:
        """Some of the blocks."""
        return _Blocks(*(each[start:stop] for each in self))


class _Moments(NamedTuple):
    """Mean and variance of the iterates."""

    mean: Float[np.ndarray, " parameters"]
    variance: Float[np.ndarray, " parameters"]


def average(trace: Trace, slope_threshold: float, burn_in: float = 0.0) -> Averaged:
    """Average each parameter of one fit over its longest converged tail.

    A tail has converged if the absolute slope of a line through it, over time scaled to [0, 1], is
    below the threshold, in the units in which the parameter is iterated.
    Candidates are the last 10% to 100% of the run, less the share ``burn_in``.

    Args:
        trace: Of one fit.
        slope_threshold: Most that a converged tail drifts (0.05 in the paper).
        burn_in: Share of the run that no tail may reach into.
    """
    sums, total = trace.blocks, trace.block_count
    count, shift = np.asarray(sums.count, float)[:, None], np.asarray(sums.shift, float)
    within = np.maximum(np.asarray(sums.squares, float) - shift**2 / count, 0.0)
    blocks = _Blocks(count, trace.block_means(), within)
    lengths = np.rint(np.minimum(_TAILS, 1 - burn_in) * total).astype(int)
    lengths = np.unique(np.clip(lengths, min(_LEAST_BLOCKS, total), total))
    tails = [blocks.part(total - length) for length in lengths]
    slopes = np.stack([_slope(tail) for tail in tails])
    passed = np.abs(slopes) < slope_threshold
    # The last that passes is the longest; argmax of a column without any is the shortest.
    chosen = np.where(passed.any(0), len(lengths) - 1 - passed[::-1].argmax(0), 0)

    def of_chosen(each: list[np.ndarray]) -> np.ndarray:
        return np.take_along_axis(np.stack(each), chosen[None], 0)[0]

    moments = [_moments(tail) for tail in tails]
    return Averaged(
        mean=of_chosen([found.mean for found in moments]),
        variance=of_chosen([found.variance for found in moments]),
        blocks=lengths[chosen],
        slope=of_chosen(list(slopes)),
        r_hat=of_chosen([_split_r_hat(tail) for tail in tails]),
        flat=passed.any(0),
    )


def _slope(tail: _Blocks) -> Float[np.ndarray, " parameters"]:
    """Least squares of block means on the blocks' middles, each weighted by its steps."""
    ends = np.cumsum(tail.steps)[:, None]
    time = (ends - tail.steps / 2) / ends[-1]
    off = time - (tail.steps * time).sum() / ends[-1]
    spread = (tail.steps * off**2).sum()
    return (tail.steps * off * tail.mean).sum(0) / spread


def _moments(blocks: _Blocks) -> _Moments:
    steps = blocks.steps.sum()
    mean = (blocks.steps * blocks.mean).sum(0) / steps
    squares = blocks.squares.sum(0) + (blocks.steps * (blocks.mean - mean) ** 2).sum(0)
    return _Moments(mean, squares / steps)


def _split_r_hat(tail: _Blocks) -> Float[np.ndarray, " parameters"]:
    half = len(tail.steps) // 2
    first, second = _moments(tail.part(stop=half)), _moments(tail.part(half))
    within = (first.variance + second.variance) / 2
    between = (first.mean - second.mean) ** 2 / 2
    # A parameter that never moved agrees with itself.
    ratio = np.divide(between, within, out=np.where(between > 0, np.inf, 0.0), where=within > 0)
    return np.sqrt(1 + ratio)
