"""Intervals that know the noise hold what they say; others do not."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from dpsep.regressions import NOISE, WIDTH, site
from noisewise.dpsep import (
    Bounds,
    Phase,
    SepSettings,
    assemble_phases,
    fit_simulated,
    linear_interval,
    noise_aware,
    noise_unaware,
    phase_mechanisms,
)
from noisewise.mechanism import Budget

FITS, ROWS = 160, 400
PLAN = SepSettings(
    bounds=Bounds(5.0, 10.0),
    steps=120,
    sampling_rate=0.1,
    mean_rate=0.1,
    precision_rate=0.02,
    decay_from=1.0,
    averaged=0.5,
    max_dispersion=1.0,
)


def simulated():
    """True weights from the prior, and fits at epsilon 1 of regressions made with them."""
    phases = (Phase(site(), PLAN),)
    mechanisms = phase_mechanisms(phases, Budget(epsilon=1.0, delta=1e-5))
    runs = assemble_phases(phases, mechanisms, ROWS, jnp.zeros(WIDTH))

    def one(key):
        key_w, key_x, key_y, key_fit = jax.random.split(key, 4)
        weights = jax.random.normal(key_w, (WIDTH,))
        X = jax.random.normal(key_x, (ROWS, WIDTH))
        y = X @ weights + NOISE * jax.random.normal(key_y, (ROWS,))
        return weights, fit_simulated(runs, {"X": X, "y": y}, key_fit)

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.PRNGKey(0), FITS))


def test_coverage_of_predictive_means_at_epsilon_one():
    """160 fits, one new point each, 90% intervals. Fixed seed; a right interval fails the two-sided
    binomial test at 1e-4 once in 10,000 seeds, and the noise-unaware one has to fail it."""
    weights, fits = simulated()
    points = np.random.default_rng(1).standard_normal((FITS, WIDTH))
    truth = np.einsum("fi,fi->f", points, np.asarray(weights))
    p_values = []
    for reading in (noise_unaware, lambda fit: noise_aware(site(), fit)):
        hits = 0
        for number in range(FITS):
            fit = jax.tree.map(lambda part, number=number: part[number], fits)
            low, high = linear_interval(site(), reading(fit), points[number][None])
            hits += int(low[0] < truth[number] < high[0])
        p_values.append(stats.binomtest(hits, FITS, 0.9).pvalue)
    assert p_values[0] < 1e-4
    assert p_values[1] > 1e-4
