"""Are error bars true? A hundred simulated private fits, in CI."""

import numpy as np

import noisewise as nw
from noisewise.models.conjugate import beta_bernoulli


def test_beta_bernoulli_at_epsilon_a_tenth():
    """z-scores of 100 fits have an sd between 0.8 and 1.25 and a mean within 0.35 of 0.

    For perfect error bars the sd's standard error is 0.071 and the mean's 0.1, so a false alarm has
    probability below 0.005; the seed is fixed, 0, and was not chosen for its outcome.
    """
    schema = nw.Schema((nw.Column(name="x", kind="binary"),))
    budget = nw.Budget(epsilon=0.1, delta=1e-5)
    quick = nw.plan(beta_bernoulli, schema=schema, rows=5000, budget=budget, fits=0, steps=2000)
    found = nw.coverage(
        beta_bernoulli, schema=schema, rows=5000, budget=budget, plan=quick, simulations=100
    )
    assert found.scores.failed == 0
    assert 0.8 < found.scores.z_sd[0] < 1.25
    assert abs(found.scores.z_mean[0]) < 0.35
    # The same fits read as plain DPVI are far too sure of themselves.
    assert found.noise_unaware_z_sd[0] > 2 * found.scores.z_sd[0]
    assert np.isfinite(found.draws).all()


def test_the_house_of_coverage_does_not_hide_its_function():
    """Both are called so; whatever was imported before, `noisewise.coverage` can be called."""
    from noisewise.coverage import Coverage

    assert nw.Coverage is Coverage
    assert callable(nw.coverage) and nw.coverage is nw.coverage
