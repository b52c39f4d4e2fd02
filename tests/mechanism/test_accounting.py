import math
import time

import numpy as np
import pytest

from noisewise._validate import NoisewiseError
from noisewise.mechanism import Budget, Mechanism, Release, calibrate
from noisewise.mechanism.accounting import (
    _epsilon_of,
    epsilon_by_renyi,
    epsilon_spent,
    gaussian_limit,
    sampled_limit,
)


def steps(noise, rate=0.1, times=10_000):
    return Release(what="gradients", noise_multiplier=noise, sampling_rate=rate, times=times)


@pytest.mark.parametrize(("epsilon", "noise"), [(0.1, 307.54), (0.3, 112.40), (1.0, 37.33)])
def test_calibration_reproduces_the_design_figures_in_seconds(epsilon, noise):
    calibrate.cache_clear()
    begun = time.perf_counter()
    found = calibrate(Budget(epsilon=epsilon, delta=1e-5), 0.1, 10_000)
    assert found == pytest.approx(noise, abs=0.006)
    # An order of magnitude above what it takes, so that only a broken search fails.
    assert time.perf_counter() - begun < 60


@pytest.mark.slow
def test_calibration_for_many_small_batches():
    budget = Budget(epsilon=1.0, delta=1 / 30162)
    assert calibrate(budget, 0.01, 400_000) == pytest.approx(21.86, abs=0.006)


def test_a_coarser_grid_would_cost_noise():
    fine = epsilon_spent((steps(307.54),), 1e-5, "add-remove", 1e-5)
    library_default = epsilon_spent((steps(309.96),), 1e-5, "add-remove", 1e-4)
    twice_the_noise = epsilon_spent((steps(2 * 307.54),), 1e-5, "add-remove", 1e-3)
    assert fine == pytest.approx(0.1, rel=1e-4)
    assert library_default == pytest.approx(0.1, rel=1e-3)
    assert twice_the_noise > 0.1


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_calibrated_noise_spends_the_budget_and_no_more(epsilon, adjacency):
    budget = Budget(epsilon=epsilon, delta=1e-6, adjacency=adjacency)
    noise = calibrate(budget, 0.05, 5000)
    width = 1e-5 * max(1.0, epsilon)
    spent = epsilon_spent((steps(noise, 0.05, 5000),), 1e-6, adjacency, width)
    assert spent <= epsilon
    assert spent > epsilon * 0.9999


def test_replace_one_costs_about_twice_the_noise():
    one = calibrate(Budget(epsilon=1.0, delta=1e-5), 0.1, 10_000)
    two = calibrate(Budget(epsilon=1.0, delta=1e-5, adjacency="replace-one"), 0.1, 10_000)
    assert two / one == pytest.approx(2.0, rel=0.01)


def test_renyi_accounting_agrees_from_above():
    exact = epsilon_spent((steps(37.33),), 1e-5, "add-remove")
    renyi = epsilon_by_renyi((steps(37.33),), 1e-5, "add-remove")
    assert exact < renyi < 1.25 * exact


def test_the_central_limit_brackets_the_answer():
    guess = sampled_limit(gaussian_limit(1.0, 1e-5), 0.1, 10_000)
    assert guess == pytest.approx(37.33, rel=0.01)


def test_gaussian_limit_of_one_gaussian_release():
    mu = gaussian_limit(1.0, 1e-5)
    alone = Release(what="x", noise_multiplier=1 / mu)
    assert epsilon_spent((alone,), 1e-5, "add-remove") == pytest.approx(1.0, rel=1e-3)


def test_other_releases_are_paid_for():
    budget = Budget(epsilon=1.0, delta=1e-5)
    other = Release(what="number of rows", noise_multiplier=10.0)
    alone, beside = calibrate(budget, 0.1, 10_000), calibrate(budget, 0.1, 10_000, (other,))
    assert beside > alone * 1.02
    both = (steps(beside), other)
    assert epsilon_spent(both, 1e-5, "add-remove") <= 1.0


def test_an_overspent_budget_is_refused():
    other = Release(what="everything", noise_multiplier=3.0)
    with pytest.raises(NoisewiseError, match=r"nothing of epsilon=1 is left .* after everything"):
        calibrate(Budget(epsilon=1.0, delta=1e-5), 0.1, 1000, (other,))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be a positive finite number, got 0.0"),
        ({"epsilon": math.nan}, "epsilon must be a positive finite number, got nan"),
        ({"epsilon": math.inf}, "epsilon must be"),
        ({"delta": 0.0}, "delta must be"),
        ({"delta": 1.0}, "delta must be"),
        ({"delta": math.nan}, "delta must be"),
        ({"delta": 9.9e-12}, "delta must be at least 1e-11, .* got 9.9e-12"),
        ({"adjacency": "neighbours"}, "adjacency must be one of"),
    ],
)
def test_budgets_out_of_range_are_refused(wrong, message):
    with pytest.raises(NoisewiseError, match=message):
        Budget(**{"epsilon": 1.0, "delta": 1e-5, **wrong})


def test_large_delta_warns():
    with pytest.warns(UserWarning, match="not well below 1/rows"):
        Budget(epsilon=1.0, delta=1e-3).warn_if_delta_is_large(1000)


@pytest.mark.parametrize("noise_multiplier", [0.7, 37.33, 112.4, 307.54, 1 + 2**-30, 1.5])
def test_noise_scales_are_rounded_up_to_single_precision(noise_multiplier):
    mechanism = Mechanism(
        clip_norm=1.0, sampling_rate=0.1, steps=10, noise_multiplier=noise_multiplier
    )
    grid = mechanism.grid(3, 1000)
    scale = mechanism.noise_scale(grid, 3)
    assert scale.dtype == np.float32
    assert scale.shape == (3,)
    accounted = noise_multiplier * grid.points
    assert (scale.astype(float) >= accounted).all()
    assert (scale.astype(float) <= accounted * (1 + 2**-22)).all()


def test_a_mechanism_without_noise_says_so():
    mechanism = Mechanism(clip_norm=1.0, sampling_rate=0.1, steps=10)
    with pytest.raises(ValueError, match=r"call calibrate\(budget\) first"):
        _ = mechanism.multiplier


def test_a_certificate_finds_what_calibration_found():
    """In whatever order releases are listed, and without composing them again."""
    budget = Budget(epsilon=1.0, delta=1e-6)
    counts = Release(what="counts", noise_multiplier=30.0)
    rows = Release(what="number of rows", noise_multiplier=45.0)
    noise = calibrate(budget, 0.1, 2000, (counts, rows))
    misses = _epsilon_of.cache_info().misses
    orders = [(counts, steps(noise, times=2000), rows), (rows, counts, steps(noise, times=2000))]
    first, second = (epsilon_spent(order, 1e-6, "add-remove") for order in orders)
    assert first == second
    assert budget.epsilon * (1 - 1e-5) < first <= budget.epsilon
    assert _epsilon_of.cache_info().misses == misses
