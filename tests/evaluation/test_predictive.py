"""Reliability of predicted probabilities."""

import numpy as np
import pytest

from noisewise._validate import NoisewiseError
from noisewise.evaluation import predictive_calibration


def cases(seed, count=5000):
    rng = np.random.default_rng(seed)
    chances = rng.beta(1.0, 2.0, count)
    return chances, rng.random(count) < chances


def test_by_hand():
    found = predictive_calibration([0.9, 0.1, 0.3, 0.7], [1, 0, 1, 1], bins=2)
    assert np.allclose(found.predicted, [0.2, 0.8])
    assert np.allclose(found.observed, [0.5, 1.0])
    assert found.counts.tolist() == [2, 2]
    assert found.rmse == pytest.approx(np.sqrt((0.3**2 + 0.2**2) / 2))
    assert found.floor == pytest.approx(np.sqrt((0.15 + 0.15) / 2 / 2))
    assert found.brier == pytest.approx((0.01 + 0.01 + 0.49 + 0.09) / 4)
    assert found.log_score == pytest.approx(np.log([0.9, 0.9, 0.3, 0.7]).mean())


def test_true_probabilities_show_the_floor():
    """Squared RMSE over squared floor: one on average, with an sd of sqrt(2/10) a set.

    Over 400 sets the mean is known to 0.022: 0.09 is four of them (0.006%).
    """
    found = [predictive_calibration(*cases(seed, 1000)) for seed in range(400)]
    assert np.mean([(f.rmse / f.floor) ** 2 for f in found]) == pytest.approx(1, abs=0.09)


def test_overconfident_probabilities_stand_out():
    """Four floors: by chance, never (a chi-square of 160 with ten degrees of freedom).

    The true ones score better by both rules.
    """
    chances, happened = cases(0)
    odds = (chances / (1 - chances)) ** 2
    wrong = predictive_calibration(odds / (1 + odds), happened)
    right = predictive_calibration(chances, happened)
    assert wrong.rmse > 4 * wrong.floor
    assert right.brier < wrong.brier and right.log_score > wrong.log_score


def test_bins_have_equal_counts_and_the_order_of_cases_does_not_matter():
    chances, happened = cases(1, 1003)
    found = predictive_calibration(chances, happened, 10)
    assert found.counts.sum() == 1003 and np.ptp(found.counts) <= 1
    assert (np.diff(found.predicted) > 0).all()
    turned = predictive_calibration(chances[::-1], happened[::-1], 10)
    for ours, theirs in zip(found, turned, strict=True):
        assert np.allclose(ours, theirs)


def test_equal_probabilities_share_a_bin():
    """Sorted outcomes of one fair coin are no evidence against it."""
    found = predictive_calibration(np.full(100, 0.5), np.repeat([0, 1], 50))
    assert found.counts.tolist() == [100] and found.rmse == 0
    chances = np.repeat([0.1, 0.2, 0.8], [10, 80, 10])
    found = predictive_calibration(chances, np.zeros(100))
    assert found.counts.tolist() == [10, 80, 10]
    assert np.allclose(found.predicted, [0.1, 0.2, 0.8])


def test_fewer_cases_than_bins():
    assert predictive_calibration([0.2, 0.4], [0, 1]).counts.tolist() == [1, 1]


def test_certainty_that_fails_has_a_finite_score():
    found = predictive_calibration([1.0, 0.0], [False, True])
    assert found.log_score == pytest.approx(np.log(1e-12), rel=1e-4)
    assert found.floor == 0 and found.rmse == 1


@pytest.mark.parametrize(
    ("chances", "happened", "message"),
    [
        ([0.5, np.nan], [0, 1], "between 0 and 1"),
        ([0.5, 1.1], [0, 1], "between 0 and 1"),
        ([0.5, 0.5], [0, 2], "outcomes must be 0 or 1"),
        ([0.5], [0, 1], "of one length"),
        ([], [], "not empty"),
    ],
)
def test_what_cannot_be_judged_is_refused(chances, happened, message):
    with pytest.raises(NoisewiseError, match=message):
        predictive_calibration(chances, happened)
