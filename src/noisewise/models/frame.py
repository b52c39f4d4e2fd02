"""Coordinates for inference: a public affine map from whitened to unconstrained space."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

__all__ = ["Frame", "identity_frame", "whitened_frame"]


class Frame(NamedTuple):
    """theta = location + factor @ z, from prior-predictive simulation or the identity.

    In a well-chosen frame the posterior's curvature is near the identity, so that one step size,
    one clip norm and isotropic noise suit every coordinate. It never comes from the data.
    """

    location: Array
    factor: Array | None

    def to_model(self, z: Array) -> Array:
        """From frame coordinates to the model's unconstrained space; leading axes are kept."""
        return self.location + (z if self.factor is None else z @ self.factor.T)

    def to_model_exactly(self, z: np.ndarray) -> np.ndarray:
        """`to_model` on the host, in double precision."""
        location = np.asarray(self.location, float)
        return location + (z if self.factor is None else z @ np.asarray(self.factor, float).T)

    def from_model(self, theta: Array) -> Array:
        """The inverse of `to_model`."""
        shifted = theta - self.location
        if self.factor is None:
            return shifted
        return jnp.linalg.solve(self.factor, shifted[..., None])[..., 0]

    def prior_sd(self, precision: np.ndarray) -> np.ndarray:
        """Standard deviations, in frame coordinates, of a prior with this precision."""
        return np.sqrt(np.diag(np.linalg.inv(self.precision(precision))))

    def precision(self, precision: np.ndarray) -> np.ndarray:
        """A precision matrix of the model's space in frame coordinates."""
        if self.factor is None:
            return precision
        wide = np.asarray(self.factor, float)
        return wide.T @ precision @ wide


def identity_frame(dim: int) -> Frame:
    """The model's own unconstrained coordinates."""
    return Frame(jnp.zeros(dim), None)


def whitened_frame(location: np.ndarray, curvature: np.ndarray, blocks: tuple[int, ...]) -> Frame:
    """The frame in which ``curvature`` is the identity, block by block of coordinates.

    Coordinates of different blocks are not mixed: their cross-curvature is left as it is.
    """
    factor = np.zeros_like(curvature, dtype=float)
    start = 0
    for size in blocks:
        block = slice(start, start + size)
        # curvature = R R^T; with factor = R^-T, factor^T curvature factor is the identity.
        root = np.linalg.cholesky(curvature[block, block])
        factor[block, block] = np.linalg.inv(root).T
        start += size
    return Frame(jnp.asarray(location, jnp.float32), jnp.asarray(factor, jnp.float32))
