"""A record moves the sum by its own clipped gradient, and no other record's bits move with it.

That is what the accounting takes for granted, and XLA does not grant it: it rounds by the shape of
what it compiles. Sums are compared on a grid of 2^24 steps, fine enough for every bit of a float32.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compiling import AS_IN_USE
from noisewise.mechanism import Draws, Grid, in_blocks, usual_passes
from noisewise.mechanism.release import _batch_sum
from noisewise.models import build_target, whitened_frame
from noisewise.models.glm import Glm

LOOKED_AT = 600
ALL_BITS = 2.0**24


class Regression:
    """A GLM of the house in a whitened frame, with gradients at a random point."""

    def __init__(self, family: str, dim: int, guide_draws: int, rows: int = 3000):
        rng = np.random.default_rng(dim)
        X = np.concatenate([np.ones((rows, 1)), rng.normal(size=(rows, dim - 1))], axis=1)
        score = X @ rng.normal(size=dim) + rng.normal(size=rows)
        y = score > 0 if family == "logistic" else score
        self.raw = {"X": X.astype(np.float32), "y": y.astype(np.float32)}
        example = {name: column[:4] for name, column in self.raw.items()}
        self.target = build_target(Glm(family), example)
        size = self.target.dim
        curvature = 30 * np.eye(size) + 3 * np.ones((size, size))
        location = 0.3 * rng.normal(size=size)
        self.frame = whitened_frame(location, curvature, self.target.block_sizes())
        self.points = rng.normal(size=(guide_draws, size)).astype(np.float32)
        self.rows = self.prepare(self.raw)

    def prepare(self, raw: dict) -> dict:
        return in_blocks(lambda block: self.target.prepare(block, self.frame), raw)

    def gradients(self, batch: dict, points=None):
        points = self.points if points is None else points
        return self.target.record_moments(self.frame, points, jnp.zeros_like(points), batch)[0]

    def contributions(self, order, pass_size: int, passes: int, rows: dict) -> np.ndarray:
        """What record order[k] adds at place k: differences of the sums of growing batches."""
        norm = float(np.median(np.linalg.norm(self.gradients(self.rows), axis=1)))
        grid = Grid(norm, ALL_BITS, ALL_BITS * (1 - 1e-5))

        @partial(jax.jit, compiler_options=AS_IN_USE)
        def sums(rows, points, indices, sizes):
            def step(_, size):
                draws = Draws(indices, jnp.int32(0), size, jnp.zeros(self.target.dim, jnp.int32))
                gradients = partial(self.gradients, points=points)
                with jax.default_matmul_precision("highest"):
                    return None, _batch_sum(gradients, rows, draws, grid, pass_size, passes)

            return jax.lax.scan(step, None, sizes)[1]

        room = np.zeros(pass_size * (passes + 1), np.int32)
        indices = np.concatenate([order, room]).astype(np.int32)
        sizes = np.arange(len(order) + 1, dtype=np.int32)
        # Sums wrap around 2^32, their differences with them.
        return np.diff(np.asarray(sums(rows, self.points, indices, sizes)), axis=0)


@pytest.mark.parametrize("public_count", [150, 1500, 8_190, 8_191])
@pytest.mark.parametrize(
    ("family", "dim", "guide_draws"),
    [("linear", 2, 1), ("linear", 20, 10), ("linear", 59, 1), ("logistic", 57, 1)],
)
def test_a_record_adds_the_same_bits_whatever_is_around_it(family, dim, guide_draws, public_count):
    regression = Regression(family, dim, guide_draws)
    size, number = usual_passes(public_count, 0.1, 10**9)
    rng = np.random.default_rng(public_count)
    seen: dict[int, np.ndarray] = {}
    smaller = {name: column[: LOOKED_AT + 1] for name, column in regression.rows.items()}
    # Other company and other places; one pass more; a smaller table.
    for rows, passes in (
        (regression.rows, number),
        (regression.rows, number),
        (regression.rows, number + 1),
        (smaller, number),
    ):
        order = rng.permutation(LOOKED_AT)[: size * number]
        for record, added in zip(
            order, regression.contributions(order, size, passes, rows), strict=True
        ):
            assert np.array_equal(seen.setdefault(record, added), added), (record, passes)


@pytest.mark.parametrize("number_of_rows", [1, 819, 820, 2999, 4096, 5000])
@pytest.mark.parametrize("dim", [3, 57])
def test_a_record_is_prepared_with_the_same_bits_in_any_table(dim, number_of_rows):
    regression = Regression("linear", dim, 1, rows=5000)
    order = np.random.default_rng(dim).permutation(5000)[:number_of_rows]
    some = {name: column[order] for name, column in regression.raw.items()}
    for name, column in regression.prepare(some).items():
        assert column.shape[0] == number_of_rows
        assert np.array_equal(column, regression.rows[name][order]), name


def test_pass_sizes_leave_no_remainder_to_a_slower_loop():
    for public_count in [*range(1, 40), 819, 820, 30_961, 30_962, 10**6]:
        for rate in (0.01, 0.1, 1.0):
            for most in (1, 100, 10**9):
                passes = usual_passes(public_count, rate, most)
                assert passes.size % 32 == 0
                assert passes.number >= 2
                assert passes.room >= min(public_count, public_count * rate)
