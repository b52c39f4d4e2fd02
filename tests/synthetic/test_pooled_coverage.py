"""The promise: intervals from synthetic tables hold the truth when noise-aware, and only then."""

from __future__ import annotations

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

import noisewise as nw
from noisewise.models import bind_model
from noisewise.synthetic.combining import pool
from noisewise.synthetic.generator import Generator
from noisewise.synthetic.origin import Origin
from noisewise.trials import simulator
from synthetic.clinic import certificate

FITS, ROWS, COPIES = 200, 2000, 64
ALARM = 1e-3


def coin(x):
    """Ones and zeros; their log odds are Normal(0, 0.45)."""
    log_odds = numpyro.sample("log_odds", dist.Normal(0.0, 0.45))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("x", dist.Bernoulli(logits=log_odds), obs=x)


@pytest.fixture(scope="module")
def simulated():
    """Private fits of simulated tables: a generator, the true shares, and posterior draws."""
    schema = nw.Schema((nw.Column(name="x", kind="binary"),), rows=ROWS)
    bound = bind_model(coin, schema, None, None, None)
    # As a quick plan finds them; the curvature of log odds is rows * p (1 - p).
    settings = nw.Settings(
        clip_norm=0.03,
        steps=1000,
        contraction_rate=0.1,
        initial_step_multiplier=4.0,
        burn_in=0.15,
        location=np.zeros(1),
        curvature=np.array([[0.238 * ROWS]]),
        curvature_sd=0.1,
        prior_precision=np.array([[0.45**-2]]),
    )
    budget = nw.Budget(epsilon=0.3, delta=1e-5)
    fits = simulator(bound, settings, ROWS, budget).run(range(FITS), draws=COPIES, seed=7)
    rng = np.random.default_rng(8)
    noise = rng.normal(size=fits.draws.shape)
    plain = fits.noise_unaware_mean[:, None] + fits.noise_unaware_sd[:, None] * noise
    truth = 1 / (1 + np.exp(-fits.truth[:, 0]))
    return Generator(bound.target, bound.view), truth, {"aware": fits.draws, "plain": plain}


def covered(simulated, which: str) -> int:
    """How many of the pooled 95% intervals of a share hold the truth."""
    generator, truth, draws = simulated
    posterior = "naive" if which == "plain" else "analytic"
    origin = Origin(privacy=certificate(), model="m", rows=ROWS, posterior=posterior)
    shares = []
    for seed, thetas in enumerate(draws[which].astype(np.float32)):
        tables = nw.SyntheticTables(generator, thetas, COPIES, rows=ROWS, seed=seed, origin=origin)
        shares.append([tables.drawn(place).columns["x"].mean() for place in range(COPIES)])
    estimates = np.array(shares).T
    found = pool(estimates, estimates * (1 - estimates) / ROWS)
    return int(((found.lower <= truth) & (truth <= found.upper)).sum())


@pytest.mark.slow
def test_noise_aware_tables_cover_and_naive_ones_do_not(simulated):
    """200 private fits at epsilon 0.3, 64 tables each, the share of ones estimated from them.

    Noise-aware: the number of intervals that hold the truth lies within the two-sided binomial
    quantiles of 95% coverage at a false-alarm rate of one in a thousand. Naive: below the lower of
    them. Seeds are fixed, so the test is repeatable up to floating-point rounding.

    The design was chosen so that the posterior itself is calibrated, for pooling cannot mend it:
    with 1000 rows posteriors are a little too narrow, and a trial there covered 180 of 200.
    """
    low, high = stats.binom.ppf([ALARM / 2, 1 - ALARM / 2], FITS, 0.95)
    assert low <= covered(simulated, "aware") <= high
    assert covered(simulated, "plain") < low
