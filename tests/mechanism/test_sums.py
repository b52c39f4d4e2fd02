import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from noisewise._validate import NoisewiseError
from noisewise.mechanism import Budget, issue, release_sum
from noisewise.mechanism.sums import rounded_rows, sum_grid

BUDGET = Budget(epsilon=1.0, delta=1e-6)
any_float = st.floats(-1e308, 1e308) | st.sampled_from([np.nan, np.inf, -np.inf])


def test_the_noise_has_its_stated_sd():
    """Chi-square of 2000 noises, fixed seed: false alarm below 2e-6."""
    values = np.zeros((10, 2000))
    total, noise_sd, release = release_sum(values, 3.0, BUDGET, what="zeros", insecure_seed=4)
    assert 1e-6 < stats.chi2.sf(np.sum((total / noise_sd) ** 2), 2000) < 1 - 1e-6
    assert noise_sd == pytest.approx(3.0 * release.noise_multiplier)


def test_the_release_spends_the_budget_and_its_certificate_holds():
    release = release_sum(np.ones((5, 1)), 1.0, BUDGET, what="ones").release
    certificate = issue(BUDGET, (release,), {})
    assert certificate.verify().holds
    assert certificate.epsilon_spent > 0.999 * BUDGET.epsilon


def test_replacing_one_record_costs_twice_the_noise():
    two = Budget(epsilon=1.0, delta=1e-6, adjacency="replace-one")
    sds = [release_sum(np.ones((5, 1)), 1.0, b, what="ones").noise_sd for b in (BUDGET, two)]
    assert sds[1] / sds[0] == pytest.approx(2.0, rel=1e-3)


@settings(max_examples=200, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=any_float))
def test_no_row_whatever_it_holds_exceeds_the_sensitivity(values):
    grid = sum_grid(2.0, values.shape[1])
    rounded = rounded_rows(values, grid)
    # Exact integer arithmetic: no float can hide an overshoot.
    assert max(sum(int(v) ** 2 for v in row) for row in rounded) <= int(grid.points) ** 2


@pytest.mark.parametrize("dim", [1, 3, 77, 1000])
def test_rows_at_the_edge_stay_within_it_after_rounding(dim):
    rng = np.random.default_rng(dim)
    grid = sum_grid(1.0, dim)
    rows = rng.normal(size=(500, dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    # Half a step above an integer in every coordinate: the worst that rounding can do.
    worst = np.full((1, dim), (np.floor(grid.points / np.sqrt(dim)) + 0.51) / grid.points)
    for length in (1 - 1e-7, 1.0, 1 + 1e-7, 7.0):
        rounded = rounded_rows(np.concatenate([rows, worst]) * length, grid)
        assert (rounded**2).sum(1).max() <= int(grid.points) ** 2
        assert (rounded**2).sum(1).min() >= 0.999 * int(grid.points) ** 2


def test_indicators_are_summed_exactly():
    grid = sum_grid(1.0, 3)
    codes = np.random.default_rng(0).integers(3, size=1000)
    total = rounded_rows(np.eye(3)[codes], grid).sum(0)
    assert (total / grid.points).tolist() == np.bincount(codes).tolist()


def test_secure_noise_differs_and_seeded_noise_repeats():
    def total(seed, what="x"):
        return release_sum(np.zeros((3, 2)), 1.0, BUDGET, what=what, insecure_seed=seed).total

    assert not np.array_equal(total(None), total(None))
    assert np.array_equal(total(5), total(5))
    assert not np.array_equal(total(5), total(6))
    assert not np.array_equal(total(5), total(5, "another sum"))


def test_the_released_total_lies_on_the_grid():
    total = release_sum(np.full((7, 3), 0.1), 1.0, BUDGET, what="tenths").total
    assert np.array_equal(total * 2**20, np.rint(total * 2**20))


def test_bad_arguments_are_refused_in_one_line():
    with pytest.raises(NoisewiseError, match="values must be rows x statistics, got 1"):
        release_sum(np.zeros(3), 1.0, BUDGET, what="x")
    with pytest.raises(NoisewiseError, match="sensitivity must be a positive finite number"):
        release_sum(np.zeros((3, 1)), np.inf, BUDGET, what="x")
