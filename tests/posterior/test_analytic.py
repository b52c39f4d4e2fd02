"""The matrix model: on traces from the linear model itself, and against the diagonal one."""

import jax.numpy as jnp
import numpy as np
import pytest

from noisewise.dpvi import TraceStatistics
from noisewise.posterior import NoiseAwarePosterior, analytic, curvature_matrix, exact
from noisewise.posterior.expected import ExpectedMoments
from noisewise.posterior.mean_shift import limited_to_one_sd
from noisewise.posterior.trace_model import TraceModel, planned_priors
from posterior.traces import linear_trace

KAPPA = 0.1


def statistics(phi, g, full=True):
    off, slope = phi - phi.mean(0), g - g.mean(0)
    return TraceStatistics(
        steps=np.float64(len(phi)),
        parameters=phi.mean(0),
        gradient=g.mean(0),
        spread=off.T @ off if full else (off**2).sum(0),
        cross=slope.T @ off if full else (slope * off).sum(0),
        power=(slope**2).sum(0),
    )


def matrix_model(phi, g, noise, sd=1.0, width=1e3):
    dim = phi.shape[1]
    return analytic.MatrixModel(
        statistics=statistics(phi, g),
        sampling_rate=KAPPA,
        noise_variance=noise**2,
        prior_mean=np.zeros(dim),
        prior_precision=np.eye(dim) / width**2,
        expected_curvature=np.eye(dim),
        log_curvature_sds=(sd,),
    )


def moments(dim=2, **changed):
    """Of gradients that are linear with a curvature of one, but for what is ``changed``."""
    one, zero = np.eye(dim), np.zeros(dim)
    linear = ExpectedMoments(
        curvature=one,
        sensitivity=one,
        variability=one,
        mean_gradient=zero,
        mean_gradient_variance=zero,
        log_determinant_gradient=zero,
        mean_shift=zero,
        optimum=zero,
        jacobian_records=np.array(2048.0),
    )
    return linear._replace(**changed)


def random_curvature(dim, spread, seed):
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    return (turn * np.exp(spread * rng.normal(size=dim))) @ turn.T


def test_calibrated_on_the_model_itself():
    """z-scores of 60 traces x 4 coordinates, c = 100: sd within 0.12 of one (0.046 is its standard
    error, so a false alarm is below 1%; seeds are fixed)."""
    z = []
    for seed in range(60):
        curvature = random_curvature(4, 0.5, seed)
        optimum = 5 * np.random.default_rng(seed).normal(size=4)
        noise = np.full(4, 3.0)
        phi, g = linear_trace(curvature, optimum, noise, 0.02, 5000, seed)
        found = analytic.infer(matrix_model(phi, g, noise, 0.5), 1000, np.random.default_rng(seed))
        z.append((found.optimum.mean(0) - optimum) / found.optimum.std(0))
    assert abs(np.std(z) - 1) < 0.12
    assert abs(np.mean(z)) < 0.25


def shifted(steeper, share_noise=0.0):
    """The optimum read off a trace whose slope is ``steeper`` than simulated records have it, and
    that clipping shifts by 0.4; with what is found of it by the curvature's width."""
    noise, optimum = np.full(2, 0.3), np.array([1.0, -2.0])
    slope = steeper * np.eye(2)
    phi, g = linear_trace(slope, optimum - 0.4, noise, 0.05, 4000, 3)
    model = matrix_model(phi, g, noise, sd=1.5)._replace(
        expected=moments(optimum=phi.mean(0), mean_gradient=np.full(2, 0.4)),
        share_noise=share_noise,
    )
    return analytic.infer(model, 4000, np.random.default_rng(0)), optimum


@pytest.mark.parametrize("steeper", [0.2, 1.0, 5.0])
def test_the_shift_by_clipping_is_as_simulated_whatever_the_slope(steeper):
    """Four sds of the noise in 4000 steps, fixed seed; a gradient bias that stayed 0.4 would be a
    shift of 2 or of 0.08."""
    found, optimum = shifted(steeper)
    sd = 0.3 / (KAPPA * steeper * 4000**0.5)
    assert np.abs(found.optimum.mean(0) - optimum).max() < 4 * sd + 0.02


