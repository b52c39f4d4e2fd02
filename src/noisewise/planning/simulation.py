"""Prior-predictive simulation: gradients of simulated records at simulated parameters."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.data import Rows, record_count
from noisewise.dpvi import WIDE
from noisewise.models import Frame, ModelError, RowView, Target, survey_weights
from noisewise.models.linear_parts import clipped_curvatures

_PARAMETERS = 128
_FEWEST_PARAMETERS, _FEWEST_OF_WIDE = 32, 8
_RECORDS, _A_COORDINATE = 1024, 4
"""At every simulated parameter: so many, and of many coordinates so many for each."""
_FLOATS = 2**21
_PRIOR_DRAWS = 2000
_LOOK_RECORDS = 256
_OUTSIDE = 0.05
_DIRECTIONS = 16
_SLOPE_PARAMETERS = 32
_SLOPE_RECORDS = 512
_LOOK_DRAWS = 32
_MOST_LOST = 0.5


class PriorPredictive(NamedTuple):
    """What simulation says before any row is read."""

    location: np.ndarray
    """Mean of the prior in the unconstrained space."""
    prior_covariance: np.ndarray
    gradients: np.ndarray
    """Simulated parameters x records x dim: per-record gradients of the log-likelihood, times
    records' weights where they have any."""
    thetas: np.ndarray
    rows: Rows
    """The simulated parameters and, for each, its records (parameters x records x ...)."""
    gaussian_prior: bool = True
    """Whether the prior is Gaussian in the unconstrained space."""

    @property
    def weights(self) -> np.ndarray:
        """Of the records (parameters x records x 1), or one where they have none."""
        found = survey_weights(self.rows)[..., None]
        # Units of several rows have no survey weights.
        return np.asarray(found if found.ndim <= self.gradients.ndim else np.ones(1))


def simulate_gradients(target: Target, view: RowView, seed: int = 0) -> PriorPredictive:
    """Draw parameters from the prior and records given them; take the records' gradients.

    The seed only fixes a simulation that involves no data: a plan is reproducible.
    """
    rng = np.random.default_rng(seed)
    key_prior, key_look, key_rows = jax.random.split(jax.random.PRNGKey(seed), 3)
    prior = _sample_prior(target, key_prior)
    thetas = _plausible(target, view, prior, key_look, rng)
    records = _RECORDS if target.dim <= WIDE else _A_COORDINATE * target.dim
    tables = [view.simulate(rng, records) for _ in thetas]
    covariates = {name: np.stack([table[name] for table in tables]) for name in tables[0]}
    rows, gradients = jax.device_get(_simulate(target, key_rows, thetas, covariates))
    gaussian = _is_gaussian(target, prior)
    if not jnp.isfinite(prior).all():
        wild = target.labels[int(np.argmax(~np.isfinite(np.asarray(prior)).all(0)))]
        raise ModelError(
            f"draws of latent '{wild}' from its prior are not all finite numbers: give it a prior "
            "of order one, log-normal for a scale"
        )
    lost = 1 - float(np.isfinite(gradients).all(-1).mean())
    if lost > _MOST_LOST:
        raise ModelError(
            f"{lost:.0%} of simulated records have gradients that are not finite numbers, and "
            "would teach nothing: look for logarithms or powers of zero and overflowing "
            "exponentials in the model, or narrow its priors"
        )
    known = np.asarray(prior, float) if gaussian else _without_far_tails(np.asarray(prior, float))
    return PriorPredictive(
        location=known.mean(0),
        prior_covariance=np.atleast_2d(np.cov(known, rowvar=False)),
        gradients=np.nan_to_num(np.asarray(gradients, float), posinf=0.0, neginf=0.0),
        thetas=thetas,
        rows=rows,
        gaussian_prior=gaussian,
    )


def _is_gaussian(target: Target, prior: Array) -> bool:
    """Whether the log prior's gradient is linear: halfway between two draws it is their mean's."""
    ends, others = prior[:_LOOK_DRAWS], prior[_LOOK_DRAWS : 2 * _LOOK_DRAWS]
    points = jnp.concatenate([ends, others, (ends + others) / 2])
    first, second, halfway = np.split(np.asarray(_prior_gradients(target, points), float), 3)
    off = np.abs(halfway - (first + second) / 2).max(0)
    return bool((off <= 1e-3 * np.abs(first - second).max(0)).all())


@partial(jax.jit, static_argnums=0)
def _prior_gradients(target: Target, points: Array) -> Array:
    return jax.vmap(jax.grad(target.log_prior))(points)


