import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from compiling import AS_IN_USE
from noisewise._validate import NoisewiseError
from noisewise.mechanism import clipped_sum, make_grid, refuse_double_precision

finite = st.floats(-(2.0**100), 2.0**100, width=32)
compiled_sum = jax.jit(clipped_sum, compiler_options=AS_IN_USE)


@settings(max_examples=200, deadline=None)
@given(arrays(np.float32, st.tuples(st.just(1), st.integers(1, 40)), elements=finite))
def test_a_rounded_record_never_exceeds_the_clip_norm(gradient):
    grid = make_grid(2.0, gradient.shape[1], 1000, 5.0)
    total = np.asarray(compiled_sum(gradient, np.array([True]), grid), np.int64)
    # Exact integer arithmetic: no float can hide an overshoot.
    assert int((total**2).sum()) <= int(grid.points) ** 2


@pytest.mark.parametrize("dim", [1, 3, 57, 114, 1000])
def test_the_bound_holds_for_gradients_at_the_edge(dim):
    rng = np.random.default_rng(dim)
    grid = make_grid(1.0, dim, 1000, 5.0)
    directions = rng.normal(size=(500, dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    each = jax.jit(
        jax.vmap(lambda row: clipped_sum(row[None], jnp.array([True]), grid)),
        compiler_options=AS_IN_USE,
    )
    for length in (0.999, 1.0, 1.0001, 7.0):
        totals = np.asarray(each(jnp.asarray(directions * length, jnp.float32)), np.int64)
        assert (totals**2).sum(1).max() <= int(grid.points) ** 2


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_short_floats_are_bounded_as_well(dtype):
    """Norms taken in the gradients' own eight or eleven bits would be off by up to a percent."""
    rng = np.random.default_rng(0)
    for dim in (2, 5, 57):
        grid = make_grid(1.0, dim, 1000, 5.0)
        each = jax.vmap(
            lambda row, grid: clipped_sum(row[None], jnp.array([True]), grid), (0, None)
        )
        rows = jnp.asarray(rng.normal(size=(2000, dim)), dtype)
        totals = np.asarray(jax.jit(each)(rows, grid), np.int64)
        assert (totals**2).sum(1).max() <= int(grid.points) ** 2


def test_double_precision_is_refused():
    refuse_double_precision()
    with jax.enable_x64(True), pytest.raises(NoisewiseError, match="JAX is in double precision"):
        refuse_double_precision()


def test_the_sum_of_small_gradients_is_exact_on_the_grid():
    grid = make_grid(1.0, 3, 100, 1.0)
    gradients = np.array([[10, -3, 5], [200, 7, 0]]) / grid.points
    total = clipped_sum(jnp.asarray(gradients), jnp.array([True, True]), grid)
    assert np.asarray(total).tolist() == [210, 4, 5]


def test_records_outside_the_batch_do_not_count():
    grid = make_grid(1.0, 2, 100, 1.0)
    gradients = jnp.array([[0.5, 0.5], [jnp.nan, 1.0]])
    total = clipped_sum(gradients, jnp.array([False, False]), grid)
    assert np.asarray(total).tolist() == [0, 0]


def test_the_grid_is_as_fine_as_integers_allow():
    assert make_grid(1.0, 10, 3000, 40.0).points == 2**16
    wide = make_grid(1.0, 10, 1e6, 40.0)
    assert wide.points * (1e6 + 400) <= 2**31
    assert wide.points * 2 * (1e6 + 400) > 2**31


def test_too_many_coordinates_for_the_grid_are_refused():
    with pytest.raises(NoisewiseError, match="do not fit the integer grid"):
        make_grid(1.0, 100_000, 1e8, 1.0)
