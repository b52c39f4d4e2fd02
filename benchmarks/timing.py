"""Ratios of two competitors that take turns, so that a noisy machine disturbs both alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Measure = Callable[[], float]
"""Runs a competitor once and says what it cost: seconds a step, or bytes."""


class Ratio(NamedTuple):
    """Cost of the first competitor over that of the second: median, lowest, highest round."""

    median: float
    low: float
    high: float
    first: float
    """Median cost of the first competitor; `second` likewise."""
    second: float
    rounds: int


def compare(first: Measure, second: Measure, rounds: int) -> Ratio:
    """First, second, first, second, ...: one ratio a round. Warm both up before."""
    costs = np.array([(first(), second()) for _ in range(rounds)])
    ratios = costs[:, 0] / costs[:, 1]
    middle = np.median(costs, axis=0)
    return Ratio(
        float(np.median(ratios)),
        float(ratios.min()),
        float(ratios.max()),
        float(middle[0]),
        float(middle[1]),
        rounds,
    )


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """Wall time of one call; of the mean of ``times`` calls."""
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times
