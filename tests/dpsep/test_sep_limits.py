"""Every method has a limit that is known exactly, and reaches it."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpsep.regressions import NOISE, WIDTH, N, exact, matrix, quiet, site, table
from noisewise.dpsep import (
    Bounds,
    Phase,
    ProbitSite,
    adf_in_batches,
    assemble,
    ep,
    fit_simulated,
    fit_unsafe,
    one_at_a_time,
    random_passes,
    scale_noise,
)
from noisewise.dpsep import SepSettings as Settings

KEY = jax.random.PRNGKey(0)


@pytest.mark.parametrize("natural", [True, False])
def test_gaussian_likelihoods_are_exact(natural):
    rows = table()
    mean, precision = exact(rows)
    fit = fit_unsafe(quiet(60, natural)(site(), rows, np.zeros(WIDTH)), rows)
    assert np.allclose(fit.mean, mean, atol=1e-5)
    assert np.allclose(matrix(fit.precision), precision, rtol=1e-4, atol=1e-3)


def sep_in_numpy(rows, order, gamma):
    """Li et al. (2015) with the paper's damping, in double precision, nothing shared."""
    X, y = rows["X"].astype(float), rows["y"].astype(float)
    eta, precision = np.zeros(WIDTH), np.eye(WIDTH)
    for n in order:
        eta_f, precision_f = eta / N, (precision - np.eye(WIDTH)) / N
        # A Gaussian likelihood's site is itself, whatever the cavity.
        eta_n, precision_n = X[n] * y[n] / NOISE**2, np.outer(X[n], X[n]) / NOISE**2
        eta = eta + gamma / N * (eta_n - eta_f)
        precision = precision + gamma / N * (precision_n - precision_f)
    return np.linalg.solve(precision, eta), precision


@pytest.mark.parametrize("gamma", [None, 1.0, 20.0])
def test_gamma_of_n_is_sep(gamma):
    rows, order = table(), random_passes(N, 3, 0)
    found = one_at_a_time(site(), rows, order, initial=np.zeros(WIDTH), gamma=gamma)
    mean, precision = sep_in_numpy(rows, order, N if gamma is None else gamma)
    assert np.allclose(found.mean, mean, rtol=2e-4, atol=2e-5)
    assert np.allclose(matrix(found.precision), precision, rtol=2e-4, atol=2e-3)


def test_gamma_of_one_hardly_moves():
    """After T epochs the fraction 1 - exp(-T/N) of the data's precision has arrived."""
    rows, epochs = table(), 10
    order = random_passes(N, epochs, 0)
    found = one_at_a_time(site(), rows, order, initial=np.zeros(WIDTH), gamma=1.0)
    _, precision = exact(rows)
    share = (np.trace(matrix(found.precision)) - WIDTH) / (np.trace(precision) - WIDTH)
    assert share == pytest.approx(1 - np.exp(-epochs / N), rel=0.05)


def test_ep_and_adf_are_exact_on_gaussian_likelihoods():
    rows = table()
    mean, precision = exact(rows)
    for found in (
        ep(site(), rows, random_passes(N, 2, 0), initial=np.zeros(WIDTH)),
        adf_in_batches(site(), rows, np.zeros(WIDTH), KEY, epochs=1, batch=1),
    ):
        assert np.allclose(found.mean, mean, atol=1e-4)
        assert np.allclose(matrix(found.precision), precision, rtol=1e-3, atol=1e-2)


def test_natural_and_centred_forms_share_their_fixed_point():
    """Probit: both are SEP's, and close to EP's."""
    rows = table()
    rows["y"] = (rows["y"] > 0).astype(np.float32)
    probit = ProbitSite(WIDTH)
    natural, centred = (
        fit_unsafe(quiet(150, form)(probit, rows, np.zeros(WIDTH)), rows) for form in (True, False)
    )
    assert np.allclose(natural.mean, centred.mean, atol=2e-5)
    assert np.allclose(natural.precision, centred.precision, rtol=1e-4, atol=1e-3)
    found = ep(probit, rows, random_passes(N, 5, 0), initial=np.zeros(WIDTH))
    sds = np.sqrt(np.diag(matrix(found.covariance)))
    assert np.abs((natural.mean - found.mean) / sds).max() < 0.05


def test_clipping_binds_and_a_site_that_is_not_a_number_is_nothing():
    rows = table()
    settings = Settings(bounds=Bounds(0.1, 0.1), sampling_rate=1.0, steps=50, mean_rate=0.5)
    run = assemble(Phase(site(), settings), None, N, np.zeros(WIDTH))
    clipped = fit_unsafe(run, rows)
    assert np.trace(matrix(clipped.precision)) <= WIDTH + 0.1 * N * np.sqrt(WIDTH)
    broken = {"X": rows["X"].copy(), "y": rows["y"].copy()}
    broken["y"][7] = np.nan
    without = {name: np.delete(column, 7, axis=0) for name, column in rows.items()}
    # The same public number of records for both: one of them is not there, or says nothing.
    gone, silent = fit_unsafe(run, without), fit_unsafe(run, broken)
    assert np.allclose(silent.mean, gone.mean, atol=1e-6)
    assert np.allclose(silent.precision, gone.precision, atol=1e-5)
    for found in (
        ep(site(), broken, random_passes(N, 1, 0), initial=np.zeros(WIDTH)),
        adf_in_batches(site(), broken, np.zeros(WIDTH), KEY, epochs=1, batch=1),
    ):
        assert jax.tree.all(jax.tree.map(lambda part: bool(jnp.isfinite(part).all()), found))


def test_many_budgets_share_one_program():
    """The noise times a factor is the noise of a mechanism with that much less, to a grid's step:
    same key, same normals."""
    rows = {name: jnp.asarray(column) for name, column in table().items()}
    settings = Settings(
        bounds=Bounds(20.0, 60.0), sampling_rate=0.5, steps=8, max_dispersion=np.inf
    )
    phase = Phase(site(), settings)
    loud, calm = (replace(phase.mechanism, noise_multiplier=noise) for noise in (0.8, 0.2))

    def fit(mechanism):
        run, key = assemble(phase, mechanism, N, jnp.zeros(WIDTH)), jax.random.PRNGKey(0)
        return jax.jit(lambda factor: fit_simulated([scale_noise(run, factor)], rows, key).mean)

    any_budget = fit(loud)
    quarter = np.asarray(any_budget(0.25))
    assert np.allclose(quarter, fit(calm)(1.0), atol=2e-3)
    assert np.abs(quarter - any_budget(1.0)).max() > 0.02
