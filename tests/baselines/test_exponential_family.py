"""Bernstein and Sheldon (2018): limits in the noise, exact integration, calibration."""

import numpy as np
import pytest
from scipy import stats

from noisewise._validate import NoisewiseError
from noisewise.baselines import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    exponential_family_posterior,
)
from noisewise.mechanism import Budget, calibrate, release_sum

ROWS = 5000
BUDGET = Budget(epsilon=0.1, delta=1e-5)
FAMILIES = {
    "gamma": GammaExponential(upper=4.0),
    "gamma clipped": GammaExponential(upper=1.5),
    "beta": BetaBernoulli(),
    "dirichlet": DirichletCategorical(),
}
each_family = pytest.mark.parametrize("name", FAMILIES)


def prior_draws(family, count, rng):
    k = len(getattr(family, "concentration", [0]))
    return family.posterior_draw(np.zeros((count, k)), 0, rng)


def records(family, theta, rows, rng):
    if isinstance(family, DirichletCategorical):
        return rng.choice(len(theta), size=rows, p=theta)
    if isinstance(family, BetaBernoulli):
        return rng.random(rows) < theta[0]
    return rng.exponential(1 / theta[0], rows)


def simulate(family, fits, rng, rows=ROWS):
    """Parameters from the prior, and the sums of the statistics of data sets from them."""
    theta = prior_draws(family, fits, rng)
    sums = [family.statistics(records(family, one, rows, rng)).sum(0) for one in theta]
    return theta, np.array(sums)


@each_family
def test_moments_agree_with_simulated_records(name):
    """200,000 records, every entry within 5 standard errors: false alarm below 1e-5."""
    family, rng = FAMILIES[name], np.random.default_rng(1)
    theta = prior_draws(family, 1, rng)
    x = records(family, theta[0], 200_000, rng)
    r = family.statistics(x)
    t = x[:, None] if isinstance(family, GammaExponential) else r
    both = np.concatenate([t, r], axis=1)
    mean, covariance = family.moments(theta)
    off = both - mean[0]
    assert np.all(np.abs(off.mean(0)) <= 5 * off.std(0) / np.sqrt(len(x)))
    products = off[:, :, None] * off[:, None, :]
    limit = 5 * products.std(0) / np.sqrt(len(x))
    assert np.all(np.abs(products.mean(0) - covariance[0]) <= limit)


@each_family
def test_no_record_exceeds_the_sensitivity(name):
    family, rng = FAMILIES[name], np.random.default_rng(2)
    x = records(family, prior_draws(family, 1, rng)[0], 1000, rng)
    wild = x if name == "dirichlet" else np.concatenate([x, [-1e9, 1e9]])
    assert np.linalg.norm(family.statistics(wild), axis=1).max() <= family.sensitivity


@pytest.mark.parametrize("name", ["gamma", "beta", "dirichlet"])
def test_hardly_any_noise_gives_the_conjugate_posterior(name):
    """Means within 6 standard errors of 1300 effective draws, sds within 12 %: false alarm below
    1e-6. (Clipped for real, the sum would not hold the sufficient statistic.)"""
    family, rng = FAMILIES[name], np.random.default_rng(3)
    _, sums = simulate(family, 3, rng)
    # Four chains of 500 for each: sweeps cost the same for any number of chains.
    chains = exponential_family_posterior(family, np.repeat(sums, 4, axis=0), ROWS, 0.01, 500, rng)
    found = chains.reshape(3, 2000, -1)
    wanted = family.posterior_draw(np.repeat(sums, 4000, axis=0), ROWS, rng).reshape(3, 4000, -1)
    assert np.all(np.abs(found.mean(1) - wanted.mean(1)) < 6 * wanted.std(1) / np.sqrt(1300))
    assert np.allclose(found.std(1), wanted.std(1), rtol=0.12)


@each_family
def test_overwhelming_noise_gives_the_prior(name):
    """16 chains of 500, half of the draws for new: means within 6 standard errors, of one chain and
    of all; sds of all within 10 %, more than 8 standard errors."""
    family, rng = FAMILIES[name], np.random.default_rng(4)
    _, sums = simulate(family, 16, rng)
    found = exponential_family_posterior(family, sums, ROWS, 1e7, 500, rng)
    prior = prior_draws(family, 20_000, rng)
    widest = prior.std(0).max()
    assert np.allclose(found.mean(1), prior.mean(0), atol=6 * widest / np.sqrt(250))
    assert np.allclose(found.mean((0, 1)), prior.mean(0), atol=6 * widest / np.sqrt(4000))
    assert np.allclose(found.std((0, 1)), prior.std(0), rtol=0.1)


def calibration(name):
    family, rng = FAMILIES[name], np.random.default_rng(5)
    theta, sums = simulate(family, 300, rng)
    noise_sd = calibrate(BUDGET, 1.0, 1) * family.sensitivity
    noisy = sums + rng.normal(0.0, noise_sd, sums.shape)
    draws = exponential_family_posterior(family, noisy, ROWS, noise_sd, 600, rng)
    z = (theta - draws.mean(1)) / draws.std(1)
    return z, np.mean(draws < theta[:, None], axis=1)


