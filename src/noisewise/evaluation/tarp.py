"""TARP: expected coverage of balls around random points (Lemos et al. 2023, arXiv 2302.03026).

The noise-aware DPVI paper's Algorithm 1 and appendix H.4. A ball around a reference point that
just reaches the truth holds some share of the posterior's draws. If the posterior is right, this
share is uniform over simulations, so the share of fits below a level is that level.

A failed fit has the share 1: no ball short of everything reaches its truth, so it counts as not
covered at any level. The paper's code dropped such fits.
"""

import numpy as np

from noisewise._validate import NoisewiseError, integer_at_least, positive
from noisewise.evaluation import _fits

LEVELS = np.concatenate(([0.001], np.arange(1, 20) / 20, [0.999]))
"""The credible levels of the paper."""
LEVELS.setflags(write=False)

_REACH = 4.0
_FAILED = 1.0


def draw_references(centre: np.ndarray, sd: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Reference points (fits x parameters): uniform within four ``sd`` of ``centre``.

    Only references that depend on the data can expose a prior passed off as a posterior: around
    fixed points, or in central intervals, the prior covers perfectly.

    Args:
        centre: Of each fit's references, from its data and never from the truth, as the tail mean
            of the noisy iterates is.
        sd: Of each parameter.
        rng: The generator.
    """
    centre = np.asarray(centre, float)
    if centre.ndim != 2:
        raise NoisewiseError(f"centre must be fits x parameters, got the shape {centre.shape}")
    return centre + rng.uniform(-_REACH, _REACH, centre.shape) * np.asarray(sd, float)


def tarp_shares(
    truth: np.ndarray, draws: np.ndarray, references: np.ndarray, scale: np.ndarray | None = None
) -> np.ndarray:
    """Share of each fit's draws that lie closer to its reference than the truth does.

    Args:
        truth: Fits x parameters.
        draws: Fits x draws x parameters. A share of few is coarse, by one over their number: take
            many more than the root of the number of fits.
        references: Of `draw_references`.
        scale: What distances are divided by, one number per parameter; by default the sd of the
            truths over fits, so that no parameter rules by its unit alone.
    """
    fits = _fits.check(truth, draws)
    references = _checked_references(fits, references)
    scale = _spread(fits.truth) if scale is None else _checked_scale(fits, scale)
    shares = np.full(len(fits.truth), _FAILED)
    with np.errstate(over="ignore"):
        for which, some in fits.good():
            centre = _finite(references[which])
            radius = (((fits.truth[which] - centre) / scale) ** 2).sum(-1)
            distance = (((some - centre[:, None]) / scale) ** 2).sum(-1)
            # A ball too large for a float tells nothing: a fit that far off has failed, too.
            shares[which] = np.where(
                np.isfinite(radius), (distance < radius[:, None]).mean(1), _FAILED
            )
    return shares


def marginal_shares(truth: np.ndarray, draws: np.ndarray, references: np.ndarray) -> np.ndarray:
    """The shares of `tarp_shares` for each parameter alone (fits x parameters).

    Args:
        truth: As there.
        draws: As there.
        references: As there.
    """
    fits = _fits.check(truth, draws)
    references = _checked_references(fits, references)
    shares = np.full(fits.truth.shape, _FAILED)
    for which, some in fits.good():
        centre = _finite(references[which])
        radius = np.abs(fits.truth[which] - centre)
        shares[which] = (np.abs(some - centre[:, None]) < radius[:, None]).mean(1)
    return shares


def coverage_curve(shares: np.ndarray, levels: np.ndarray = LEVELS) -> np.ndarray:
    """Share of all fits, failed ones included, whose share is below each level.

    Args:
        shares: One per fit; marginal ones (fits x parameters) give curves side by side.
        levels: Credible levels.
    """
    shares = np.asarray(shares, float)
    if not len(shares):
        raise NoisewiseError("shares must hold at least one fit")
    return np.stack([(shares < level).mean(0) for level in np.asarray(levels)])


def coverage_rmse(shares: np.ndarray, levels: np.ndarray = LEVELS) -> float | np.ndarray:
    """Root mean square, over levels, of coverage minus level; per parameter for marginal shares.

    Args:
        shares: As in `coverage_curve`.
        levels: Credible levels.
    """
    curve = coverage_curve(shares, levels)
    off = (curve.T - np.asarray(levels)).T
    return np.sqrt((off**2).mean(0))


def rmse_floor(fits: int) -> float:
    """The coverage RMSE that chance gives a perfect posterior: root of the mean of l (1 - l) / K.

    That is over all levels l in [0, 1], and of the squared RMSE. At this module's levels its root
    mean square is 0.975 of the floor, and its plain mean 0.90 of it.

    Args:
        fits: Their number K.

    >>> round(rmse_floor(500), 3)
    0.018
    """
    return (6 * integer_at_least("fits", fits, 1)) ** -0.5


def curve_band(fits: int, levels: np.ndarray = LEVELS, width: float = 2.0) -> np.ndarray:
    """Half-width, at each level, of the band that holds a perfect posterior's curve.

    Args:
        fits: Their number.
        levels: Credible levels.
        width: In standard errors, level by level: a whole curve leaves the band more often.
    """
    levels = np.asarray(levels, float)
    fits = integer_at_least("fits", fits, 1)
    return positive("width", width) * np.sqrt(levels * (1 - levels) / fits)


def _checked_references(fits: _fits.Fits, references: np.ndarray) -> np.ndarray:
    references = np.asarray(references, float)
    if references.shape != fits.truth.shape:
        raise NoisewiseError(
            f"references must have the shape of truth, {fits.truth.shape}, got {references.shape}"
        )
    return references


def _checked_scale(fits: _fits.Fits, scale: np.ndarray) -> np.ndarray:
    scale = np.asarray(scale, float)
    if scale.shape != fits.truth.shape[1:] or not (np.isfinite(scale) & (scale > 0)).all():
        raise NoisewiseError("scale must be one positive finite number per parameter")
    return scale


def _spread(truth: np.ndarray) -> np.ndarray:
    """Sd over fits; one where all are equal (in rounding, the sd of equal numbers is not zero)."""
    return np.where(np.ptp(truth, axis=0) > 0, truth.std(0), 1.0)


def _finite(references: np.ndarray) -> np.ndarray:
    """Refuse a missing reference of a good fit: no draw is closer, so it would count as covered."""
    if not np.isfinite(references).all():
        raise NoisewiseError("references must be finite wherever the draws of a fit are")
    return references
