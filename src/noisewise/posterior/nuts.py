"""The noise-aware posterior by the No-U-Turn Sampler, as the paper has it, and as a check."""

import warnings
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from noisewise.dpvi import FullTrace
from noisewise.posterior.density import curvature_of, log_likelihood, trace_log_likelihood
from noisewise.posterior.status import NoiseAwarePosterior
from noisewise.posterior.trace_model import TraceModel, joined, optimum_given_curvature, split


def infer(
    model: TraceModel,
    draws: int,
    rng: np.random.Generator,
    *,
    warmup: int = 1000,
    steps: FullTrace | None = None,
) -> NoiseAwarePosterior:
    """Draws from p(phi*, a | trace) by NUTS: NA-DPVI Alg. 4.

    By default over the sufficient statistics; over every step of ``steps``, the kept part of a
    full trace, if given: the same posterior at many times the cost, which is how the paper did it.
    """
    key = jax.random.PRNGKey(int(rng.integers(2**31)))
    # Thousands of steps make log densities whose differences single precision cannot hold.
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers, curvature_map = split(model)
        chain = _sampler(curvature_map, warmup, draws)
        chain.run(key, numbers, steps)
        samples = {name: np.asarray(value) for name, value in chain.get_samples().items()}
    prior = model.priors
    free = prior.curvature_mean + prior.curvature_sd * samples["free"]
    identified = bool(np.all(samples["free"].std(0) < 0.9))
    return NoiseAwarePosterior(samples["optimum"], prior.curvature(free), identified)


@lru_cache(maxsize=8)
def _sampler(curvature_map: str, warmup: int, draws: int) -> numpyro.infer.MCMC:
    """One sampler for traces of one shape: compiled for the first, the rest are quick."""
    kernel = numpyro.infer.NUTS(
        partial(_joint, curvature_map), init_strategy=numpyro.infer.init_to_median()
    )
    return numpyro.infer.MCMC(
        kernel, num_warmup=warmup, num_samples=draws, progress_bar=False, jit_model_args=True
    )


def _joint(curvature_map: str, numbers: TraceModel, steps: FullTrace | None) -> None:
    model = joined(numbers, curvature_map)
    prior = model.priors
    dim = len(prior.optimum_mean)
    standard = dist.Normal(jnp.zeros(dim), 1.0).to_event(1)
    free = prior.curvature_mean + prior.curvature_sd * numpyro.sample("free", standard)
    extra = prior.subsampling_sd * numpyro.sample("extra", standard)
    curvature = curvature_of(prior, free)
    # Sampled directly, the optimum makes a funnel where the curvature is uncertain; in units of its
    # spread given curvature and noise it does not, down to a curvature of zero.
    variance = model.noise_variance + extra**2
    centre, spread = optimum_given_curvature(model, curvature, variance)
    flat = dist.ImproperUniform(dist.constraints.real_vector, (), (dim,))
    optimum = numpyro.deterministic("optimum", centre + spread * numpyro.sample("unit", flat))
    prior_of_optimum = dist.Normal(prior.optimum_mean, prior.optimum_sd).log_prob(optimum)
    numpyro.factor("optimum_prior", jnp.sum(prior_of_optimum + jnp.log(spread)))
    if steps is None:
        numpyro.factor("trace", log_likelihood(model, free, extra, optimum).sum())
    else:
        numpyro.factor("trace", trace_log_likelihood(model, steps, free, extra, optimum))
