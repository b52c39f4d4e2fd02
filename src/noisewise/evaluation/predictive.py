"""Are predicted probabilities true: of the cases given 70%, do 70% happen?"""

from typing import NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError, integer_at_least

_LEAST = 1e-12


class PredictiveCalibration(NamedTuple):
    """A reliability curve, one point per bin, and scores of the probabilities behind it."""

    predicted: np.ndarray
    """Mean probability of each bin, rising."""
    observed: np.ndarray
    """Share of the bin's cases that happened."""
    counts: np.ndarray
    rmse: float
    """Root mean square of observed minus predicted, bins weighted by their counts."""
    floor: float
    """Root mean square of that RMSE by chance alone, were every probability true."""
    brier: float
    """Mean squared difference of probability and outcome; it rewards sharpness as well."""
    log_score: float
    """Mean log probability given to what happened."""


def predictive_calibration(
    probabilities: np.ndarray, outcomes: np.ndarray, bins: int = 10
) -> PredictiveCalibration:
    """Compare probabilities with outcomes, in bins of equal count.

    Args:
        probabilities: Predicted, one a case.
        outcomes: 0 or 1.
        bins: Their number. Equal probabilities share a bin, or the order of the cases would matter;
            so bins may be uneven, and fewer than this.
    """
    chances, happened = _check(probabilities, outcomes)
    order = np.argsort(chances, kind="stable")
    chances, happened = chances[order], happened[order]
    starts = _bin_starts(chances, integer_at_least("bins", bins, 1))
    counts = np.diff(np.append(starts, len(chances)))
    predicted, observed, variance = (
        np.add.reduceat(values, starts) / counts
        for values in (chances, happened, chances * (1 - chances))
    )
    weights = counts / len(chances)
    safe = np.clip(chances, _LEAST, 1 - _LEAST)
    return PredictiveCalibration(
        predicted,
        observed,
        counts,
        rmse=float(np.sqrt(weights @ (observed - predicted) ** 2)),
        floor=float(np.sqrt(weights @ (variance / counts))),
        brier=float(((chances - happened) ** 2).mean()),
        log_score=float(np.log(np.where(happened == 1, safe, 1 - safe)).mean()),
    )


def _bin_starts(rising: np.ndarray, bins: int) -> np.ndarray:
    """Where bins of equal count start, each moved on to where the sorted values next change."""
    even = np.arange(bins) * len(rising) // bins
    moved = np.searchsorted(rising, rising[even], side="left")
    inside_a_tie = moved < even
    moved[inside_a_tie] = np.searchsorted(rising, rising[even[inside_a_tie]], side="right")
    return np.unique(moved[moved < len(rising)])


def _check(probabilities: np.ndarray, outcomes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    chances, happened = np.asarray(probabilities, float), np.asarray(outcomes, float)
    if chances.ndim != 1 or chances.shape != happened.shape or not chances.size:
        raise NoisewiseError(
            "probabilities and outcomes must be flat, of one length and not empty, "
            f"got the shapes {chances.shape} and {happened.shape}"
        )
    if not ((chances >= 0) & (chances <= 1)).all():
        raise NoisewiseError("probabilities must lie between 0 and 1; some do not, or are NaN")
    if not ((happened == 0) | (happened == 1)).all():
        raise NoisewiseError("outcomes must be 0 or 1")
    return chances, happened
