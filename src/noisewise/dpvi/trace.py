"""What was released: sums over blocks of steps, from which every posterior is computed.

The noise-aware model depends on a trace only through its length, the means of parameters and
gradients, and their centred second moments (mathematics.md eq. (6)). Those are kept per block while
the scan runs, so memory does not grow with the number of steps and burn-in is chosen afterwards by
dropping blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.engine import Finished, Run

WIDE = 200
"""More coordinates than these have matrices that are held few at a time."""


class BlockSums(NamedTuple):
    """Raw sums over a block, on the device or the host.

    Parameters enter as shifts from the block's start, for float accuracy.

    ``shift_shift`` and ``gradient_shift`` are matrices where the whole curvature matrix is wanted,
    of the leading parameters whose gradients are observed; their diagonals otherwise.
    """

    count: Any
    start: Any
    shift: Any
    gradient: Any
    shift_shift: Any
    gradient_shift: Any
    gradient_gradient: Any
    squares: Any
    """Squared shifts of every parameter: all that averaging needs of the second moments."""


class TraceStatistics(NamedTuple):
    """Sufficient statistics of a stretch of the trace, in double precision."""

    steps: np.ndarray
    parameters: np.ndarray
    gradient: np.ndarray
    spread: np.ndarray
    """Centred sum of squares (or outer products) of the parameters."""
    cross: np.ndarray
    """Centred sum of gradient times parameter; entry [i, j] is gradient i times parameter j."""
    power: np.ndarray
    """Centred sum of squares of the gradient, per coordinate."""

    @property
    def full(self) -> bool:
        """Whether second moments are matrices."""
        return self.spread.ndim == self.parameters.ndim + 1

    def slopes(self) -> np.ndarray:
        """Least squares of gradients on iterates, of one fit: kappa A."""
        if not self.full:
            return self.cross / self.spread
        dim = len(self.parameters)
        ridge = 1e-9 * np.trace(self.spread) / dim * np.eye(dim)
        return np.linalg.solve(self.spread + ridge, self.cross.T).T

    def diagonal(self) -> TraceStatistics:
        """The same, with the matrices' diagonals only."""
        if not self.full:
            return self
        return self._replace(spread=_diagonals(self.spread), cross=_diagonals(self.cross))


class FullTrace(NamedTuple):
    """Every step's parameters (before the step) and released gradient: steps x parameters."""

    parameters: Any
    gradients: Any


def empty_block(parameters: Array, matrix: int) -> BlockSums:
    """Sums of no steps, starting here; of the first ``matrix`` parameters products are kept."""
    zero = jnp.zeros_like(parameters)
    square = jnp.zeros((matrix, matrix)) if matrix else zero
    return BlockSums(
        count=jnp.zeros(()),
        start=parameters,
        shift=zero,
        gradient=zero,
        shift_shift=square,
        gradient_shift=square,
        gradient_gradient=zero,
        squares=zero,
    )


def add_step(sums: BlockSums, parameters: Array, gradient: Array, matrix: int) -> BlockSums:
    """The sums with one more step: parameters before it, gradient released at it."""
    shift = parameters - sums.start
    squares = shift * shift
    if matrix:
        shifts = jnp.outer(shift[:matrix], shift[:matrix])
        gradients = jnp.outer(gradient[:matrix], shift[:matrix])
    else:
        shifts, gradients = squares, gradient * shift
    return BlockSums(
        count=sums.count + 1,
        start=sums.start,
        shift=sums.shift + shift,
        gradient=sums.gradient + gradient,
        shift_shift=sums.shift_shift + shifts,
        gradient_shift=sums.gradient_shift + gradients,
        gradient_gradient=sums.gradient_gradient + gradient * gradient,
        squares=sums.squares + squares,
    )


def _diagonals(matrices: np.ndarray) -> np.ndarray:
    return np.diagonal(matrices, axis1=-2, axis2=-1)


