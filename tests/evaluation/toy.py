"""A Gaussian whose posterior is known: theta ~ N(0, 1), x given theta ~ N(theta, noise^2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Toy(NamedTuple):
    truth: np.ndarray
    centre: np.ndarray
    """Posterior means: of the data alone."""
    sd: float
    draws: np.ndarray

    def references(self, rng):
        from noisewise.evaluation import draw_references

        return draw_references(self.centre, self.sd, rng)


def simulate(seed, fits=400, dim=2, draws=400, *, noise=0.5, narrow=1.0, shift=0.0, prior=False):
    """Fits with the exact posterior; or one too narrow, shifted (in its sds), or the prior's."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(fits, dim))
    data = truth + noise * rng.normal(size=(fits, dim))
    centre, sd = data / (1 + noise**2), noise / np.sqrt(1 + noise**2)
    shocks = rng.normal(size=(fits, draws, dim))
    found = shocks if prior else centre[:, None] + sd * (shift + shocks / narrow)
    return Toy(truth, centre, sd, found)


def spoil(draws, which):
    """The same draws with some fits failed, each in one number only."""
    spoilt = draws.copy()
    spoilt[which, -1, 0] = np.nan
    return spoilt
