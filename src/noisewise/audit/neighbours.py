"""How far one record moves a sum, in tables of many sizes.

The accounting takes a record to move a step's integer sum by its own clipped contribution and by
nothing else. Compilers round by the shape of what they compile: where a shape follows the table's
size, one record more moves the low bits of all others, and the sum by more than was accounted.

Here the driver runs without noise, on simulated records of which everybody is in every batch. So
the sums of two tables that differ by one record can be subtracted, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.audit.attacked import MOST_RECORDS, Attacked, Setup
from noisewise.audit.low_bits import in_single_precision
from noisewise.data import PrivateRows, Rows
from noisewise.engine import Devices, Run, Step, run_secure

if TYPE_CHECKING:
    from jaxtyping import Int

_STEPS = 10
"""The least that settings allow; all are alike."""
_SIGN = "sign"
_EXACT = 2**24


class Neighbours(NamedTuple):
    """What one record did to sums, over all sizes."""

    name: str
    sizes: int
    """Pairs of neighbours."""
    furthest: float
    """How far a sum moved at most, in what the accounting allows: at most 1."""
    others: int
    """How far, in grid steps, the rest of the sum moved with one record: 0 if all is well."""

    @property
    def holds(self) -> bool:
        """Whether the accounting's assumption held."""
        return self.furthest <= 1 and self.others == 0


@dataclass(frozen=True)
class _Signed:
    """An algorithm whose releases are kept, always at one point, with signs on contributions.

    Signs keep a sum of many records small enough for single precision to hold every integer.
    """

    algorithm: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.algorithm, name)

    def point(self, numbers: Any, state: Any, schedule: Any, key: Any) -> Any:
        return self.algorithm.point(numbers, state, schedule, jax.random.PRNGKey(0))

    def contributions(self, numbers: Any, point: Any, batch: Rows) -> Any:
        rows = {name: column for name, column in batch.items() if name != _SIGN}
        return batch[_SIGN][:, None] * self.algorithm.contributions(numbers, point, rows)

    def update(
        self, numbers: Any, state: Any, record: Any, point: Any, schedule: Any, released: Any
    ) -> Step:
        return Step(state, self.algorithm.empty_record(state), released)


def compare_neighbours(
    attacked: Attacked, sizes: Sequence[int], devices: Devices | None = None
) -> Neighbours:
    """Sums of tables of these sizes, with and without one record.

    Args:
        attacked: The algorithm.
        sizes: Records besides that one. The public number is the same for both tables.
        devices: That share the records; None where one has them all.
    """
    furthest, others = 0.0, 0
    summed = partial(_sum, devices=devices)
    for size in sizes:
        run = attacked.assemble(Setup(_STEPS, 1.0, 1.0, size + 1))
        with_it = attacked.rows(run, slice(size + 1))
        # What is not a number counts for nothing: the same program as of the whole table.
        alone = {name: _silenced(column) for name, column in with_it.items()}
        moved = summed(run, with_it) - summed(run, attacked.rows(run, slice(1, size + 1)), first=1)
        furthest = max(furthest, math.hypot(*moved) / float(run.numbers.grid.points))
        others = max(others, int(np.abs(moved - summed(run, alone)).max()))
    return Neighbours(attacked.name, len(sizes), furthest, others)


def _silenced(column: np.ndarray) -> np.ndarray:
    found = np.full_like(column, np.nan)
    found[0] = column[0]
    return found


def _sum(
    run: Run, rows: Rows, first: int = 0, devices: Devices | None = None
) -> Int[np.ndarray, " released"]:
    """The integer sum of all records, signs taken into account, by the driver without its noise."""
    signs = np.random.default_rng(1).choice([-1.0, 1.0], MOST_RECORDS).astype(np.float32)
    count = len(next(iter(rows.values())))
    silent = run.numbers._replace(noise_scale=jnp.zeros(run.algorithm.released))
    watched = replace(run, algorithm=_Signed(run.algorithm), numbers=silent)
    signed = rows | {_SIGN: signs[first : first + count]}
    released = run_secure(watched, PrivateRows(signed), devices=devices).kept[0]
    found = np.rint(released / in_single_precision(run.numbers.grid))
    if np.abs(found).max() >= _EXACT:
        raise NoisewiseError("sums are too large to be compared exactly: take smaller tables")
    return found.astype(np.int64)
