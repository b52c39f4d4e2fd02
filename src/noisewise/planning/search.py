"""The search: whole simulated fits of a few designs, each judged by calibration and error."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from noisewise.dpvi import Settings
from noisewise.evaluation import Scores, score
from noisewise.mechanism import Budget, Release
from noisewise.models import BoundModel
from noisewise.planning.first_guess import PriorPredictiveSummary, design
from noisewise.trials import Simulator, simulator

DESIGNS = 5
_DRAWS = 400
_GOOD_ENOUGH = 0.2
_FALSE_ALARM = 0.0027
_MEDIAN_ERROR, _SPREAD_ERROR = 1.2533, 0.9644
"""Standard errors of a normal sample's median and of half the distance between its 16% and 84%
quantiles, times the root of its size."""
_SEED = 7
_FRESH = 1_000_000
"""Fits that judge are numbered from here, those that choose from 0: they share no table."""


class SearchContext(NamedTuple):
    """What designs are tried on."""

    bound: BoundModel
    summary: PriorPredictiveSummary
    budget: Budget
    others: tuple[Release, ...]
    """What else the fit will release: they take a part of the budget."""
    on_fits: Callable[[int], None] | None = None
    """Called with how many more simulated fits are done."""


class Trial(NamedTuple):
    """A design, and what simulated fits said of it."""

    choices: dict[str, float]
    """Options of `design` that made it."""
    settings: Any
    """DPVI's or DP-SEP's."""
    scores: Scores
    z: np.ndarray
    """Posterior mean minus truth in posterior sds (fits x coordinates)."""
    unsettled: float
    """Share of fits whose own status said that they had not converged."""
    merit: float
    """Less is better: how far errors are from a single release's, and z-scores from calibrated."""

    @property
    def works(self) -> bool:
        """Whether hardly any fit failed."""
        return self.scores.failed <= 0.02 * self.scores.fits and self.unsettled < 0.5


def search(context: SearchContext, *, steps: int, fits: int) -> Trial:
    """The best of a few designs around the first guess; stops early at one that is near the bound.

    All designs see the same simulated tables, so that they are compared and not the tables.
    """
    target, summary = context.bound.target, context.summary
    options = _options(context, steps)
    best: Trial | None = None
    for choices in options:
        settings = design(target, summary, steps=steps, **choices)
        trial = _try(context, settings, range(fits))._replace(choices=choices)
        if best is None or trial.merit < best.merit:
            best = trial
        if best.works and best.merit < _GOOD_ENOUGH:
            break
    assert best is not None  # there is at least one design
    return best


def learn_recalibration(
    context: SearchContext, settings: Settings, fits: int
) -> tuple[Settings, Scores]:
    """Shift and stretch per coordinate from simulated fits, and those fits' scores without them.

    What these fits cannot tell from chance is left alone: it mends what is badly off. (Smaller
    corrections, tried before, moved posteriors that had been right by a tenth of an sd.) What seems
    off is looked at again in as many fresh fits, and only what they say is done: the largest of
    many chances is large.
    """
    trial = _try(context, settings, range(_FRESH, _FRESH + fits))
    found = _corrections(trial, np.ones(context.bound.target.dim, bool))
    if np.any(found != 0):
        trial = _try(context, settings, range(_FRESH + fits, _FRESH + 2 * fits))
        found = _corrections(trial, np.any(found != 0, axis=0))
    shift, log_stretch = found
    return settings.with_recalibration(shift, np.exp(log_stretch)), trial.scores


def _corrections(trial: Trial, suspected: np.ndarray) -> np.ndarray:
    """Shifts and log stretches (2 x coordinates) of the suspected coordinates, zero for the others.

    Medians and quantiles are used, so that one stray fit does not stretch everybody's error bars.
    """
    low, middle, high = np.nanquantile(trial.z, (0.16, 0.5, 0.84), axis=0)
    spread = (high - low) / 2
    estimates = np.stack([middle, np.log(spread)])
    errors = np.stack([_MEDIAN_ERROR * spread, np.full(len(spread), _SPREAD_ERROR)])
    errors = errors / np.sqrt(max(trial.scores.good, 1))
    # What the largest of so many would seldom be by chance.
    sigmas = ndtri(1 - _FALSE_ALARM / 2 / suspected.sum())
    return np.where(suspected & (np.abs(estimates) > sigmas * errors), estimates, 0.0)


def _options(context: SearchContext, steps: int) -> list[dict[str, float]]:
    """Designs in the order in which they are tried: the guess, a longer approach, and around it."""
    bound, summary = context.bound, context.summary
    guess = design(bound.target, summary, steps=steps)
    constants = (guess.contraction_rate or 0.0) * steps
    # Simulated tables cannot tell what tight clipping does to covariates unlike the schema's.
    tighter = 0.7 if summary.simulable and not bound.approximate else 1.0
    return [
        {},
        {"caution": 1.5},
        {"clip_factor": tighter, "time_constants": max(constants * 1.5, 40.0)},
        {"clip_factor": tighter, "time_constants": max(constants / 2, 20.0)},
        {"clip_factor": 1.5},
    ]


def _try(context: SearchContext, settings: Settings, numbers: range) -> Trial:
    rows, budget = context.summary.rows, context.budget
    ready = simulator(context.bound, settings, rows, budget, context.others)
    return judge(context, ready, settings, numbers)


def judge(context: SearchContext, ready: Simulator, settings: Any, numbers: range) -> Trial:
    """What simulated fits of these numbers say of settings."""
    fits = ready.run(numbers, draws=_DRAWS, seed=_SEED, on_fits=context.on_fits)
    scores = score(fits.truth, fits.draws)
    unsettled = float(np.mean(fits.status == "NOT_CONVERGED"))
    with np.errstate(all="ignore"):
        z = (fits.draws.mean(1) - fits.truth) / fits.draws.std(1)
    return Trial(
        choices={},
        settings=settings,
        scores=scores,
        z=z,
        unsettled=unsettled,
        merit=_merit(scores, unsettled, context.summary),
    )


def _merit(scores: Scores, unsettled: float, summary: PriorPredictiveSummary) -> float:
    """Mean log error against a single release, plus what z-scores are off beyond chance.

    Medians over fits would hide the few that went astray; root mean squares do not.
    """
    if scores.failed == scores.fits:
        return np.inf
    sharpness = np.mean(np.log(scores.error / summary.release_sd))
    off = np.abs(np.log(scores.z_sd)) - scores.z_sd_floor
    shifted = np.abs(scores.z_mean) - scores.z_mean_floor
    calibration = np.mean(np.maximum(off, 0.0)) + np.mean(np.maximum(shifted, 0.0))
    merit = float(sharpness + calibration + unsettled + 5 * scores.failed / scores.fits)
    return merit if np.isfinite(merit) else np.inf
