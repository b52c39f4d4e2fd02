"""Hierarchical latents in both forms: found, exact, and the same model however it is written."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.models import bind_model, standardise, unstandardise
from noisewise.models.centring import CentredTarget, Centring

GROUPS = 4
SCHEMA = nw.Schema(
    (
        nw.Column(name="ward", kind="category", categories=tuple("abcd")),
        nw.Column(name="age", kind="real", bounds=(-3, 3)),
        nw.Column(name="y", kind="real", bounds=(-10, 10)),
    )
)


def hyperparameters():
    return numpyro.sample("m", dist.Normal(0, 1)), numpyro.sample("s", dist.HalfNormal(1))


def observe(mean, y, sd=1.0):
    with numpyro.plate("people", len(mean)):
        numpyro.sample("y", dist.Normal(mean, sd), obs=y)


def centred(ward, y=None):
    m, s = hyperparameters()
    a = numpyro.sample("a", dist.Normal(m, s).expand([GROUPS]).to_event(1))
    observe(a[ward], y)


def standardised(ward, y=None):
    m, s = hyperparameters()
    a = m + s * numpyro.sample("a", dist.Normal(0, 1).expand([GROUPS]).to_event(1))
    observe(a[ward], y)


def horseshoe(ward, y=None):
    t = numpyro.sample("t", dist.HalfCauchy(1))
    local = numpyro.sample("l", dist.HalfCauchy(1).expand([GROUPS]).to_event(1))
    a = numpyro.sample("a", dist.Normal(0, 1).expand([GROUPS]).to_event(1))
    observe((t * local * a)[ward], y)


def regression(age, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1))
    s = numpyro.sample("s", dist.LogNormal(0, 1))
    observe(w * age, y, s)


def scale_twice(ward, y=None):
    """The scale is the noise's as well: no number can be moved from one to the other."""
    _, s = hyperparameters()
    a = numpyro.sample("a", dist.Normal(0, 1).expand([GROUPS]).to_event(1))
    observe((s * a)[ward], y, s)


def bound(model):
    return bind_model(model, SCHEMA, "y").target


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (standardised, (Centring("a", ("s",), ("m",)),)),
        (horseshoe, (Centring("a", ("t", "l")),)),
        (regression, ()),
        (scale_twice, ()),
        (centred, ()),
    ],
)
def test_what_is_standardised_is_found(model, expected):
    assert getattr(bound(model), "centrings", ()) == expected


def test_both_ways_of_writing_a_model_are_one():
    """The same densities at the same group intercepts, prior and likelihood."""
    one, other = bound(centred), bound(standardised)
    assert isinstance(other, CentredTarget)
    theta = one.sample_prior(jax.random.PRNGKey(0), 5)
    record = {"ward": jnp.array(2), "y": jnp.array(0.7)}
    for target in (one, other):
        assert target.labels == ["m", "s", "a[0]", "a[1]", "a[2]", "a[3]"]
    priors = [jax.vmap(target.log_prior)(theta) for target in (one, other)]
    np.testing.assert_allclose(*priors, rtol=1e-4, atol=1e-4)
    likelihoods = [
        jax.vmap(target.log_likelihood, (0, None))(theta, record) for target in (one, other)
    ]
    np.testing.assert_allclose(*likelihoods, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", [centred, standardised, horseshoe])
def test_there_and_back(model):
    """Latents, standardised coordinates and their log determinant against a numerical one."""
    target = bound(model)
    theta = target.sample_prior(jax.random.PRNGKey(1), 3)
    latents = target.constrain(theta)
    np.testing.assert_allclose(target.unconstrain(latents), theta, rtol=1e-3, atol=1e-3)
    raw = jax.vmap(lambda x: standardise(target, x))(theta)
    found = jax.vmap(lambda x: unstandardise(target, x))(raw)
    np.testing.assert_allclose(found.theta, theta, rtol=1e-3, atol=1e-3)
    jacobian = jax.vmap(jax.jacfwd(lambda x: unstandardise(target, x).theta))(raw)
    expected = np.linalg.slogdet(np.asarray(jacobian, float))[1]
    np.testing.assert_allclose(found.log_determinant, expected, rtol=1e-3, atol=1e-2)
