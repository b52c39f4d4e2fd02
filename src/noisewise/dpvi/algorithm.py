"""DPVI as an algorithm of the engine (NA-DPVI Alg. 3); which gradients are released is a rule's."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from noisewise._shapes import Float
from noisewise.data import Rows
from noisewise.dpvi.rule import Constants, GradientRule, Point
from noisewise.dpvi.trace import WIDE, BlockSums, FullTrace, add_step, empty_block
from noisewise.engine import Step
from noisewise.mechanism import Grid

BLOCKS, _BLOCKS_OF_WIDE = 100, 20


class DpviNumbers(NamedTuple):
    """The numbers of a run: changing them does not recompile. The first four are the engine's."""

    grid: Grid
    noise_scale: Array
    sampling_rate: float
    public_count: float
    """Only ``clip_prior`` divides by it."""
    constants: Constants
    step_size: Array
    """Per parameter; with an optimiser, the share of its move that is made."""
    warm_up_exponent: Array
    """Of the schedule's multiplier, per parameter: one follows it, less lags behind."""
    limit: Array
    """Iterates are kept within plus and minus this: a far excursion of the noise must not run away
    to where a model's own prior overflows. Public, so it is post-processing."""


class DpviState(NamedTuple):
    """Iterate, and what the optimiser remembers."""

    parameters: Array
    optimiser: Any


class _Point(NamedTuple):
    """Where gradients are taken, and the part of them that no record has a say in."""

    at: Point
    public_gradient: Array
    record_share: Array | float


@dataclass(frozen=True)
class Dpvi:
    """Gradient descent on the negative ELBO by released gradients."""

    rule: GradientRule
    draws: int
    """Of the guide, a step."""
    matrix: int = 0
    """Of so many leading parameters the trace keeps products, for a curvature matrix; or 0."""
    clip_prior: bool = False
    optimiser: Any = None
    """An optax transformation; None is plain gradient descent with ``DpviNumbers.step_size``."""
    keep_steps: bool = False

    draws_public_numbers = True

    @property
    def blocks(self) -> int:
        """A hundred; fewer where each of them takes two large matrices."""
        return BLOCKS if self.matrix <= WIDE else _BLOCKS_OF_WIDE

    @property
    def released(self) -> int:
        """As many coordinates as the rule says."""
        return self.rule.released

    @property
    def pass_floats(self) -> int:
        """A gradient for every draw of the guide and every row."""
        return self.rule.released * self.draws * self.rule.target.rows_each

    def init(self, numbers: DpviNumbers, start: Any) -> DpviState:
        """The given parameters."""
        parameters = jnp.asarray(start, jnp.float32)
        memory = self.optimiser.init(parameters) if self.optimiser else ()
        return DpviState(parameters, memory)

    def empty_record(self, state: DpviState) -> BlockSums:
        """Sums over no steps."""
        return empty_block(state.parameters, self.matrix)

    def point(self, numbers: DpviNumbers, state: DpviState, schedule: Array, key: Array) -> _Point:
        """The guide's draws, and the gradient of prior and entropy there."""
        normals = jax.random.normal(key, (self.draws, self.rule.target.dim))
        at = Point(numbers.constants, state.parameters, normals)
        public = self.rule.public_gradient(at)
        # The papers' convention: each record carries its N-th part of prior and entropy, as far as
        # those have coordinates among the released.
        share = public[: self.released] / numbers.public_count if self.clip_prior else 0.0
        return _Point(at, public, share)

    def contributions(
        self, numbers: DpviNumbers, point: _Point, batch: Rows
    ) -> Float[Array, "batch released"]:
        """The records' gradients."""
        return self.rule.record_gradients(point.at, batch, point.record_share)

    def update(
        self,
        numbers: DpviNumbers,
        state: DpviState,
        record: BlockSums,
        point: _Point,
        schedule: Array,
        released: Float[Array, " released"],
    ) -> Step:
        """Complete the gradient and step along it; ``schedule`` multiplies the step size."""
        outside: Array | float = point.public_gradient
        if self.clip_prior:
            outside = self.rule.unclipped_gradient(point.at)
        gradient = self.rule.complete(point.at, released) + numbers.sampling_rate * outside
        kept = FullTrace(state.parameters, gradient) if self.keep_steps else None
        record = add_step(record, state.parameters, gradient, self.matrix)
        return Step(self._move(numbers, state, gradient, schedule), record, kept)

    def _move(
        self, numbers: DpviNumbers, state: DpviState, gradient: Array, multiplier: Array
    ) -> DpviState:
        memory = state.optimiser
        if self.optimiser is None:
            step = numbers.step_size * multiplier**numbers.warm_up_exponent
            moved = state.parameters - step * gradient
        else:
            scaled = gradient / numbers.sampling_rate
            updates, memory = self.optimiser.update(scaled, memory, state.parameters)
            moved = state.parameters + numbers.step_size * multiplier * updates
        return DpviState(jnp.clip(moved, -numbers.limit, numbers.limit), memory)

    def handover(self, numbers: DpviNumbers, state: DpviState) -> Array:
        """The last iterate."""
        return state.parameters
