"""Few steps with little noise: the search for the noise must not take minutes."""

import time

import pytest

from noisewise.mechanism import Budget, Release
from noisewise.mechanism.accounting import calibrate, discretisation, epsilon_spent


@pytest.mark.parametrize(("epsilon", "fine"), [(4.0, False), (30.0, True)])
def test_a_run_of_one_epoch_is_calibrated_quickly_and_within_the_budget(epsilon, fine):
    """A quarter of a minute a look, and a dozen looks, on the grid of long runs."""
    budget = Budget(epsilon=epsilon, delta=1e-4)
    begun = time.process_time()
    noise = calibrate(budget, 0.01, 100)
    assert time.process_time() - begun < 30
    release = Release(what="gradients", noise_multiplier=noise, sampling_rate=0.01, times=100)
    width = discretisation(epsilon) if fine else 1e-4
    spent = epsilon_spent((release,), budget.delta, "add-remove", width)
    assert 0.999 * epsilon < spent <= epsilon * (1 + 1e-6)
