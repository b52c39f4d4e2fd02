"""Public bins: every value has a state, and simulated values come back to their state."""

import numpy as np
import pytest

from noisewise.covariates import covariate_bins
from noisewise.data import Column, Schema

SCHEMA = Schema(
    (
        Column(name="gain", kind="real", bounds=(0, 1e5)),
        Column(name="change", kind="real", bounds=(-50, 200)),
        Column(name="visits", kind="count", bounds=(0, 1000)),
        Column(name="children", kind="count", bounds=(0, 9)),
        Column(name="ill", kind="binary"),
        Column(name="race", kind="category", categories=("a", "b", "c")),
        Column(name="x", kind="real", bounds=(-1, 1), shape=(2,)),
    )
)
BINS = covariate_bins(SCHEMA, SCHEMA.names)


@pytest.mark.parametrize("column", BINS, ids=lambda column: column.name)
def test_values_drawn_in_a_state_are_in_that_state(column):
    states = np.arange(len(column)).repeat(40)
    values = column.draw(np.random.default_rng(0), states)
    if column.entry is not None:
        values = np.stack([values, values], axis=1)
    assert np.array_equal(column.states({column.column.name: values}), states)


@pytest.mark.parametrize("column", BINS, ids=lambda column: column.name)
def test_every_value_has_a_state_that_holds_it(column):
    rng = np.random.default_rng(1)
    values = SCHEMA[column.column.name].simulate(rng, 5000)
    states = column.states({column.column.name: values})
    own = values if column.entry is None else values[:, column.entry]
    assert np.all((column.low[states] <= own) & (own <= column.high[states]))


def test_bounds_and_zero_have_states_of_their_own():
    gain, change = BINS[0], BINS[1]
    for column, value in ((gain, 0.0), (gain, 1e5), (change, 0.0), (change, -50.0)):
        state = column.states({column.name: np.array([value])})[0]
        assert column.low[state] == column.high[state] == value


def test_states_near_a_bound_are_narrow_and_no_state_is_wide():
    gain = BINS[0]
    assert (gain.high - gain.low).max() <= 1e5 / 16
    below_a_hundred = gain.low < 100
    assert below_a_hundred.sum() >= 6


def test_a_vector_column_has_bins_for_each_entry():
    assert [column.name for column in BINS[-2:]] == ["x[0]", "x[1]"]