def merge(sums: BlockSums) -> TraceStatistics:
    """Statistics of all the blocks together: their axis is the second to last of ``start``.

    Any leading axes (many fits at once) are kept.
    """
    full = sums.shift_shift.ndim == sums.shift.ndim + 1
    # Matrices are large: of these, sums over blocks are all that is made.
    axis = -3 if full else -2
    shift_shift = np.asarray(sums.shift_shift).sum(axis, dtype=np.float64)
    gradient_shift = np.asarray(sums.gradient_shift).sum(axis, dtype=np.float64)
    light = sums._replace(shift_shift=0.0, gradient_shift=0.0)
    wide = BlockSums(*(np.asarray(part, np.float64) for part in light))
    each = wide.count[..., None]
    total = each.sum(-2)

    def products(left: np.ndarray, right: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return (left * weight).mT @ right if full else (left * weight * right).sum(-2)

    block_parameters = wide.start + wide.shift / each
    block_gradient = wide.gradient / each
    parameters = (block_parameters * each).sum(-2) / total
    gradient = wide.gradient.sum(-2) / total
    # Within blocks, then between blocks.
    spread = shift_shift - products(wide.shift, wide.shift, 1 / each)
    cross = gradient_shift - products(wide.gradient, wide.shift, 1 / each)
    power = wide.gradient_gradient - wide.gradient**2 / each
    off_parameters = block_parameters - parameters[..., None, :]
    off_gradient = block_gradient - gradient[..., None, :]
    spread = spread + products(off_parameters, off_parameters, each)
    cross = cross + products(off_gradient, off_parameters, each)
    power = power + each * off_gradient**2
    return TraceStatistics(
        steps=total[..., 0],
        parameters=parameters,
        gradient=gradient,
        spread=spread,
        cross=cross,
        power=power.sum(-2),
    )


class Variability(NamedTuple):
    """The noisy second moment of all records' clipped gradients, in the frame's coordinates."""

    total: np.ndarray
    noise_sd: float
    """Of a diagonal entry; of others it is the root of a half of it."""


@dataclass(frozen=True)
class Trace:
    """A whole run as released: block sums, the last iterate, and on request every step."""

    blocks: BlockSums
    last: np.ndarray
    full: FullTrace | None = None
    variability: Variability | None = None
    """Of the gradients, where it was released as well."""

    @property
    def block_count(self) -> int:
        """Number of blocks."""
        return self.blocks.start.shape[-2]

    @property
    def finite(self) -> bool:
        """Whether no step overflowed."""
        return all(bool(np.isfinite(part).all()) for part in (*self.blocks, self.last))

    def leading(self, count: int) -> Trace:
        """The trace of the first ``count`` parameters alone."""
        if count == self.last.shape[-1]:
            return self
        one, square = (..., slice(count)), (..., slice(count), slice(count))
        sums = self.blocks
        both = square if sums.shift_shift.ndim == sums.shift.ndim + 1 else one
        products = ("shift_shift", "gradient_shift")
        parts = {
            name: part[both if name in products else one]
            for name, part in sums._asdict().items()
            if name != "count"
        }
        blocks = sums._replace(**parts)
        full = None if self.full is None else FullTrace(*(part[one] for part in self.full))
        return Trace(blocks, self.last[one], full, self.variability)

    def diagonal(self) -> Trace:
        """The same, with the matrices' diagonals only."""
        sums = self.blocks
        if sums.shift_shift.ndim == sums.shift.ndim:
            return self
        blocks = sums._replace(
            shift_shift=_diagonals(sums.shift_shift), gradient_shift=_diagonals(sums.gradient_shift)
        )
        return replace(self, blocks=blocks)

    def statistics(self, burn_in: int) -> TraceStatistics:
        """Sufficient statistics without the first ``burn_in`` blocks."""
        # The axis of blocks comes right after any leading axes of fits.
        lead = (slice(None),) * (self.blocks.start.ndim - 2)
        kept = BlockSums(*(part[(*lead, slice(burn_in, None))] for part in self.blocks))
        return merge(kept)

    def block_means(self) -> np.ndarray:
        """Mean iterate of every block (blocks x parameters): the trace as people look at it."""
        each = np.asarray(self.blocks.count, float)[..., None]
        return np.asarray(self.blocks.start, float) + np.asarray(self.blocks.shift, float) / each


def trace_of(finished: Finished, run: Run) -> Trace:
    """The trace of a secure run: its chunks' sums joined to the algorithm's number of blocks.

    Args:
        finished: What `run_secure` ended with.
        run: What was run.
    """
    group = max(1, math.ceil(len(finished.records) / run.algorithm.blocks))
    last = np.asarray(finished.state.parameters)
    return Trace(_join(finished.records, group), last, finished.kept)


def _join(sums: Sequence[BlockSums], group: int) -> BlockSums:
    """Chunks' sums put together ``group`` at a time."""
    joined = []
    for first in range(0, len(sums), group):
        base, *others = (
            BlockSums(*(np.asarray(part, np.float64) for part in one))
            for one in sums[first : first + group]
        )
        for other in others:
            base = _add(base, other)
        joined.append(base)
    return BlockSums(*(np.stack(parts) for parts in zip(*joined, strict=True)))


def _add(base: BlockSums, other: BlockSums) -> BlockSums:
    """Sums of two blocks, the second's shifts moved to the first's start."""
    move = other.start - base.start
    squares = other.squares + (2 * other.shift + other.count * move) * move
    if base.shift_shift.ndim == 2:
        first = slice(len(base.shift_shift))
        shift, near, gradient = other.shift[first], move[first], other.gradient[first]
        crossed = np.outer(shift, near)
        shifts = other.shift_shift + crossed + crossed.T + other.count * np.outer(near, near)
        gradients = other.gradient_shift + np.outer(gradient, near)
    else:
        shifts, gradients = squares, other.gradient_shift + other.gradient * move
    return BlockSums(
        count=base.count + other.count,
        start=base.start,
        shift=base.shift + other.shift + other.count * move,
        gradient=base.gradient + other.gradient,
        shift_shift=base.shift_shift + shifts,
        gradient_shift=base.gradient_shift + gradients,
        gradient_gradient=base.gradient_gradient + other.gradient_gradient,
        squares=base.squares + squares,
    )