def _without_far_tails(prior: np.ndarray) -> np.ndarray:
    """Draws moved to within four robust sds of their medians: tails of a Cauchy's kind would make
    the spread of a prior infinite."""
    low, middle, high = np.quantile(prior, (0.25, 0.5, 0.75), axis=0)
    reach = 4 * (high - low) / 1.349
    return np.clip(prior, middle - reach, middle + reach)


@partial(jax.jit, static_argnums=0)
def _sample_prior(target: Target, key: Array) -> Array:
    return target.sample_prior(key, _PRIOR_DRAWS)


@partial(jax.jit, static_argnums=0)
def _simulate(target: Target, key: Array, thetas: Array, covariates: Rows) -> tuple[Rows, Array]:
    """Records for every theta, and their gradients; one theta at a time, to spare memory."""

    def one(inputs: tuple[Array, Array, Rows]) -> tuple[Rows, Array]:
        key, theta, table = inputs
        rows = target.simulate(key, theta, table)
        return rows, jax.vmap(jax.grad(target.log_likelihood), (None, 0))(theta, rows)

    return jax.lax.map(one, (jax.random.split(key, len(thetas)), thetas, covariates))


def _plausible(
    target: Target, view: RowView, prior: Array, key: Array, rng: np.random.Generator
) -> np.ndarray:
    """Prior draws whose records stay within the declared bounds.

    A wide prior on a log rate makes most draws predict counts that the schema rules out; what those
    would need of clip norm and step size is beside the point. Where hardly any draw is plausible,
    the least implausible ones are taken.
    """
    drawn = _look(target, key, prior, view.simulate(rng, _LOOK_RECORDS))
    outside = np.max([_share_outside(view, name, drawn[name]) for name in drawn], axis=0)
    order = np.argsort(np.maximum(outside, _OUTSIDE), kind="stable")
    count = _FLOATS // (_RECORDS * target.dim)
    fewest = _FEWEST_PARAMETERS if target.dim <= WIDE else _FEWEST_OF_WIDE
    return np.asarray(prior)[order[: max(fewest, min(_PARAMETERS, count))]]


@partial(jax.jit, static_argnums=0)
def _look(target: Target, key: Array, thetas: Array, rows: Rows) -> Rows:
    """A few records for every theta, of the observed arguments."""
    observed = [argument for argument, _ in target.layout.observed_arguments]

    def one(key: Array, theta: Array) -> Rows:
        found = target.simulate(key, theta, rows)
        return {name: found[name] for name in observed}

    return jax.vmap(one)(jax.random.split(key, len(thetas)), thetas)


def _share_outside(view: RowView, name: str, values: Array) -> np.ndarray:
    """For each simulated parameter, the share of its records outside the argument's bounds."""
    drawn = np.asarray(values, float)
    if view.event is not None:
        drawn = drawn[..., 0]  # the times; whether they are events' is 0 or 1 by itself
    column = drawn.reshape(len(values), -1)
    low, high = view.bounds(name) or (-np.inf, np.inf)
    return np.mean(~((column >= low) & (column <= high)), axis=1)


def clipped_steepness(
    target: Target, simulated: PriorPredictive, factor: np.ndarray, clip_norms: np.ndarray
) -> np.ndarray:
    """Trace of the mean slope of a record's clipped gradient by the parameters, in the frame of
    ``factor``.

    Simulated parameters (some of them) x clip norms. A clipped gradient still turns as the
    parameters move, but no longer grows: clipping takes curvature away.
    """
    thetas = simulated.thetas[:_SLOPE_PARAMETERS]
    some = {n: column[:_SLOPE_PARAMETERS, :_SLOPE_RECORDS] for n, column in simulated.rows.items()}
    wide, norms = jnp.asarray(factor, jnp.float32), jnp.asarray(clip_norms, jnp.float32)
    found = _clipped_steepness(target, thetas, wide, norms, some)
    return np.nan_to_num(np.asarray(found, float))


@partial(jax.jit, static_argnums=0)
def _clipped_steepness(
    target: Target, thetas: Array, factor: Array, clip_norms: Array, rows: Rows
) -> Array:
    def one(inputs: tuple[Array, Rows]) -> Array:
        theta, table = inputs
        parts = target.linear_parts(Frame(theta, factor), table)
        if parts is None:
            return _steepness_one_by_one(target, theta, factor, clip_norms, table)
        slopes, curvatures = parts.slopes(parts.offset), parts.curvatures(parts.offset)
        gram = parts.gram()

        def at_norm(clip_norm: Array) -> Array:
            bent = clipped_curvatures(slopes, curvatures, gram, clip_norm)
            return jnp.einsum("nkl,nlk->", jnp.nan_to_num(bent), gram) / len(slopes)

        return jax.lax.map(at_norm, clip_norms)

    return jax.lax.map(one, (thetas, rows))


