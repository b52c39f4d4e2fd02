"""DPVIm whole: aligned gradients, Adam, averaged tails, on simulated tables and by `fit`."""

from dataclasses import replace

import numpy as np
import pytest

import noisewise as nw
from noisewise import NoisewiseError
from noisewise.models import bind_model
from noisewise.models.conjugate import beta_bernoulli
from noisewise.planning import first_guess
from noisewise.trials import simulator

FITS, ROWS = 24, 2000
BINARY = nw.Schema((nw.Column(name="x", kind="binary"),), rows=ROWS)
BUDGET = nw.Budget(epsilon=1.0, delta=1e-5)


def dpvim(**more):
    asked = {"clip_norm": 1.0, "rule": "aligned", "learning_rate": 2e-3, "initial_free_scale": -3.0}
    return nw.Settings(**{**asked, "steps": 4000, **more})


def test_simulated_fits_are_finite_and_their_error_bars_sensible():
    """z-scores of 24 fits: mean within five standard errors of 0, sd between 0.6 and 1.6.

    A perfect posterior's sd of 24 z-scores has a standard error of 0.14. Fixed seed.
    """
    bound = bind_model(beta_bernoulli, BINARY, None, None, None)
    ready = simulator(bound, dpvim(full_curvature=False), ROWS, BUDGET)
    averaged, exact = ready.run_all(("averaged", "exact"), range(FITS), draws=300, seed=1)
    for found in (averaged, exact):
        assert found.draws.shape == (FITS, 300, 1)
        assert np.isfinite(found.draws).all()
        assert not (found.status == "DIVERGED").any()
    sd = averaged.draws.std(1)
    z = (averaged.draws.mean(1) - averaged.truth) / sd
    assert abs(z.mean()) < 5 / np.sqrt(FITS)
    assert 0.6 < z.std() < 1.6
    # The noise is in them: wider than plain DPVI's, and not by much with this budget.
    assert 1 < sd.mean() / averaged.noise_unaware_sd.mean() < 2


@pytest.mark.slow
def test_the_noise_aware_posterior_holds_on_aligned_traces():
    """Only the means are released: their gradients are the observations, as a matrix.

    z-scores of 48 fits: sd within four standard errors (0.1) of one, mean within four (0.15) of
    zero, one false alarm in 8000; plain DPVI's must be outside, and averaging the same traces must
    be less accurate. Fixed seed.
    """
    count = 48
    bound = bind_model(beta_bernoulli, BINARY, None, None, None)
    budget = nw.Budget(epsilon=0.3, delta=1e-5)
    planned = first_guess(bound, ROWS, budget, steps=2000)
    asked = replace(planned, rule="aligned", initial_free_scale=np.log(np.expm1(1.0)))
    ready = simulator(bound, asked, ROWS, budget)
    posteriors = ("analytic", "averaged", "naive")
    aware, averaged, plain = (
        (found.draws.mean(1) - found.truth, found.draws.std(1))
        for found in ready.run_all(posteriors, range(count), draws=300, seed=1)
    )
    z = aware[0] / aware[1]
    assert abs(z.std() - 1) < 0.4
    assert abs(z.mean()) < 0.6
    assert (plain[0] / plain[1]).std() > 2
    assert np.sqrt((aware[0] ** 2).mean()) < 0.8 * np.sqrt((averaged[0] ** 2).mean())


@pytest.mark.slow
def test_coverage_and_fit_take_it():
    settings = dpvim(steps=400)
    measured = nw.coverage(
        beta_bernoulli,
        schema=BINARY,
        rows=ROWS,
        budget=BUDGET,
        plan=settings,
        posterior="averaged",
        simulations=10,
        draws=50,
    )
    assert np.isfinite(measured.draws).all()
    rng = np.random.default_rng(0)
    table = nw.Table({"x": rng.integers(0, 2, ROWS)}, BINARY)
    result = nw.fit(
        beta_bernoulli,
        table,
        budget=BUDGET,
        plan=settings,
        posterior="averaged",
        draws=200,
        insecure_seed=0,
    )
    assert result.draws["probability"].shape == (200,)
    with pytest.raises(NoisewiseError, match="full_curvature needs a simulated curvature"):
        nw.fit(beta_bernoulli, table, budget=BUDGET, plan=settings)
    with pytest.raises(NoisewiseError, match="needs a rule that fits scales"):
        nw.fit(beta_bernoulli, table, budget=BUDGET, posterior="averaged")
