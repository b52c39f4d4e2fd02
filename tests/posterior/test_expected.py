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
from noisewise.posterior.expected import (
    Surroundings,
    balanced_moves,
    expected,
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


def simulated(clip_norm, around, records, key):
    made_up = {"x": jnp.ones(records, jnp.float32)}
    found = simulate(TARGET, identity_frame(1), clip_norm, made_up, around, key)
    return jax.tree.map(lambda part: np.asarray(part, float), found)


def found(clip_norm, wander=0.0, records=65_536, away=0.0, slopes=True, doubt=0.0):
    """What is expected of a log rate of 0.7; M^-1 and A^-1 are given from a round before. Without
    ``slopes`` A^-1 is not, and the lean is that of log |M| alone."""
    optimum, one, none = np.full(1, 0.7), np.eye(1), np.zeros((1, 1))
    inverses = (none, none, none)
    around = Surroundings(optimum, optimum + away, one * wander, one * doubt, *inverses)
    key = jax.random.PRNGKey(0)
    for _ in range(2):
        moments = simulated(clip_norm, around, records, key)
        every = expected(moments, N, WIDE, around.centre, optimum)
        steep, flat = 1 / every.response, 1 / every.curvature if slopes else none
        around = around._replace(
            inverse_response=steep, inverse_heard=steep, inverse_curvature=flat
        )
    return every


def test_without_clip_and_wander_everything_is_the_fisher_information():
    """Of a log rate it is N. Monte Carlo error with 65,536 records: up to sqrt(8/65,536) = 1.1%
    for the scatter (kurtosis 9), 2.2% for the slope (2048 records); limits are five of them."""
    every = found(1e6)
    assert every.curvature == pytest.approx(N, rel=0.11)
    assert every.response == pytest.approx(N, rel=0.055)
    assert every.scatter == pytest.approx(N, rel=0.055)
    assert every.gradient == pytest.approx(0.0, abs=1e-3)


def test_asymmetry_of_a_log_rate():
    """With y = exp(iterate - truth), M and A are both N y and B is N y^2. The slope of log |M| is
    -1, that of the ratio zero, and the mean given the rows moves by dB / M - B dM / M^2 = -2 + 1.
    Monte Carlo: 0.026 for log |M| (terms of variance 172 over 262,144 records), 0.08 for log |A|
    (13 over 2048), 0.032 for B (261 over all); limits are five of those."""
    alone = found(1e6, records=262_144, slopes=False)
    assert alone.lean == pytest.approx(-1.0, abs=0.13)
    assert alone.skew == pytest.approx(-1.0, abs=0.2)
    assert found(1e6, records=262_144).lean == pytest.approx(0.0, abs=0.42)


def test_theta_beside_the_optimum_is_as_its_posterior_says():
    """Given the rows, exp(log rate) is Gamma(N): the posterior mean of the log rate is 1/(2N) below
    its mode. Doubt about the truth moves the optimum up by half its variance 1/N, and the skew puts
    theta 1/N below that: the two together, N times, are -1/2 to Monte Carlo error (0.05)."""
    still = found(1e6, records=262_144, slopes=False)
    spread = found(1e6, records=262_144, slopes=False, doubt=0.05)
    moved = (spread.gradient - still.gradient) / still.response / 0.05**2
    assert moved + still.skew == pytest.approx(-0.5, abs=0.25)


@pytest.mark.parametrize("clip_norm", [0.8, 1.5])
def test_clipping_against_the_integrals(clip_norm):
    """Gradient rate x - 1 with rate x standard exponential, clipped to +-C: integrals by hand."""
    t = np.linspace(0, 60, 2_000_001)
    weight = np.exp(-t) * (t[1] - t[0])
    plain, clipped = t - 1, np.clip(t - 1, -clip_norm, clip_norm)
    inside = np.abs(plain) < clip_norm
    every = found(clip_norm)
    assert every.gradient == pytest.approx(N * (clipped * weight).sum(), rel=0.05)
    assert every.response == pytest.approx(N * (clipped * plain * weight).sum(), rel=0.03)
    variance = (clipped**2 * weight).sum() - (clipped * weight).sum() ** 2
    assert every.scatter == pytest.approx(N * variance, rel=0.03)
    assert every.curvature == pytest.approx(N * (t * inside * weight).sum(), rel=0.1)


@pytest.mark.parametrize("clip_norm", [0.8, 1.5])
def test_lean_of_clipped_gradients_against_the_integrals(clip_norm):
    """At a truth moved by s, gradients at the iterate have t exp(-s) for t: log |M| = log E[psi u]
    and log |A| = log E[slope of psi] move by what integrals say. Five Monte Carlo sds: 0.02 for
    the one, 0.08 for the other."""
    t = np.linspace(0, 60, 2_000_001)
    weight = np.exp(-t) * (t[1] - t[0])

    def logs(moved):
        there = t * np.exp(-moved)
        response = (np.clip(there - 1, -clip_norm, clip_norm) * (t - 1) * weight).sum()
        return np.log([response, (there * (np.abs(there - 1) < clip_norm) * weight).sum()])

    of_response, of_curvature = (logs(0.01) - logs(-0.01)) / 0.02
    alone, both = found(clip_norm, slopes=False).lean, found(clip_norm).lean
    assert alone == pytest.approx(of_response, abs=0.1)
    assert both - alone == pytest.approx(-of_curvature, abs=0.4)


def test_wander_against_the_integral():
    """E exp(w) = exp(s^2 / 2): the mean gradient over a wander of sd s is N (exp(s^2/2) - 1). Moves
    with the right second moment know it up to terms of order s^4, here 1%, and records to 1%."""
    every = found(1e6, wander=0.3)
    assert every.gradient == pytest.approx(N * (np.exp(0.045) - 1), rel=0.05)


def test_the_simulations_own_error():
    """Variance of the expected gradient over 500 simulations: known to 6%, limits are five of
    those, and 5% for the 256 records that each estimate is from."""
    zero = jnp.zeros((1, 1))
    where = (jnp.full(1, 0.7), jnp.full(1, 0.8), jnp.eye(1) * 0.1)
    around = Surroundings(*where, zero, zero, zero, zero)
    keys = jax.random.split(jax.random.PRNGKey(0), 500)
    every = [
        expected(simulated(0.8, around, 256, key), N, WIDE, np.full(1, 0.8), np.full(1, 0.7))
        for key in keys
    ]
    variance = np.var([each.gradient for each in every], ddof=1)
    assert np.mean([each.gradient_error for each in every]) == pytest.approx(variance, rel=0.35)


def test_iterates_away_from_the_optimum():
    """The mean gradient is N (exp(way) - 1), bent and all, and the plain gradient at the optimum
    goes along with every record's: the control variate leaves nothing to Monte Carlo, of which
    there would be 0.3 / sqrt(256) = 2% otherwise."""
    every = found(1e6, away=0.3, records=256)
    assert every.gradient == pytest.approx(N * (np.exp(0.3) - 1), rel=1e-4)


@pytest.mark.parametrize("dim", [1, 3, 50])
def test_moves_have_a_normals_second_moment(dim):
    """Exactly; and in few dimensions lengths of all sizes, if not quite as different as normal ones
    (the variance of their squares is 2 dim)."""
    moves = balanced_moves(np.random.default_rng(0), dim)
    assert len(moves) >= 32
    np.testing.assert_allclose(moves.T @ moves / len(moves), np.eye(dim), atol=1e-9)
    assert dim == 50 or (moves**2).sum(1).var() > dim


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


def found_at_rest(model, doubt, wander, weights=20, rows=20_000):
    """The optimum that is read from iterates about zero with a mean gradient of zero there. The
    noise leaves parameters whose information is one a record uncertain by a variance ``doubt``."""
    rng = np.random.default_rng(0)
    made_up = {"X": rng.standard_normal((rows, weights)), "y": np.zeros(rows)}
    made_up = {name: column.astype(np.float32) for name, column in made_up.items()}
    target = build_target(model, {name: column[:4] for name, column in made_up.items()})
    dim, steps = weights + 1, 1000
    _, assembly = unclipped(target, rows, rows * np.sqrt(doubt), steps)
    still = np.eye(dim) * wander * steps
    statistics = TraceStatistics(np.array(steps), np.zeros(dim), np.zeros(dim), still, still, still)
    (found,) = expect_many(
        [statistics], assembly, np.eye(dim) * 1e-4, made_up, [np.random.default_rng(1)], 1
    )
    return dict(zip(target.labels, found.optimum, strict=True))


def test_what_is_not_known_of_weights_moves_the_variance():
    """Wander and doubt both add to squared residuals: the log variance reads too high by either.
    Monte Carlo: 20,000 records know it to 0.002."""

    def read(doubt, wander):  # weights know four times as much as the log variance does
        return np.log(np.exp(-(wander + 4 * doubt) / 2) - 20 * (wander + doubt))

    found = found_at_rest(regression, doubt=0.002, wander=0.005)["log_variance"]
    assert found == pytest.approx(read(0.002, 0.005), abs=0.01)
    assert read(0.0, 0.005) - read(0.002, 0.005) > 0.04


def test_doubt_and_wander_move_a_log_rate_in_opposite_directions():
    """Rates at the iterates are too high by their wander; those at the truth by the doubt. Monte
    Carlo: 20,000 records know the intercept to 0.001; moves of the wrong kind make 0.07 of it."""
    found = found_at_rest(poisson, doubt=0.002, wander=0.005)["intercept"]
    assert found == pytest.approx(21 * (0.005 - 0.002) / 2, abs=0.01)


def test_degrees_of_freedom_of_a_regression():
    """With flat priors and the rows known, the variance is inverse gamma with N - 20 degrees of
    freedom: the mean of its logarithm is log(N/2) - psi((N - 20)/2) above the mode, 21/N. Monte
    Carlo: 65,536 records know that to 4%."""
    dim, records = 21, 65_536
    rng = np.random.default_rng(0)
    made_up = {"X": rng.standard_normal((records, 20)), "y": np.zeros(records)}
    made_up = {name: column.astype(np.float32) for name, column in made_up.items()}
    target = build_target(regression, {name: column[:4] for name, column in made_up.items()})
    optimum, moves, inverse = np.zeros(dim), balanced_moves(rng, dim), np.zeros((dim, dim))
    doubts = np.zeros_like(moves)
    for _ in range(3):
        around = Surroundings(optimum, np.zeros(dim), moves[:1] * 0, doubts, *[inverse] * 3)
        around = Surroundings(*(jnp.asarray(part, jnp.float32) for part in around))
        key = jax.random.PRNGKey(1)
        moments = simulate(target, identity_frame(dim), 1e6, made_up, around, key)
        moments = jax.tree.map(lambda part: np.asarray(part, float), moments)
        every = expected(moments, N, np.eye(dim) * 1e-9, np.zeros(dim), optimum)
        inverse = np.linalg.inv(every.response)
        optimum = optimum + inverse @ every.gradient
        doubts = moves @ np.linalg.cholesky(inverse).T
    beside = optimum + inverse @ every.skew
    found = dict(zip(target.labels, beside, strict=True))["log_variance"]
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