def _steepness_one_by_one(
    target: Target, theta: Array, factor: Array, clip_norms: Array, table: Rows
) -> Array:
    def add(total: Array, record: Rows) -> tuple[Array, None]:
        def loss(z: Array) -> Array:
            return -target.log_likelihood(theta + factor @ z, record)

        zero = jnp.zeros(len(theta))
        gradient, hessian = jax.grad(loss)(zero), jax.hessian(loss)(zero)
        norm = jnp.sqrt(jnp.sum(gradient**2) + 1e-30)
        unit, whole = gradient / norm, jnp.trace(hessian)
        turned = whole - unit @ hessian @ unit
        scale = jnp.where(norm > clip_norms, clip_norms / norm, 0.0)
        return total + jnp.where(norm <= clip_norms, whole, scale * turned), None

    total, _ = jax.lax.scan(add, jnp.zeros(len(clip_norms)), table)
    return total / record_count(table)


def time_to_convergence(
    target: Target, simulated: PriorPredictive, factor: np.ndarray, clip_norm: float, rows: int
) -> np.ndarray:
    """Time constants that descent needs from the prior's mean to each simulated truth.

    Far from the optimum a clipped gradient is less than the distance: the way takes distance over
    gradient, where nothing is clipped one time constant for each factor of e.
    """
    location = jnp.asarray(simulated.location, jnp.float32)
    wide = jnp.asarray(factor, jnp.float32)
    means = _mean_gradients(target, location, wide, jnp.float32(clip_norm), simulated.rows)
    away = np.asarray(simulated.thetas, float) - simulated.location
    way = np.linalg.solve(factor, away.T).T
    distance = np.linalg.norm(way, axis=1)
    gradient = rows * (np.asarray(means, float) * way).sum(1) / np.maximum(distance, 1e-30)
    return distance / np.maximum(gradient, 1e-3 * distance)


@partial(jax.jit, static_argnums=0)
def _mean_gradients(
    target: Target, start: Array, factor: Array, clip_norm: Array, rows: Rows
) -> Array:
    """For every truth, the mean clipped gradient of its records at the start."""

    def one(table: Rows) -> Array:
        gradients = jax.vmap(jax.grad(target.log_likelihood), (None, 0))(start, table) @ factor
        norms = jnp.linalg.norm(gradients, axis=1, keepdims=True)
        bounded = gradients * jnp.minimum(1.0, clip_norm / jnp.maximum(norms, 1e-30))
        return jnp.where(jnp.isfinite(norms), bounded, 0.0).mean(0)

    return jax.lax.map(one, rows)


def nonlinearity(
    target: Target, simulated: PriorPredictive, factor: np.ndarray, rows: int, seed: int = 0
) -> float:
    """How far the gradient is from linear: shift of the optimum, in posterior sds, by iterates that
    are dispersed by one posterior sd in every direction (it grows with the dispersion's square).

    From second differences of the simulated tables' gradients, at distances where float accuracy is
    no concern; the upper quartile over simulated parameters.
    """
    reach = 0.1 * np.sqrt(rows)
    directions = np.random.default_rng(seed).standard_normal((_DIRECTIONS, len(factor)))
    steps = jnp.asarray(reach * directions @ factor.T, jnp.float32)
    second = np.asarray(_second_differences(target, simulated.thetas, steps, simulated.rows), float)
    shifts = np.linalg.norm(rows * second @ factor, axis=1) / np.sqrt(len(factor))
    finite = shifts[np.isfinite(shifts)]
    return float(np.quantile(finite, 0.75)) / reach**2 if len(finite) else np.inf


@partial(jax.jit, static_argnums=0)
def _second_differences(target: Target, thetas: Array, steps: Array, rows: Rows) -> Array:
    """Half the mean second difference of the mean gradient along the steps, at every theta."""

    def one(inputs: tuple[Array, Rows]) -> Array:
        theta, table = inputs

        @jax.grad
        def mean_gradient(point: Array) -> Array:
            return jnp.mean(jax.vmap(target.log_likelihood, (None, 0))(point, table))

        there = jax.vmap(mean_gradient)(theta + steps) + jax.vmap(mean_gradient)(theta - steps)
        return 0.5 * (there - 2 * mean_gradient(theta)).mean(0)

    return jax.lax.map(one, (thetas, rows))
