"""Simulation-based calibration: where the truth ranks among the draws (Talts et al. 2018).

For a right posterior every rank is equally likely. So it is for the prior: see `tarp` for the
check that tells these two apart.
"""

import numpy as np
from scipy.stats import chi2

from noisewise._validate import NoisewiseError, integer_at_least
from noisewise.evaluation import _fits

_FAILED = -1


def sbc_ranks(truth: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Number of draws below the truth, fits x parameters, from 0 to the number of draws.

    Args:
        truth: Fits x parameters.
        draws: Fits x draws x parameters, independent, or thinned until they are. A failed fit has
            the rank -1.
    """
    fits = _fits.check(truth, draws)
    ranks = np.full(fits.truth.shape, _FAILED)
    for which, some in fits.good():
        ranks[which] = (some < fits.truth[which, None]).sum(1)
    return ranks


def rank_histogram(ranks: np.ndarray, draws: int, bins: int = 20) -> np.ndarray:
    """Counts (bins x parameters) of the ranks of good fits.

    Args:
        ranks: Of `sbc_ranks`.
        draws: Number of draws behind them.
        bins: They hold as many of the ``draws + 1`` possible ranks as each other, or one more or
            less.
    """
    ranks = np.asarray(ranks)
    integer_at_least("draws", draws, 1)
    if integer_at_least("bins", bins, 2) > draws + 1:
        raise NoisewiseError(f"bins must not exceed the {draws + 1} possible ranks, got {bins}")
    if ranks.ndim != 2 or not ((ranks >= _FAILED) & (ranks <= draws)).all():
        raise NoisewiseError(
            f"ranks must be fits x parameters, from 0 to draws = {draws}, or -1 for a failed fit"
        )
    columns = (_bin_of(column[column != _FAILED], draws, bins) for column in ranks.T)
    return np.stack([np.bincount(column, minlength=bins) for column in columns], axis=1)


def uniformity(ranks: np.ndarray, draws: int, bins: int = 20) -> np.ndarray:
    """p-value, for each parameter, of the chi-square test that good fits' ranks are uniform.

    The test wants some five fits a bin. Failed fits are not in it, so report their number beside
    it; without a good fit it is NaN.

    Args:
        ranks: Of `sbc_ranks`.
        draws: Number of draws behind them.
        bins: Of the test.
    """
    counts = rank_histogram(ranks, draws, bins)
    weights = np.bincount(_bin_of(np.arange(draws + 1), draws, bins)) / (draws + 1)
    expected = weights[:, None] * counts.sum(0)
    with np.errstate(invalid="ignore"):
        statistic = ((counts - expected) ** 2 / expected).sum(0)
    return chi2.sf(statistic, bins - 1)


def _bin_of(ranks: np.ndarray, draws: int, bins: int) -> np.ndarray:
    return ranks * bins // (draws + 1)
