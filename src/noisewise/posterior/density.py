"""The trace model's log-density in JAX, for samplers and optimisers that need its gradient."""

import jax
import jax.numpy as jnp
from jax import Array

from noisewise._shapes import Float
from noisewise.dpvi import FullTrace
from noisewise.posterior.trace_model import Priors, TraceModel

Vector = Float[Array, " dim"]


def curvature_of(priors: Priors, free: Vector) -> Vector:
    """The curvature a of the free parameter v."""
    return jnp.exp(free) if priors.curvature_map == "exp" else jax.nn.softplus(free)


def log_likelihood(model: TraceModel, free: Vector, extra: Vector, optimum: Vector) -> Vector:
    """log p(gradients | v, s, phi*), per coordinate, from the sufficient statistics."""
    stats = model.statistics
    slope = model.sampling_rate * curvature_of(model.priors, free)
    variance = model.noise_variance + extra**2
    residual = stats.power - 2 * slope * stats.cross + slope**2 * stats.spread
    off = stats.gradient - slope * (stats.parameters - optimum)
    return -0.5 * (stats.steps * jnp.log(variance) + (residual + stats.steps * off**2) / variance)


def trace_log_likelihood(
    model: TraceModel, steps: FullTrace, free: Vector, extra: Vector, optimum: Vector
) -> Float[Array, ""]:
    """The same summed over every step of the kept trace: NA-DPVI eq. 20 taken literally."""
    slope = model.sampling_rate * curvature_of(model.priors, free)
    variance = model.noise_variance + extra**2
    off = steps.gradients - slope * (steps.parameters - optimum)
    return -0.5 * jnp.sum(jnp.log(variance) + off**2 / variance)


def log_posterior(model: TraceModel, free: Vector, extra: Vector, optimum: Vector) -> Vector:
    """Log posterior density per coordinate, up to a constant."""
    prior = model.priors
    quadratic = ((free - prior.curvature_mean) / prior.curvature_sd) ** 2
    quadratic += (extra / prior.subsampling_sd) ** 2
    quadratic += ((optimum - prior.optimum_mean) / prior.optimum_sd) ** 2
    return log_likelihood(model, free, extra, optimum) - 0.5 * quadratic