def test_bought_covariates_leave_half_of_the_shift_open():
    """Sds to 5% with 1000 draws of the factor: two standard errors, fixed seed."""
    certain, bought = (shifted(1.0, noise)[0].optimum.std(0) for noise in (0.0, 0.001))
    assert np.allclose(bought, np.hypot(certain, 0.2), rtol=0.05)


@pytest.mark.parametrize(("share_noise", "identified"), [(0.014, True), (0.016, False)])
def test_noise_in_the_covariates_decides_whether_they_are_known(share_noise, identified):
    assert shifted(1.0, share_noise)[0].identified is identified


def test_curvature_is_recovered_and_always_positive_definite():
    curvature = random_curvature(6, 0.7, 1)
    noise = np.full(6, 2.0)
    phi, g = linear_trace(curvature, np.zeros(6), noise, 0.05, 20_000, 0)
    found = analytic.infer(matrix_model(phi, g, noise), 2000, np.random.default_rng(0))
    assert (np.linalg.eigvalsh(found.curvature) > 0).all()
    assert np.allclose(found.curvature, np.swapaxes(found.curvature, -1, -2))
    error = np.linalg.norm(found.curvature.mean(0) - curvature) / np.linalg.norm(curvature)
    # c = 1000 time constants know the curvature to about sqrt(2/c) = 4.5 percent.
    assert error < 0.15
    assert found.identified


@pytest.mark.parametrize("dim", [2, 30, 80])
def test_a_trace_that_says_little_leaves_the_prior(dim):
    noise = np.full(dim, 50.0)
    phi, g = linear_trace(np.eye(dim), np.zeros(dim), noise, 0.0005, 400, 0)
    found = analytic.infer(matrix_model(phi, g, noise, 1.0, 30.0), 500, np.random.default_rng(0))
    assert np.isfinite(found.optimum).all()
    assert (np.linalg.eigvalsh(found.curvature) > 0).all()
    assert not found.identified


def test_without_information_the_posterior_is_the_prior():
    """Sd of theta within 5% of the prior's (4000 draws know it to 1.1%)."""
    noise = np.full(3, 1e4)
    phi, g = linear_trace(np.eye(3), np.zeros(3), noise, 0.0005, 400, 0)
    # The prior as narrow as the curvature: data add nothing.
    found = analytic.infer(matrix_model(phi, g, noise, 1.0, 1.0), 4000, np.random.default_rng(0))
    theta = found.draw_theta(np.random.default_rng(1))
    np.testing.assert_allclose(theta.std(0), 1.0, rtol=0.05)


def test_in_one_dimension_it_is_the_exact_posterior():
    noise = np.array([3.0])
    phi, g = linear_trace(np.array([[1.3]]), np.array([2.0]), noise, 0.02, 5000, 3)
    full = analytic.infer(matrix_model(phi, g, noise, 0.5), 20_000, np.random.default_rng(0))
    priors = planned_priors(
        optimum_mean=np.zeros(1),
        optimum_sd=np.full(1, 1e3),
        curvature=np.ones(1),
        log_curvature_sd=0.5,
        subsampling_sd=np.full(1, 1e-3),
    )
    diagonal = TraceModel(statistics(phi, g, full=False), KAPPA, noise**2, priors)
    one = exact.infer(diagonal, 20_000, np.random.default_rng(1))
    sd = one.optimum.std()
    # Laplace in the log-curvature and a plugged-in variance: close, not equal.
    assert abs(full.optimum.mean() - one.optimum.mean()) < 0.1 * sd
    assert abs(full.optimum.std() / sd - 1) < 0.1
    assert abs(np.log(full.curvature).mean() - np.log(one.curvature).mean()) < 0.05


def test_the_gauss_newton_form_is_the_quadratic_it_says():
    rng = np.random.default_rng(0)
    left, right = (m @ m.T for m in rng.normal(size=(2, 4, 4)))
    upper = np.triu_indices(4)
    form = curvature_matrix._quadratic_form(left, right, upper)
    for _ in range(5):
        flat = rng.normal(size=10)
        e = np.zeros((4, 4))
        e[upper] = flat
        e = e + np.triu(e, 1).T
        assert flat @ form @ flat == pytest.approx(np.trace(e @ left @ e @ right))


