"""Bernstein and Sheldon (2019): moments, limits in the noise, exact conditionals, calibration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import noisewise.baselines.linear_regression as regression
import noisewise.baselines.regression_sampler as sampler
from noisewise._validate import NoisewiseError
from noisewise.baselines import (
    RegressionPrior,
    XMoments,
    gaussian_moments,
    linear_regression_posterior,
    regression_sensitivity,
    regression_statistics,
)
from noisewise.baselines.regression_moments import released_pairs
from noisewise.mechanism import Budget, calibrate, release_sum

ROWS = 5000
NORMAL = gaussian_moments(np.zeros(1), np.eye(1))
LINE = RegressionPrior.standard(2)
WIDE = (1e6, 1e6)
FITS, DRAWS = 20, 1500


@pytest.fixture(autouse=True)
def same_program(monkeypatch):
    """Most tests run groups of 20 fits with 1500 draws: one compilation for all."""
    monkeypatch.setattr(regression, "_GROUP", {"cpu": FITS, "gpu": FITS})


def with_ones(x):
    return np.column_stack([x, np.ones(len(x))])


def simulate(fits, dim, bounds, rng, rows=ROWS):
    """(variance, weights) from the paper's prior, and the sums of data sets with Gaussian x."""
    variance = 0.5 / rng.gamma(20.0, size=fits)
    weights = 2 * np.sqrt(variance)[:, None] * rng.normal(size=(fits, dim))
    sums = []
    for v, w in zip(variance, weights, strict=True):
        x = rng.normal(size=(rows, dim - 1))
        y = x @ w[:-1] + w[-1] + np.sqrt(v) * rng.normal(size=rows)
        sums.append(regression_statistics(with_ones(x), y, *bounds).sum(0))
    return np.column_stack([variance, weights]), np.array(sums)


def law_of_the_sums(variance, weights, moments, rows):
    """Mean and covariance of the true sums, as the sampler has them, put together densely."""
    first, second = released_pairs(len(weights))
    pairs = moments.second[first, second]
    products = moments.fourth[first, second][:, first, second] - np.outer(pairs, pairs)
    with jax.enable_x64(True):
        combination = np.asarray(sampler._combine(jnp.asarray(weights)))
        errors = np.asarray(sampler._error_covariance(variance, weights, moments.second))
    crossed = combination @ products
    covariance = np.block([[products, crossed.T], [crossed, crossed @ combination.T + errors]])
    mean_xy = moments.second @ weights
    mean = np.concatenate([pairs, mean_xy, [weights @ mean_xy + variance]])
    return rows * mean, rows * covariance


def empirical_moments(x):
    return XMoments(x.T @ x / len(x), np.einsum("ni,nj,nk,nl->ijkl", x, x, x, x) / len(x))


@pytest.mark.parametrize("kind", ["gaussian", "skewed"])
def test_moment_formulas_agree_with_simulated_records(kind):
    """500,000 records, 9 statistics, every mean and covariance within 5 standard errors: false
    alarm below 5e-5. The moments of the skewed features are those of the very sample."""
    rng = np.random.default_rng(1)
    count, weights, variance = 500_000, np.array([0.5, -1.0, 0.3]), 0.4
    if kind == "gaussian":
        mean, root = np.array([0.3, -0.5]), np.array([[1.0, 0.0], [0.6, 0.8]])
        x = mean + rng.normal(size=(count, 2)) @ root.T
        moments = gaussian_moments(mean, root @ root.T)
    else:
        x = rng.exponential(size=(count, 2)) ** 0.7
        moments = empirical_moments(with_ones(x))
    y = x @ weights[:-1] + weights[-1] + np.sqrt(variance) * rng.normal(size=count)
    found = regression_statistics(with_ones(x), y, 1e9, 1e9)
    mean, covariance = law_of_the_sums(variance, weights, moments, 1)
    off = found - mean
    assert np.all(np.abs(off.mean(0)) <= 5 * off.std(0) / np.sqrt(count) + 1e-12)
    for i in range(found.shape[1]):
        products = off[:, i, None] * off
        limit = 5 * products.std(0) / np.sqrt(count) + 1e-12
        assert np.all(np.abs(products.mean(0) - covariance[i]) <= limit)


