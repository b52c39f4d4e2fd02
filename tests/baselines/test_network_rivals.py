"""VI, DP-VI and the point estimate of a network, on a parabola that no line can follow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise.baselines import (
    dp_vi_settings,
    network_guide,
    network_target,
    private_line,
    unsafe_point_estimate,
    unsafe_vi,
    vi_start,
)
from noisewise.baselines.network_rivals import negative_elbo
from noisewise.dpsep import Gaussian, NetworkSite
from noisewise.dpvi import Vanilla, assemble
from noisewise.dpvi.rule import Constants, Point
from noisewise.guides import DiagonalGuide
from noisewise.mechanism import Budget, Release, issue
from noisewise.models import Network, identity_frame
from tracing import traced

HIDDEN, ROWS = 10, 600
SITE = NetworkSite(2, HIDDEN)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.7, 1.7, (ROWS, 2)).astype("f4")
    y = (1.1 * (X[:, 0] ** 2 - 1) + 0.2 * rng.standard_normal(ROWS)).astype("f4")
    return {"X": jnp.asarray(X), "y": jnp.asarray(y)}


@pytest.fixture(scope="module")
def target():
    return network_target(HIDDEN, 2)


def rmse(found, rows):
    return float(jnp.sqrt(jnp.mean((found - rows["y"]) ** 2)))


def test_the_model_and_the_site_are_one_network(rows):
    weights = SITE.start(3)
    first, last = weights[: 3 * HIDDEN].reshape(HIDDEN, 3), weights[3 * HIDDEN :]
    tiny = jnp.full(SITE.family.dim, 1e-10)
    moments = SITE.predict(Gaussian(jnp.asarray(weights), 1 / tiny, tiny), rows["X"])
    found = Network(HIDDEN).output(first, last, rows["X"])
    np.testing.assert_allclose(moments.mean, found, atol=1e-4)


def test_the_bound_is_the_one_that_private_fits_climb(rows, target):
    """Its gradient at a draw is the sum of what the vanilla rule would release, and of what it adds
    from prior and entropy."""
    parameters = vi_start(SITE.start(1)) + 0.1
    draw = jax.random.normal(jax.random.PRNGKey(0), (target.dim,))
    bound = jax.jit(jax.grad(lambda p: ROWS * negative_elbo(target, p, rows, draw, ROWS)))
    rule = Vanilla(target, DiagonalGuide(target.dim))
    constants = Constants(
        identity_frame(target.dim), jnp.ones(2 * target.dim), jnp.ones(target.dim)
    )

    def released(parameters):
        at = Point(constants, parameters, draw[None])
        return rule.record_gradients(at, rows).sum(0) + rule.public_gradient(at)

    wanted = jax.jit(released)(parameters)
    np.testing.assert_allclose(bound(parameters), wanted, rtol=1e-3, atol=0.05)


def test_vi_bends_and_learns_the_noise(rows, target):
    """Fixed seeds, and far from the limits: the noise's sd is 0.2, a line's error about 1."""
    fit = jax.jit(lambda start, key: unsafe_vi(target, rows, start, key, epochs=150))
    guide = network_guide(fit(vi_start(SITE.start(0)), jax.random.PRNGKey(0)))
    found = SITE.predict(Gaussian(guide.mean, 1 / guide.variance, guide.variance), rows["X"])
    assert rmse(found.mean, rows) < 0.3
    assert 0.15 < float(guide.noise_variance) ** 0.5 < 0.35


def test_the_point_estimate_bends(rows):
    fit = jax.jit(lambda start, key: unsafe_point_estimate(SITE, rows, start, key, epochs=100))
    weights = fit(jnp.asarray(SITE.start(0)), jax.random.PRNGKey(0))
    layers = weights[: 3 * HIDDEN].reshape(HIDDEN, 3), weights[3 * HIDDEN :]
    assert rmse(Network(HIDDEN).output(*layers, rows["X"]), rows) < 0.25


def test_dp_vi_runs_through_the_engine_and_bends(rows, target):
    """Epsilon 20, cryptographic noise: the error is about 0.4 for a line's 1."""
    settings = dp_vi_settings(SITE.start(0), epochs=40)
    mechanism = settings.mechanism().calibrate(Budget(epsilon=20.0, delta=1e-5))
    trace = traced(assemble(settings, target, mechanism, ROWS), rows)
    guide = network_guide(jnp.asarray(trace.block_means()[-20:].mean(0)))
    found = SITE.predict(Gaussian(guide.mean, 1 / guide.variance, guide.variance), rows["X"])
    assert rmse(found.mean, rows) < 0.7


def test_the_private_line_keeps_to_what_others_left():
    """More noise after another release; together they stay within the budget. The variance of the
    residuals comes from the same moments, whose noise moves it by about 0.02 here; fixed seed."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 2))
    y = X @ [0.5, -0.3] + 0.4 * rng.standard_normal(20_000)
    budget = Budget(epsilon=0.3, delta=1e-5)
    before = (Release(what="before", noise_multiplier=20.0),)
    alone = private_line(X, y, budget, clip_norm=20.0, insecure_seed=0)
    after = private_line(X, y, budget, clip_norm=20.0, others=before, insecure_seed=0)
    assert after.releases[0].noise_multiplier > 1.05 * alone.releases[0].noise_multiplier
    assert issue(budget, before + after.releases, {}).verify().holds
    assert alone.variance == pytest.approx(0.16, abs=0.08)
