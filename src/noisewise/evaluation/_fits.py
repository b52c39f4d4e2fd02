"""Truths and draws of many simulated fits: checked once, then seen a few fits at a time."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError

_CHUNK_NUMBERS = 1_000_000


class GoodFits(NamedTuple):
    """Some fits whose draws are all finite: which they are, and their draws in double precision."""

    which: np.ndarray
    draws: np.ndarray


class Fits(NamedTuple):
    """Checked arrays: truth (fits x parameters), draws (fits x draws x parameters)."""

    truth: np.ndarray
    draws: np.ndarray

    def good(self) -> Iterator[GoodFits]:
        """The fits that did not fail, in chunks, so that no copy of all draws is ever made.

        Results start out with the value of a failed fit; a failed fit just never comes by here.
        """
        count, *each = self.draws.shape
        size = max(1, _CHUNK_NUMBERS // max(1, int(np.prod(each))))
        for start in range(0, count, size):
            draws = np.asarray(self.draws[start : start + size], float)
            finite = np.isfinite(draws).all((1, 2))
            if finite.any():
                yield GoodFits(start + np.flatnonzero(finite), draws[finite])


def check(truth: np.ndarray, draws: np.ndarray) -> Fits:
    """Refuse shapes that do not belong together, and truths that are no numbers."""
    truth, draws = np.asarray(truth, float), np.asarray(draws)
    if truth.ndim != 2 or draws.ndim != 3 or (len(draws), draws.shape[2]) != truth.shape:
        raise NoisewiseError(
            "truth must be fits x parameters and draws fits x draws x parameters, "
            f"got {truth.shape} and {draws.shape}"
        )
    if 0 in draws.shape:
        raise NoisewiseError(f"draws must not be empty, got the shape {draws.shape}")
    if not np.isfinite(truth).all():
        raise NoisewiseError("truth must be finite: only draws may fail")
    return Fits(truth, draws)
