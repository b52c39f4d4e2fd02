"""The wall. Rows come in here; what comes out is clipped, summed, noised, and accounted for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import fraction, integer_at_least, positive
from noisewise.mechanism.accounting import Release, calibrate
from noisewise.mechanism.budget import Budget
from noisewise.mechanism.clipping import Grid, clipped_sum, make_grid
from noisewise.mechanism.noise import Draws

__all__ = ["Mechanism", "noisy_sum"]


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """A subsampled Gaussian mechanism, run ``steps`` times: everything that decides privacy."""

    clip_norm: float
    sampling_rate: float
    steps: int
    noise_multiplier: float | None = None

    def __post_init__(self) -> None:
        positive("clip_norm", self.clip_norm)
        integer_at_least("steps", self.steps, 1)
        if self.sampling_rate != 1.0:
            fraction("sampling_rate", self.sampling_rate)
        if self.noise_multiplier is not None:
            positive("noise_multiplier", self.noise_multiplier)

    def calibrate(self, budget: Budget, others: tuple[Release, ...] = ()) -> Mechanism:
        """A copy with the least noise that keeps it, with ``others``, within the budget."""
        noise = calibrate(budget, self.sampling_rate, self.steps, others)
        return replace(self, noise_multiplier=noise)

    @property
    def noise(self) -> float:
        """The noise multiplier; an error before calibration."""
        if self.noise_multiplier is None:
            raise ValueError("the mechanism has no noise yet: call calibrate(budget) first")
        return self.noise_multiplier

    def release(self, what: str) -> Release:
        """The line that this mechanism writes into the ledger."""
        return Release(
            what=what,
            noise_multiplier=self.noise,
            sampling_rate=self.sampling_rate,
            times=self.steps,
        )

    def grid(self, dim: int, rows: int) -> Grid:
        """The integer grid for ``dim`` released coordinates of ``rows`` records."""
        mean = rows * self.sampling_rate
        return make_grid(self.clip_norm, dim, mean + 10 * np.sqrt(mean) + 10, self.noise)


def noisy_sum(
    record_gradients: Callable[[Any], Array],
    rows: Any,
    draws: Draws,
    grid: Grid,
    pass_size: int,
    passes: int,
) -> Array:
    """Clipped, noised sum of the drawn records' gradients: NA-DPVI Alg. 3, lines 2 to 4.

    ``record_gradients`` maps a batch of rows to an array (batch x coordinates). The drawn batch is
    walked in ``passes`` passes of ``pass_size`` records; the caller sees to it that they suffice.
    An empty batch is pure noise.
    """
    dim = draws.noise.shape[-1]

    def one_pass(number: Array, total: Array) -> Array:
        start = number * pass_size
        here = jax.lax.dynamic_slice_in_dim(draws.indices, draws.offset + start, pass_size)
        included = start + jnp.arange(pass_size) < draws.size
        batch = jax.tree.map(lambda column: column[here], rows)
        return total + clipped_sum(record_gradients(batch), included, grid)

    # A fixed number of passes: on a GPU, asking how many are needed would stall every step.
    total = jnp.zeros(dim, jnp.int32)
    if passes == 1:
        total = one_pass(jnp.int32(0), total)
    else:
        total = jax.lax.fori_loop(0, passes, one_pass, total)
    return (total + draws.noise).astype(jnp.float32) * (grid.clip_norm / grid.points)