def test_the_sensitivity_is_the_largest_norm_of_a_record():
    bounds = (2.0, 0.5), 3.0
    largest = regression_sensitivity(3, *bounds)

    def norms(values):
        statistics = regression_statistics(with_ones(values[:, :2]), values[:, 2], *bounds)
        return np.linalg.norm(statistics, axis=1)

    corners = np.array(list(itertools.product([-9.0, 0.0, 9.0], repeat=3)))
    assert norms(corners).max() == pytest.approx(largest, rel=1e-12)
    wild = np.random.default_rng(0).standard_cauchy((10_000, 3))
    assert norms(wild).max() <= largest * (1 + 1e-12)


def some_fit(noise_sd, dim=3, seed=2):
    rng = np.random.default_rng(seed)
    _, sums = simulate(1, dim, WIDE, rng, rows=200)
    moments = gaussian_moments(np.full(dim - 1, 0.2), np.eye(dim - 1) + 0.3)
    prior = RegressionPrior.standard(dim)
    released = sums[0] + noise_sd * rng.normal(size=sums.shape[1])
    return regression._constants(released, 200, noise_sd, prior, moments), moments


@pytest.mark.parametrize("noise_sd", [0.5, 20.0, 1000.0])
def test_the_density_of_the_release_is_the_dense_gaussian(noise_sd):
    fit, moments = some_fit(noise_sd)
    found, wanted = [], []
    with jax.enable_x64(True):
        for scale in (0.5, 1.0, 2.0):
            weights, variance = scale * np.array([0.3, -0.2, 0.1]), 0.03 * scale
            state = sampler._State(jnp.asarray(variance), jnp.asarray(weights))
            found.append(float(sampler._look(state, fit).log_density))
            mean, covariance = law_of_the_sums(variance, weights, moments, 200)
            covariance += noise_sd**2 * np.eye(len(mean))
            wanted.append(stats.multivariate_normal.logpdf(fit.released, mean, covariance))
    # Up to a constant that does not depend on the state.
    assert np.allclose(np.diff(found), np.diff(wanted), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("noise_sd", [0.5, 20.0, 1000.0])
def test_drawn_sums_have_the_dense_conditional_law(noise_sd):
    """40,000 draws, 9 sums: whitened means within 5 standard errors, whitened covariance within
    0.04 of the identity (5.6 and more standard errors): false alarm below 1e-5."""
    fit, moments = some_fit(noise_sd)
    weights, variance, count = np.array([0.3, -0.2, 0.1]), 0.03, 40_000
    with jax.enable_x64(True):
        state = sampler._State(jnp.asarray(variance), jnp.asarray(weights))
        view = sampler._look(state, fit)
        keys = jax.random.split(jax.random.PRNGKey(0), count)
        draws = np.asarray(jax.vmap(lambda k: sampler._draw_sums(k, state, view, fit))(keys))
    mean, covariance = law_of_the_sums(variance, weights, moments, 200)
    gain = np.linalg.solve(covariance + noise_sd**2 * np.eye(len(mean)), covariance).T
    centre = mean + gain @ (fit.released - mean)
    root = np.linalg.cholesky(covariance - gain @ covariance)
    whitened = np.linalg.solve(root, (draws - centre).T)
    assert np.abs(whitened.mean(1)).max() < 5 / np.sqrt(count)
    assert np.abs(np.cov(whitened) - np.eye(len(mean))).max() < 0.04


def conjugate(sums, prior, rows):
    """Posterior means and sds of variance and weights without noise, in closed form."""
    dim = len(prior.mean)
    first, second = released_pairs(dim)
    xx = np.zeros((dim, dim))
    xx[first, second] = xx[second, first] = sums[: len(first)]
    xx[-1, -1] = rows
    precision = xx + prior.precision
    mean = np.linalg.solve(precision, sums[len(first) : -1])
    shape = prior.shape + rows / 2
    scale = prior.scale + (sums[-1] - mean @ precision @ mean) / 2
    variance = stats.invgamma(shape, scale=scale)
    sds = np.sqrt(variance.mean() * np.diagonal(np.linalg.inv(precision)))
    return np.append(variance.mean(), mean), np.append(variance.std(), sds)


@pytest.mark.parametrize("moments", ["noisy", "known"])
def test_hardly_any_noise_gives_the_conjugate_posterior(moments):
    """Means within 6 standard errors of 1000 effective draws of 1500; sds within 12 %."""
    rng = np.random.default_rng(3)
    _, sums = simulate(FITS, 2, WIDE, rng)
    chosen = NORMAL if moments == "known" else moments
    draws = linear_regression_posterior(sums, ROWS, 1e-3, LINE, DRAWS, rng, moments=chosen)
    for one, chain in zip(sums, draws, strict=True):
        mean, sd = conjugate(one, LINE, ROWS)
        assert np.all(np.abs(chain.mean(0) - mean) < 6 * sd / np.sqrt(1000))
        assert np.allclose(chain.std(0), sd, rtol=0.12)


def test_overwhelming_noise_gives_the_prior():
    """Means within 6 standard errors and sds within 15 %, taking one draw in ten for new."""
    rng = np.random.default_rng(4)
    released = 1e8 * rng.normal(size=(FITS, 5))
    draws = linear_regression_posterior(released, ROWS, 1e8, LINE, DRAWS, rng, moments=NORMAL)
    variance, weights = draws[:, :, 0].ravel(), draws[:, :, 1:].reshape(-1, 2)
    prior = stats.invgamma(20, scale=0.5)
    assert abs(variance.mean() - prior.mean()) < 6 * prior.std() / np.sqrt(3000)
    assert variance.std() == pytest.approx(prior.std(), rel=0.15)
    spread = 2 * np.sqrt(prior.mean())
    assert np.all(np.abs(weights.mean(0)) < 6 * spread / np.sqrt(3000))
    assert np.allclose(weights.std(0), spread, rtol=0.15)


def test_the_metropolis_steps_do_not_change_the_law():
    """Where the plain sampler mixes, both agree: 20 chains each, 5 standard errors from their
    spread (false alarm below 1e-4, over 3 means and 3 squares)."""
    rng = np.random.default_rng(5)
    _, sums = simulate(1, 2, WIDE, rng)
    released = np.tile(sums + 15.0 * rng.normal(size=sums.shape), (FITS, 1))
    plain, quick = (
        linear_regression_posterior(
            released, ROWS, 15.0, LINE, DRAWS, rng, moments=NORMAL, collapsed=collapsed
        )
        for collapsed in (False, True)
    )
    centre = quick.mean((0, 1))
    for power in (1, 2):
        a, b = (((chains - centre) ** power).mean(1) for chains in (plain, quick))
        error = np.sqrt(a.var(0, ddof=1) / FITS + b.var(0, ddof=1) / FITS)
        assert np.all(np.abs(a.mean(0) - b.mean(0)) < 5 * error)
    assert np.allclose(plain.std((0, 1)), quick.std((0, 1)), rtol=0.15)


def test_calibrated_where_the_noise_is_nine_tenths_of_the_uncertainty():
    """160 data sets at epsilon 1, 5000 rows. Per parameter, z mean within 4 and z sd within 5
    standard errors: false alarm below 1e-4 each; the seed is fixed."""
    rng = np.random.default_rng(6)
    bounds = 4.5, 4.0
    truth, sums = simulate(160, 2, bounds, rng)
    noise_sd = calibrate(Budget(epsilon=1.0, delta=1e-5), 1.0, 1) * regression_sensitivity(
        2, *bounds
    )
    released = sums + noise_sd * rng.normal(size=sums.shape)
    draws = linear_regression_posterior(released, ROWS, noise_sd, LINE, DRAWS, rng, moments=NORMAL)
    z = (truth - draws.mean(1)) / draws.std(1)
    assert np.all(np.abs(z.mean(0)) < 4 / np.sqrt(160))
    assert np.all(np.abs(z.std(0) - 1) < 5 / np.sqrt(320))
    ignored = np.array([conjugate(one, LINE, ROWS)[1] for one in sums])
    assert np.all(draws.std(1).mean(0)[1:] > 5 * ignored.mean(0)[1:])


def test_eleven_weights_with_noisy_moments_stay_finite_at_epsilon_a_tenth():
    rng = np.random.default_rng(7)
    bounds = 4.0, 6.0
    _, sums = simulate(3, 11, bounds, rng)
    noise_sd = calibrate(Budget(epsilon=0.1, delta=1e-5), 1.0, 1) * regression_sensitivity(
        11, *bounds
    )
    released = sums + noise_sd * rng.normal(size=sums.shape)
    prior = RegressionPrior.standard(11)
    draws = linear_regression_posterior(released, ROWS, noise_sd, prior, 100, rng, warmup=50)
    assert draws.shape == (3, 100, 12)
    assert np.all(np.isfinite(draws))
    assert np.all(draws[:, :, 0] > 0)


def test_impossible_sums_are_projected():
    with jax.enable_x64(True):
        fine = jnp.array([[2.0, 1.0], [1.0, 3.0]])
        assert np.array_equal(sampler._projected(fine), fine)
        values = np.linalg.eigvalsh(sampler._projected(jnp.array([[1.0, 3.0], [3.0, -1.0]])))
        assert values.min() == pytest.approx(0.0, abs=1e-12)
    rng = np.random.default_rng(8)
    released = np.tile([[-4000.0, 100.0, 9000.0, -9000.0, -5000.0]], (FITS, 1))
    draws = linear_regression_posterior(released, ROWS, 500.0, LINE, DRAWS, rng)
    assert np.all(np.isfinite(draws))


def test_groups_keep_the_fits_in_order(monkeypatch):
    monkeypatch.setattr(regression, "_GROUP", {"cpu": 2, "gpu": 2})
    rng = np.random.default_rng(9)
    truth, sums = simulate(5, 2, WIDE, rng)
    draws = linear_regression_posterior(sums, ROWS, 0.1, LINE, 6, rng, warmup=20)
    assert draws.shape == (5, 6, 3)
    assert np.allclose(draws.mean(1), truth, atol=0.03)


def test_thinning_keeps_every_nth_draw():
    _, sums = simulate(2, 2, WIDE, np.random.default_rng(10))

    def run(thin, warmup):
        rng = np.random.default_rng(0)
        return linear_regression_posterior(sums, ROWS, 5.0, LINE, 6, rng, thin=thin, warmup=warmup)

    # Sweeps 4, 7, 10, 13, 16, 19 and sweeps 14 to 19 of the same chains.
    assert np.array_equal(run(3, 2)[:, 4:], run(1, 14)[:, [2, 5]])


def test_from_rows_to_posterior_through_the_wall():
    rng, bounds = np.random.default_rng(11), (4.0, 3.0)
    x = rng.normal(size=(ROWS, 1))
    y = 0.4 * x[:, 0] - 0.2 + 0.15 * rng.normal(size=ROWS)
    total, noise_sd, _ = release_sum(
        regression_statistics(with_ones(x), y, *bounds),
        regression_sensitivity(2, *bounds),
        Budget(epsilon=1.0, delta=1e-6),
        what="products",
        insecure_seed=1,
    )
    chains = np.tile(total, (FITS, 1))
    draws = linear_regression_posterior(chains, ROWS, noise_sd, LINE, DRAWS, rng)
    off = (draws.mean((0, 1))[1:] - [0.4, -0.2]) / draws.std((0, 1))[1:]
    assert np.all(np.abs(off) < 6)


def test_bad_arguments_are_refused_in_one_line():
    rng = np.random.default_rng(0)
    with pytest.raises(NoisewiseError, match=r"fits x 5 sums for 2 weights, got shape \(1, 4\)"):
        linear_regression_posterior(np.zeros((1, 4)), 9, 1.0, LINE, 5, rng)
    with pytest.raises(NoisewiseError, match="moments must be 'noisy' or an XMoments"):
        linear_regression_posterior(np.zeros((1, 5)), 9, 1.0, LINE, 5, rng, moments="prior")
    with pytest.raises(NoisewiseError, match="last column of x must be the constant 1"):
        regression_statistics(np.zeros((3, 2)), np.zeros(3), 1.0, 1.0)
    with pytest.raises(NoisewiseError, match="x must be rows x columns and y rows"):
        regression_statistics(np.zeros((3, 2)), np.zeros(4), 1.0, 1.0)
    with pytest.raises(NoisewiseError, match="x_bound must be one positive number or 2 of them"):
        regression_sensitivity(3, (1.0, 2.0, 3.0), 1.0)
    with pytest.raises(NoisewiseError, match="y_bound must be a positive"):
        regression_sensitivity(3, 1.0, 0.0)
