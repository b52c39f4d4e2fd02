"""The one place where a record's gradient is bounded: an integer grid inside the clip norm.

Adding a float Gaussian to a float sum gives the sum away in its low bits. So a clipped gradient is
rounded to integers, the sum is an integer sum, and the noise is a rounded Gaussian: rounding the
noisy sum is post-processing of the Gaussian mechanism, whose accounting therefore holds unchanged.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._shapes import Bool, Float, Int
from noisewise._validate import NoisewiseError

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

    Args:
        clip_norm: The most that one record can contribute, in L2 norm.
        dim: Number of released coordinates.
        largest_batch: As large as batches are expected to get: a public number.
        noise_multiplier: Standard deviation of the noise over the clip norm.
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


def clipped_sum(
    gradients: Float[Array, "batch dim"], included: Bool[Array, " batch"], grid: Grid
) -> Int[Array, " dim"]:
    """Integer sum of clipped, rounded gradients of the included records.

    A record whose gradient is not finite contributes nothing: that bounds it as well as any clip.

    Args:
        gradients: One row per record, in any float type: norms are taken in single precision.
        included: Which of them count.
        grid: By `make_grid`.
    """
    scaled = gradients.astype(jnp.float32) * (grid.points / grid.clip_norm)
    norms = jnp.sqrt(jnp.sum(scaled * scaled, axis=1))
    counts = included & jnp.isfinite(norms)
    factors = jnp.minimum(1.0, grid.inner_norm / norms)
    rounded = jnp.rint(jnp.where(counts[:, None], scaled * factors[:, None], 0.0))
    return jnp.sum(rounded.astype(jnp.int32), axis=0)


def refuse_double_precision() -> None:
    """Refuse a JAX in double precision: to be called before anything is spent.

    Sums, grid and noise are of 32 bits; a program that mixes widths would fail, or be another one
    than was tested, after the row count was paid for.
    """
    if jax.dtypes.canonicalize_dtype(np.float64) == np.float64:
        raise NoisewiseError(
            "JAX is in double precision, and private fits are in single: call "
            "numpyro.enable_x64(False) or jax.config.update('jax_enable_x64', False) first"
        )
