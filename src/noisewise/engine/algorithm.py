"""What an algorithm is to the engine, and a run: an algorithm with all its numbers.

An algorithm never sees rows. It says what one record contributes at a public point; the engine
clips, sums and noises the contributions of a Poisson batch; the algorithm moves by what was
released. So every algorithm is private for one reason, and that reason is in `engine.run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._shapes import Float
from noisewise.data import Rows
from noisewise.mechanism import Grid, Mechanism, Passes, usual_passes


class Step(NamedTuple):
    """What a step leaves behind."""

    state: Any
    record: Any
    """What is recorded of the steps so far; see `Algorithm.empty_record`."""
    kept: Any = None
    """This step by itself, where every step is to be kept; else None."""


class Algorithm(Protocol):
    """A private algorithm: a frozen dataclass, equal to another where the compiled code is.

    In the order of a step: `point`, `contributions`, (the engine's noisy sum,) `update`.
    ``numbers`` are what compiled code takes as arguments: a NamedTuple that begins with the
    ``grid`` that contributions are rounded to, the ``noise_scale`` in its units (per released
    coordinate), the ``sampling_rate``, and the ``public_count``, declared or noised.
    """

    @property
    def released(self) -> int:
        """Number of coordinates that a step releases."""

    @property
    def pass_floats(self) -> int:
        """Floats that one record of a batch needs while its contribution is computed."""

    @property
    def blocks(self) -> int:
        """How many stretches of steps a run records, at most."""

    @property
    def draws_public_numbers(self) -> bool:
        """Whether `point` uses its key (a guide's draws, say)."""

    def init(self, numbers: Any, start: Any) -> Any:
        """The state before the first step, from a public start."""

    def empty_record(self, state: Any) -> Any:
        """A record of no steps: one begins with every block."""

    def point(self, numbers: Any, state: Any, schedule: Any, key: Any) -> Any:
        """Where contributions are computed: everything public that they depend on.

        ``schedule`` is this step's entry of the run's schedule.
        """

    def contributions(
        self, numbers: Any, point: Any, batch: Rows
    ) -> Float[Array, "batch released"]:
        """What every record of a batch contributes, before it is clipped."""

    def update(
        self,
        numbers: Any,
        state: Any,
        record: Any,
        point: Any,
        schedule: Any,
        released: Float[Array, " released"],
    ) -> Step:
        """Move by the noisy sum, and record: post-processing of what was released."""

    def handover(self, numbers: Any, state: Any) -> Any:
        """What a next phase starts from."""


@dataclass(frozen=True, eq=False)
class Run:
    """Everything that a run needs but the rows and the noise.

    A JAX pytree: `jax.jit` compiles one program for all runs of equal ``algorithm``, ``passes`` and
    ``sampling_rate``, and `jax.vmap` runs those side by side that differ in their numbers.
    """

    algorithm: Any
    passes: Passes
    sampling_rate: float
    """As accounted; compiled code may use it to shape arrays."""
    numbers: Any
    schedule: Any
    """Public numbers of every step: arrays with a leading axis of steps."""
    start: Any

    @property
    def steps(self) -> int:
        """Number of steps."""
        return int(jax.tree.leaves(self.schedule)[0].shape[0])

    def starting_at(self, start: Any) -> Run:
        """The same run from another public start."""
        return replace(self, start=start)


jax.tree_util.register_dataclass(
    Run,
    data_fields=["numbers", "schedule", "start"],
    meta_fields=["algorithm", "passes", "sampling_rate"],
)

_PASS_FLOATS = 2**22


class ReleaseNumbers(NamedTuple):
    """The engine's part of a run's numbers, and how its batches are walked."""

    passes: Passes
    grid: Grid
    noise_scale: np.ndarray


def release_numbers(algorithm: Any, mechanism: Mechanism, public_count: int) -> ReleaseNumbers:
    """How the mechanism's sums of this algorithm are computed: from public numbers alone.

    Passes are as long as 16 MiB allow, so that no shape of compiled code follows the true number
    of records, and that there are several for devices to share where a step is large.

    Args:
        algorithm: Whose contributions are summed.
        mechanism: Calibrated.
        public_count: The number of rows as everybody may know it.
    """
    grid = mechanism.grid(algorithm.released, public_count)
    passes = public_passes(algorithm, mechanism.sampling_rate, public_count)
    return ReleaseNumbers(passes, grid, mechanism.noise_scale(grid, algorithm.released))


def public_passes(
    algorithm: Any, sampling_rate: float, public_count: int, count_noise: float = 0.0
) -> Passes:
    """How batches are walked: with room for as many records as there may be, given what is public.

    Args:
        algorithm: Whose contributions are summed.
        sampling_rate: Of the Poisson batches.
        public_count: The number of rows as everybody may know it.
        count_noise: Standard deviation of its own noise, if it has any: without room for that, the
            number of passes would tell on which side of it the true number lies.
    """
    most = max(1, _PASS_FLOATS // max(1, algorithm.pass_floats))
    return usual_passes(public_count, sampling_rate, most, count_noise)


def run_leaves(runs: Sequence[Run]) -> list[Any]:
    """All numbers of these runs, in one order.

    Args:
        runs: Ready to run.
    """
    return jax.tree.leaves([(run.numbers, run.schedule, run.start) for run in runs])


def with_leaves(runs: Sequence[Run], leaves: Sequence[np.ndarray]) -> list[Run]:
    """The runs with other numbers of the same shapes.

    Args:
        runs: Ready to run.
        leaves: As `run_leaves` has them.
    """
    own, structure = jax.tree.flatten([(run.numbers, run.schedule, run.start) for run in runs])
    pairs = zip(own, leaves, strict=True)
    parts = jax.tree.unflatten(structure, [_like(old, new) for old, new in pairs])
    return [
        replace(run, numbers=numbers, schedule=schedule, start=start)
        for run, (numbers, schedule, start) in zip(runs, parts, strict=True)
    ]


def _like(old: Any, new: np.ndarray) -> Any:
    """The number or array as the run had it, on the device where it was there."""
    if isinstance(old, jax.Array):
        return jnp.asarray(new)
    return new if isinstance(old, np.ndarray) else new.item()
