"""Settings for a mixture, by simulation: DPVIm's rule with a start that breaks the symmetry.

A mixture has as many optima as its components can be relabelled, so there is no curvature around
*the* optimum to whiten by, and no noise-aware regression on it. What suits it is DPVIm (dpvim.txt):
aligned gradients, Adam, and the average of what has converged.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.data import Column
from noisewise.dpvi import Settings
from noisewise.models import Mixture, Rows, RowView, Target, identity_frame

__all__ = ["mixture_guess"]

_SEED = 0
"""Public: a start says nothing about people, but components that start equal stay equal."""
_SPREAD = 1.0
_INITIAL_SD = 0.05
_LEARNING_RATE, _BOOST, _BURN_IN = 5e-3, 5.0, 0.5
_DRIFT = 0.2
"""Most drift along a tail that is averaged: with this step size iterates wander about 0.1."""
_BATCH = 500
_FLOATS = 2**30
_FEWEST_STEPS, _MOST_STEPS = 4000, 20_000
_TABLES, _RECORDS = 16, 512
_CLIPPED = 0.25
"""Share of simulated records that are clipped at the truth: noise grows with the clip norm."""


def mixture_guess(target: Target, view: RowView, rows: int, steps: int | None = None) -> Settings:
    """Settings for ``rows`` records; no row is read."""
    sampling_rate = min(1.0, _BATCH / rows)
    if steps is None:
        work = max(rows * sampling_rate, 1.0) * target.dim
        steps = int(np.clip(_FLOATS / work, _FEWEST_STEPS, _MOST_STEPS))
    return Settings(
        rule="aligned",
        guide_draws=1,
        full_curvature=False,
        clip_norm=_clip_norm(target, view),
        sampling_rate=sampling_rate,
        steps=steps,
        learning_rate=_LEARNING_RATE,
        boost=_BOOST,
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
    place = 0
    for site in target.layout.latents:
        here = slice(place, place + site.size)
        if model.target is not None and site.name == "coefficients":
            start[here] = 0.0
            start[place] = _intercept(view.schema[model.target], model.response)
        place += site.size
    for feature in model.features:
        if not feature.levels:
            where = [label.startswith(f"{feature.name}_rate[") for label in target.labels]
            start[where] = 0.5 * start[where] + math.log(feature.mean)
    return start


def _intercept(column: Column, response: str | None) -> float:
    """Log rate or log odds of the declared mean or share; zero where none is declared."""
    guess = column.mean if column.kind == "count" else column.share
    if not guess:
        return 0.0
    return math.log(guess / (1 - guess)) if response == "logistic" else math.log(guess)


def _clip_norm(target: Target, view: RowView) -> float:
    """A high quantile of the norms of made-up records' gradients at the truths behind them.

    Records that the schema rules out are left aside: wide priors of a log rate make many.
    """
    rng = np.random.default_rng(_SEED)
    key_truths, key_records = jax.random.split(jax.random.PRNGKey(_SEED))
    truths = target.sample_prior(key_truths, _TABLES)
    made_up = view.simulate(rng, _RECORDS)
    records, norms = jax.device_get(_norms(target, key_records, truths, made_up))
    kept = np.isfinite(norms)
    for name in records:
        column = view.schema[name]
        low, high = (0, 1) if column.kind == "binary" else (column.bounds or (0, np.inf))
        kept &= (records[name] >= low) & (records[name] <= high)
    found = norms[kept] if kept.any() else norms
    return float(np.quantile(found, 1 - _CLIPPED))


@partial(jax.jit, static_argnums=0)
def _norms(target: Target, key: Array, truths: Array, made_up: Rows) -> tuple[Rows, Array]:
    frame = identity_frame(target.dim)

    def one(inputs: tuple[Array, Array]) -> tuple[Rows, Array]:
        key, truth = inputs
        rows = target.simulate(key, truth, made_up)
        none = jnp.zeros((1, target.dim))
        gradients, _ = target.record_moments(frame, truth[None], none, target.prepare(rows, frame))
        return rows, jnp.linalg.norm(gradients, axis=1)

    return jax.lax.map(one, (jax.random.split(key, len(truths)), truths))
