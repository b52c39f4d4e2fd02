"""Where a posterior is not symmetric about what a linear model finds: shifts of its mean.

A released gradient is G(truth) plus scatter over tables (covariance B) plus noise, and is read with
the slope -M of G at the optimum c. Where the truth is elsewhere, so are M and B. With a flat prior,
the truth's posterior mean is

    c - C grad log |M| + M^-1 b,        C = M^-1 (noise + B) M^-1,    b_i = sum_jk d_j B_ik M^-1_kj,

once c is such that the mean of G over truths N(c, C) is what was released (`expected_many`); slopes
are by the truth, at fixed iterates. Noise has one more part: a truth that changes the slope A of
the gradients along the iterates shows in the trace, whose slopes lean to the steep side, because
the iterates' mean is where the noise's mean has sent it. That adds the noise's part of C times
grad log |A|. And where a prior says part of what is known, M counts in the release's part of it.

All this is of second order in the posterior's sd, but adds up over coordinates: 0.2 sds along the
coefficients of a logistic regression with nine of them.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.models import Rows

__all__ = ["curvature_slope", "finite", "response_slope", "scatter_slope", "within_one_sd"]

Gradient = Callable[[Array, Rows], Array]
"""Of one record's loss, at a point."""


def response_slope(
    gradient: Gradient, truths: Array, records: Rows, psi: Array, u: Array, inverse: Array
) -> Array:
    """Slope of log |M| by the truth, a record's share; M = N E[psi u^T] and its inverse.

    Expectations over records drawn at the truth move with it by the score, which is -u:
    dM = N E[psi (du - u u)^T], and d log |M| is the trace of M^-1 dM.
    """
    weighted = psi @ inverse.T

    def turned(truth: Array, record: Rows, way: Array) -> Array:
        return jax.jvp(lambda at: gradient(at, record), (truth,), (way,))[1]

    moved = finite(jax.vmap(turned)(truths, records, weighted))
    return (moved - (weighted * u).sum(1, keepdims=True) * u).mean(0)


def curvature_slope(bends: Array, u: Array, inverse: Array) -> Array:
    """Slope of log |A| by the truth, a record's share; A = N E[bend] and its inverse."""
    traces = jnp.einsum("kij,ji->k", bends, inverse)
    # The mean of u is zero: what goes with it is noise of the simulation.
    return -((traces - traces.mean())[:, None] * u).mean(0)


def scatter_slope(psi: Array, u: Array, inverse: Array) -> Array:
    """b, a record's share, with M's inverse: dB = -N E[psi psi^T u] over centred psi."""
    off = psi - psi.mean(0)
    return -(off * ((off @ inverse) * u).sum(1, keepdims=True)).mean(0)


def within_one_sd(pull: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Pulls of posteriors (fits x coordinates), shortened where they would move a coordinate by
    more than one of its sds: an expansion says nothing of so far away."""
    moved = np.abs((covariance @ pull[..., None])[..., 0])
    sds = np.sqrt(np.einsum("...ii->...i", covariance))
    return np.asarray(pull / np.maximum(1.0, (moved / sds).max(-1, keepdims=True)))


def finite(wild: Array) -> Array:
    """Zero for what is not a number."""
    return jnp.where(jnp.isfinite(wild), wild, 0.0)
