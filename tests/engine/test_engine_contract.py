"""Every algorithm through the same checks: they are all private for one reason, the engine.

Statistical statements have a false-alarm rate of 1e-6 each, thirteen for an algorithm and a driver:
7e-4 over all of them together. The seeds are fixed, so what passes once passes always.
"""

import pytest

from engine.algorithms import cases
from engine.contract import (
    batches_are_poisson,
    every_check,
    noise_has_the_right_law,
    releases_are_sums_of_the_records_own_contributions,
)
from engine.watching import simulated, watched


@pytest.mark.parametrize("case", cases().values(), ids=lambda case: case.name)
def test_the_secure_driver(case):
    for check in every_check(case, seed=1):
        check()


# What is clipped together, or in which form, is an algorithm's, and was just looked at.
_OTHERWISE_ALIKE = ("clipped prior", "natural form")
_DRIVEN = [case for case in cases().values() if not case.name.endswith(_OTHERWISE_ALIKE)]


@pytest.mark.parametrize("case", _DRIVEN, ids=lambda case: case.name)
def test_the_simulated_driver_has_the_same_law(case):
    run = watched(case, moveless=True)
    parts = releases_are_sums_of_the_records_own_contributions(simulated, run, case, 1)
    noise_has_the_right_law(run, parts)
    batches_are_poisson(run, parts)
