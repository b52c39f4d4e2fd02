"""A trace that has not arrived is never called ok, however far away it started."""

from dataclasses import replace

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from noisewise.dpvi import Settings
from noisewise.posterior import FitContext, Reference, Status, infer
from noisewise.trials import Fit, fit_table, target_for

ROWS, PRIOR_SD = 2000, 30.0
SETTINGS = Settings(
    clip_norm=1.5 * ROWS**-0.5,
    steps=1000,
    burn_in=0.2,
    contraction_rate=0.03,
    curvature=ROWS * np.eye(2),
    location=np.zeros(2),
    prior_precision=np.eye(2) / PRIOR_SD**2,
)


def means(x=None, y=None):
    first = numpyro.sample("first", dist.Normal(0, PRIOR_SD))
    second = numpyro.sample("second", dist.Normal(0, PRIOR_SD))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("x", dist.Normal(first, 1), obs=x)
        numpyro.sample("y", dist.Normal(second, 1), obs=y)


@pytest.fixture(scope="module")
def read():
    """From a start to the status, the largest |z| and where the iterates went."""
    rng = np.random.default_rng(0)
    rows = {name: rng.standard_normal(ROWS).astype(np.float32) for name in "xy"}
    target = target_for(means, rows)
    truth = np.array([rows["x"].mean(), rows["y"].mean()])

    def found(start, seed, **changes):
        fit = Fit(
            replace(SETTINGS, **changes), 20.0, jax.random.PRNGKey(seed), np.array(start, float)
        )
        (fitted,) = fit_table(target, rows, [fit])
        context = FitContext.of(fitted.run, fit.settings, Reference(rows, True))
        outcome = infer("analytic", fitted.trace, context, 500, np.random.default_rng(seed))
        z = (outcome.draws.mean(0) - truth) / outcome.draws.std(0)
        return outcome.status, np.abs(z).max()

    return found


@pytest.mark.parametrize(
    ("rate", "start"), [(0.03, 60.0), (0.03, 300.0), (0.003, 15.0), (0.003, 120.0)]
)
def test_a_trace_that_still_climbs_is_not_ok(read, rate, start):
    """From 60 on the iterates are under way when the run ends, or were after its burn-in."""
    for seed in range(2):
        assert read([start, 0.0], seed, contraction_rate=rate)[0] is Status.NOT_CONVERGED


@pytest.mark.parametrize("start", [0.0, 4.0, 15.0, 30.0])
def test_ok_means_that_the_truth_is_in_reach(read, start):
    """Where the status is ok the truth is within 4 sds (chance exceeds it once in 8000 times)."""
    for seed in range(2):
        status, z = read([start, 0.0], seed)
        assert status is not Status.OK or z < 4


def test_a_trace_that_began_at_its_optimum_is_ok(read):
    assert read([0.0, 0.0], 0)[0] is Status.OK
