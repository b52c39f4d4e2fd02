"""The non-private reference: an optimum of the ELBO as another code path writes it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise import NoisewiseError
from noisewise.studies.dpvim.common import Logistic, Optimum, elbo_gradient, find_optimum

ROWS, DIM = 400, 4


@pytest.fixture(scope="module")
def table():
    """Correlated columns, one of them rare: there the guide is wide and its draws matter."""
    rng = np.random.default_rng(0)
    design = rng.normal(size=(ROWS, DIM)) @ (np.eye(DIM) + 0.4)
    design[:, 0] = rng.random(ROWS) < 0.02
    outcome = (rng.random(ROWS) < 1 / (1 + np.exp(-design @ [1.0, -0.5, 0.3, 0.8]))).astype(float)
    return design, outcome


def elbo(parameters, design, outcome, draws):
    """By common random numbers, symmetric ones, with the log-likelihood and KL in full."""
    mean, sd = parameters
    predictor = (mean + sd * draws) @ design.T
    likelihood = (outcome * predictor - jax.nn.softplus(predictor)).sum(1).mean()
    return likelihood - 0.5 * (sd**2 + mean**2 - 1 - 2 * jnp.log(sd)).sum()


def test_autodiff_of_the_elbo_agrees_and_vanishes_at_the_optimum(table):
    """20,000 symmetric draws: Monte Carlo errors of the gradient are far below 0.3 here, and the
    gradient a tenth of an sd away is tens. The seed is fixed."""
    design, outcome = (jnp.asarray(each) for each in table)
    half = jax.random.normal(jax.random.PRNGKey(1), (10_000, DIM))
    draws = jnp.concatenate([half, -half])
    found = find_optimum(Logistic(*table))
    gradient = jax.jit(jax.grad(elbo))
    here = gradient((jnp.asarray(found.mean), jnp.asarray(found.sd)), design, outcome, draws)
    scaled = [np.asarray(part) * found.sd for part in here]  # per sd moved
    assert np.abs(scaled).max() < 0.05
    away = Optimum(found.mean + 0.3 * found.sd, found.sd * 1.3)
    there = gradient((jnp.asarray(away.mean), jnp.asarray(away.sd)), design, outcome, draws)
    expected = elbo_gradient(Logistic(*table), away)
    for auto, ours in zip(there, expected, strict=True):
        np.testing.assert_allclose(np.asarray(auto) * away.sd, ours * away.sd, atol=0.05)
        assert np.abs(ours * away.sd).max() > 0.2


def test_its_own_gradient_is_zero(table):
    by_mean, by_sd = elbo_gradient(Logistic(*table), find_optimum(Logistic(*table)))
    assert np.abs(by_mean).max() < 1e-5
    assert np.abs(by_sd).max() < 1e-4


def test_a_table_that_is_not_numbers_is_refused():
    with pytest.raises(NoisewiseError, match="was not found in 200 rounds"):
        find_optimum(Logistic(np.full((5, 2), np.nan), np.ones(5)))
