"""Where a posterior is not symmetric about what a linear model finds: two shifts of its mean.

A release g = G(truth) + noise is read with the slope -M of G at the optimum c. Where the truth is
elsewhere, so is M, and with a flat prior the mean of the truth is

    c - C grad log |M|,        C the covariance of what the noise leaves unknown,

once c is such that G's mean over N(c, C) is what was released (`expected_many`). But a truth that
changes the slope A of the gradients along the iterates shows in the trace, too. Slopes of a trace
lean to the steep side, because the iterates' mean is where the noise's mean has sent it: on average
that adds C grad log |A|. What counts is the ratio |M| / |A|. And given the rows alone, theta's mean
is beside the optimum by -1/2 M^-1 L'''[M^-1], L the loss.

All this is of second order in the posterior's sd, but adds up over coordinates: a tenth of an sd
with ten of them.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.models import Rows

__all__ = ["curvature_slope", "finite", "response_slope", "third_derivative", "within_one_sd"]

Gradient = Callable[[Array, Rows], Array]
"""Of one record's loss, at a point."""


def response_slope(
    gradient: Gradient, truths: Array, records: Rows, psi: Array, u: Array, inverse: Array
) -> Array:
    """Slope of log |M| by the truth, a record's share; M = N E[psi u^T] and its inverse.

    Expectations over records drawn at the truth move with it by the score, which is -u:
    dM = N E[psi (du - u u)^T], and d log |M| is the trace of M^-1 dM.
    """
    weighted = psi @ inverse

    def turned(truth: Array, record: Rows, way: Array) -> Array:
        return jax.jvp(lambda at: gradient(at, record), (truth,), (way,))[1]

    moved = finite(jax.vmap(turned)(truths, records, weighted))
    return (moved - (weighted * u).sum(1, keepdims=True) * u).mean(0)


def curvature_slope(bends: Array, u: Array, inverse: Array) -> Array:
    """Minus the slope of log |A| by the truth, a record's share; A = N E[bend] and its inverse."""
    return (jnp.einsum("kij,ji->k", bends, inverse)[:, None] * u).mean(0)


def third_derivative(gradient: Gradient, truths: Array, records: Rows, inverse: Array) -> Array:
    """L'''[M^-1], a record's share: second derivatives of its gradient, along each axis and along
    its row of M^-1."""

    def along(truth: Array, record: Rows, axis: Array, way: Array) -> Array:
        def slope(at: Array) -> Array:
            return jax.jvp(lambda here: gradient(here, record), (at,), (axis,))[1]

        return jax.jvp(slope, (truth,), (way,))[1]

    def add(total: Array, ways: tuple[Array, Array]) -> tuple[Array, None]:
        found = jax.vmap(along, (0, 0, None, None))(truths, records, *ways)
        return total + finite(found).mean(0), None

    ways = (jnp.eye(len(inverse)), inverse)
    return jax.lax.scan(add, jnp.zeros(len(inverse)), ways)[0]


def within_one_sd(pull: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """Pulls of a posterior (fits x coordinates), shortened where they would move it by more than
    one of its sds: an expansion says nothing of so far away."""
    moved = np.linalg.solve(precision, pull[..., None])[..., 0]
    length = np.sqrt(np.maximum((moved * pull).sum(-1, keepdims=True), 0.0))
    return np.asarray(pull / np.maximum(1.0, length))


def finite(wild: Array) -> Array:
    """Zero for what is not a number."""
    return jnp.where(jnp.isfinite(wild), wild, 0.0)
