"""What was released: sums over blocks of steps, from which every posterior is computed.

The noise-aware model depends on a trace only through its length, the means of parameters and
gradients, and their centred second moments (mathematics.md eq. (6)). Those are kept per block while
the scan runs, so memory does not grow with the number of steps and burn-in is chosen afterwards by
dropping blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

__all__ = ["BlockSums", "FullTrace", "Trace", "TraceStatistics", "add_step", "empty_block", "merge"]


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

    def diagonal(self) -> TraceStatistics:
        """The same, with the matrices' diagonals only."""
        if not self.full:
            return self
        return self._replace(
            spread=np.diagonal(self.spread, axis1=-2, axis2=-1),
            cross=np.diagonal(self.cross, axis1=-2, axis2=-1),
        )


class FullTrace(NamedTuple):
    """Every step's parameters (before the step) and released gradient: steps x parameters."""

    parameters: Any
    gradients: Any


def empty_block(parameters: Array, matrix: int) -> BlockSums:
    """Sums of no steps, starting here; of the first ``matrix`` parameters products are kept."""
    zero = jnp.zeros_like(parameters)
    square = jnp.zeros((matrix, matrix)) if matrix else zero
    return BlockSums(jnp.zeros(()), parameters, zero, zero, square, square, zero, zero)


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
        sums.count + 1,
        sums.start,
        sums.shift + shift,
        sums.gradient + gradient,
        sums.shift_shift + shifts,
        sums.gradient_shift + gradients,
        sums.gradient_gradient + gradient * gradient,
        sums.squares + squares,
    )


def _product(left: np.ndarray, right: np.ndarray, full: bool) -> np.ndarray:
    return left[..., :, None] * right[..., None, :] if full else left * right


def merge(sums: BlockSums) -> TraceStatistics:
    """Statistics of all the blocks together: their axis is the second to last of ``start``.

    Any leading axes (many fits at once) are kept.
    """
    wide = BlockSums(*(np.asarray(part, np.float64) for part in sums))
    full = wide.shift_shift.ndim == wide.shift.ndim + 1
    each = wide.count[..., None]
    total = each.sum(-2)
    square = (lambda weight: weight[..., None]) if full else (lambda weight: weight)
    block_parameters = wide.start + wide.shift / each
    block_gradient = wide.gradient / each
    parameters = (block_parameters * each).sum(-2) / total
    gradient = wide.gradient.sum(-2) / total
    # Within blocks, then between blocks.
    spread = wide.shift_shift - _product(wide.shift, wide.shift, full) / square(each)
    cross = wide.gradient_shift - _product(wide.gradient, wide.shift, full) / square(each)
    power = wide.gradient_gradient - wide.gradient**2 / each
    off_parameters = block_parameters - parameters[..., None, :]
    off_gradient = block_gradient - gradient[..., None, :]
    spread = spread + square(each) * _product(off_parameters, off_parameters, full)
    cross = cross + square(each) * _product(off_gradient, off_parameters, full)
    power = power + each * off_gradient**2
    axis = -3 if full else -2
    return TraceStatistics(
        total[..., 0], parameters, gradient, spread.sum(axis), cross.sum(axis), power.sum(-2)
    )


@dataclass(frozen=True)
class Trace:
    """A whole run as released: block sums, the last iterate, and on request every step."""

    blocks: BlockSums
    last: np.ndarray
    full: FullTrace | None = None

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
        blocks = BlockSums(
            sums.count,
            sums.start[one],
            sums.shift[one],
            sums.gradient[one],
            sums.shift_shift[both],
            sums.gradient_shift[both],
            sums.gradient_gradient[one],
            sums.squares[one],
        )
        full = None if self.full is None else FullTrace(*(part[one] for part in self.full))
        return Trace(blocks, self.last[one], full)

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
