"""From settings to a run of the engine."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.data import Rows
from noisewise.dpvi.algorithm import Dpvi, DpviNumbers
from noisewise.dpvi.aligned import Aligned
from noisewise.dpvi.means_only import MeansOnly
from noisewise.dpvi.natural import AlignedNatural, Natural
from noisewise.dpvi.optimiser import build_optimiser
from noisewise.dpvi.rule import Constants, GradientRule
from noisewise.dpvi.settings import Settings
from noisewise.dpvi.vanilla import Preconditioned, Vanilla
from noisewise.engine import Run, release_numbers
from noisewise.guides import DiagonalGuide, FullRankGuide
from noisewise.mechanism import Mechanism, in_blocks
from noisewise.models import Frame, Target, identity_frame, scaled_frame, whitened_frame

_PRIOR_SDS = 12.0
_SHARE_POWER = 3
_LEAST_SHARE = 1e-4
_WITH_SCALES = {
    "vanilla": Vanilla,
    "natural": Natural,
    "aligned": Aligned,
    "aligned_natural": AlignedNatural,
}


def noise_variance(run: Run) -> np.ndarray:
    """(sigma C / beta)^2: the known variance of every observed gradient, one each.

    These are the first of the parameters. Where scales follow by post-processing they have no
    entry: their noise is the means', times a factor that changes from step to step. For natural
    rules it is the variance of the natural gradients.

    Args:
        run: By `assemble`.
    """
    numbers = run.numbers
    unit = numbers.grid.clip_norm / numbers.grid.points
    first = slice(run.algorithm.rule.observed)
    scale = np.asarray(numbers.noise_scale, float)[first] * unit
    return (scale / np.asarray(numbers.constants.precondition, float)[first]) ** 2


def build_rule(settings: Settings, target: Target) -> GradientRule:
    """The gradient rule that the settings name."""
    if settings.rule == "means_only":
        return MeansOnly(target)
    if settings.rule == "preconditioned":
        return Preconditioned(target, _guide(settings, target), by_slope=settings.by_slope)
    return _WITH_SCALES[settings.rule](target, _guide(settings, target))


def _guide(settings: Settings, target: Target) -> Any:
    """`Settings` sees to it that natural rules, which need a diagonal guide, get one."""
    if settings.guide == "full_rank":
        return FullRankGuide(target.dim, settings.scale_map)
    return DiagonalGuide(target.dim, settings.scale_map, settings.scale_of)


def assemble(
    settings: Settings,
    target: Target,
    mechanism: Mechanism,
    public_count: int,
    *,
    keep_steps: bool = False,
) -> Run:
    """Put rule, frame, grid, step sizes and schedule together.

    Args:
        settings: How the fit goes.
        target: The model.
        mechanism: Calibrated: clip norm, sampling rate, steps and noise.
        public_count: The number of rows as everybody may know it.
        keep_steps: Keep every step's iterate and gradient, not only sums over blocks.
    """
    rule = build_rule(settings, target)
    frame = _frame(settings, target)
    precondition = np.ones(rule.parameters, np.float32)
    if settings.rule == "preconditioned" and not settings.by_slope:
        precondition[target.dim :] = settings.precondition
    rate = settings.learning_rate
    algorithm = Dpvi(
        rule=rule,
        draws=settings.guide_draws,
        matrix=target.dim if settings.keeps_matrix else 0,
        clip_prior=settings.clip_prior,
        optimiser=rate and build_optimiser(settings.optimiser, rate),
        keep_steps=keep_steps,
    )
    release = release_numbers(algorithm, mechanism, public_count)
    step_size = _step_size(settings, mechanism, precondition, target.dim)
    numbers = DpviNumbers(
        grid=release.grid,
        noise_scale=jnp.asarray(release.noise_scale),
        sampling_rate=mechanism.sampling_rate,
        public_count=float(public_count),
        constants=Constants(
            frame, jnp.asarray(precondition), jnp.ones(target.dim), _gaussian_prior(settings, frame)
        ),
        step_size=jnp.asarray(step_size, jnp.float32),
        warm_up_exponent=jnp.asarray(_warm_up_exponent(settings, rule, frame), jnp.float32),
        limit=jnp.asarray(_limit(settings, rule, frame), jnp.float32),
    )
    return Run(
        algorithm=algorithm,
        passes=release.passes,
        sampling_rate=mechanism.sampling_rate,
        numbers=numbers,
        schedule=decaying_schedule(
            settings.steps, settings.initial_step_multiplier, settings.burn_in
        ),
        start=_start(settings, rule, frame),
    )


def prepared_rows(target: Target, run: Run, rows: Rows) -> Rows:
    """Records as the run takes them: in blocks of one size, so that no record's bits follow the
    number of the others.

    Args:
        target: The model.
        run: By `assemble`.
        rows: The model's arguments.
    """
    frame = run.numbers.constants.frame
    return in_blocks(lambda block: target.prepare(block, frame), rows)


def heuristic_step(noise_multiplier: float, clip_norm: float, steps: int, parameters: int) -> float:
    """sqrt(2) / (sigma C sqrt(T d)): NA-DPVI eq. A58 with lambda_c = 1.

    Times beta, element by element, where gradients are preconditioned (NA-DPVI App. H.2).
    """
    return math.sqrt(2) / (noise_multiplier * clip_norm * math.sqrt(steps * parameters))


def decaying_schedule(steps: int, initial_multiplier: float, until: float) -> np.ndarray:
    """Multipliers of the step size: from ``initial_multiplier`` down to 1 over a run's first part.

    Large first steps bring a far start near within the burn-in; the constant rest is what the
    noise-aware posterior is read from.

    Args:
        steps: Of the run.
        initial_multiplier: Of the first step; at least one.
        until: The first part's share of the run.
    """
    schedule = np.ones(steps, np.float32)
    warm_up = int(until * steps)
    schedule[:warm_up] = np.geomspace(max(initial_multiplier, 1.0), 1.0, warm_up)
    return schedule


def _frame(settings: Settings, target: Target) -> Frame:
    if settings.frame_scale is not None:
        return scaled_frame(settings.frame_scale, settings.curvature)
    if settings.curvature is None:
        frame = identity_frame(target.dim)
        location = settings.location
        return frame if location is None else frame._replace(location=jnp.asarray(location))
    location = np.zeros(target.dim) if settings.location is None else settings.location
    return whitened_frame(location, settings.curvature, target.block_sizes())


def _step_size(
    settings: Settings, mechanism: Mechanism, precondition: np.ndarray, dim: int
) -> np.ndarray:
    parameters = len(precondition)
    share = np.ones(parameters)
    share[dim:] = settings.scale_step
    if settings.learning_rate is not None:
        return share  # of the optimiser's own
    if settings.step_factor is not None:
        step = heuristic_step(mechanism.multiplier, mechanism.clip_norm, settings.steps, parameters)
        return share * step * settings.step_factor * precondition
    assert settings.contraction_rate is not None  # Settings checks that one of the three is there
    # rho / (kappa a0) (mathematics.md section 11); in the whitened frame the curvature a0 is one.
    return share * settings.contraction_rate / mechanism.sampling_rate


def _warm_up_exponent(settings: Settings, rule: GradientRule, frame: Frame) -> np.ndarray:
    """Exponents by which coordinates with little way to go take smaller first steps.

    While others are far from the optimum, such a coordinate would be driven off: residuals of a
    start far away inflate a regression's noise, which then slows its weights. So first steps shrink
    with the cube of the prior's sd, and this is given up as the schedule falls to one.
    """
    exponents = np.ones(rule.parameters)
    if settings.prior_precision is not None and settings.initial_step_multiplier > 1:
        far = frame.prior_sd(settings.prior_precision)
        share = np.maximum((far / far.max()) ** _SHARE_POWER, _LEAST_SHARE)
        exponents[: rule.target.dim] += np.log(share) / np.log(settings.initial_step_multiplier)
    return exponents


def _limit(settings: Settings, rule: GradientRule, frame: Frame) -> np.ndarray:
    """A dozen prior sds in the frame's coordinates, where the prior is known; else no limit."""
    limit = np.full(rule.parameters, np.inf)
    if settings.prior_precision is not None:
        limit[: rule.target.dim] = _PRIOR_SDS * frame.prior_sd(settings.prior_precision)
    return limit


def _gaussian_prior(settings: Settings, frame: Frame) -> Array | None:
    if not settings.along_gaussian_prior:
        return None
    assert settings.prior_precision is not None  # the property has looked
    return jnp.asarray(frame.precision(settings.prior_precision), jnp.float32)


def _start(settings: Settings, rule: GradientRule, frame: Frame) -> np.ndarray:
    dim = rule.target.dim
    means = np.zeros(dim)
    if settings.start is not None:
        means = np.asarray(frame.from_model(jnp.asarray(settings.start, jnp.float32)), float)
    if rule.parameters == dim:
        return means
    free = _guide(settings, rule.target).initial(settings.initial_free_scale)
    return np.concatenate([means, free])
