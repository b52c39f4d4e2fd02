"""z-scores of posterior means, and how far off they are: which coordinate is wrong, and how much.

z is the posterior mean minus the truth, in posterior sds. Given the data, a right posterior has
E[z] = 0 and E[z^2] = 1, whatever its shape.
"""

from typing import NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.evaluation import _fits


class Scores(NamedTuple):
    """One number per parameter over the good fits, and how many fits there were."""

    z_mean: np.ndarray
    z_sd: np.ndarray
    """Above one: the posterior is too narrow."""
    error: np.ndarray
    """Root mean square of posterior mean minus truth: how sharp the fits are."""
    reported: np.ndarray
    """Root mean square of the posterior sds: how sharp they say they are."""
    fits: int
    """All fits, failed ones included."""
    failed: int

    @property
    def good(self) -> int:
        """The fits behind the numbers."""
        return self.fits - self.failed

    @property
    def z_mean_floor(self) -> float:
        """Standard error of ``z_mean`` for a right posterior."""
        return self.good**-0.5 if self.good else np.inf

    @property
    def z_sd_floor(self) -> float:
        """Standard error of ``z_sd`` for a right posterior of Gaussian shape."""
        return (2 * self.good) ** -0.5 if self.good else np.inf


def score(truth: np.ndarray, draws: np.ndarray) -> Scores:
    """Score draws (fits x draws x parameters) against the truths that their tables came from.

    What cannot be had is NaN: everything without a good fit, ``z_sd`` with only one. A posterior
    without width makes ``z_mean`` or ``z_sd`` infinite or NaN, too.

    Args:
        truth: Fits x parameters.
        draws: Of posteriors; a fit whose draws are not all finite has failed.
    """
    fits = _fits.check(truth, draws)
    if fits.draws.shape[1] < 2:
        raise NoisewiseError("draws must hold at least two draws a fit: one has no sd")
    mean, sd = np.full((2, *fits.truth.shape), np.nan)
    good = np.zeros(len(fits.truth), bool)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for which, some in fits.good():
            good[which] = True
            mean[which], sd[which] = some.mean(1), some.std(1, ddof=1)
        off = (mean - fits.truth)[good]
        z = off / sd[good]
        z_mean = z.sum(0) / len(z)
        return Scores(
            z_mean=z_mean,
            z_sd=np.sqrt(((z - z_mean) ** 2).sum(0) / max(len(z) - 1, 0)),
            error=np.sqrt((off**2).sum(0) / len(off)),
            reported=np.sqrt((sd[good] ** 2).sum(0) / len(off)),
            fits=len(good),
            failed=int((~good).sum()),
        )
