"""The mechanism passes its checks, and every one of eleven broken mechanisms fails them.

False alarms: each of the about nine statistical statements per run rejects correct code with
probability below 1e-6, so fifteen runs on two engines together raise a false alarm with probability
below 3e-4; the seeds are fixed, so what passes once passes always.
"""

import pytest

from mechanism.checks import faults
from mechanism.engines import MUTANTS, device_engine, secure_engine, seeds


@pytest.mark.parametrize("seed", seeds(15))
def test_the_secure_mechanism_raises_no_alarm(seed):
    assert faults(secure_engine(), seed) == []


@pytest.mark.parametrize("seed", seeds(15))
def test_the_device_mechanism_has_the_same_law(seed):
    assert faults(device_engine(), seed) == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
@pytest.mark.parametrize("seed", seeds(3))
def test_every_mutant_is_caught(mutant, seed):
    with mutant():
        assert faults(secure_engine(), seed) != []
