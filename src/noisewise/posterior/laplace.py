"""The noise-aware posterior by Laplace's approximation (NA-DPVI App. C, eqs. A4 and A5)."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._shapes import Float
from noisewise.posterior.density import log_posterior
from noisewise.posterior.status import NoiseAwarePosterior
from noisewise.posterior.trace_model import TraceModel, joined, split

_ITERATIONS = 100
_HALVINGS = 12


def infer(model: TraceModel, draws: int, rng: np.random.Generator) -> NoiseAwarePosterior:
    """Draws from the Gaussian at the joint mode of (v, s, phi*), coordinate by coordinate."""
    with jax.enable_x64(True):
        numbers, curvature_map = split(model)
        found = _mode(curvature_map, numbers, *_start(model))
        mode, covariance = (np.asarray(part) for part in found)
    shock = rng.standard_normal((draws, *mode.shape))
    points = mode + np.einsum("jab,sjb->sja", np.linalg.cholesky(covariance), shock)
    sd = np.sqrt(covariance[:, 0, 0])
    identified = bool(np.all(sd < 0.9 * model.priors.curvature_sd))
    return NoiseAwarePosterior(points[..., 2], model.priors.curvature(points[..., 0]), identified)


@partial(jax.jit, static_argnums=0)
def _mode(
    curvature_map: str,
    numbers: TraceModel,
    start: Float[Array, "dim 3"],
    scale: Float[Array, "dim 3"],
) -> tuple[Float[Array, "dim 3"], Float[Array, "dim 3 3"]]:
    """Mode and covariance by damped Newton steps.

    Coordinates are separate problems walked side by side: the gradient of the summed loss is each
    one's gradient, and three directional derivatives of it are each one's Hessian.
    """
    model = joined(numbers, curvature_map)

    def losses(units: Array) -> Array:
        point = start + scale * units
        return -log_posterior(model, point[:, 0], point[:, 1], point[:, 2])

    def slopes(units: Array) -> Array:
        return jax.grad(lambda at: losses(at).sum())(units)

    def hessians(units: Array) -> Array:
        along = [jnp.zeros_like(units).at[:, i].set(1.0) for i in range(3)]
        return jnp.stack([jax.jvp(slopes, (units,), (t,))[1] for t in along], axis=-1)

    def newton(_: int, units: Array) -> Array:
        values, vectors = jnp.linalg.eigh(hessians(units))
        # Saddle directions are walked downhill; long steps are cut; no step may climb.
        scaled = jnp.einsum("jba,jb->ja", vectors, slopes(units)) / jnp.maximum(abs(values), 1e-8)
        step = jnp.einsum("jab,jb->ja", vectors, scaled)
        step = step * jnp.minimum(1.0, 1.0 / jnp.linalg.norm(step, axis=1, keepdims=True))
        sizes = jnp.append(0.5 ** jnp.arange(_HALVINGS), 0.0)
        trials = units - step * sizes[:, None, None]
        best = jnp.argmin(jax.vmap(losses)(trials), axis=0)
        return jnp.take_along_axis(trials, best[None, :, None], axis=0)[0]

    units = jax.lax.fori_loop(0, _ITERATIONS, newton, jnp.zeros_like(start))
    values, vectors = jnp.linalg.eigh(hessians(units))
    covariance = jnp.einsum("jab,jb,jcb->jac", vectors, 1 / jnp.maximum(values, 1e-10), vectors)
    return start + scale * units, covariance * scale[:, :, None] * scale[:, None, :]


def _start(model: TraceModel) -> tuple[Float[Array, "dim 3"], Float[Array, "dim 3"]]:
    """A start near the mode, and units in which the problem is of order one."""
    prior, stats = model.priors, model.statistics
    free = prior.curvature_mean
    curvature = prior.curvature(free)
    optimum = stats.parameters - stats.gradient / (model.sampling_rate * curvature)
    residual = (stats.power - stats.cross**2 / stats.spread) / stats.steps
    extra = np.sqrt(np.maximum(residual - model.noise_variance, 1e-4 * model.noise_variance))
    optimum_sd = np.sqrt(model.noise_variance / stats.steps) / (model.sampling_rate * curvature)
    start = np.stack([free, extra, optimum], axis=-1)
    scale = np.stack([prior.curvature_sd, prior.subsampling_sd, optimum_sd], axis=-1)
    return jnp.asarray(start), jnp.asarray(scale)
