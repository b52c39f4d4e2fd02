"""Released once, after descent: the second moment of all records' clipped gradients.

A record with survey weight w adds w to the curvature and w^2 to the variability, and how weights go
together with covariates and outcomes decides by how much more. No simulation knows that, as the
schema says nothing of how people were sampled. So it is bought: the sum of psi psi^T, with psi a
record's gradient clipped to C, has L2 sensitivity C^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._shapes import Float
from noisewise.data import Rows
from noisewise.dpvi.rule import Constants, GradientRule, Point
from noisewise.dpvi.trace import BlockSums, Variability
from noisewise.engine import Run, Step, release_numbers
from noisewise.mechanism import Grid, Mechanism


class VariabilityNumbers(NamedTuple):
    """The numbers of the run; the first four are the engine's."""

    grid: Grid
    noise_scale: Array
    sampling_rate: float
    public_count: float
    constants: Constants
    clip_norm: float
    """Of a record's gradient, as in the descent before; the grid's is its square."""


class VariabilityState(NamedTuple):
    """Where gradients are taken, which does not move, and what was released so far."""

    parameters: Array
    total: Array


@dataclass(frozen=True)
class GradientProducts:
    """The sum of all records' gradients' outer products, as an algorithm of one step."""

    rule: GradientRule

    blocks = 1
    draws_public_numbers = False

    @property
    def released(self) -> int:
        """Pairs of coordinates, each once."""
        dim = self.rule.released
        return dim * (dim + 1) // 2

    @property
    def pass_floats(self) -> int:
        """All products of a record."""
        return self.rule.released**2

    def init(self, numbers: VariabilityNumbers, start: Any) -> VariabilityState:
        """At the given parameters, a sum of nothing."""
        return VariabilityState(jnp.asarray(start, jnp.float32), jnp.zeros(self.released))

    def empty_record(self, state: VariabilityState) -> tuple[()]:
        """The state is all there is."""
        return ()

    def point(
        self, numbers: VariabilityNumbers, state: VariabilityState, schedule: Array, key: Array
    ) -> Point:
        """The parameters alone: the guide does not draw."""
        return Point(numbers.constants, state.parameters, jnp.zeros((1, self.rule.target.dim)))

    def contributions(
        self, numbers: VariabilityNumbers, point: Point, batch: Rows
    ) -> Float[Array, "batch released"]:
        """A record's products, of pairs of different coordinates times the root of two: so the norm
        is the gradient's, squared."""
        gradients = self.rule.record_gradients(point, batch)
        norms = jnp.sqrt(jnp.sum(gradients**2, axis=1, keepdims=True) + 1e-30)
        clipped = gradients * jnp.minimum(1.0, numbers.clip_norm / norms)
        first, second = np.triu_indices(self.rule.released)
        root = np.where(first == second, 1.0, 2.0**0.5).astype(np.float32)
        return jnp.asarray(root) * clipped[:, first] * clipped[:, second]

    def update(
        self,
        numbers: VariabilityNumbers,
        state: VariabilityState,
        record: tuple[()],
        point: Point,
        schedule: Array,
        released: Float[Array, " released"],
    ) -> Step:
        """Keep what was released."""
        return Step(state._replace(total=state.total + released), record)

    def handover(self, numbers: VariabilityNumbers, state: VariabilityState) -> Array:
        """Where gradients were taken."""
        return state.parameters


def variability_run(run: Run, mechanism: Mechanism) -> Run:
    """The release that follows a descent by means alone.

    Args:
        run: The descent, by `assemble`.
        mechanism: Calibrated, one step over all records; its clip norm is the gradients', squared.
    """
    algorithm, numbers = GradientProducts(run.algorithm.rule), run.numbers
    release = release_numbers(algorithm, mechanism, int(numbers.public_count))
    return Run(
        algorithm=algorithm,
        passes=release.passes,
        sampling_rate=mechanism.sampling_rate,
        numbers=VariabilityNumbers(
            grid=release.grid,
            noise_scale=jnp.asarray(release.noise_scale),
            sampling_rate=mechanism.sampling_rate,
            public_count=numbers.public_count,
            constants=numbers.constants,
            clip_norm=numbers.grid.clip_norm,
        ),
        schedule=np.ones(1, np.float32),
        start=run.start,
    )


def settled_mean(blocks: BlockSums) -> Any:
    """Mean iterate over the second half of the blocks: where a descent is best taken to have ended.

    Args:
        blocks: What a run recorded, blocks first.
    """
    half = len(blocks.count) // 2
    counts = blocks.count[half:, None]
    return (counts * blocks.start[half:] + blocks.shift[half:]).sum(0) / counts.sum()


def variability_of(run: Run, total: Float[Any, " released"]) -> Variability:
    """What was released, as a matrix.

    Args:
        run: By `variability_run`.
        total: Of the state at its end.
    """
    dim, flat = run.algorithm.rule.released, np.asarray(total, float)
    first, second = np.triu_indices(dim)
    upper = np.zeros((dim, dim))
    upper[first, second] = flat / np.where(first == second, 1.0, 2.0**0.5)
    grid = run.numbers.grid
    noise_sd = float(np.asarray(run.numbers.noise_scale, float)[0] * grid.clip_norm / grid.points)
    return Variability(upper + np.triu(upper, 1).T, noise_sd)