def test_the_modes_gradient_is_right():
    """Finite differences of the loss that the mode minimises."""
    from scipy.optimize import approx_fprime

    rng = np.random.default_rng(1)
    spread, cross = rng.normal(size=(2, 3, 3))
    regression = curvature_matrix.Regression(
        weight=np.array([1.0, 2.0, 0.5]),
        spread=spread @ spread.T + np.eye(3),
        cross=cross + 3 * np.eye(3),
        expected_root=np.diag([1.0, 1.5, 0.7]),
        log_sd=(2 / 0.7) ** 0.5,
    )
    assert regression.prior == pytest.approx(0.7)
    captured = {}
    original = curvature_matrix.minimize

    def capture(loss, start, **options):
        captured["loss"] = loss
        return original(loss, start, **options)

    curvature_matrix.minimize = capture
    try:
        mode = curvature_matrix._mode(regression, np.zeros((3, 3))).curvature
    finally:
        curvature_matrix.minimize = original
    point = 0.3 * rng.normal(size=6)
    value = lambda at: captured["loss"](at)[0]  # noqa: E731
    assert np.allclose(captured["loss"](point)[1], approx_fprime(point, value, 1e-7), atol=1e-4)
    assert (np.linalg.eigvalsh(mode) > 0).all()
    assert jnp.isfinite(mode).all()


def test_an_expected_gradient_that_is_not_known_widens_the_optimum():
    """By its variance over M^2, beside W / (n kappa^2 M^2). Sds within 5%: 4000 draws know them to
    1.1%, and W is estimated from 2000 steps to 1.6% of an sd."""
    noise, error = np.full(2, 3.0), 0.5
    phi, g = linear_trace(np.eye(2), np.zeros(2), noise, 0.02, 2000, 0)
    expected = moments(mean_gradient_variance=np.full(2, error))
    model = matrix_model(phi, g, noise, 0.01)._replace(expected=expected)
    found = analytic.infer(model, 4000, np.random.default_rng(0))
    sd = np.sqrt(noise**2 / (len(phi) * KAPPA**2) + error)
    np.testing.assert_allclose(found.optimum.std(0), sd, rtol=0.05)


def test_a_log_determinant_gradient_moves_the_optimum_against_it():
    """By minus the posterior covariance times it, 0.27 here. The same seed draws the same around
    both; what is left is the noise's variance, estimated from 1000 steps to 4.5%: the limit is 0.02
    of 0.27."""
    noise, gradient = np.full(2, 3.0), np.array([0.3, -0.3])
    phi, g = linear_trace(np.eye(2), np.zeros(2), noise, 0.02, 1000, 0)
    means = []
    for each in (0 * gradient, gradient):
        expected = moments(log_determinant_gradient=each)
        model = matrix_model(phi, g, noise, 0.01)._replace(expected=expected)
        means.append(analytic.infer(model, 4000, np.random.default_rng(0)).optimum.mean(0))
    variance = noise**2 / (len(phi) * KAPPA**2)
    np.testing.assert_allclose(means[1] - means[0], -variance * gradient, atol=0.02)


def test_a_mean_shift_puts_theta_beside_the_optimum():
    """By M^-1 h, whatever the draws: the same seed draws the same around both."""
    sensitivity = np.array([[2.0, 0.5], [0.5, 1.0]])
    shift = np.array([0.3, -0.2])
    draws = [
        NoiseAwarePosterior(
            optimum=np.zeros((50, 2)),
            curvature=np.tile(sensitivity, (50, 1, 1)),
            identified=True,
            expected=moments(sensitivity=sensitivity, variability=sensitivity, mean_shift=each),
        ).draw_theta(np.random.default_rng(0))
        for each in (0 * shift, shift)
    ]
    expected = np.tile(np.linalg.solve(sensitivity, shift), (50, 1))
    np.testing.assert_allclose(draws[1] - draws[0], expected, rtol=1e-9)


def test_no_coordinate_moves_by_more_than_one_sd():
    covariance = np.array([np.diag([4.0, 1.0]), np.diag([4.0, 1.0])])
    gradients = np.array([[0.4, 0.2], [1.0, -3.0]])
    found = limited_to_one_sd(gradients, covariance)
    np.testing.assert_allclose(found, [[0.4, 0.2], [1 / 3, -1.0]])
