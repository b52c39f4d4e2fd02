"""Sizes of gradients tell a model whose outcomes scatter more than it says from one that is right.

Seeds are fixed. A right model's excess beyond 3.5 sds has a chance of 2e-4 by noise and sampling
alone, for either of two measures: one of 300 purchases is suspected by chance in a tenth of the
seeds at most.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noisewise as nw
from noisewise.dpvi import Settings, assemble
from noisewise.mechanism import Budget
from noisewise.models import bind_model
from noisewise.posterior import FitContext, sizes_cost
from noisewise.posterior.gradient_sizes import (
    SimulatedSizes,
    compare_sizes,
    simulate_sizes,
    size_indicators,
)
from noisewise.trials import reference_rows

ROWS, NOISE = 10_000, 40.0
BUDGET = Budget(epsilon=1.0, delta=1e-6)
SCHEMA = nw.Schema(
    (
        nw.Column(name="age", kind="real", bounds=(0, 100), mean=50, sd=20),
        nw.Column(name="sex", kind="binary", share=0.5),
        nw.Column(name="visits", kind="count", bounds=(0, 1000), mean=2, sd=3),
    )
)
TRUTH = np.array([0.7, 0.4, -0.3])


@pytest.fixture(scope="module")
def context():
    """Covariates are as declared, and taken as known; the frame is whitened at the truth."""
    bound = bind_model("poisson", SCHEMA, "visits")
    columns = bound.view.schema.simulate(np.random.default_rng(0), 20_000)
    bound = bound.with_covariates(columns)
    X = np.asarray(bound.view.encode(columns)["X"], float)
    curvature = ROWS * (X.T * np.exp(X @ TRUTH)) @ X / len(X)
    settings = Settings(
        clip_norm=0.03, contraction_rate=0.02, sampling_rate=0.1, curvature=curvature,
        location=TRUTH, prior_precision=np.eye(3),
    )  # fmt: skip
    run = assemble(settings, bound.target, settings.mechanism().calibrate(BUDGET), ROWS)
    return bound, FitContext.of(run, settings, reference_rows(bound, ROWS))


@pytest.fixture(scope="module")
def simulated(context):
    """At draws around the truth, as wide as a fit's."""
    rng = np.random.default_rng(1)
    theta = context[1].frame.from_model_exactly(TRUTH + 0.02 * rng.standard_normal((500, 3)))
    return simulate_sizes([context[1]], theta)


def bought(context, simulated, scatter, seed):
    """What a fit buys of a table whose rates are multiplied by gamma variables."""
    bound, found = context
    rng = np.random.default_rng([2, seed])
    arrays = bound.view.schema.simulate(rng, ROWS)
    X = np.asarray(bound.view.encode(arrays)["X"], float)
    rate = np.exp(X @ TRUTH)
    if scatter:
        rate = rate * rng.gamma(1 / scatter, scatter, ROWS)
    rows = bound.target.prepare({"X": X, "y": rng.poisson(rate)}, found.frame)
    point = jnp.asarray(found.frame.from_model_exactly(TRUTH), jnp.float32)
    edges = jnp.asarray(simulated.edges)
    counts = np.asarray(size_indicators(bound.target, found.frame, point, edges, rows)).sum(0)
    return compare_sizes(simulated, counts + NOISE * rng.standard_normal(len(counts)), NOISE, ROWS)


def test_a_right_model_is_not_suspected(context, simulated):
    seen = [bought(context, simulated, 0.0, seed) for seed in range(30)]
    excess = np.array([[one.squares.excess, one.large.excess] for one in seen])
    assert not any(one.too_much for one in seen)
    # Slack makes excesses smaller than standard normal ones; a biased expectation would show.
    assert np.abs(excess.mean(0)).max() < 0.75 and excess.std(0).max() < 1.2


@pytest.mark.parametrize("scatter", [0.5, 2.0])
def test_scatter_beyond_the_models_is_found_and_measured(context, simulated, scatter):
    seen = [bought(context, simulated, scatter, seed) for seed in range(5)]
    assert all(one.too_much for one in seen)
    assert all(one.inflation > 1.2 for one in seen)
    assert "negative-binomial" in seen[0].words()


def made_up(bins=6, truths=64, spread=0.0, seed=0):
    """Shares by bin of truths that differ by ``spread``, relatively, in how many are large."""
    rng = np.random.default_rng(seed)
    usual = np.array([0.3, 0.3, 0.2, 0.1, 0.08, 0.02])[:bins]
    each = usual * np.exp(spread * rng.standard_normal((truths, 1)) * np.linspace(-1, 1, bins))
    each /= each.sum(1, keepdims=True)
    shares = np.stack([rng.multinomial(1024, p) / 1024 for p in each])[None]
    return SimulatedSizes(np.arange(1.0, bins), shares, 16_384, np.linspace(0, 1, bins), np.eye(2))


def test_noise_and_sampling_alone_raise_no_suspicion():
    sizes, rng = made_up(), np.random.default_rng(3)
    usual = np.array([0.3, 0.3, 0.2, 0.1, 0.08, 0.02])
    suspected = 0
    for _ in range(300):
        counts = rng.multinomial(3000, usual) + 60 * rng.standard_normal(6)
        suspected += compare_sizes(sizes, counts, 60.0, 3000).too_much
    assert suspected <= 1


def test_what_truths_leave_open_is_not_held_against_the_model():
    counts = 20_000 * np.array([0.27, 0.28, 0.2, 0.12, 0.1, 0.03])
    sure = compare_sizes(made_up(), counts, 10.0, 20_000)
    open_ = compare_sizes(made_up(spread=0.6), counts, 10.0, 20_000)
    assert sure.squares.excess > 1.5 * open_.squares.excess
    assert sure.squares.expected_sd < open_.squares.expected_sd


def test_a_record_is_in_one_bin_whatever_its_values(context, simulated):
    """Its sensitivity is one: nothing that a record holds gives it two places, or a larger one."""
    bound, found = context
    wild = {
        "X": jnp.array([[1.0, 1e30, 0.0], [1.0, np.nan, 1.0], [1.0, np.inf, 0.0], [1.0, 0.0, 0.0]]),
        "y": jnp.array([1e9, 0.0, 3.0, np.nan]),
    }
    rows = bound.target.prepare(wild, found.frame)
    edges = jnp.asarray(simulated.edges)
    one = np.asarray(size_indicators(bound.target, found.frame, jnp.zeros(3), edges, rows))
    assert np.array_equal(one.sum(1), np.ones(4)) and set(np.unique(one)) == {0.0, 1.0}
    assert not jax.tree.leaves(np.isnan(one))[0].any()


def test_nothing_is_bought_where_there_is_nothing_to_compare_with(context):
    bound = bind_model("poisson", SCHEMA, "visits")
    assert sizes_cost(bound, BUDGET)[0].what == "sizes of gradients at the fit"
    assert sizes_cost(bound, BUDGET, covariate_share=0.0) == ()
    assert sizes_cost(bound, BUDGET, wanted=0.0) == ()
    with pytest.raises(nw.NoisewiseError, match="misfit_share must be in"):
        sizes_cost(bound, BUDGET, wanted=1.5)
