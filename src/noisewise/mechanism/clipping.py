"""The one place where a record's gradient is bounded: an integer grid inside the clip norm.

Adding a float Gaussian to a float sum gives the sum away in its low bits. So a clipped gradient is
rounded to integers, the sum is an integer sum, and the noise is a rounded Gaussian: rounding the
noisy sum is post-processing of the Gaussian mechanism, whose accounting therefore holds unchanged.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from noisewise._validate import NoisewiseError

__all__ = ["FINEST", "Grid", "clipped_sum", "make_grid"]

FINEST = 2**16
_INT32_ROOM = 2.0**31
_FLOAT32_UNIT = 2.0**-24


class Grid(NamedTuple):
    """Integer units for gradients: ``points`` grid steps make one clip norm."""

    clip_norm: float | Array
    points: float | Array
    inner_norm: float | Array
    """Norm, in grid steps, to which a float gradient is clipped so that after rounding it stays
    within ``points``: rounding d coordinates adds at most sqrt(d)/2."""


def make_grid(clip_norm: float, dim: int, largest_batch: float, noise_multiplier: float) -> Grid:
    """The finest grid (at most 2^16 steps) on which sum and noise fit 32-bit integers.

    A sum beyond that would wrap around. Wrapping is a function of the noisy sum alone, so it could
    cost accuracy but never privacy.
    """
    room = _INT32_ROOM / (largest_batch + 10 * noise_multiplier)
    points = 2 ** min(int(math.log2(FINEST)), math.floor(math.log2(room)))
    # The norm is computed in float32; its relative error is at most this (d/2 roundings + a few).
    slack = (dim / 2 + 8) * _FLOAT32_UNIT
    inner = points * (1 - slack) - math.sqrt(dim) / 2
    if not inner > points / 2:
        raise NoisewiseError(
            f"{dim} released coordinates with noise multiplier {noise_multiplier:.3g} and batches "
            f"of {largest_batch:.0f} do not fit the integer grid: lower the sampling rate"
        )
    return Grid(clip_norm, float(points), inner)


def clipped_sum(gradients: Array, included: Array, grid: Grid) -> Array:
    """Integer sum of clipped, rounded gradients (batch x coordinates) of the included records.

    A record whose gradient is not finite contributes nothing: that bounds it as well as any clip.
    """
    scaled = gradients * (grid.points / grid.clip_norm)
    norms = jnp.sqrt(jnp.sum(scaled * scaled, axis=1))
    counts = included & jnp.isfinite(norms)
    factors = jnp.minimum(1.0, grid.inner_norm / norms)
    rounded = jnp.rint(jnp.where(counts[:, None], scaled * factors[:, None], 0.0))
    return jnp.sum(rounded.astype(jnp.int32), axis=0)
