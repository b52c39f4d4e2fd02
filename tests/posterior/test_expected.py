"""What the model expects of its gradients, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import digamma

from noisewise.dpvi import TraceStatistics
from noisewise.models import build_target, identity_frame
from noisewise.posterior import FitContext, Reference
from noisewise.posterior.expected import (
    SimulationPoint,
    balanced_perturbations,
    expected_moments,
    optimum_prior,
    simulate,
)
from noisewise.posterior.expected_many import expect_many
from posterior.traces import unclipped

N = 5000.0
WIDE = np.eye(1) * 1e-9


def exponential(x=None):
    log_rate = numpyro.sample("log_rate", dist.Normal(0, 10))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("x", dist.Exponential(jnp.exp(log_rate)), obs=x)


TARGET = build_target(exponential, {"x": np.ones(4, np.float32)})


def simulated(clip_norm, point, records, key):
    rows = {"x": jnp.ones(records, jnp.float32)}
    found = simulate(TARGET, identity_frame(1), clip_norm, rows, point, key)
    return jax.tree.map(lambda part: np.asarray(part, float), found)


def at(optimum, mean_iterate, iterate_perturbations, truth_perturbations):
    """A point about which neither M nor A is known yet."""
    none = np.zeros((len(optimum), len(optimum)))
    return SimulationPoint(
        optimum=optimum,
        mean_iterate=mean_iterate,
        iterate_perturbations=iterate_perturbations,
        truth_perturbations=truth_perturbations,
        inverse_sensitivity=none,
        shared_inverse_sensitivity=none,
        inverse_curvature=none,
    )


def found(clip_norm, dispersion=0.0, records=65_536, away=0.0, with_curvature=True, unknown=0.0):
    """What is expected of a log rate of 0.7; M^-1 and A^-1 are given from a round before. Without
    ``with_curvature`` A^-1 is not, and the log-determinant gradient is that of log |M| alone.
    Iterates are perturbed by ``dispersion``, truths by ``unknown``."""
    optimum, one = np.full(1, 0.7), np.eye(1)
    point = at(optimum, optimum + away, one * dispersion, one * unknown)
    key = jax.random.PRNGKey(0)
    for _ in range(2):
        moments = simulated(clip_norm, point, records, key)
        every = expected_moments(moments, N, WIDE, point.mean_iterate, optimum)
        inverse = 1 / every.sensitivity
        point = point._replace(inverse_sensitivity=inverse, shared_inverse_sensitivity=inverse)
        if with_curvature:
            point = point._replace(inverse_curvature=1 / every.curvature)
    return every


def test_without_clip_and_dispersion_everything_is_the_fisher_information():
    """Of a log rate it is N. Monte Carlo error with 65,536 records: up to sqrt(8/65,536) = 1.1%
    for the variability (kurtosis 9), 2.2% for the Jacobian (2048 records); limits are five of
    them."""
    every = found(1e6)
    assert every.curvature == pytest.approx(N, rel=0.11)
    assert every.sensitivity == pytest.approx(N, rel=0.055)
    assert every.variability == pytest.approx(N, rel=0.055)
    assert every.mean_gradient == pytest.approx(0.0, abs=1e-3)


def test_mean_shift_of_a_log_rate():
    """With y = exp(iterate - truth), M and A are both N y and B is N y^2. The gradient of log |M|
    is -1, that of the ratio zero, and the mean given the rows moves by dB/M - B dM / M^2 = -2 + 1.
    Monte Carlo: 0.026 for log |M| (terms of variance 172 over 262,144 records), 0.08 for log |A|
    (13 over 2048), 0.032 for B (261 over all); limits are five of those."""
    alone = found(1e6, records=262_144, with_curvature=False)
    assert alone.log_determinant_gradient == pytest.approx(-1.0, abs=0.13)
    assert alone.mean_shift == pytest.approx(-1.0, abs=0.2)
    both = found(1e6, records=262_144)
    assert both.log_determinant_gradient == pytest.approx(0.0, abs=0.42)


def test_theta_beside_the_optimum_is_as_its_posterior_says():
    """Given the rows, exp(log rate) is Gamma(N): the posterior mean of the log rate is 1/(2N) below
    its mode. Truth perturbations move the optimum up by half their variance 1/N, and the mean shift
    puts theta 1/N below that: the two together, N times, are -1/2 to Monte Carlo error (0.05)."""
    known = found(1e6, records=262_144, with_curvature=False)
    perturbed = found(1e6, records=262_144, with_curvature=False, unknown=0.05)
    moved = (perturbed.mean_gradient - known.mean_gradient) / known.sensitivity / 0.05**2
    assert moved + known.mean_shift == pytest.approx(-0.5, abs=0.25)


@pytest.mark.parametrize("clip_norm", [0.8, 1.5])
def test_clipping_against_the_integrals(clip_norm):
    """Gradient rate x - 1 with rate x standard exponential, clipped to +-C: integrals by hand."""
    t = np.linspace(0, 60, 2_000_001)
    weight = np.exp(-t) * (t[1] - t[0])
    plain, clipped = t - 1, np.clip(t - 1, -clip_norm, clip_norm)
    inside = np.abs(plain) < clip_norm
    every = found(clip_norm)
    assert every.mean_gradient == pytest.approx(N * (clipped * weight).sum(), rel=0.05)
    assert every.sensitivity == pytest.approx(N * (clipped * plain * weight).sum(), rel=0.03)
    variance = (clipped**2 * weight).sum() - (clipped * weight).sum() ** 2
    assert every.variability == pytest.approx(N * variance, rel=0.03)
    assert every.curvature == pytest.approx(N * (t * inside * weight).sum(), rel=0.1)


@pytest.mark.parametrize("clip_norm", [0.8, 1.5])
def test_log_determinant_gradients_under_clipping_against_the_integrals(clip_norm):
    """At a truth moved by s, gradients at the iterate have t exp(-s) for t: log |M| = log E[psi u]
    and log |A| = log E[Jacobian of psi] move by what integrals say. Five Monte Carlo sds: 0.02 for
    the one, 0.08 for the other."""
    t = np.linspace(0, 60, 2_000_001)
    weight = np.exp(-t) * (t[1] - t[0])

    def logs(moved):
        there = t * np.exp(-moved)
        sensitivity = (np.clip(there - 1, -clip_norm, clip_norm) * (t - 1) * weight).sum()
        return np.log([sensitivity, (there * (np.abs(there - 1) < clip_norm) * weight).sum()])

    of_sensitivity, of_curvature = (logs(0.01) - logs(-0.01)) / 0.02
    alone = found(clip_norm, with_curvature=False).log_determinant_gradient
    both = found(clip_norm).log_determinant_gradient
    assert alone == pytest.approx(of_sensitivity, abs=0.1)
    assert both - alone == pytest.approx(-of_curvature, abs=0.4)


def test_dispersion_against_the_integral():
    """E exp(w) = exp(s^2 / 2): the mean gradient over a dispersion of sd s is N (exp(s^2/2) - 1).
    Perturbations with the right second moment know it up to terms of order s^4, here 1%, and
    records to 1%."""
    every = found(1e6, dispersion=0.3)
    assert every.mean_gradient == pytest.approx(N * (np.exp(0.045) - 1), rel=0.05)


def test_the_simulations_own_error():
    """Variance of the expected gradient over 500 simulations: known to 6%, limits are five of
    those, and 5% for the 256 records that each estimate is from."""
    point = at(np.full(1, 0.7), np.full(1, 0.8), np.eye(1) * 0.1, np.zeros((1, 1)))
    keys = jax.random.split(jax.random.PRNGKey(0), 500)
    every = [
        expected_moments(
            simulated(0.8, point, 256, key), N, WIDE, point.mean_iterate, point.optimum
        )
        for key in keys
    ]
    variance = np.var([each.mean_gradient for each in every], ddof=1)
    estimated = np.mean([each.mean_gradient_variance for each in every])
    assert estimated == pytest.approx(variance, rel=0.35)


def test_iterates_away_from_the_optimum():
    """The mean gradient is N (exp(distance) - 1), nonlinear as it is, and the unclipped gradient at
    the optimum is proportional to every record's: the control variate leaves nothing to Monte
    Carlo, of which there would be 0.3 / sqrt(256) = 2% otherwise."""
    every = found(1e6, away=0.3, records=256)
    assert every.mean_gradient == pytest.approx(N * (np.exp(0.3) - 1), rel=1e-4)


@pytest.mark.parametrize("dim", [1, 3, 50])
def test_perturbations_have_a_normals_second_moment(dim):
    """Exactly; and in few dimensions lengths of all sizes, if not quite as different as normal ones
    (the variance of their squares is 2 dim)."""
    found = balanced_perturbations(np.random.default_rng(0), dim)
    assert len(found) >= 32
    np.testing.assert_allclose(found.T @ found / len(found), np.eye(dim), atol=1e-9)
    assert dim == 50 or (found**2).sum(1).var() > dim


def regression(X, y=None):
    log_variance = numpyro.sample("log_variance", dist.Normal(0, 1))
    weights = numpyro.sample("weights", dist.Normal(0, 10).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("records", X.shape[0]):
        numpyro.sample("y", dist.Normal(X @ weights, jnp.exp(0.5 * log_variance)), obs=y)


def poisson(X, y=None):
    intercept = numpyro.sample("intercept", dist.Normal(0, 1))
    weights = numpyro.sample("weights", dist.Normal(0, 0.1).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("records", X.shape[0]):
        numpyro.sample("y", dist.Poisson(jnp.exp(intercept + X @ weights)), obs=y)


def table(records, weights=20):
    rng = np.random.default_rng(0)
    rows = {"X": rng.standard_normal((records, weights)), "y": np.zeros(records)}
    return {name: column.astype(np.float32) for name, column in rows.items()}


def found_at_rest(model, unknown, dispersion, weights=20, records=20_000):
    """The optimum that is read from iterates about zero with a mean gradient of zero there. The
    noise leaves parameters whose information is one a record with a variance ``unknown``."""
    rows = table(records, weights)
    target = build_target(model, {name: column[:4] for name, column in rows.items()})
    dim, steps = weights + 1, 1000
    settings, run = unclipped(
        target, records, records * np.sqrt(unknown), steps, prior_precision=np.eye(dim) * 1e-4
    )
    spread, zero = np.eye(dim) * dispersion * steps, np.zeros(dim)
    statistics = TraceStatistics(
        steps=np.array(steps),
        parameters=zero,
        gradient=zero,
        spread=spread,
        cross=spread,
        power=zero,
    )
    context = FitContext.of(run, settings, Reference(rows, covariates_representative=True))
    (found,) = expect_many([statistics], context, [np.random.default_rng(1)], 1)
    return dict(zip(target.labels, found.optimum, strict=True))


def test_what_is_not_known_of_weights_moves_the_variance():
    """Dispersion and uncertainty both add to squared residuals: the log variance reads too high by
    either. Monte Carlo: 20,000 records know it to 0.002."""

    def read(unknown, dispersion):  # there is four times as much information on the weights
        return np.log(np.exp(-(dispersion + 4 * unknown) / 2) - 20 * (dispersion + unknown))

    found = found_at_rest(regression, unknown=0.002, dispersion=0.005)["log_variance"]
    assert found == pytest.approx(read(0.002, 0.005), abs=0.01)
    assert read(0.0, 0.005) - read(0.002, 0.005) > 0.04


def test_perturbed_truths_and_iterates_move_a_log_rate_in_opposite_directions():
    """Rates at the iterates are too high by their dispersion; those at the truth by what is not
    known of it. Monte Carlo: 20,000 records know the intercept to 0.001; perturbations of the wrong
    kind make 0.07 of it."""
    found = found_at_rest(poisson, unknown=0.002, dispersion=0.005)["intercept"]
    assert found == pytest.approx(21 * (0.005 - 0.002) / 2, abs=0.01)


def test_degrees_of_freedom_of_a_regression():
    """With flat priors and the rows known, the variance is inverse gamma with N - 20 degrees of
    freedom: the mean of its logarithm is log(N/2) - psi((N - 20)/2) above the mode, 21/N. Monte
    Carlo: 65,536 records know that to 4%."""
    dim, rows = 21, table(65_536)
    target = build_target(regression, {name: column[:4] for name, column in rows.items()})
    normals = balanced_perturbations(np.random.default_rng(0), dim)
    point = at(np.zeros(dim), np.zeros(dim), np.zeros((1, dim)), np.zeros_like(normals))
    for _ in range(3):
        single = jax.tree.map(lambda part: jnp.asarray(part, jnp.float32), point)
        key = jax.random.PRNGKey(1)
        moments = simulate(target, identity_frame(dim), 1e6, rows, single, key)
        moments = jax.tree.map(lambda part: np.asarray(part, float), moments)
        every = expected_moments(moments, N, np.eye(dim) * 1e-9, point.mean_iterate, point.optimum)
        inverse = np.linalg.inv(every.sensitivity)
        point = point._replace(
            optimum=point.optimum + inverse @ every.mean_gradient,
            truth_perturbations=normals @ np.linalg.cholesky(inverse).T,
            inverse_sensitivity=inverse,
            shared_inverse_sensitivity=inverse,
            inverse_curvature=inverse,
        )
    mean = point.optimum + inverse @ every.mean_shift
    found = dict(zip(target.labels, mean, strict=True))["log_variance"]
    assert found == pytest.approx(np.log(N / 2) - digamma((N - 20) / 2), rel=0.2)


def test_the_optimums_prior_and_theta_around_it_make_the_prior():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    prior = root @ root.T + np.eye(3)
    curvature = prior + 5 * np.eye(3)
    raised, precision = optimum_prior(curvature, prior)
    np.testing.assert_allclose(raised, curvature)
    whole = np.linalg.inv(precision) + np.linalg.inv(raised)
    np.testing.assert_allclose(whole, np.linalg.inv(prior))
    below, _ = optimum_prior(0.1 * prior, prior)
    np.testing.assert_allclose(below, prior, rtol=2e-3)
