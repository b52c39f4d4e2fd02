"""The wall. Rows come in here; what comes out is clipped, summed, noised, and accounted for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._shapes import Float, Int
from noisewise._validate import integer_at_least, positive
from noisewise.mechanism.accounting import Release, calibrate, check_sampling_rate
from noisewise.mechanism.budget import Budget
from noisewise.mechanism.clipping import Grid, clipped_sum, make_grid
from noisewise.mechanism.noise import LEAST_PASSES, Draws


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """A subsampled Gaussian mechanism, run ``steps`` times: everything that decides privacy.

    Args:
        clip_norm: The most, in L2 norm, that one record can contribute to a step's sum.
        sampling_rate: Every record's chance of being in a step's batch.
        steps: How often it is run.
        noise_multiplier: Standard deviation of the noise over the clip norm; None until
            `calibrate` has found it.
    """

    clip_norm: float
    sampling_rate: float
    steps: int
    noise_multiplier: float | None = None

    def __post_init__(self) -> None:
        positive("clip_norm", self.clip_norm)
        integer_at_least("steps", self.steps, 1)
        check_sampling_rate(self.sampling_rate)
        if self.noise_multiplier is not None:
            positive("noise_multiplier", self.noise_multiplier)

    def calibrate(self, budget: Budget, others: tuple[Release, ...] = ()) -> Mechanism:
        """A copy with the least noise that keeps it, with ``others``, within the budget.

        Args:
            budget: For this mechanism and the others together.
            others: What else the same data pay for.
        """
        found = calibrate(budget, self.sampling_rate, self.steps, others)
        return replace(self, noise_multiplier=found)

    @property
    def multiplier(self) -> float:
        """The noise multiplier; an error before calibration."""
        if self.noise_multiplier is None:
            raise ValueError("the mechanism has no noise yet: call calibrate(budget) first")
        return self.noise_multiplier

    def release(self, what: str) -> Release:
        """What this mechanism costs, as a certificate lists it under the name ``what``."""
        return Release(
            what=what,
            noise_multiplier=self.multiplier,
            sampling_rate=self.sampling_rate,
            times=self.steps,
        )

    def grid(self, dim: int, public_count: int) -> Grid:
        """The integer grid that sums and noise live on.

        Args:
            dim: Number of released coordinates.
            public_count: The number of rows, declared or noised; the table's own would show in
                the grid's width.
        """
        mean = public_count * self.sampling_rate
        return make_grid(self.clip_norm, dim, mean + 10 * np.sqrt(mean) + 10, self.multiplier)

    def noise_scale(self, grid: Grid, dim: int) -> Float[np.ndarray, " dim"]:
        """Standard deviation of the noise in grid steps, for each of ``dim`` coordinates.

        In single precision, where it is rounded up: never less noise than is accounted for.
        """
        exact = self.multiplier * float(grid.points)
        rounded = np.float32(exact)
        if float(rounded) < exact:
            rounded = np.nextafter(rounded, np.float32(np.inf))
        return np.full(dim, rounded)


def noisy_sum(
    record_gradients: Callable[[Any], Float[Array, "batch dim"]],
    rows: Any,
    draws: Draws,
    grid: Grid,
    pass_size: int,
    passes: int,
    across: str | None = None,
) -> Float[Array, " dim"]:
    """Clipped, noised sum of the drawn records' gradients: NA-DPVI Alg. 3, lines 2 to 4.

    An empty batch is pure noise.

    Args:
        record_gradients: From a batch of rows to its gradients.
        rows: Arrays of the whole table, by name, records first.
        draws: Who is drawn, and the noise.
        grid: By `Mechanism.grid`.
        pass_size: Records per pass: public, from `usual_passes`.
        passes: Enough for the drawn batch, which is the caller's to see to.
        across: Axis of a mesh of devices that hold shares of the rows; None where one holds all.
    """
    if across is not None:  # the noise is the first device's to add, and added once
        own = jnp.where(jax.lax.axis_index(across) == 0, draws.noise, 0)
        draws = draws._replace(noise=own)
    total = _batch_sum(record_gradients, rows, draws, grid, pass_size, passes)
    if across is not None:
        total = jax.lax.psum(total, across)
    return total.astype(jnp.float32) * (grid.clip_norm / grid.points)


def _batch_sum(
    record_gradients: Callable[[Any], Float[Array, "batch dim"]],
    rows: Any,
    draws: Draws,
    grid: Grid,
    pass_size: int,
    passes: int,
) -> Int[Array, " dim"]:
    """The sum in grid steps. It begins with the noise: a sum without is never formed.

    The accounting takes a record to move it by its own clipped gradient and nothing else, so no
    other record's rounding may depend on who else was drawn, on the table's size or on how many
    passes there are. XLA rounds by the shape of what it compiles together: hence always the same
    loop body, of a public shape, and a barrier between it and the table.
    """

    def one_pass(number: Array, total: Array) -> Array:
        start = number * pass_size
        here = jax.lax.dynamic_slice_in_dim(draws.indices, draws.offset + start, pass_size)
        included = start + jnp.arange(pass_size) < draws.size
        batch = jax.lax.optimization_barrier(jax.tree.map(lambda column: column[here], rows))
        return total + clipped_sum(record_gradients(batch), included, grid)

    # A fixed number of passes: on a GPU, asking how many are needed would stall every step. At
    # least two, as a loop of one would be dissolved into the program around it.
    number = max(LEAST_PASSES, passes)
    return jax.lax.fori_loop(0, number, one_pass, draws.noise)
