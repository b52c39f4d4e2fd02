"""From where on the linear model of the gradients holds, judged from released sums alone.

The trace model needs no stationarity: an approach to the optimum is as informative as moving about
it. What it needs is that gradients are linear in the iterates, which they are not while records are
clipped or far from the optimum. So the question is fit, not drift (mathematics.md eq. (27)).
"""

from typing import NamedTuple

import numpy as np

from noisewise._shapes import Float
from noisewise.dpvi import WIDE, Trace, TraceStatistics

MOST_BURN_IN = 0.6
_EXCESS = 1.3
_SIGMAS = 5.0
_REACH = 4.0
_CLIMBING = 5.0
"""Standard errors; by chance in one coordinate of a million."""


class BurnIn(NamedTuple):
    """The number of blocks dropped, and whether the linear model fits what is kept."""

    blocks: int
    settled: bool


def find_burn_in(trace: Trace, least: float, most: float = MOST_BURN_IN) -> BurnIn:
    """The shortest burn-in, from ``least`` to ``most`` of the run, after which the model fits."""
    blocks = trace.block_count
    if len(trace.last) > WIDE:
        trace = trace.diagonal()  # matrices of so many coordinates are not looked at below
    first, last = round(least * blocks), round(most * blocks)
    for burn_in in range(first, last + 1, max(1, blocks // 20)):
        if _fits(trace, burn_in):
            return BurnIn(burn_in, True)
    return BurnIn(first, False)


def _fits(trace: Trace, burn_in: int) -> bool:
    """Whether block means scatter about the fitted line as the steps' own noise says they should.

    Their squared scatter over its expectation is one for a linear gradient. It may exceed one by
    five of its standard errors and a tolerance of 0.3, which no interval would notice.
    """
    statistics = trace.statistics(burn_in)
    kept = trace.block_count - burn_in
    dim = len(statistics.parameters)
    if statistics.full and dim > kept // 2:
        statistics = statistics.diagonal()
    slopes = statistics.slopes()
    explained = statistics.cross * slopes
    if statistics.full:
        explained = explained.sum(-1)
    variance = (statistics.power - explained) / statistics.steps
    count = np.asarray(trace.blocks.count, float)[burn_in:, None]
    means = trace.block_means()[burn_in:] - statistics.parameters
    gradients = np.asarray(trace.blocks.gradient, float)[burn_in:] / count - statistics.gradient
    expected = means @ slopes.T if statistics.full else means * slopes
    ratio = float((count * (gradients - expected) ** 2 / variance).mean())
    return ratio < _EXCESS + _SIGMAS * np.sqrt(2 / (kept * dim))


def gradient_z_squared(trace: Trace, first: int) -> Float[np.ndarray, " parameters"]:
    """Squared z-scores of the mean gradient from this block on, by parameter.

    A gradient's mean over n steps has the variance of one over n. Around an optimum it is below
    one such variance (mean reversion makes it smaller still), on the way there it is above: it is
    the distance travelled in units of what noise alone would make the iterates travel.
    """
    count = float(np.asarray(trace.blocks.count, float)[first:].sum())
    mean = np.asarray(trace.blocks.gradient, float)[first:].sum(0) / count
    square = np.asarray(trace.blocks.gradient_gradient, float)[first:].sum(0) / count
    return np.asarray(count * mean**2 / np.maximum(square - mean**2, 1e-30))


def still_climbs(trace: Trace) -> bool:
    """Whether the last half of the run still goes somewhere, further than noise would take it."""
    return bool((gradient_z_squared(trace, trace.block_count // 2) > _CLIMBING**2).any())


def within_reach(statistics: TraceStatistics, optimum: Float[np.ndarray, "draws dim"]) -> bool:
    """Whether the trace has been where it says the optimum is, give or take.

    An optimum more than a few of the iterates' own sds from their mean is an extrapolation.
    """
    marginal = statistics.diagonal()
    sd = np.sqrt(marginal.spread / marginal.steps)
    return bool((np.abs(np.median(optimum, axis=0) - marginal.parameters) < _REACH * sd).all())
