"""Sums of records that a change makes long are taken a stretch of records at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from noisewise.data import PrivateRows, private
from noisewise.mechanism import Budget, release_sum

BUDGET = Budget(epsilon=1.0, delta=1e-6)


def products(columns):
    X = np.asarray(columns["X"], float)
    return {"products": (X[:, :, None] * X[:, None, :]).reshape(len(X), 9)}


def total(rows):
    return release_sum(rows, 2.0, BUDGET, what="products", insecure_seed=3).total


@given(some.integers(0, 40), some.integers(1, 90))
@settings(max_examples=25, deadline=None)
def test_stretches_have_the_same_sum(count, numbers):
    """To the last bit, noise included: sums are of integers."""
    rows = PrivateRows({"X": np.random.default_rng(count).normal(size=(count, 3))})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private, "_PASS_NUMBERS", numbers)
        stretched = rows.wide(products, 9)
        lengths = [len(part["products"]) for part in stretched.unsafe_passes()]
        assert sum(lengths) == count == stretched.true_count
        assert max(lengths) <= max(1, numbers // 9)
        assert np.array_equal(total(stretched), total(rows.map(products)))


def test_wide_rows_stay_closed():
    rows = PrivateRows({"X": np.ones((5, 3))}).wide(products, 9)
    assert "1.0" not in repr(rows)
    with pytest.raises(TypeError, match="rows about people are not pickled"):
        rows.__reduce__()
