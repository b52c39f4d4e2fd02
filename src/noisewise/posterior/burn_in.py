"""Where the trace has settled, judged from released block means alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisewise.dpvi import Trace

__all__ = ["BurnIn", "find_burn_in"]

_LIMIT = 4.0


class BurnIn(NamedTuple):
    """The number of blocks dropped, and whether what is kept looks settled."""

    blocks: int
    settled: bool


def find_burn_in(trace: Trace, least: float, most: float = 0.6) -> BurnIn:
    """The shortest burn-in, from ``least`` to ``most`` of the run, after which no drift shows.

    Drift: first and last third of the kept blocks differ by more than four of their standard
    errors in some coordinate, the errors corrected for the blocks' autocorrelation.
    """
    means = trace.block_means()
    first, last = round(least * len(means)), round(most * len(means))
    for burn_in in range(first, last + 1, max(1, len(means) // 20)):
        if _drift(means[burn_in:]) < _LIMIT:
            return BurnIn(burn_in, True)
    return BurnIn(first, False)


def _drift(means: np.ndarray) -> float:
    """Largest difference of outer thirds over its standard error, over coordinates."""
    third = max(1, len(means) // 3)
    early, late = means[:third], means[-third:]
    centred = means - means.mean(0)
    variance = (centred**2).mean(0)
    lag = (centred[1:] * centred[:-1]).mean(0) / np.maximum(variance, 1e-300)
    lag = np.clip(lag, 0.0, 0.97)
    # An AR(1) series of n blocks counts for n (1 - lag) / (1 + lag) independent ones.
    independent = np.maximum(third * (1 - lag) / (1 + lag), 1.0)
    error = np.sqrt(2 * variance / independent)
    return float(np.max(np.abs(early.mean(0) - late.mean(0)) / np.maximum(error, 1e-300)))
