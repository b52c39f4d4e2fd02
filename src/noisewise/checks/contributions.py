"""What one record adds to a bought table: a bounded vector, from the record alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from noisewise._shapes import Float, Int
from noisewise.checks.cells import Cells
from noisewise.checks.outcomes import Outcome
from noisewise.data import WEIGHT, Rows
from noisewise.mechanism import in_blocks
from noisewise.models import RowView

_COUNT_WEIGHT = 0.5
"""Of a record's one in its cell beside its residual: how many there are need not be known well."""


class Judged(NamedTuple):
    """Records as the check sees them."""

    cell: Int[np.ndarray, " count"]
    expected: Float[np.ndarray, " count"]
    values: Float[np.ndarray, "count width"]
    """A residual, or shares of the bins of a histogram; zeros where nothing can be said."""
    known: np.ndarray
    """Which records count: their outcome is there, and the model gives it a probability."""


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of every record: where it belongs, and how its outcome compares with what the
    model says at fixed, public parameters."""

    view: RowView
    outcome: Outcome
    theta: Float[np.ndarray, " dim"]
    cells: Cells
    bins: int
    """Of a histogram of the outcomes' intervals; 0 is their residual in place of it."""

    @property
    def sensitivity(self) -> float:
        """The most, in L2 norm, that a record's contribution can be: that of a row, or those of all
        rows of a unit.

        A row's residual is within [-1, 1], and stands beside a count; shares of bins sum to one.
        """
        row = 1.0 if self.bins else math.sqrt(1 + _COUNT_WEIGHT**2)
        return row * self.view.schema.most_rows

    def contributions(self, columns: Rows) -> Rows:
        """A vector for every row, in the form that `release_sum` takes.

        Args:
            columns: In the form of `Table.rows`.
        """
        judged = self.judge(columns, self.view.encode(columns))
        count, cells = len(judged.cell), len(self.cells.labels)
        found = np.zeros((count, cells, self.width))
        found[np.arange(count), judged.cell] = self._beside(judged)
        return {"contributions": found.reshape(count, -1)}

    @property
    def width(self) -> int:
        """Numbers of a cell: those of a histogram, or a count and a residual."""
        return self.bins or 2

    def _beside(self, judged: Judged) -> np.ndarray:
        if self.bins:
            return judged.values
        return np.column_stack([_COUNT_WEIGHT * judged.known, judged.values])

    def counts(self, total: Float[np.ndarray, "cells width"]) -> Float[np.ndarray, " cells"]:
        """How many records a cell has, as the bought sums say.

        Args:
            total: The sums.
        """
        return total.sum(1) if self.bins else total[:, 0] / _COUNT_WEIGHT

    def count_noise(self, noise_sd: float) -> float:
        """Sd of the noise in `counts`.

        Args:
            noise_sd: Of the sums.
        """
        return noise_sd * (math.sqrt(self.bins) if self.bins else 1 / _COUNT_WEIGHT)

    def judge(self, columns: Rows, arguments: Rows) -> Judged:
        """Every record by itself.

        Args:
            columns: In the form of `Table.rows`.
            arguments: The same records as the model takes them.
        """
        theta = jnp.asarray(self.theta, jnp.float32)
        weight = arguments.get(WEIGHT)
        rows = {name: column for name, column in arguments.items() if name != WEIGHT}
        read = in_blocks(lambda block: self.outcome.read(theta, block), rows)
        lower, upper = (read[end].astype(float) for end in ("lower", "upper"))
        known = np.isfinite(lower) & np.isfinite(upper) & np.isfinite(read["expected"])
        if weight is not None:
            known &= np.asarray(weight) > 0
        lower, upper = (np.where(known, end, 0.0) for end in (lower, upper))
        values = shares(lower, upper, self.bins) if self.bins else (lower + upper - 1)[:, None]
        return Judged(
            cell=self.cells.place(columns, read["expected"]),
            expected=read["expected"].astype(float),
            values=np.where(known[:, None], values, 0.0),
            known=known,
        )


def shares(
    lower: Float[np.ndarray, " count"], upper: Float[np.ndarray, " count"], bins: int
) -> Float[np.ndarray, "count bins"]:
    """The share of each interval that lies in each of so many equal parts of [0, 1].

    Args:
        lower: Where the intervals start.
        upper: Where they end; the same place for a point, which lies in one part.
        bins: How many parts.
    """
    lower, upper = np.clip(lower, 0.0, 1.0)[:, None], np.clip(upper, 0.0, 1.0)[:, None]
    edges = np.arange(bins + 1) / bins
    width = upper - lower
    covered = np.diff(np.clip(edges, lower, np.maximum(upper, lower)), axis=1)
    point = np.minimum((lower * bins).astype(int), bins - 1) == np.arange(bins)
    narrow = width <= 1e-6
    return np.where(narrow, point, covered / np.where(narrow, 1.0, width))
