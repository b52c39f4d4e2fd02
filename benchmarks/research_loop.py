"""DPVI the straightforward way, from the equations of NA-DPVI (A56, A57, A59).

Every step computes the gradient of every row by `jax.vmap(jax.grad(...))` and masks those that are
not in the batch. It is jitted, in single precision, one scan; nothing in it is slow on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy import stats

from benchmarks.problems import GUIDE_DRAWS, NOISE_MULTIPLIER, Problem

LogDensity = Callable[..., Array]


def logistic_log_likelihood(theta: Array, record: dict[str, Array]) -> Array:
    """log p(y | x, theta) of one record."""
    logit = record["X"] @ theta
    return record["y"] * logit - jax.nn.softplus(logit)


def logistic_log_prior(theta: Array) -> Array:
    """Standard normal weights."""
    return jnp.sum(stats.norm.logpdf(theta))


def gamma_log_likelihood(theta: Array, record: dict[str, Array]) -> Array:
    """log Exponential(x; rate) with the rate on the log scale."""
    return theta[0] - jnp.exp(theta[0]) * record["x"]


def gamma_log_prior(theta: Array) -> Array:
    """Gamma(8, 2) of the rate, and the log-determinant of the exponential."""
    return stats.gamma.logpdf(jnp.exp(theta[0]), 8.0, scale=0.5) + theta[0]


def build(problem: Problem, log_likelihood: LogDensity, log_prior: LogDensity) -> Callable:
    """A jitted ``run(parameters, keys)``: one step a key; returns the last parameters."""
    settings, numbers = problem.settings, problem.run.numbers
    rows = {name: jnp.asarray(column) for name, column in problem.data.items()}
    count, dim = problem.row_count, problem.target.dim
    beta, clip_norm = numbers.constants.precondition, settings.clip_norm

    def loss(parameters: Array, shocks: Array, record: dict[str, Array]) -> Array:
        mean, scale = parameters[:dim], jax.nn.softplus(parameters[dim:])

        def one(shock: Array) -> Array:
            theta = mean + scale * shock
            log_guide = jnp.sum(stats.norm.logpdf(theta, mean, scale))
            public = log_prior(theta) - log_guide
            return log_likelihood(theta, record) + public / count

        return -jnp.mean(jax.vmap(one)(shocks))

    def clip(gradient: Array) -> Array:
        return gradient * jnp.minimum(1.0, clip_norm / jnp.linalg.norm(gradient))

    def step(parameters: Array, key: Array) -> tuple[Array, None]:
        key_batch, key_guide, key_noise = jax.random.split(key, 3)
        mask = jax.random.bernoulli(key_batch, settings.sampling_rate, (count,))
        shocks = jax.random.normal(key_guide, (GUIDE_DRAWS, dim))
        gradients = jax.vmap(jax.grad(loss), (None, None, 0))(parameters, shocks, rows)
        clipped = jax.vmap(clip)(gradients * beta)
        total = jnp.sum(clipped * mask[:, None], axis=0)
        noise = NOISE_MULTIPLIER * clip_norm * jax.random.normal(key_noise, total.shape)
        return parameters - numbers.step_size * (total + noise) / beta, None

    @jax.jit
    def run(parameters: Array, keys: Any) -> Array:
        return jax.lax.scan(step, parameters, keys)[0]

    return run
