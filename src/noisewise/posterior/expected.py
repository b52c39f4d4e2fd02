"""What the model itself expects of the gradients near the fit: curvature, spread and bias.

Records are made up from the model at the fitted parameters, with covariates from the schema: what
was released goes in, no row does. The linear model of the trace is exact only for gradients that
are neither clipped nor bent over the region where the iterates wander. How far they are from that
can be simulated, and taken off.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.models import Frame, Rows, Target

__all__ = [
    "JACOBIAN_RECORDS",
    "Expected",
    "Surroundings",
    "balanced_moves",
    "expect",
    "optimum_prior",
]

_MOVES = 8
JACOBIAN_RECORDS = 2048
_LEAST_GAIN = 1e-3


class Surroundings(NamedTuple):
    """Where the iterates were, in the frame's coordinates: released quantities only."""

    optimum: Array
    """Best guess of the optimum so far."""
    moves: Array
    """Moves away from it as far as the iterates wander, of `balanced_moves`."""


class Expected(NamedTuple):
    """Moments of the clipped gradients of all rows together, prior included."""

    curvature: Any
    """A: mean slope of the gradient by the iterates, over their wander."""
    response: Any
    """M: slope of the gradient by the truth, -E[psi u^T] over records, which says how much a
    release knows. Without clipping or wander it is the curvature; clipping flattens A more."""
    scatter: Any
    """B: covariance, over tables, of the gradient at the truth. M^-1 B M^-1 is theta's around the
    optimum; again the inverse curvature where nothing is clipped."""
    bias: Any
    """Mean gradient at the truth, which the linear model takes for zero."""
    optimum: Any
    """Where all this was simulated."""


@partial(jax.jit, static_argnums=0)
def expect(
    target: Target,
    frame: Frame,
    clip_norm: Array,
    rows: Array,
    prior_precision: Array,
    covariates: Rows,
    around: Surroundings,
    key: Array,
) -> Expected:
    """Simulate records at the optimum and their clipped gradients over the wander.

    Moves come in opposite pairs and the unclipped gradient at the optimum, whose mean is zero, is
    taken off record by record, so that only what clipping and bending add is left to Monte Carlo.
    ``covariates`` are made-up rows; their observed arguments are drawn anew.
    """
    records = target.simulate(key, frame.to_model(around.optimum), covariates)
    points = around.optimum + jnp.concatenate([around.moves, -around.moves])

    def gradient(point: Array, record: Rows) -> Array:
        return jax.grad(lambda at: -target.log_likelihood(frame.to_model(at), record))(point)

    def clipped(point: Array, record: Rows) -> Array:
        found = gradient(point, record)
        norm = jnp.sqrt(jnp.sum(found**2) + 1e-30)
        bounded = found * jnp.minimum(1.0, clip_norm / norm)
        return jnp.where(jnp.isfinite(norm), bounded, 0.0)

    def add(total: Array, point: Array) -> tuple[Array, None]:
        return total + jax.vmap(clipped, (None, 0))(point, records), None

    plain = jax.vmap(gradient, (None, 0))(around.optimum, records)
    plain = jnp.where(jnp.isfinite(plain), plain, 0.0)
    total, _ = jax.lax.scan(add, jnp.zeros_like(plain), points)
    mean = total / len(points)
    some = min(JACOBIAN_RECORDS, len(plain))
    chosen = jax.tree.map(lambda column: column[:some], records)
    at = points[jnp.arange(some) % len(points)]
    slopes = rows * jax.vmap(jax.jacfwd(clipped))(at, chosen).mean(0)
    response = rows * mean.T @ plain / len(mean)
    return Expected(
        0.5 * (slopes + slopes.T) + prior_precision,
        0.5 * (response + response.T) + prior_precision,
        rows * jnp.cov(mean, rowvar=False).reshape(slopes.shape) + prior_precision,
        rows * (mean - plain).mean(0),
        around.optimum,
    )


def balanced_moves(rng: np.random.Generator, wander: np.ndarray) -> np.ndarray:
    """Moves whose second moment is the iterates' exactly, not just on average: random rotations of
    the axes times ``wander``, a square root of the iterates' covariance. Bias grows with that
    moment, so it would otherwise be known to a half only."""
    dim = len(wander)
    turns = np.linalg.qr(rng.standard_normal((max(1, _MOVES // dim), dim, dim)))[0]
    return np.sqrt(dim) * turns.reshape(-1, dim) @ wander.T


def optimum_prior(
    curvature: np.ndarray, prior_precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Curvatures raised to at least the prior's, and the optimum's prior precision given each.

    Data only add to the prior's precision P. And theta's prior covariance P^-1 is the optimum's,
    over data sets, plus A^-1 for theta around it: so the optimum's is P^-1 - A^-1, and where data
    say nothing the posterior is the prior, not wider.
    """
    root = np.linalg.cholesky(prior_precision)
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ curvature @ inverse.T)
    values = np.maximum(values, 1 + _LEAST_GAIN)[..., None, :]
    turned = root @ vectors
    back = np.swapaxes(turned, -1, -2)
    return (turned * values) @ back, (turned * (values / (values - 1))) @ back
