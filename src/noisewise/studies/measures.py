"""From simulated fits to a table's figures: coverage as the paper measured it, and the rest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from noisewise.evaluation import (
    LEVELS,
    coverage_curve,
    coverage_rmse,
    draw_references,
    rmse_floor,
    score,
)

__all__ = ["REPETITIONS", "CoverageMeasure", "Fits", "measure_coverage", "repeated_shares"]

REPETITIONS = 20


class Fits(NamedTuple):
    """A method's posteriors of many simulated tables, in the authors' coordinates."""

    truth: np.ndarray
    """Fits x coordinates."""
    draws: np.ndarray
    """Fits x draws x coordinates; NaN where a fit failed."""
    centre: np.ndarray
    """What reference points are drawn around: the mean of the noisy iterates, or the posterior's
    where a method has none."""
    unsettled: int = 0
    """Fits whose own status said that they had not converged."""


class CoverageMeasure(NamedTuple):
    """One cell of a coverage table."""

    rmse: float
    rmse_sd: float
    """Over repetitions that redraw reference points on the same fits, as the paper did: not the
    uncertainty over data sets, which is the floor's business."""
    floor: float
    z_mean: np.ndarray
    z_sd: np.ndarray
    error: np.ndarray
    reported: np.ndarray
    fits: int
    failed: int
    unsettled: int
    curve: np.ndarray
    curve_sd: np.ndarray
    """Coverage at the levels: mean and sd over repetitions."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in self._asdict().items()
        }


def measure_coverage(found: Fits, seed: int = 0, levels: np.ndarray = LEVELS) -> CoverageMeasure:
    """TARP as in NA-DPVI App. H.4: Euclidean, unscaled, reference points within four posterior sds.

    The paper's code dropped failed fits; here they count as not covered.
    """
    shares = repeated_shares(found, seed)
    curves = coverage_curve(shares, levels)
    errors = coverage_rmse(shares, levels)
    scores = score(found.truth, found.draws)
    return CoverageMeasure(
        rmse=float(np.mean(errors)),
        rmse_sd=float(np.std(errors)),
        floor=rmse_floor(len(found.truth)),
        z_mean=scores.z_mean,
        z_sd=scores.z_sd,
        error=scores.error,
        reported=scores.reported,
        fits=scores.fits,
        failed=scores.failed,
        unsettled=found.unsettled,
        curve=curves.mean(1),
        curve_sd=curves.std(1),
    )


def repeated_shares(found: Fits, seed: int) -> np.ndarray:
    """`tarp_shares` for every repetition's reference points at once (fits x repetitions).

    Draws are moved to the centre and squared distances multiplied out, so that all repetitions of
    a fit are one matrix product.
    """
    rngs = [np.random.default_rng([seed, repetition]) for repetition in range(REPETITIONS)]
    centred = np.zeros_like(found.truth)
    unit = np.ones_like(found.truth)
    offsets = np.stack([draw_references(centred, unit, rng) for rng in rngs], 1)
    shares = np.ones((len(found.truth), REPETITIONS))
    for fit, (truth, draws, centre) in enumerate(zip(*found[:3], strict=True)):
        if not (np.isfinite(draws).all() and np.isfinite(centre).all()):
            continue  # a failed fit covers nothing: its share stays one
        some = np.asarray(draws, float) - centre
        references = offsets[fit] * some.std(0)
        # |x - r|^2 - |r|^2, for draws and for the truth
        distance = (some**2).sum(1)[:, None] - 2 * some @ references.T
        away = truth - centre
        radius = away @ away - 2 * references @ away
        shares[fit] = (distance < radius).mean(0)
    return shares
