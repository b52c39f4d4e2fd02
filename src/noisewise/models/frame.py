"""Coordinates for inference: a public affine map from whitened to unconstrained space."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array


class Frame(NamedTuple):
    """theta = location + factor @ z, from prior-predictive simulation or the identity.

    In a well-chosen frame the posterior's curvature is near the identity, so that one step size,
    one clip norm and isotropic noise suit every coordinate. It never comes from the data.
    """

    location: Array
    factor: Array | None
    scale: Array | None = None
    """Where many coordinates are only scaled: one number for each of the first; ``factor`` is then
    of the others alone, or None where there are none."""

    def to_model(self, z: Array) -> Array:
        """From frame coordinates to the model's unconstrained space; leading axes are kept."""
        return self.location + self._turned(z, None if self.factor is None else self.factor.T)

    def to_model_exactly(self, z: np.ndarray) -> np.ndarray:
        """`to_model` on the host, in double precision."""
        plain = self.factor is None and self.scale is None
        return np.asarray(self.location, float) + (z if plain else z @ self.matrix().T)

    def from_model_exactly(self, theta: np.ndarray) -> np.ndarray:
        """`from_model` on the host, in double precision."""
        shifted = theta - np.asarray(self.location, float)
        return np.asarray(np.linalg.solve(self.matrix(), shifted.T).T)

    def gradient(self, by_model: Array) -> Array:
        """Gradients by frame coordinates from those by the model's; leading axes are kept."""
        return self._turned(by_model, self.factor)

    def _turned(self, wide: Array, factor: Array | None) -> Array:
        if self.scale is None:
            return wide if factor is None else wide @ factor
        first = len(self.scale)
        scaled = wide[..., :first] * self.scale
        if factor is None:
            return scaled
        return jnp.concatenate([scaled, wide[..., first:] @ factor], axis=-1)

    def from_model(self, theta: Array) -> Array:
        """The inverse of `to_model`."""
        rest, before = theta - self.location, jnp.zeros((*theta.shape[:-1], 0))
        if self.scale is not None:
            first = len(self.scale)
            before, rest = rest[..., :first] / self.scale, rest[..., first:]
        if self.factor is not None:
            rest = jnp.linalg.solve(self.factor, rest[..., None])[..., 0]
        return jnp.concatenate([before, rest], axis=-1)

    def prior_sd(self, precision: np.ndarray) -> np.ndarray:
        """Standard deviations, in frame coordinates, of a prior with this precision."""
        return np.sqrt(np.diag(np.linalg.inv(self.precision(precision))))

    def precision(self, precision: np.ndarray) -> np.ndarray:
        """A precision matrix of the model's space in frame coordinates."""
        wide = self.matrix()
        return wide.T @ precision @ wide

    def matrix(self) -> np.ndarray:
        """The factor as a whole."""
        wide, first = np.eye(len(self.location)), 0
        if self.scale is not None:
            first = len(self.scale)
            wide[range(first), range(first)] = self.scale
        if self.factor is not None:
            wide[first:, first:] = self.factor
        return wide


def identity_frame(dim: int) -> Frame:
    """The model's own unconstrained coordinates.

    Args:
        dim: Number of coordinates.
    """
    return Frame(jnp.zeros(dim), None)


def block_slices(sizes: tuple[int, ...]) -> list[slice]:
    """Where blocks of these sizes stand, one after the other."""
    ends = itertools.accumulate(sizes)
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def whitened_frame(location: np.ndarray, curvature: np.ndarray, blocks: tuple[int, ...]) -> Frame:
    """The frame in which a curvature is the identity, block by block of coordinates.

    Coordinates of different blocks are not mixed: their cross-curvature is left as it is.

    Args:
        location: The frame's zero.
        curvature: What becomes the identity.
        blocks: Sizes of the blocks.
    """
    factor = np.zeros_like(curvature, dtype=float)
    for block in block_slices(blocks):
        # curvature = R R^T; with factor = R^-T, factor^T curvature factor is the identity.
        root = np.linalg.cholesky(curvature[block, block])
        factor[block, block] = np.linalg.inv(root).T
    return Frame(jnp.asarray(location, jnp.float32), jnp.asarray(factor, jnp.float32))


def scaled_frame(scale: np.ndarray, curvature: np.ndarray | None) -> Frame:
    """The first coordinates scaled, the others whitened by their curvature.

    Args:
        scale: One factor for each of the first coordinates.
        curvature: Of the others; None where there are none.
    """
    dim = len(scale) + (0 if curvature is None else len(curvature))
    frame = identity_frame(dim)
    if curvature is not None:
        rest = whitened_frame(np.zeros(len(curvature)), curvature, (len(curvature),))
        frame = frame._replace(factor=rest.factor)
    return frame._replace(scale=jnp.asarray(scale, jnp.float32))
