"""Bounds hold as often as they say, and are as sharp as theory allows."""

import numpy as np
import pytest
from scipy import stats

from noisewise.audit.bounds import lower_bounds, most_likely_rate
from noisewise.audit.canaries import Game
from noisewise.mechanism.accounting import calibrate, gaussian_epsilon, gaussian_limit
from noisewise.mechanism.budget import Budget

DELTA = 1e-6


def _scores(rng: np.random.Generator, mu: float, trials: int) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian mechanism's log likelihood ratios."""
    return rng.normal(-(mu**2) / 2, mu, trials), rng.normal(mu**2 / 2, mu, trials)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_epsilon_and_mu_are_each_others_inverse(epsilon):
    assert gaussian_epsilon(gaussian_limit(epsilon, DELTA), DELTA) == pytest.approx(epsilon)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.97])
def test_rates_are_above_their_bounds_as_seldom_as_stated(rate):
    """Exactly: the chance of a count whose bound is below the rate, at most alpha, and near it."""
    trials, alpha = 500, 0.05
    counts = np.arange(trials + 1)
    below = np.array([most_likely_rate(count, trials, alpha) < rate for count in counts])
    wrong = float(stats.binom.pmf(counts, trials, rate)[below].sum())
    assert alpha / 5 < wrong <= alpha


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_lower_bounds_of_a_gaussian_mechanism_are_near_its_epsilon_and_never_above(epsilon):
    """At alpha = 0.2, of 400 bounds 80 may be above; more than 124 with probability 1e-6. There are
    far fewer: Clopper-Pearson and Bonferroni are careful."""
    mu = gaussian_limit(epsilon, DELTA)
    rng = np.random.default_rng(1)
    found = [lower_bounds(*_scores(rng, mu, 20_000), mu, DELTA, 0.2) for _ in range(400)]
    above = sum(bounds.epsilon > epsilon for bounds in found)
    assert above <= stats.binom.isf(1e-6, 400, 0.2)
    mean = np.mean([bounds.gaussian for bounds in found])
    assert mean > epsilon - 4 * 1.25 * 2 / np.sqrt(20_000) * epsilon / mu


def test_scores_without_a_signal_show_nothing():
    rng = np.random.default_rng(2)
    same = lower_bounds(rng.normal(size=10_000), rng.normal(size=10_000), 1.0, DELTA, 1e-6)
    assert same.epsilon == 0
    # A record that is always seen shows as much as so many trials can.
    told = lower_bounds(np.full(10_000, -9.0), np.full(10_000, 9.0), 1.0, DELTA, 1e-6)
    assert 6 < told.threshold < np.log(10_000)
    assert told.gaussian > 30


@pytest.mark.slow
@pytest.mark.parametrize("replace_one", [False, True])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 6.0])
def test_sampled_steps_are_no_more_telling_than_the_gaussian_that_is_claimed(epsilon, replace_one):
    """Where the Gaussian bound looks (central thresholds), the true errors of the sampled steps are
    at least those of a Gaussian mechanism of the claim: a bound from them does not pass it.

    By simulation, 2,000,000 runs each: the implied mu has an sd of 0.0013, so that five of them,
    false-alarm rate 3e-7 a threshold, are allowed."""
    adjacency = "replace-one" if replace_one else "add-remove"
    noise = calibrate(Budget(epsilon=epsilon, delta=DELTA, adjacency=adjacency), 0.5, 8)
    game, rng, trials = Game(noise, 0.5, 8, replace_one), np.random.default_rng(3), 2_000_000
    absent, present = (
        game.score(
            said * (rng.random((1, 8, trials), np.float32) < 0.5)
            + np.float32(noise) * rng.standard_normal((1, 8, trials), np.float32)
        )
        for said in (-1.0 if replace_one else 0.0, 1.0)
    )
    mu = gaussian_limit(epsilon, DELTA)
    for threshold in game.scale * np.array([-1.0, 0.0, 1.0]):
        alarms, misses = np.mean(absent > threshold), np.mean(present <= threshold)
        assert stats.norm.isf(alarms) + stats.norm.isf(misses) < mu + 5 * 0.0013
