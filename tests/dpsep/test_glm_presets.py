"""The preset for generalised linear models: intervals hold, clipped residuals are allowed for."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from noisewise.dpsep import (
    RegressionSite,
    assemble_phases,
    fit_simulated,
    glm_phases,
    phase_mechanisms,
)
from noisewise.dpsep.site import kept_share
from noisewise.mechanism import Budget

FITS, ROWS, WIDTH = 120, 600, 3


def test_what_a_clip_keeps_of_squared_residuals():
    """Against a million draws: the Monte Carlo error is 0.001 at most, the limit five of it."""
    z = np.random.default_rng(0).standard_normal(1_000_000)
    for bound in (0.5, 2.0, 8.0):
        assert abs(kept_share(bound) - np.minimum(z**2 / 2, bound).mean() / 0.5) < 5e-3
    assert kept_share(50.0) > 1 - 1e-9


def test_intervals_of_a_regression_with_unknown_noise_hold():
    """120 tables from the prior at epsilon 1, 90% intervals. Fixed seed: right intervals fail the
    two-sided binomial test at 1e-4 once in 10,000 seeds. Coefficients of a fit are nearly
    independent here, and are counted as if they were."""
    site = RegressionSite(WIDTH, 1.0, 0.7)
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(500), rng.uniform(-1, 1, (500, WIDTH - 1))])
    phases = glm_phases(site, design, steps=200)
    mechanisms = phase_mechanisms(phases, Budget(epsilon=1.0, delta=1e-5))
    runs = assemble_phases(phases, mechanisms, ROWS, jnp.zeros(WIDTH))

    def one(key):
        keys = jax.random.split(key, 5)
        weights = jax.random.normal(keys[0], (WIDTH,))
        sd = 0.7 * jnp.exp(0.5 * jax.random.normal(keys[1]))
        X = jax.random.uniform(keys[2], (ROWS, WIDTH), minval=-1, maxval=1).at[:, 0].set(1)
        y = X @ weights + sd * jax.random.normal(keys[3], (ROWS,))
        return weights, sd, fit_simulated(runs, {"X": X, "y": y}, keys[4])

    weights, sds, fits = jax.jit(jax.vmap(one))(jax.random.split(jax.random.PRNGKey(0), FITS))
    hits = []
    for covariance in (fits.covariance, fits.covariance + fits.noise_covariance):
        matrices = np.asarray(site.family.matrices(covariance))[:, 0]
        spread = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
        z = (np.asarray(fits.mean) - np.asarray(weights)) / spread
        hits.append(int((np.abs(z) < 1.645).sum()))
    assert stats.binomtest(hits[0], FITS * WIDTH, 0.9).pvalue < 1e-4
    assert stats.binomtest(hits[1], FITS * WIDTH, 0.9).pvalue > 1e-4
    final = phases[-1].site
    variance = np.asarray(jax.vmap(lambda extra: final.noise_variance(extra, ROWS))(fits.extra))
    # Without the correction for clipped residuals the ratio's median would be 0.94.
    assert abs(np.median(np.sqrt(variance) / np.asarray(sds)) - 1) < 0.03
