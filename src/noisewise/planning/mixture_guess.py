"""Settings for a mixture, by simulation: DPVIm's rule with a start that breaks the symmetry.

A mixture has as many optima as its components can be relabelled, so there is no curvature around
*the* optimum to whiten by, and no noise-aware regression on it. What suits it is DPVIm:
aligned gradients, Adam, and the average of what has converged.
"""

import math

import numpy as np

from noisewise.dpvi import Settings
from noisewise.mechanism import Budget
from noisewise.models import BoundModel, Mixture, RowView, Target
from noisewise.planning.mixture_clipping import bound_gradients
from noisewise.planning.mixture_tables import declared_intercept

_SEED = 0
"""Public: a start says nothing about people, but components that start equal stay equal."""
_SPREAD = 1.0
_INITIAL_SD = 0.05
_LEARNING_RATE, _FIRST_STEPS, _BURN_IN = 5e-3, 5.0, 0.5
_DRIFT = 0.2
"""Most drift along a tail that is averaged: with this step size iterates disperse by about 0.1."""
_BATCH = 500
_FLOATS = 2**30
_FEWEST_STEPS, _MOST_STEPS = 4000, 20_000


def mixture_guess(
    bound: BoundModel, rows: int, budget: Budget, steps: int | None = None
) -> Settings:
    """Settings for ``rows`` records; no row is read.

    Args:
        bound: The mixture.
        rows: Number of rows.
        budget: What the fit may spend.
        steps: Of the fit; None is as many as the work of some minutes.
    """
    target, view = bound.target, bound.view
    sampling_rate = min(1.0, _BATCH / rows)
    if steps is None:
        work = max(rows * sampling_rate, 1.0) * target.dim
        steps = int(np.clip(_FLOATS / work, _FEWEST_STEPS, _MOST_STEPS))
    bounds = bound_gradients(target, view, rows, budget)
    return Settings(
        rule="aligned",
        guide_draws=1,
        full_curvature=False,
        clip_norm=bounds.clip_norm,
        frame_scale=bounds.frame_scale,
        curvature=bounds.curvature,
        sampling_rate=sampling_rate,
        steps=steps,
        learning_rate=_LEARNING_RATE,
        initial_step_multiplier=_FIRST_STEPS,
        burn_in=_BURN_IN,
        slope_threshold=_DRIFT,
        initial_free_scale=math.log(math.expm1(_INITIAL_SD)),
        start=_start(target, view),
    )


def _start(target: Target, view: RowView) -> np.ndarray:
    """Random shares and rates for every component; the regression at what the schema guesses."""
    model = target.model
    assert isinstance(model, Mixture)
    start = _SPREAD * np.random.default_rng(_SEED).standard_normal(target.dim)
    if model.target is not None:
        regression = target.layout.places["coefficients"]
        start[regression] = 0.0
        start[regression.start] = declared_intercept(model, view.schema) or 0.0
    for feature in model.features:
        if not feature.levels:
            where = [label.startswith(f"{feature.name}_rate[") for label in target.labels]
            start[where] = 0.5 * start[where] + math.log(feature.mean)
    return start
