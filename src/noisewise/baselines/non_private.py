"""The posterior without privacy: the yardstick that may never be released."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.data import PrivateRows, Rows
from noisewise.models import Target, identity_frame

_ITERATIONS = 50


class UnsafePosterior(NamedTuple):
    """Mode and covariance in the unconstrained space, computed from raw rows: NOT PRIVATE."""

    mode: np.ndarray
    covariance: np.ndarray


def unsafe_posterior(target: Target, rows: PrivateRows) -> UnsafePosterior:
    """Laplace's approximation on all rows, no noise, no clipping: for comparison by the holder.

    The name says it: nothing that comes out of here is private.

    Args:
        target: The model's densities.
        rows: The table's.
    """
    frame = identity_frame(target.dim)
    data = target.prepare(rows.unsafe_columns(), frame)
    theta = target.sample_prior(jax.random.PRNGKey(0), 256).mean(0)
    for _ in range(_ITERATIONS):
        slope, hessian = _derivatives(target, theta, data)
        move = jnp.linalg.solve(hessian, slope)
        # Half a unit at most: far from the mode Newton's step can overshoot a log link.
        theta = theta - move * jnp.minimum(1.0, 0.5 / jnp.maximum(jnp.abs(move).max(), 1e-12))
    covariance = np.linalg.inv(np.asarray(_derivatives(target, theta, data)[1], float))
    return UnsafePosterior(np.asarray(theta, float), covariance)


@partial(jax.jit, static_argnums=0)
def _derivatives(target: Target, theta: Array, data: Rows) -> tuple[Array, Array]:
    """Gradient and Hessian of the negative log posterior; rows are an argument, for constants of
    compiled code end up in JAX's compilation cache."""
    frame = identity_frame(target.dim)

    def gradient(theta: Array) -> Array:
        point, zero = theta[None], jnp.zeros((1, target.dim))
        records = target.record_moments(frame, point, zero, data)[0].sum(0)
        return records + target.prior_moments(frame, point, zero)[0]

    return gradient(theta), jax.jacfwd(gradient)(theta)
