"""The posterior without privacy: the yardstick that may never be released."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.models import Rows, Target, identity_frame

__all__ = ["UnsafePosterior", "unsafe_posterior"]

_ITERATIONS = 50


class UnsafePosterior(NamedTuple):
    """Mode and covariance in the unconstrained space, computed from raw rows: NOT PRIVATE."""

    mode: np.ndarray
    covariance: np.ndarray


def unsafe_posterior(target: Target, rows: Rows) -> UnsafePosterior:
    """Laplace's approximation on all rows, no noise, no clipping: for comparison by the holder.

    The name says it: nothing that comes out of here is private.
    """
    data = target.prepare(rows, identity_frame(target.dim))
    frame = identity_frame(target.dim)

    def gradient(theta: Array) -> Array:
        point, still = theta[None], jnp.zeros((1, target.dim))
        records = target.record_moments(frame, point, still, data)[0].sum(0)
        return records + target.prior_moments(frame, point, still)[0]

    step = jax.jit(lambda theta: (gradient(theta), jax.jacfwd(gradient)(theta)))
    theta = target.sample_prior(jax.random.PRNGKey(0), 256).mean(0)
    for _ in range(_ITERATIONS):
        slope, hessian = step(theta)
        move = jnp.linalg.solve(hessian, slope)
        # Half a unit at most: far from the mode Newton's step can overshoot a log link.
        theta = theta - move * jnp.minimum(1.0, 0.5 / jnp.maximum(jnp.abs(move).max(), 1e-12))
    covariance = np.linalg.inv(np.asarray(step(theta)[1], float))
    return UnsafePosterior(np.asarray(theta, float), covariance)
