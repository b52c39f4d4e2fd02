"""No shape of a compiled program follows a table's true number of rows."""

from unittest import mock

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from noisewise.baselines.dp_em import assemble_em
from noisewise.data import PrivateRows
from noisewise.engine import run_secure
from noisewise.engine.run import Finished
from noisewise.mechanism import Mechanism, room_for

PUBLIC, NOISE = 5000, 40.0


def shapes(true_count, public_count=PUBLIC, count_noise=NOISE, rate=0.1):
    """Of the arguments of every program that a run calls, and the loops that it holds."""
    seen = []

    def look(run, rows, state, *more):
        seen.append((jax.tree.map(np.shape, (rows, more[-1])), run.passes))
        return Finished(state, np.zeros(1))

    mechanism = Mechanism(clip_norm=1.0, sampling_rate=rate, steps=5, noise_multiplier=1.0)
    run = assemble_em(mechanism, public_count, np.eye(2), sd=1.0, radius=1.0, prior_sd=1.0)
    rows = PrivateRows({"X": np.ones((true_count, 2), np.float32)})
    with mock.patch("noisewise.engine.run._run_chunk", look):
        run_secure(run, rows, insecure_seed=0, count_noise=count_noise)
    return seen


@pytest.mark.parametrize("true_count", [0, 1, 4600, 5001, 5400])
def test_the_true_count_is_no_shape(true_count):
    assert shapes(true_count) == shapes(PUBLIC)


@pytest.mark.parametrize("true_count", [0, 4800, 5056, 5057, 5240])
def test_the_true_count_is_no_number_of_passes(true_count):
    """Passes for 5,000 records, everybody drawn, would have room for 5,056."""
    assert shapes(true_count, rate=1.0) == shapes(PUBLIC, rate=1.0)


def test_tables_of_nearly_one_size_share_their_program():
    assert shapes(5040, 5040) == shapes(5000, 5000)


def test_a_table_beyond_all_expectation_is_held_all_the_same():
    """The public count was passed wrongly: what it tells is the size to a factor of two."""
    ((rows, _), _), *_ = shapes(20_000)
    assert rows["X"][0] == 4 * room_for(PUBLIC, NOISE)


@given(some.integers(0, 10**9), some.floats(0, 1e6))
def test_rooms_are_round_and_not_much_too_large(count, noise):
    room = room_for(count, noise)
    needed = count + 10 * noise
    assert room >= needed
    assert room <= max(64, (needed + 1) * (1 + 1 / 16) + 32)
    assert room % 32 == 0
