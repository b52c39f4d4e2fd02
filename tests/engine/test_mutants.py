"""The mutation suite: every broken mechanism, and every broken driver, is caught by the contract's
checks, whichever algorithm it runs; and the checks raise no alarm on correct code.

`make test` runs every mutant through one kind of algorithm, and correct code through all in
`test_engine_contract.py`. The whole of it, 36 mutants through every algorithm and twenty runs of
correct code, is marked slow:

    python -m pytest tests/engine/test_mutants.py -m slow -n 2

False alarms: a run of correct code makes about thirteen statistical statements of 1e-6 each, so
that twenty runs of every algorithm raise one with probability below 0.01. The seeds are fixed, so
what passes once passes always; what takes keys from the operating system is exact but for 1e-15.
"""

import pytest

from engine.algorithms import REPRESENTATIVES, cases
from engine.contract import every_check, fault
from engine.mutants import COMPILED_IN, EVERY, harmless, in_the_engine
from mechanism.engines import secure_engine, seeds
from mechanism.hidden_faults import certificates_keep_to_the_budget, verify_without_the_budget

# What is clipped together, or in which form, is an algorithm's own affair.
_ALIKE = ("clipped prior", "natural form")
_ALGORITHMS = [name for name in cases() if not name.endswith(_ALIKE) or name in REPRESENTATIVES]
_TURNS = [(mutant, REPRESENTATIVES[turn % 3]) for turn, mutant in enumerate(EVERY)]
_REST = [(mutant, name) for mutant in EVERY for name in _ALGORITHMS if (mutant, name) not in _TURNS]


def caught(mutant, name: str) -> bool:
    broken = mutant.__name__
    label = broken if broken in COMPILED_IN else ""
    with in_the_engine(mutant):
        return fault(cases()[name], seed=1, label=label, whole=True) is not None


def named(value: object) -> str:
    return getattr(value, "__name__", str(value))


def test_there_are_more_than_thirty():
    assert len({mutant.__name__ for mutant in [*EVERY, verify_without_the_budget]}) == 37


@pytest.mark.parametrize(("mutant", "name"), _TURNS, ids=named)
def test_every_mutant_is_caught(mutant, name):
    assert caught(mutant, name) != harmless(mutant, name)


def test_a_certificate_beyond_its_budget_is_caught():
    with verify_without_the_budget(), pytest.raises(AssertionError):
        certificates_keep_to_the_budget(secure_engine(), 1)
    certificates_keep_to_the_budget(secure_engine(), 1)


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "name"), _REST, ids=named)
def test_every_mutant_is_caught_whatever_it_runs(mutant, name):
    assert caught(mutant, name) != harmless(mutant, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", _ALGORITHMS)
def test_correct_code_raises_no_alarm_in_twenty_runs(name):
    for seed in seeds(20):
        for check in every_check(cases()[name], seed, whole=True):
            check()
