"""Targets against NumPyro's own densities, on random models."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpyro.infer.util import log_density, potential_energy

from noisewise.models import build_target

PRIORS = {
    "real": dist.Normal(0.3, 1.2),
    "vector": dist.Normal(0, 1).expand([3]).to_event(1),
    "batch": dist.StudentT(4.0, 0.0, 1.0).expand([2]),
    "positive": dist.Gamma(3.0, 2.0),
    "half": dist.HalfNormal(2.0),
    "log": dist.LogNormal(0.0, 0.5),
    "unit": dist.Beta(2.0, 3.0),
    "between": dist.Uniform(-2.0, 5.0),
    "simplex": dist.Dirichlet(jnp.array([2.0, 3.0, 4.0])),
    "correlated": dist.MultivariateNormal(jnp.zeros(2), jnp.array([[1.0, 0.6], [0.6, 2.0]])),
    "ordered": dist.TransformedDistribution(
        dist.Normal(0, 1).expand([2]).to_event(1), dist.transforms.OrderedTransform()
    ),
}
LIKELIHOODS = {
    "normal": lambda eta: dist.Normal(eta, 1.3),
    "bernoulli": lambda eta: dist.Bernoulli(logits=eta),
    "poisson": lambda eta: dist.Poisson(jnp.exp(0.3 * eta)),
    "gamma": lambda eta: dist.Gamma(2.0, jnp.exp(-0.3 * eta)),
}


def make_model(names, likelihood, in_plate):
    def model(x, y=None):
        eta = 0.0
        for name in names:
            if in_plate and PRIORS[name].batch_shape == ():
                with numpyro.plate(f"copies_{name}", 2):
                    value = numpyro.sample(name, PRIORS[name])
            else:
                value = numpyro.sample(name, PRIORS[name])
            eta = eta + jnp.sum(jnp.sin(value)) * (1 + x)
        with numpyro.plate("people", x.shape[0]):
            numpyro.sample("y", LIKELIHOODS[likelihood](eta), obs=y)

    return model


ANY_MODEL = given(
    names=st.lists(st.sampled_from(sorted(PRIORS)), min_size=1, max_size=7, unique=True),
    likelihood=st.sampled_from(sorted(LIKELIHOODS)),
    in_plate=st.booleans(),
    seed=st.integers(0, 2**20),
)


@settings(max_examples=3, deadline=None)
@ANY_MODEL
def test_densities_equal_numpyros_own(**model):
    check_densities(**model)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@ANY_MODEL
def test_densities_of_many_models_equal_numpyros_own(**model):
    check_densities(**model)


def check_densities(names, likelihood, in_plate, seed):
    rng = np.random.default_rng(seed)
    rows = {
        "x": jnp.asarray(rng.normal(size=5), jnp.float32),
        "y": jnp.asarray(rng.integers(0, 2, 5) + (likelihood == "gamma"), jnp.float32),
    }
    model = make_model(names, likelihood, in_plate)
    target = build_target(model, rows)
    theta = jnp.asarray(rng.normal(size=target.dim), jnp.float32)

    @jax.jit  # one program a model: operation by operation, most of the time is compilation
    def both_ways(theta, rows):
        likelihoods = jax.vmap(target.log_likelihood, (None, 0))(theta, rows)
        latents = target.constrain(theta)
        return {
            "likelihoods": likelihoods,
            "prior": target.log_prior(theta),
            "determinant": target._log_determinant(theta),
            "joint": log_density(model, (), rows, latents)[0],
            "energy": potential_energy(model, (), rows, target._split(theta)),
            "latents": latents,
        }

    found = jax.tree.map(np.asarray, both_ways(theta, rows))
    ours = float(found["likelihoods"].sum() + found["prior"])
    joint = float(found["joint"])
    scale = 1 + abs(joint) + float(np.abs(found["likelihoods"]).sum())
    assert ours == pytest.approx(-float(found["energy"]), abs=3e-5 * scale)
    assert ours - float(found["determinant"]) == pytest.approx(joint, abs=3e-5 * scale)
    # In a program of its own: together with `constrain`, the compiler could cancel the two.
    assert np.allclose(jax.jit(target.unconstrain)(found["latents"]), theta, atol=5e-3)


def test_leading_axes_survive_the_way_there_and_back():
    target = build_target(make_model(["simplex", "positive"], "normal", False), rows_of(6))
    prior = jax.jit(target.sample_prior, static_argnums=1)
    theta = prior(jax.random.PRNGKey(0), 12).reshape(3, 4, target.dim)
    latents = target.constrain(theta)
    assert latents["simplex"].shape == (3, 4, 3)
    assert np.allclose(latents["simplex"].sum(-1), 1, atol=1e-5)
    assert (latents["positive"] > 0).all()
    assert np.allclose(target.unconstrain(latents), theta, atol=1e-4)


def rows_of(n):
    rng = np.random.default_rng(1)
    return {"x": rng.normal(size=n).astype("f4"), "y": rng.normal(size=n).astype("f4")}


def test_simulation_draws_the_observed_argument_and_keeps_covariates():
    target = build_target(make_model(["real"], "bernoulli", False), rows_of(4))
    rows = {"x": jnp.zeros(20_000), "y": jnp.zeros(20_000)}
    theta = jnp.array([1.0])
    made = target.simulate(jax.random.PRNGKey(1), theta, rows)
    expected = 1 / (1 + np.exp(-np.sin(1.0)))
    # 20,000 coins, fixed key: five standard errors are 0.017.
    assert abs(float(made["y"].mean()) - expected) < 0.017
    assert np.array_equal(made["x"], rows["x"])


def test_prior_draws_follow_the_prior():
    target = build_target(make_model(["positive"], "normal", False), rows_of(4))
    draws = np.asarray(
        target.constrain(target.sample_prior(jax.random.PRNGKey(2), 20_000))["positive"]
    )
    # Gamma(3, 2): mean 1.5, sd 0.866; five standard errors of 20,000 draws, fixed key.
    assert abs(draws.mean() - 1.5) < 0.031


def test_labels_name_every_coordinate():
    target = build_target(make_model(["vector", "unit", "simplex"], "normal", False), rows_of(4))
    assert target.labels == [
        "vector[0]",
        "vector[1]",
        "vector[2]",
        "unit",
        "simplex[0]",
        "simplex[1]",
    ]
