"""EP and ADF in batches, and SEP in small steps: exact where they must be, stable on a network."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from regressions import WIDTH, exact, matrix, site, table

from noisewise.dpsep import (
    NetworkSite,
    adf_in_batches,
    assemble,
    ep_in_batches,
    fit_unsafe,
    network_reference,
)

KEY = jax.random.PRNGKey(0)


@pytest.mark.parametrize("batch", [1, 20])
def test_ep_of_gaussian_likelihoods_is_exact_whatever_the_batches(batch):
    rows = table()
    fit = ep_in_batches(site(), rows, np.full(WIDTH, 2.0), KEY, epochs=2, batch=batch)
    mean, precision = exact(rows)
    np.testing.assert_allclose(fit.mean, mean, atol=2e-3)
    np.testing.assert_allclose(matrix(fit.precision), precision, rtol=2e-3)


def test_adf_counts_every_pass():
    """One pass is exact, three count every record three times."""
    rows = table()
    mean, precision = exact(rows)
    one = adf_in_batches(site(), rows, np.zeros(WIDTH), KEY, epochs=1, batch=10)
    np.testing.assert_allclose(one.mean, mean, atol=2e-3)
    np.testing.assert_allclose(matrix(one.precision), precision, rtol=2e-3)
    three = adf_in_batches(site(), rows, np.zeros(WIDTH), KEY, epochs=3, batch=10)
    wanted = np.eye(WIDTH) + 3 * (precision - np.eye(WIDTH))
    np.testing.assert_allclose(matrix(three.precision), wanted, rtol=2e-3)


def test_small_steps_keep_a_network_together():
    """Unclipped SEP of a network on a parabola; fixed seeds, and far from the limits: errors are
    about 0.25 for a line's 1. EP and ADF, which share the first pass, do it too."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.7, 1.7, (600, 2)).astype("f4")
    y = (1.1 * (X[:, 0] ** 2 - 1) + 0.2 * rng.standard_normal(600)).astype("f4")
    rows = {"X": jnp.asarray(X), "y": jnp.asarray(y)}
    phase = network_reference(2, hidden=10, epochs=20)
    network = NetworkSite(2, 10)
    run = assemble(phase, None, 600, network.start(0))
    ways = {
        "sep": lambda key: fit_unsafe(run, rows, key),
        "ep": lambda key: ep_in_batches(network, rows, network.start(0), key, epochs=20, batch=2),
        "adf": lambda key: adf_in_batches(network, rows, network.start(0), key, epochs=20, batch=2),
    }
    for name, way in ways.items():
        fit = jax.jit(way)(KEY)
        found = network.predict(fit, rows["X"])
        error = float(jnp.sqrt(jnp.mean((found.mean - y) ** 2)))
        assert error < 0.45, name
        assert 0.15 < float(network.noise_variance(fit.extra, 600)) ** 0.5 < 0.6, name
