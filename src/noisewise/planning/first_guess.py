"""The analytic first guess: every hyper-parameter from prior-predictive gradients.

No row is read. The trade-off behind the step size (mathematics.md section 11): with c = rho T time
constants the iterates are dispersed sqrt(c/2) times as far as the error of one optimal release, and
the curvature is known to a relative error of sqrt(2/c).
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from noisewise._validate import integer_at_least
from noisewise.dpvi import WIDE, Settings, decaying_schedule
from noisewise.mechanism import Budget
from noisewise.models import BoundModel, Target, whitened_frame
from noisewise.models.frame import block_slices
from noisewise.planning.simulation import (
    PriorPredictive,
    clipped_steepness,
    nonlinearity,
    simulate_gradients,
    time_to_convergence,
)
from noisewise.planning.single_release import (
    SingleRelease,
    candidate_norms,
    sharpest,
    single_release,
)
from noisewise.posterior import LARGEST_MATRIX

STEPS = 4000
_LARGEST_BATCH = 4000
_BURN_INS = (0.1, 0.15, 0.2, 0.3)
_EARLY_RATES = (0.1, 0.2)
_SETTLING = 3.0
_LARGEST_RATE = 0.05
_LEAST_MULTIPLIER = 1.1
_LEAST_TIME_CONSTANTS = 30.0
_MOST_TIME_CONSTANTS, _MOST_OF_WIDE = 200.0, 30.0
"""Of many coordinates the curvature is known by simulation, not from the trace, and iterates that
are dispersed in hundreds of directions flatten the gradients that they are to learn it from."""
_KNOWN, _WIDEST = 0.1, 1.5
_DISTRUST = {"known": 0.1, "approximate": 1.0, "guessed": 3.0}
"""Share of the simulated clipping bias that may be wrong, by how covariates are known: it depends
on all of their distribution. Where they are only guesses, it may be several times as large."""
_UNCORRECTED = 0.3


class PriorPredictiveSummary(NamedTuple):
    """What prior-predictive simulation says about a model, a number of rows and a budget."""

    rows: int
    simulated: PriorPredictive
    precision: np.ndarray
    """Of the prior, in the unconstrained space."""
    curvature: np.ndarray
    """Typical curvature of the posterior there."""
    factor: np.ndarray
    """Of the frame that the curvature whitens."""
    clip: SingleRelease
    """The clip norm for descent, in that frame."""
    release_sd: np.ndarray
    """What the best single release would leave of each coordinate of the unconstrained space."""
    simulable: bool
    """Whether simulated records are like real ones, up to the model: without covariates that the
    schema only guesses."""
    nonlinearity: float
    """Shift of the optimum, in posterior sds, by iterates that are dispersed by one of them."""
    curvature_sd: float


def summarise(
    bound: BoundModel, rows: int, budget: Budget, simulated: PriorPredictive | None = None
) -> PriorPredictiveSummary:
    """Simulate gradients (unless they are there) and read everything off them that costs no fit.

    Args:
        bound: The model.
        rows: Number of rows.
        budget: What the fit may spend.
        simulated: Gradients, where they are there already.
    """
    target = bound.target
    simulated = simulate_gradients(target, bound.view) if simulated is None else simulated
    white = whiten(target, simulated, rows)
    factor, precision, curvature = white.factor, white.precision, white.curvature
    # NumPyro's handlers are not safe in threads: only arithmetic is done beside.
    with ThreadPoolExecutor(1) as beside:
        working = beside.submit(
            single_release, white.gradients, rows, white.prior, budget, weights=simulated.weights
        )
        steepness = clipped_steepness(target, simulated, factor, candidate_norms(white.gradients))
        curved = nonlinearity(target, simulated, factor, rows)
        (releases,) = working.result()
    simulable = bound.simulable
    covariates = "guessed" if not simulable else "approximate" if bound.approximate else "known"
    return PriorPredictiveSummary(
        rows=rows,
        simulated=simulated,
        precision=precision,
        curvature=curvature,
        factor=factor,
        clip=sharpest(releases, steepness, _DISTRUST[covariates]),
        release_sd=sharpest(releases).sds(factor),
        simulable=simulable,
        nonlinearity=curved,
        curvature_sd=_KNOWN if simulable else _WIDEST,
    )


class Whitened(NamedTuple):
    """Simulated gradients in the frame in which the typical curvature is the identity."""

    gradients: np.ndarray
    factor: np.ndarray
    curvature: np.ndarray
    precision: np.ndarray
    """Of the prior, in the unconstrained space; ``prior`` is the same in the frame."""
    prior: np.ndarray


def whiten(target: Target, simulated: PriorPredictive, rows: int) -> Whitened:
    """The frame for tables of so many rows."""
    precision = np.linalg.inv(simulated.prior_covariance)
    curvature = _curvature(simulated, precision, rows, target.block_sizes())
    frame = whitened_frame(simulated.location, curvature, target.block_sizes())
    assert frame.factor is not None  # it is whitened
    factor = np.asarray(frame.factor, float)
    return Whitened(
        gradients=simulated.gradients @ factor,
        factor=factor,
        curvature=curvature,
        precision=precision,
        prior=frame.precision(precision),
    )


def release_sds(
    target: Target, simulated: PriorPredictive, rows: int, *budgets: Budget
) -> list[np.ndarray]:
    """For every budget, what the best single release would leave of unconstrained coordinates."""
    white = whiten(target, simulated, rows)
    releases = single_release(
        white.gradients, rows, white.prior, *budgets, weights=simulated.weights
    )
    return [sharpest(each).sds(white.factor) for each in releases]


def design(
    target: Target,
    summary: PriorPredictiveSummary,
    *,
    steps: int = STEPS,
    time_constants: float | None = None,
    clip_factor: float = 1.0,
    caution: float = 1.0,
) -> Settings:
    """Means-only settings; what is not given is guessed.

    ``caution`` multiplies the first time constants that are allowed for convergence.
    """
    integer_at_least("steps", steps, 10)
    constants = _time_constants(summary) if time_constants is None else time_constants
    if time_constants is None and WIDE < target.dim <= LARGEST_MATRIX:
        constants = min(constants, _MOST_OF_WIDE)
    rate = min(constants / steps, _LARGEST_RATE)
    clip_norm = clip_factor * summary.clip.clip_norm
    burn_in, early_rate = _approach(target, summary, clip_norm, rate, steps, caution)
    return Settings(
        clip_norm=clip_norm,
        sampling_rate=sampling_rate(summary.rows),
        steps=steps,
        burn_in=burn_in,
        contraction_rate=rate,
        initial_step_multiplier=max(early_rate / rate, _LEAST_MULTIPLIER),
        full_curvature=target.dim <= LARGEST_MATRIX,
        curvature_sd=summary.curvature_sd,
        location=summary.simulated.location,
        curvature=summary.curvature,
        prior_precision=summary.precision,
        gaussian_prior=target.dim <= LARGEST_MATRIX and not summary.simulated.gaussian_prior,
    )


def sampling_rate(rows: int) -> float:
    """Batches of a tenth, where there are rows enough, and of no more than a device likes."""
    return min(0.1 if rows >= 1000 else 1.0, _LARGEST_BATCH / rows)


def _approach(
    target: Target,
    summary: PriorPredictiveSummary,
    clip_norm: float,
    rate: float,
    steps: int,
    caution: float,
) -> tuple[float, float]:
    """The shortest and gentlest warm-up with time enough to converge.

    Twice what nineteen in twenty simulated truths need, and a few time constants to settle.
    """
    needed = time_to_convergence(target, summary.simulated, summary.factor, clip_norm, summary.rows)
    enough = caution * (2 * float(np.quantile(needed, 0.95)) + _SETTLING)
    for burn_in in _BURN_INS:
        for early_rate in _EARLY_RATES:
            multiplier = max(early_rate / rate, _LEAST_MULTIPLIER)
            whole = decaying_schedule(steps, multiplier, burn_in).sum() * rate
            if whole - (1 - burn_in) * (rate * steps) >= enough:
                return burn_in, early_rate
    return _BURN_INS[-1], _EARLY_RATES[-1]


def first_guess(bound: BoundModel, rows: int, budget: Budget, *, steps: int = STEPS) -> Settings:
    """Settings for ``rows`` records at this budget without a single simulated fit.

    Args:
        bound: The model.
        rows: Number of rows.
        budget: What the fit may spend.
        steps: Of the fit.
    """
    return design(bound.target, summarise(bound, rows, budget), steps=steps)


def _curvature(
    simulated: PriorPredictive, precision: np.ndarray, rows: int, blocks: tuple[int, ...]
) -> np.ndarray:
    """Log-Euclidean mean over simulated parameters of N times their Fisher information.

    A plain mean would follow the few parameters with extreme information, say of a Poisson model.
    """
    records = simulated.gradients.shape[1]
    # In prior sds, so that the units of the data do not matter.
    unit = 1 / np.sqrt(np.diag(precision))
    scaled_precision = precision * np.outer(unit, unit)
    total = np.zeros_like(precision)
    # A weight counts once in the information, and is in both of the gradients.
    for gradients in simulated.gradients * unit / np.sqrt(simulated.weights):
        information = rows * gradients.T @ gradients / records + scaled_precision
        values, vectors = np.linalg.eigh(information)
        total += (vectors * np.log(np.maximum(values, 1e-12))) @ vectors.T
    values, vectors = np.linalg.eigh(total / len(simulated.gradients))
    mean = (vectors * np.exp(values)) @ vectors.T / np.outer(unit, unit)
    kept = np.zeros_like(mean)
    for block in block_slices(blocks):
        kept[block, block] = mean[block, block]
    return kept


def _time_constants(summary: PriorPredictiveSummary) -> float:
    """c = rho T: as many as keep the shift from non-linearity at half of the reported sd.

    Iterates dispersed by w posterior sds shift the optimum by nonlinearity w^2 of them, and w^2 =
    c noise^2 / 2. The shift is simulated and taken off after the fit; it should not be many error
    bars all the same. Where covariates are guesses it is not taken off, and less is tolerated.
    """
    noise = summary.clip.noise
    reported = math.sqrt(1 + noise**2)
    tolerated = 1.0 if summary.simulable else _UNCORRECTED
    most = tolerated * reported / max(summary.nonlinearity * noise**2, 1e-12)
    return float(np.clip(most, _LEAST_TIME_CONSTANTS, _MOST_TIME_CONSTANTS))
