"""What the engine releases, seen from where an algorithm stands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from engine.algorithms import COUNT, USUAL, Case, Design
from noisewise.data import PrivateRows, Rows
from noisewise.engine import Run, Step, run_secure, run_simulated

PIECE = 50
"""Steps of a chunk, each of which has keys of its own."""


@dataclass(frozen=True)
class Watched:
    """An algorithm that keeps every release, and stays where it is unless the schedule says so.

    Where it stays, every step's contributions are taken at one point, so that releases of
    neighbouring tables can be subtracted. The schedule may also multiply contributions: the engine
    has to bound whatever it is handed.
    """

    algorithm: Any
    label: str = ""
    """Unequal labels are compiled apart: a mutant gets one of its own."""
    moveless: bool = False
    """Stay whatever the schedule says: quicker to compile."""

    blocks = 4
    draws_public_numbers = True

    @property
    def released(self) -> int:
        return self.algorithm.released

    @property
    def pass_floats(self) -> int:
        return self.algorithm.pass_floats

    def init(self, numbers: Any, start: Any) -> Any:
        return self.algorithm.init(numbers, start)

    def empty_record(self, state: Any) -> Any:
        return jnp.zeros(self.released)

    def point(self, numbers: Any, state: Any, schedule: Any, key: Any) -> Any:
        key = jnp.where(schedule.moves, key, jax.random.PRNGKey(7))
        return self.algorithm.point(numbers, state, schedule.own, key), schedule.factor

    def contributions(self, numbers: Any, point: Any, batch: Rows) -> Any:
        at, factor = point
        return factor * self.algorithm.contributions(numbers, at, batch)

    def update(
        self, numbers: Any, state: Any, record: Any, point: Any, schedule: Any, released: Any
    ) -> Step:
        if self.moveless:
            return Step(state, released, released)
        before, (at, _) = self.algorithm.empty_record(state), point
        after = self.algorithm.update(numbers, state, before, at, schedule.own, released).state
        state = jax.tree.map(lambda new, old: jnp.where(schedule.moves, new, old), after, state)
        return Step(state, released, released)

    def handover(self, numbers: Any, state: Any) -> Any:
        return self.algorithm.handover(numbers, state)


class Watching(NamedTuple):
    """A watched run's schedule."""

    moves: np.ndarray
    factor: np.ndarray
    own: Any


def watched(
    case: Case,
    design: Design = USUAL,
    *,
    moves: bool | np.ndarray = False,
    factor: float = 1.0,
    label: str = "",
    moveless: bool = False,
) -> Run:
    """The case's run, watched."""
    run = case.assembled(design)
    factors = np.full(run.steps, factor, np.float32)
    schedule = Watching(np.broadcast_to(moves, run.steps), factors, run.schedule)
    return replace(run, algorithm=Watched(run.algorithm, label, moveless), schedule=schedule)


class Seen(NamedTuple):
    """Releases in grid steps (steps x released), and the state at the end."""

    released: np.ndarray
    state: Any


def secure(run: Run, rows: Rows, seed: int | None) -> Seen:
    """Through the driver for rows about people."""
    finished = run_secure(run, PrivateRows(rows), insecure_seed=seed)
    return Seen(on_the_grid(run, finished.kept), jax.device_get(finished.state))


@jax.jit
def _simulated(run: Run, rows: Rows, key: Any) -> Any:
    return run_simulated(run, rows, key, 1)


def simulated(run: Run, rows: Rows, seed: int | None) -> Seen:
    """Through the driver for simulated rows."""
    finished = _simulated(run, rows, jax.random.PRNGKey(seed))
    return Seen(on_the_grid(run, finished.records), jax.device_get(finished.state))


def on_the_grid(run: Run, released: Any) -> np.ndarray:
    """Releases in grid steps, which must be whole: the low bits of floats would give sums away."""
    grid = run.numbers.grid
    unit = np.float32(grid.clip_norm) / np.float32(grid.points)
    found = np.asarray(released)
    steps = np.rint(found / unit)
    assert np.array_equal(np.float32(steps) * unit, found), "the release is off the grid"
    return steps.astype(np.int64)


def filled(rows: Rows, value: float, count: int = COUNT) -> Rows:
    """So many records with this value in every cell."""
    return {
        name: np.full((count, *column.shape[1:]), value, np.float32)
        for name, column in rows.items()
    }


def silent(rows: Rows, count: int = COUNT) -> Rows:
    """Records that say nothing: what they contribute is not a number."""
    return filled(rows, np.nan, count)


def alone(rows: Rows, place: int) -> Rows:
    """The record at this place, among others that say nothing."""
    return with_record(silent(rows), place, {name: column[place] for name, column in rows.items()})


def with_record(rows: Rows, place: int, record: Rows) -> Rows:
    """The table with this record in place of the one there."""
    changed = {name: column.copy() for name, column in rows.items()}
    for name, column in changed.items():
        column[place] = record[name]
    return changed