@each_family
def test_calibrated_at_epsilon_a_tenth(name):
    """300 fits. Per parameter: z mean within 4 and z sd within 5 standard errors (the z-scores are
    not quite Gaussian), ranks uniform by Kolmogorov-Smirnov at 1e-4: false alarm below 3e-4 a
    parameter; the seed is fixed. 600 draws are worth 43 independent ones at worst
    (clipped), which adds three percent to the z-scores' sd: a seventh of what is allowed."""
    z, ranks = calibration(name)
    assert np.all(np.abs(z.mean(0)) < 4 / np.sqrt(len(z)))
    assert np.all(np.abs(z.std(0) - 1) < 5 / np.sqrt(2 * len(z)))
    for column in ranks.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("upper", [4.0, 1.5])
@pytest.mark.parametrize("collapsed", [True, False])
def test_agrees_with_integration_on_a_grid(upper, collapsed):
    """p(rate | release) by brute force, on 60 chains: 6 standard errors, from the chains' spread.

    A bare sampler, without the Metropolis step, must have the same law, only slower.
    """
    family, rng = GammaExponential(upper=upper), np.random.default_rng(6)
    noise_sd = 30.0 * upper
    released = 0.27 * ROWS
    grid = np.linspace(0.5, 12, 20_000)[:, None]
    mean, covariance = family.moments(grid)
    spread = np.sqrt(ROWS * covariance[:, 1, 1] + noise_sd**2)
    density = stats.norm.pdf(released, ROWS * mean[:, 1], spread)
    density *= stats.gamma.pdf(grid[:, 0], 8, scale=0.5)
    density /= density.sum()
    exact_mean = density @ grid[:, 0]
    exact_square = density @ (grid[:, 0] - exact_mean) ** 2
    chains = exponential_family_posterior(
        family, np.full((60, 1), released), ROWS, noise_sd, 1000, rng, collapsed=collapsed
    )[:, :, 0]
    for wanted, found in (
        (exact_mean, chains.mean(1)),
        (exact_square, ((chains - exact_mean) ** 2).mean(1)),
    ):
        assert abs(found.mean() - wanted) < 6 * found.std(ddof=1) / np.sqrt(60)
    assert chains.std() == pytest.approx(np.sqrt(exact_square), rel=0.15)


def test_ignoring_the_clipping_would_show():
    """The test above has power: with an unclipped model of clipped records, z is far off."""
    clipped, rng = GammaExponential(upper=0.5), np.random.default_rng(7)
    _, sums = simulate(clipped, 1, rng)
    right = exponential_family_posterior(clipped, sums, ROWS, 15.0, 1000, rng)
    wrong = exponential_family_posterior(GammaExponential(upper=50.0), sums, ROWS, 15.0, 1000, rng)
    assert abs(right.mean() - wrong.mean()) > 3 * right.std()


def test_drawn_counts_sum_to_the_rows_and_stay_in_the_simplex():
    family, rng = DirichletCategorical(concentration=(0.2, 1.0, 5.0)), np.random.default_rng(8)
    released = np.array([[-40.0, 10.0, 130.0], [300.0, -300.0, 90.0]])
    draws = exponential_family_posterior(family, released, 100, 30.0, 500, rng)
    assert np.all(draws >= 0)
    assert np.allclose(draws.sum(2), 1.0)


@each_family
def test_impossible_releases_give_finite_posteriors(name):
    """Sums that no data set has: far below zero, far above the rows."""
    family, rng = FAMILIES[name], np.random.default_rng(9)
    k = len(getattr(family, "concentration", [0]))
    released = np.array([[-3000.0] * k, [30_000.0] * k])
    draws = exponential_family_posterior(family, released, 1000, 500.0, 300, rng)
    assert np.all(np.isfinite(draws))


def test_from_rows_to_posterior_through_the_wall():
    family, rng = BetaBernoulli(), np.random.default_rng(10)
    x = rng.random(ROWS) < 0.4
    total, noise_sd, _ = release_sum(
        family.statistics(x), family.sensitivity, BUDGET, what="count", insecure_seed=1
    )
    draws = exponential_family_posterior(family, total[None], ROWS, noise_sd, 1000, rng)
    assert draws.shape == (1, 1000, 1)
    assert abs(draws.mean() - 0.4) < 6 * draws.std()


def test_bad_arguments_are_refused_in_one_line():
    def posterior(released, noise_sd=1.0, **more):
        rng = np.random.default_rng(0)
        return exponential_family_posterior(BetaBernoulli(), released, 9, noise_sd, 5, rng, **more)

    with pytest.raises(NoisewiseError, match="released must be a finite array"):
        posterior(np.array([[np.nan]]))
    with pytest.raises(NoisewiseError, match="noise_sd must be a positive"):
        posterior(np.ones((1, 1)), noise_sd=0.0)
    with pytest.raises(NoisewiseError, match="codes 0 to 2 only"):
        DirichletCategorical().statistics(np.array([0, 3]))
    with pytest.raises(NoisewiseError, match="upper must be a positive"):
        GammaExponential(upper=-1.0)
