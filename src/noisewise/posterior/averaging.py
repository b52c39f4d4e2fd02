"""DPVIm's own posterior: average what has converged, add how far it wandered (dpvim.txt sec. 3.2).

Around the optimum the iterates are an Ornstein-Uhlenbeck process: their mean estimates the optimum,
their variance is what the noise did to the last of them. Each parameter is averaged over the
longest tail along which it does not drift, and the tail's variance is added to the guide's.

Everything comes from the trace's block sums, so tails begin where blocks begin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisewise.dpvi import Trace

__all__ = ["MOST_R_HAT", "Averaged", "Pull", "average", "group_pulls"]

MOST_R_HAT = 1.1
"""Gelman and Rubin's own limit. Stricter ones (1.01) ask for hundreds of independent iterates, and
a private run has few: its iterates forget only once in a time constant, and there are 10 to 100."""
_TAILS = np.arange(0.1, 1.01, 0.05)
"""Candidate tails as shares of the run."""
_LEAST_BLOCKS = 4
"""Two blocks for each half of the split test."""


class Averaged(NamedTuple):
    """Every parameter over its own tail."""

    mean: np.ndarray
    variance: np.ndarray
    """Of the iterates along the tail, within and between its blocks."""
    blocks: np.ndarray
    """Length of the tail."""
    slope: np.ndarray
    """Drift from the tail's start to its end, by least squares."""
    r_hat: np.ndarray
    """Split R-hat of the tail: about one where its two halves agree."""
    flat: np.ndarray
    """Whether some tail drifted less than the threshold; if not, the shortest was taken."""

    @property
    def converged(self) -> np.ndarray:
        """Flat, and the halves agree: a parameter that passes both is believed."""
        return self.flat & (self.r_hat < MOST_R_HAT)


class Pull(NamedTuple):
    """How strongly the released gradients of a group still pull, and the most that noise makes."""

    strength: float
    limit: float


def group_pulls(trace: Trace, burn_in: float, groups: dict[str, np.ndarray]) -> dict[str, Pull]:
    """For every group of parameters, the mean squared z-score of the mean gradient along the tail.

    A gradient's mean over n steps has the variance of one over n. Around an optimum it is below
    one such variance (mean reversion makes it smaller still), on the way there it is above: it is
    the distance from the optimum in units of the error that the noise leaves in the average. A sum
    over a whole group does not depend on the order of interchangeable members. Noise alone exceeds
    the limit once in a thousand fits.
    """
    from scipy.stats import chi2

    first = round(burn_in * trace.block_count)
    count = float(np.asarray(trace.blocks.count, float)[first:].sum())
    mean = np.asarray(trace.blocks.gradient, float)[first:].sum(0) / count
    square = np.asarray(trace.blocks.gradient_gradient, float)[first:].sum(0) / count
    z_squared = count * mean**2 / np.maximum(square - mean**2, 1e-30)
    return {
        name: Pull(float(z_squared[group].mean()), float(chi2.isf(1e-3, len(group)) / len(group)))
        for name, group in groups.items()
    }


class _Blocks(NamedTuple):
    """Steps, mean iterate and centred sum of squares of every block."""

    steps: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray


def average(trace: Trace, slope_threshold: float, burn_in: float = 0.0) -> Averaged:
    """Average each parameter of one fit over its longest converged tail.

    A tail has converged if the absolute slope of a line through it, over time scaled to [0, 1], is
    below ``slope_threshold`` (0.05 in the paper), in the units in which the parameter is iterated.
    Candidates are the last 10% to 100% of the run, less the share ``burn_in``.
    """
    blocks = _blocks(trace)
    total = len(blocks.steps)
    lengths = np.rint(np.minimum(_TAILS, 1 - burn_in) * total).astype(int)
    lengths = np.unique(np.clip(lengths, min(_LEAST_BLOCKS, total), total))
    slopes = np.stack([_slope(_tail(blocks, length)) for length in lengths])
    passed = np.abs(slopes) < slope_threshold
    # The last that passes is the longest; argmax of a column without any is the shortest.
    chosen = np.where(passed.any(0), len(lengths) - 1 - passed[::-1].argmax(0), 0)
    moments = [_moments(_tail(blocks, length)) for length in lengths]
    mean, variance, r_hat = (
        np.take_along_axis(np.stack(part), chosen[None], 0)[0]
        for part in zip(*moments, strict=True)
    )
    slope = np.take_along_axis(slopes, chosen[None], 0)[0]
    return Averaged(mean, variance, lengths[chosen], slope, r_hat, passed.any(0))


def _blocks(trace: Trace) -> _Blocks:
    sums = trace.blocks
    count = np.asarray(sums.count, float)[:, None]
    shift, squares = np.asarray(sums.shift, float), np.asarray(sums.squares, float)
    return _Blocks(count, trace.block_means(), np.maximum(squares - shift**2 / count, 0.0))


def _tail(blocks: _Blocks, length: int) -> _Blocks:
    return _Blocks(*(part[len(part) - length :] for part in blocks))


def _slope(tail: _Blocks) -> np.ndarray:
    """Least squares of block means on the blocks' middles, each weighted by its steps."""
    ends = np.cumsum(tail.steps)[:, None]
    time = (ends - tail.steps / 2) / ends[-1]
    off = time - (tail.steps * time).sum() / ends[-1]
    spread = (tail.steps * off**2).sum()
    return (tail.steps * off * tail.mean).sum(0) / spread


def _moments(tail: _Blocks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and variance of a tail, and its split R-hat."""
    mean, variance = _mean_and_variance(tail)
    half = len(tail.steps) // 2
    first = _mean_and_variance(_Blocks(*(part[:half] for part in tail)))
    second = _mean_and_variance(_Blocks(*(part[half:] for part in tail)))
    within = (first[1] + second[1]) / 2
    between = (first[0] - second[0]) ** 2 / 2
    # A parameter that never moved agrees with itself.
    ratio = np.divide(between, within, out=np.where(between > 0, np.inf, 0.0), where=within > 0)
    return mean, variance, np.sqrt(1 + ratio)


def _mean_and_variance(some: _Blocks) -> tuple[np.ndarray, np.ndarray]:
    steps = some.steps.sum()
    mean = (some.steps * some.mean).sum(0) / steps
    scatter = some.scatter.sum(0) + (some.steps * (some.mean - mean) ** 2).sum(0)
    return mean, scatter / steps
