"""Stressed tables: within their schema, and unlike what it suggests."""

import numpy as np
import pytest

import noisewise as nw
from noisewise.data import Table
from noisewise.trials import STRESSES, stressed_columns

ROWS = 4000
SCHEMA = nw.Schema(
    (
        nw.Column(name="ward", kind="category", categories=tuple("abcd")),
        nw.Column(name="smokes", kind="binary"),
        nw.Column(name="age", kind="real", bounds=(0, 100), mean=45, sd=15),
        nw.Column(name="visits", kind="count", bounds=(2, 50)),
        nw.Column(name="income", kind="real", bounds=(0, 1000)),
    )
)


def stressed(name):
    return stressed_columns(SCHEMA, name, np.random.default_rng(0), ROWS)


@pytest.mark.parametrize("name", STRESSES)
def test_the_schema_holds(name):
    table = Table.from_arrays(stressed(name), SCHEMA, allow_constant=True)
    assert len(table) == ROWS


@pytest.mark.parametrize("name", ["rare levels", "all of these"])
def test_levels_are_rare(name):
    """A quarter of one in twenty each, five standard errors allowed; fixed seed."""
    shares = np.bincount(stressed(name)["ward"], minlength=4) / ROWS
    assert (np.abs(shares[1:] - 0.0125) < 5 * np.sqrt(0.0125 / ROWS)).all()
    assert stressed(name)["smokes"].mean() < 0.05


@pytest.mark.parametrize("name", ["piles at a bound", "all of these"])
def test_numbers_pile_at_the_lower_bound(name):
    found = stressed(name)
    for column, low in (("age", 0), ("visits", 2), ("income", 0)):
        assert 0.85 < np.mean(found[column] == low) < 0.99


def test_tied_numbers_have_nearly_the_same_ranks_and_the_same_values():
    found, plain = stressed("tied numbers"), SCHEMA.simulate(np.random.default_rng(0), ROWS)
    ranks = np.argsort(np.argsort(np.stack([found["age"], found["income"]]), axis=1), axis=1)
    assert np.corrcoef(ranks)[0, 1] > 0.85
    assert (np.sort(found["income"]) == np.sort(plain["income"])).all()
