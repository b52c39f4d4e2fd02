"""The mechanism passes its checks, and every one of eleven broken mechanisms fails them.

False alarms: each of the about nine statistical statements per run rejects correct code with
probability below 1e-6, so fifteen runs on two engines together raise a false alarm with probability
below 3e-4; the seeds are fixed, so what passes once passes always.
"""

import pytest

from mechanism.checks import faults
from mechanism.engines import MUTANTS, device_engine, secure_engine, seeds


@pytest.fixture(scope="module")
def secure():
    return secure_engine()


@pytest.fixture(scope="module")
def device():
    return device_engine()


@pytest.mark.parametrize("seed", seeds(15))
def test_the_secure_mechanism_raises_no_alarm(secure, seed):
    assert faults(secure, seed) == []


@pytest.mark.parametrize("seed", seeds(15))
def test_the_device_mechanism_has_the_same_law(device, seed):
    assert faults(device, seed) == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_every_mutant_is_caught(mutant):
    with mutant():
        engine = secure_engine()
        for seed in seeds(3):
            assert faults(engine, seed) != []
