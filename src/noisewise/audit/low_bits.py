"""Whether a noisy sum's low bits give the sum away.

A float Gaussian added to a float sum is not a Gaussian on the real line: which numbers can come out
depends on the sum, and a look at the last bits excludes the neighbouring table (Mironov 2012). On
an integer grid with noise of thousands of steps, every number can come out of every sum, and low
bits are all alike.

Two attacks. A release that is no whole number of grid steps has bits that no rounded noise put
there. And the low eight bits, with four below the grid, are learned: from half of the releases,
which of their 4096 values occur more often where a canary speaks; on the other half it is counted
how often that guess is right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisewise.audit.bounds import most_likely_rate
from noisewise.mechanism import Grid

_BELOW = 2**4
_VALUES = 2**12


class LowBits(NamedTuple):
    """What low bits say."""

    name: str
    releases: int
    off_grid: int
    """Releases that are no whole number of grid steps."""
    advantage: float
    """At least so much more often are low bits called a canary's where one spoke: 0 if all is
    well, and 1 if they tell everything."""

    @property
    def holds(self) -> bool:
        """Whether they say nothing."""
        return self.off_grid == 0 and self.advantage == 0


def in_single_precision(grid: Grid) -> np.float32:
    """A grid step as releases are multiplied by it."""
    return np.float32(grid.clip_norm) / np.float32(grid.points)


def read_low_bits(
    name: str, silence: np.ndarray, speech: np.ndarray, unit: np.floating, alpha: float
) -> LowBits:
    """Attack the low bits of releases.

    Args:
        name: Of the mechanism.
        silence: Releases without a canary.
        speech: Releases with one.
        unit: A grid step, in the releases' own precision.
        alpha: The probability of an advantage where there is none.
    """
    off_grid = sum(
        int(np.sum(np.rint(released / unit).astype(released.dtype) * unit != released))
        for released in (silence, speech)
    )
    # Split at random: releases of one run lie side by side.
    rng = np.random.default_rng()
    first, second = zip(*(_halves(_low_bits(r, unit), rng) for r in (silence, speech)), strict=True)
    counts = [np.bincount(bits, minlength=_VALUES) / len(bits) for bits in first]
    guess = counts[1] > counts[0]
    alarms, hits = (guess[bits] for bits in second)
    most_alarms = most_likely_rate(int(alarms.sum()), len(alarms), alpha / 2)
    least_hits = 1 - most_likely_rate(int((~hits).sum()), len(hits), alpha / 2)
    return LowBits(name, len(silence) + len(speech), off_grid, max(0.0, least_hits - most_alarms))


def _low_bits(released: np.ndarray, unit: np.floating) -> np.ndarray:
    steps = np.rint(released / np.float64(unit) * _BELOW)
    with np.errstate(invalid="ignore"):  # what is not finite is off the grid already
        return np.nan_to_num(np.mod(steps, _VALUES)).astype(np.int64)


def _halves(bits: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    mixed = rng.permutation(bits)
    return mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]
