"""Prior-predictive simulation: gradients of made-up records at made-up parameters."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.models import Rows, RowView, Target

__all__ = ["PriorPredictive", "bending", "clipped_slopes", "simulate_gradients"]

_PARAMETERS = 128
_FEWEST_PARAMETERS = 32
_RECORDS = 1024
_FLOATS = 2**21
_PRIOR_DRAWS = 2000
_CANDIDATES = 512
_LOOK_RECORDS = 256
_OUTSIDE = 0.05
_DIRECTIONS = 16
_SLOPE_PARAMETERS = 32
_SLOPE_RECORDS = 512


class PriorPredictive(NamedTuple):
    """What simulation says before any row is read."""

    location: np.ndarray
    """Mean of the prior in the unconstrained space."""
    prior_covariance: np.ndarray
    gradients: np.ndarray
    """Made-up parameters x records x dim: per-record gradients of the log-likelihood."""
    thetas: list[Array]
    rows: list[Rows]
    """The made-up parameters and, for each, its made-up records."""


@partial(jax.jit, static_argnums=0)
def _records(target: Target, key: Array, theta: Array, rows: Rows) -> Rows:
    return target.simulate(key, theta, rows)


@partial(jax.jit, static_argnums=0)
def _gradients(target: Target, theta: Array, rows: Rows) -> Array:
    return jax.vmap(jax.grad(target.log_likelihood), (None, 0))(theta, rows)


def simulate_gradients(target: Target, view: RowView, seed: int = 0) -> PriorPredictive:
    """Draw parameters from the prior and records given them; take the records' gradients.

    The seed only fixes a simulation that involves no data: a plan is reproducible.
    """
    rng = np.random.default_rng(seed)
    key_prior, key_rows, key_many = jax.random.split(jax.random.PRNGKey(seed), 3)
    prior = np.asarray(target.sample_prior(key_many, _PRIOR_DRAWS), float)
    thetas = _plausible(target, view, key_prior, rng)
    rows = [
        _records(target, key, theta, _device(view.simulate(rng, _RECORDS)))
        for theta, key in zip(thetas, jax.random.split(key_rows, len(thetas)), strict=True)
    ]
    found = [np.asarray(_gradients(target, t, r), float) for t, r in zip(thetas, rows, strict=True)]
    gradients = np.nan_to_num(np.stack(found), posinf=0.0, neginf=0.0)
    covariance = np.atleast_2d(np.cov(prior, rowvar=False))
    return PriorPredictive(prior.mean(0), covariance, gradients, list(thetas), rows)


def clipped_slopes(
    target: Target, simulated: PriorPredictive, factor: np.ndarray, clip_norms: np.ndarray
) -> np.ndarray:
    """Mean slope of a record's clipped gradient by the parameters, in the frame of ``factor``.

    Made-up parameters (some of them) x clip norms x dim x dim. A clipped gradient still turns as
    the parameters move, but no longer grows: clipping takes curvature away.
    """
    count = max(1, min(_SLOPE_PARAMETERS, len(simulated.thetas)))
    wide, norms = jnp.asarray(factor, jnp.float32), jnp.asarray(clip_norms, jnp.float32)
    found = []
    for theta, table in zip(simulated.thetas[:count], simulated.rows[:count], strict=True):
        some = {name: column[:_SLOPE_RECORDS] for name, column in table.items()}
        found.append(np.asarray(_clipped_slopes(target, theta, wide, norms, some), float))
    return np.nan_to_num(np.stack(found))


@partial(jax.jit, static_argnums=0)
def _clipped_slopes(
    target: Target, theta: Array, factor: Array, clip_norms: Array, rows: Rows
) -> Array:
    def one(record: Rows) -> tuple[Array, Array]:
        def loss(z: Array) -> Array:
            return -target.log_likelihood(theta + factor @ z, record)

        zero = jnp.zeros(len(theta))
        return jax.grad(loss)(zero), jax.hessian(loss)(zero)

    def add(total: Array, record: Rows) -> tuple[Array, None]:
        gradient, hessian = one(record)
        norm = jnp.sqrt(jnp.sum(gradient**2) + 1e-30)
        unit = gradient / norm
        turned = hessian - jnp.outer(unit, unit @ hessian)
        each = jnp.where((norm <= clip_norms)[:, None, None], hessian, 0.0)
        scale = jnp.where(norm > clip_norms, clip_norms / norm, 0.0)
        return total + each + scale[:, None, None] * turned, None

    start = jnp.zeros((len(clip_norms), len(theta), len(theta)))
    total, _ = jax.lax.scan(add, start, rows)
    return total / len(next(iter(rows.values())))


def bending(
    target: Target, simulated: PriorPredictive, factor: np.ndarray, rows: int, seed: int = 0
) -> float:
    """How much the gradient bends: shift of the optimum, in posterior sds, that iterates cause
    which wander one posterior sd in every direction (it grows with the wander's square).

    From second differences of the made-up tables' gradients, at distances where float accuracy is
    no concern; the upper quartile over made-up parameters.
    """
    reach = 0.1 * np.sqrt(rows)
    directions = np.random.default_rng(seed).standard_normal((_DIRECTIONS, len(factor)))
    moves = jnp.asarray(reach * directions @ factor.T, jnp.float32)
    shifts = []
    for theta, table in zip(simulated.thetas, simulated.rows, strict=True):
        second = np.asarray(_second_difference(target, theta, moves, table), float)
        shifts.append(np.linalg.norm(rows * second @ factor) / np.sqrt(len(factor)))
    finite = [shift for shift in shifts if np.isfinite(shift)]
    return float(np.quantile(finite, 0.75)) / reach**2 if finite else np.inf


@partial(jax.jit, static_argnums=0)
def _second_difference(target: Target, theta: Array, moves: Array, rows: Rows) -> Array:
    """Half the mean second difference of the mean gradient along the moves."""

    def mean_gradient(point: Array) -> Array:
        return jax.grad(lambda at: jnp.mean(jax.vmap(target.log_likelihood, (None, 0))(at, rows)))(
            point
        )

    there = jax.vmap(mean_gradient)(theta + moves) + jax.vmap(mean_gradient)(theta - moves)
    return 0.5 * (there - 2 * mean_gradient(theta)).mean(0)


def _device(rows: dict[str, np.ndarray]) -> Rows:
    return {name: jnp.asarray(column) for name, column in rows.items()}


def _plausible(target: Target, view: RowView, key: Array, rng: np.random.Generator) -> Array:
    """Prior draws whose records stay within the declared bounds.

    A wide prior on a log rate makes most draws predict counts that the schema rules out; what those
    would need of clip norm and step size is beside the point. Where hardly any draw is plausible,
    the least implausible ones are taken.
    """
    key_prior, key_rows = jax.random.split(key)
    thetas = target.sample_prior(key_prior, _CANDIDATES)
    rows = _device(view.simulate(rng, _LOOK_RECORDS))
    keys = jax.random.split(key_rows, _CANDIDATES)
    drawn = jax.vmap(partial(_records, target), (0, 0, None))(keys, thetas, rows)
    outside = np.max([_share_outside(view, name, drawn[name]) for name in drawn], axis=0)
    order = np.argsort(np.maximum(outside, _OUTSIDE), kind="stable")
    count = _FLOATS // (_RECORDS * target.dim)
    return thetas[order[: max(_FEWEST_PARAMETERS, min(_PARAMETERS, count))]]


def _share_outside(view: RowView, name: str, values: Array) -> np.ndarray:
    """For each made-up parameter, the share of its records outside the argument's bounds."""
    column = np.asarray(values, float).reshape(len(values), -1)
    low, high = view.bounds(name) or (-np.inf, np.inf)
    return np.mean(~((column >= low) & (column <= high)), axis=1)
