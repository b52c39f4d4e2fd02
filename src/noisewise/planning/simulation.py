"""Prior-predictive simulation: gradients of made-up records at made-up parameters."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from noisewise.models import RowView, Target

__all__ = ["PriorPredictive", "simulate_gradients"]

_PARAMETERS = 32
_RECORDS = 2048
_PRIOR_DRAWS = 2000


class PriorPredictive(NamedTuple):
    """What simulation says before any row is read."""

    location: np.ndarray
    """Mean of the prior in the unconstrained space."""
    prior_covariance: np.ndarray
    gradients: np.ndarray
    """Made-up parameters x records x dim: per-record gradients of the log-likelihood."""


def simulate_gradients(target: Target, view: RowView, seed: int = 0) -> PriorPredictive:
    """Draw parameters from the prior and records given them; take the records' gradients.

    The seed only fixes a simulation that involves no data: a plan is reproducible.
    """
    rng = np.random.default_rng(seed)
    key_prior, key_rows, key_many = jax.random.split(jax.random.PRNGKey(seed), 3)
    prior = np.asarray(target.sample_prior(key_many, _PRIOR_DRAWS), float)
    thetas = target.sample_prior(key_prior, _PARAMETERS)
    simulate = jax.jit(target.simulate)
    gradient = jax.jit(jax.vmap(jax.grad(target.log_likelihood), (None, 0)))
    found = []
    for theta, key in zip(thetas, jax.random.split(key_rows, _PARAMETERS), strict=True):
        rows = {n: jnp.asarray(c) for n, c in view.simulate(rng, _RECORDS).items()}
        found.append(np.asarray(gradient(theta, simulate(key, theta, rows)), float))
    gradients = np.nan_to_num(np.stack(found), posinf=0.0, neginf=0.0)
    covariance = np.atleast_2d(np.cov(prior, rowvar=False))
    return PriorPredictive(prior.mean(0), covariance, gradients)
