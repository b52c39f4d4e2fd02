"""What the model expects of its gradients, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from noisewise.models import build_target, identity_frame
from noisewise.posterior.expected import Surroundings, expect, optimum_prior

N = 5000.0
WIDE = np.eye(1) * 1e-9


def exponential(x=None):
    log_rate = numpyro.sample("log_rate", dist.Normal(0, 10))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("x", dist.Exponential(jnp.exp(log_rate)), obs=x)


def expected(clip_norm, wander=0.0, records=65_536):
    target = build_target(exponential, {"x": np.ones(4, np.float32)})
    made_up = {"x": jnp.ones(records, jnp.float32)}
    around = Surroundings(jnp.full(1, 0.7), jnp.eye(1) * wander)
    found = expect(
        target, identity_frame(1), clip_norm, N, WIDE, made_up, around, jax.random.PRNGKey(0)
    )
    return jax.tree.map(lambda part: np.asarray(part, float).ravel(), found)


def test_without_clip_and_wander_everything_is_the_fisher_information():
    """Of a log rate it is N. Monte Carlo error with 65,536 records: up to sqrt(8/65,536) = 1.1%
    for the scatter (kurtosis 9), 2.2% for the slope (2048 records); limits are five of them."""
    found = expected(1e6)
    assert found.curvature == pytest.approx(N, rel=0.11)
    assert found.response == pytest.approx(N, rel=0.055)
    assert found.scatter == pytest.approx(N, rel=0.055)
    assert found.bias == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("clip_norm", [0.8, 1.5])
def test_clipping_against_the_integrals(clip_norm):
    """Gradient rate x - 1 with rate x standard exponential, clipped to +-C: integrals by hand."""
    t = np.linspace(0, 60, 2_000_001)
    weight = np.exp(-t) * (t[1] - t[0])
    plain, clipped = t - 1, np.clip(t - 1, -clip_norm, clip_norm)
    inside = np.abs(plain) < clip_norm
    found = expected(clip_norm)
    assert found.bias == pytest.approx(N * (clipped * weight).sum(), rel=0.05)
    assert found.response == pytest.approx(N * (clipped * plain * weight).sum(), rel=0.03)
    variance = (clipped**2 * weight).sum() - (clipped * weight).sum() ** 2
    assert found.scatter == pytest.approx(N * variance, rel=0.03)
    assert found.curvature == pytest.approx(N * (t * inside * weight).sum(), rel=0.1)


def test_wander_against_the_integral():
    """E exp(w) = exp(s^2 / 2): the mean gradient over a wander of sd s is N (exp(s^2/2) - 1). Moves
    with the right second moment know it up to terms of order s^4, here 1%, and records to 1%."""
    found = expected(1e6, wander=0.3)
    assert found.bias == pytest.approx(N * (np.exp(0.045) - 1), rel=0.05)


def test_the_optimums_prior_and_theta_around_it_make_the_prior():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    prior = root @ root.T + np.eye(3)
    curvature = prior + 5 * np.eye(3)
    raised, precision = optimum_prior(curvature, prior)
    np.testing.assert_allclose(raised, curvature)
    whole = np.linalg.inv(precision) + np.linalg.inv(raised)
    np.testing.assert_allclose(whole, np.linalg.inv(prior))
    below, _ = optimum_prior(0.1 * prior, prior)
    np.testing.assert_allclose(below, prior, rtol=2e-3)
