"""Without clipping and noise every gradient rule is NumPyro's own SVI gradient."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer import Trace_ELBO
from numpyro.infer.autoguide import AutoDiagonalNormal

from dpvi.gradients import numbers_of, one_gradient
from noisewise.dpvi import Constants, Dpvi, MeansOnly, Point, Preconditioned, Vanilla
from noisewise.guides import DiagonalGuide
from noisewise.mechanism import Draws, Passes, make_grid
from noisewise.models import build_target, identity_frame, logistic

PARTICLES = 4


def positive_and_simplex(x, y=None):
    rate = numpyro.sample("rate", dist.Gamma(3.0, 1.0))
    share = numpyro.sample("share", dist.Dirichlet(jnp.array([2.0, 3.0, 1.5])))
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("y", dist.Poisson(rate * (share[0] + share[1] * x)), obs=y)


def made(name):
    rng = np.random.default_rng(0)
    if name == "logistic":
        X = rng.normal(size=(50, 4)).astype(np.float32)
        return logistic(), {"X": X, "y": rng.integers(0, 2, 50).astype(np.float32)}
    x = rng.random(50).astype(np.float32)
    return positive_and_simplex, {"x": x, "y": rng.poisson(1.5, 50).astype(np.float32)}


@cache
def svi_gradient(model_name):
    """Where, NumPyro's gradient of the negative ELBO by (loc, unconstrained scale), its draws."""
    model, rows = made(model_name)
    dim = build_target(model, rows).dim
    means, free = jnp.full(dim, 0.2), jnp.full(dim, -1.0)
    guide = AutoDiagonalNormal(model)
    handlers.trace(handlers.seed(guide, jax.random.PRNGKey(9))).get_trace(**rows)
    key = jax.random.PRNGKey(42)
    elbo = Trace_ELBO(num_particles=PARTICLES)

    def loss(parameters):
        loc, u = parameters
        values = {"auto_loc": loc, "auto_scale": jax.nn.softplus(u)}
        return elbo.loss(key, values, model, guide, **rows)

    def draw(particle):
        guide_key = jax.random.split(particle)[1]
        fixed = handlers.substitute(
            guide, data={"auto_loc": means, "auto_scale": jax.nn.softplus(free)}
        )
        drawn = handlers.trace(handlers.seed(fixed, guide_key)).get_trace(**rows)
        return (drawn["_auto_latent"]["value"] - means) / jax.nn.softplus(free)

    gradient = jax.jit(jax.grad(loss))((means, free))
    noise = jax.jit(jax.vmap(draw))(jax.random.split(key, PARTICLES))
    return (means, free), gradient, noise


def constants(rule, beta=1.0, scale=None):
    dim = rule.target.dim
    precondition = jnp.ones(rule.parameters)
    if rule.parameters > dim:
        precondition = precondition.at[dim:].set(beta)
    return Constants(identity_frame(dim), precondition, jnp.ones(dim) if scale is None else scale)


def rules(target):
    guide = DiagonalGuide(target.dim)
    return {
        "vanilla": Vanilla(target, guide),
        "preconditioned": Preconditioned(target, guide),
        "means_only": MeansOnly(target),
    }


@partial(jax.jit, static_argnums=0)
def full_gradient(rule, used, parameters, noise, batch):
    """Neither clipped nor noised."""
    at = Point(used, parameters, noise)
    released = rule.record_gradients(at, batch).sum(0)
    return rule.complete(at, released) + rule.public_gradient(at)


@pytest.mark.parametrize("model_name", ["logistic", "positive_and_simplex"])
@pytest.mark.parametrize("name", ["vanilla", "preconditioned", "means_only"])
def test_full_batch_gradient_equals_svis(model_name, name):
    model, rows = made(model_name)
    target = build_target(model, rows)
    rule = rules(target)[name]
    (means, free), (by_mean, by_free), noise = svi_gradient(model_name)
    parameters = jnp.concatenate([means, free])[: rule.parameters]
    used = constants(rule, beta=30.0, scale=jax.nn.softplus(free))
    total = full_gradient(rule, used, parameters, noise, target.prepare(rows, used.frame))
    expected = jnp.concatenate([by_mean, by_free])[: rule.parameters]
    scale = float(jnp.abs(expected).max())
    assert np.allclose(total, expected, atol=1e-5 * scale, rtol=2e-5)


@pytest.mark.parametrize("clip_prior", [False, True])
@pytest.mark.parametrize("name", ["vanilla", "preconditioned", "means_only"])
def test_the_mechanism_adds_nothing_when_clip_and_noise_are_off(name, clip_prior):
    model, rows = made("logistic")
    target = build_target(model, rows)
    rule = rules(target)[name]
    n, key = 50, jax.random.PRNGKey(3)
    parameters = jnp.full(rule.parameters, -0.5)
    used = constants(rule, beta=5.0)
    # A clip norm no record reaches; the grid then resolves a gradient to clip / 2^16.
    grid = make_grid(200.0, rule.released, n, 1.0)
    draws = Draws(jnp.arange(n), jnp.int32(0), jnp.int32(n), jnp.zeros(rule.released, jnp.int32))
    numbers = numbers_of(used, grid, jnp.zeros(rule.released), public_count=n)
    algorithm = Dpvi(rule, PARTICLES, clip_prior=clip_prior)
    batch = target.prepare(rows, used.frame)
    found = one_gradient(algorithm, Passes(n, 1), numbers, batch, parameters, key, draws)
    noise = jax.random.normal(key, (PARTICLES, target.dim))
    expected = full_gradient(rule, used, parameters, noise, batch)
    rounding = n * 0.5 * 200.0 / 2**16
    assert np.abs(np.asarray(found - expected)).max() < rounding


def test_scale_maps_have_the_right_slope():
    free = jnp.linspace(-6.0, 2.0, 9)
    for scale_map in ("softplus", "exp"):
        for of in ("sd", "variance"):
            guide = DiagonalGuide(9, scale_map, of)
            slope = jax.vmap(jax.grad(lambda u, g=guide: g.scale(u)))(free)
            assert np.allclose(guide.scale_slope(free), slope, rtol=1e-5)
            entropy = jax.grad(lambda p, g=guide: -jnp.sum(jnp.log(g.scale(p[9:]))))
            parameters = jnp.concatenate([jnp.zeros(9), free])
            assert np.allclose(guide.entropy_gradient(parameters), entropy(parameters), rtol=1e-4)
