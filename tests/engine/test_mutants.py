"""Every broken mechanism, and every broken driver, is caught by the contract's checks, whichever
kind of algorithm it runs."""

import pytest

from engine.algorithms import REPRESENTATIVES, cases
from engine.contract import fault
from engine.mutants import COMPILED_IN, EVERY, HARMLESS, in_the_engine


@pytest.mark.parametrize("name", REPRESENTATIVES)
@pytest.mark.parametrize("mutant", EVERY, ids=lambda mutant: mutant.__name__)
def test_every_mutant_is_caught(mutant, name):
    broken = mutant.__name__
    with in_the_engine(mutant):
        found = fault(cases()[name], seed=1, label=broken if broken in COMPILED_IN else "")
    assert (found is None) == ((broken, name) in HARMLESS), found
