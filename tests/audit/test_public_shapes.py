"""Pass sizes, loops and blocks follow public numbers alone, for every algorithm and table size.

Steps are compiled as users get them, for the CPU: what is shown is a property of this compiler.
Without noise and with everybody drawn, sums of tables that differ by a record are subtracted.
"""

from unittest import mock

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from compiling import AS_IN_USE
from noisewise.audit.attacked import Setup, algorithms
from noisewise.audit.neighbours import compare_neighbours
from noisewise.data import PrivateRows
from noisewise.dpsep import inputs
from noisewise.engine import run as driver
from noisewise.mechanism import Budget, SumRelease
from noisewise.mechanism.sums import rounded_rows, sum_grid

EVERY = {one.name: one for one in algorithms(width=12)}
SIZES = (1, 2, 30, 31, 32, 33, 63, 64, 100, 255, 256, 819, 820, 1023, 2047, 4095, 4096, 5000)


@pytest.fixture(autouse=True)
def _as_in_use():
    step = jax.jit(driver._run_chunk.__wrapped__, compiler_options=AS_IN_USE)
    with mock.patch.object(driver, "_run_chunk", step):
        yield


@pytest.mark.parametrize("name", ["DPVI, means_only", "DP-SEP, linear", "DP-EM"])
def test_one_record_moves_no_other(name):
    found = compare_neighbours(EVERY[name], (31, 819))
    assert found.holds, found


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_one_record_moves_no_other_in_any_size(name):
    found = compare_neighbours(EVERY[name], SIZES)
    assert found.holds, found


@given(some.integers(1, 6000), some.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_prepared_records_are_the_same_in_every_table(count, seed):
    """DPVI's frame, a network's whitening, and what goes into sums: some of the same records."""
    rng = np.random.default_rng(seed)
    places = slice(0, count)
    for prepare in (_framed, _whitened, _rounded):
        whole, part = prepare(slice(0, 6000)), prepare(places)
        for name in whole:
            assert len(part[name]) == count
            record = rng.integers(count)
            assert np.array_equal(part[name][record], whole[name][record]), prepare
            assert np.array_equal(part[name], whole[name][:count]), prepare


def _framed(places):
    one = EVERY["DPVI, means_only"]
    return one.rows(one.assemble(Setup(10, 1.0, 1.0, 100)), places)


def _numbers(places, width):
    return np.random.default_rng(5).normal(size=(6000, width))[places]


def _whitened(places, width=24):
    """What the second round of whitening a network's inputs hands to its sum."""
    seen = []

    def remember(values, *_, **__):
        seen.append(values.unsafe_columns()["products"])
        packed = np.cov(_numbers(slice(100), width + 1).T)[np.triu_indices(width + 1)]
        return SumRelease(100 * packed, 1.0, None)

    with mock.patch.object(inputs, "release_sum", remember):
        rows = PrivateRows({"X": _numbers(places, width)})
        inputs.buy_whitening(rows, width, 100, Budget(epsilon=1.0, delta=1e-6), rounds=2)
    return {"products": seen[1]}


def _rounded(places):
    # Columns taken one by one lie in memory the other way round.
    return {"rounded": rounded_rows(_numbers(places, 7)[:, [3, 1, 4, 1, 5]], sum_grid(1.0, 5))}
