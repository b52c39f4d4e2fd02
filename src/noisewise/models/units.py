"""A target whose records are units: people with several rows each, protected as a whole.

A unit's arrays have an axis of rows first, with a weight a row (0 where it has no more). Its
log-likelihood and its gradient are sums over its rows, and it is the sum that is clipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.data import WEIGHT, Rows
from noisewise.models.frame import Frame
from noisewise.models.target import Target
from noisewise.models.wrapped import WrappedTarget


@dataclass(frozen=True)
class UnitTarget(WrappedTarget):
    """A model of rows as one of units: whatever is not about rows is that model's own."""

    most_rows: int
    """Of a unit."""

    @property
    def rows(self) -> Target:
        """See `Target.rows`."""
        return self.inner

    @property
    def rows_each(self) -> int:
        """See `Target.rows_each`."""
        return self.most_rows

    def log_likelihood(self, theta: Array, record: Rows) -> Array:
        """log p(a unit's rows | theta): one unit, its arrays without the axis of units."""
        return jnp.sum(jax.vmap(self.inner.log_likelihood, (None, 0))(theta, record))

    def prepare(self, rows: Rows, frame: Frame) -> Rows:
        """See `Target.prepare`: row by row."""
        return self._row_by_row(lambda flat: self.inner.prepare(flat, frame), rows)

    def record_moments(
        self, frame: Frame, points: Array, base_normals: Array, batch: Rows
    ) -> tuple[Array, Array]:
        """See `Target.record_moments`: sums over the rows of each unit."""
        found = self.inner.record_moments(frame, points, base_normals, self._flat(batch))
        mean, scale = (each.reshape(-1, self.most_rows, each.shape[-1]).sum(1) for each in found)
        return mean, scale

    def simulate(self, key: Array, theta: Array, rows: Rows) -> Rows:
        """See `Target.simulate`: rows are drawn independently, given theta."""
        return self._row_by_row(lambda flat: self.inner.simulate(key, theta, flat), rows)

    def _flat(self, rows: Rows) -> Rows:
        return {name: column.reshape(-1, *column.shape[2:]) for name, column in rows.items()}

    def _row_by_row(self, change: Callable[[Rows], Rows], rows: Rows) -> Rows:
        found = change(self._flat(rows))
        shape = (-1, self.most_rows)
        return {name: column.reshape(*shape, *column.shape[1:]) for name, column in found.items()}


def of_units(target: Target, most_rows: int) -> Target:
    """The target of a model of rows, with units of so many rows at most as its records.

    Args:
        target: Of rows.
        most_rows: Of a unit.
    """
    return UnitTarget(target.model, target.layout, target.example, target, most_rows)


def simulated_units(rows: Rows, most_rows: int, sizes: np.ndarray) -> Rows:
    """Simulated rows as units.

    Args:
        rows: As many as units would have if all had ``most_rows``.
        most_rows: Of a unit.
        sizes: How many each has.
    """
    found = {n: c.reshape(len(sizes), most_rows, *c.shape[1:]) for n, c in rows.items()}
    weight = (np.arange(most_rows) < sizes[:, None]).astype(np.float32)
    return found | {WEIGHT: weight * found[WEIGHT] if WEIGHT in found else weight}
