"""Shapes of a Gaussian's precision: a diagonal, or blocks that are full matrices.

Precisions travel packed into vectors, off-diagonal entries times sqrt(2): the L2 norm of the vector
is then the Frobenius norm of the matrix, so clipping one clips the other, and equal noise on all
entries treats every rotation of the parameters alike. Means are flat vectors throughout.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import integer_at_least


class Packing(NamedTuple):
    """Where the entries of a packed symmetric matrix stand in it, and what they are times."""

    row: np.ndarray
    column: np.ndarray
    factor: np.ndarray


def packing(size: int) -> Packing:
    """The upper triangle, off-diagonal entries times sqrt(2)."""
    row, column = np.triu_indices(size)
    return Packing(row, column, np.where(row == column, 1.0, np.sqrt(2.0)))


def outer_products(records: np.ndarray) -> np.ndarray:
    """u u' of every record u, packed: a vector's L2 norm is its matrix's Frobenius norm."""
    row, column, factor = packing(records.shape[1])
    return records[:, row] * records[:, column] * factor


def unpacked(packed: np.ndarray, size: int) -> np.ndarray:
    """The symmetric matrix of a packed vector."""
    row, column, factor = packing(size)
    found = np.zeros((size, size))
    found[row, column] = found[column, row] = packed / factor
    return found


@dataclass(frozen=True)
class Diagonal:
    """Independent coordinates: a precision is a vector."""

    dim: int

    def __post_init__(self) -> None:
        integer_at_least("dim", self.dim, 1)

    @property
    def packed(self) -> int:
        """Length of a packed precision."""
        return self.dim

    def identity(self, scale: float | Array = 1.0) -> Array:
        """``scale`` times the identity."""
        return jnp.full(self.dim, scale)

    def apply(self, precision: Array, vector: Array) -> Array:
        """Precision times a vector; leading axes of both broadcast."""
        return precision * vector

    def solve(self, precision: Array, vector: Array) -> Array:
        """Inverse precision times a vector."""
        return vector / precision

    def inverse(self, precision: Array) -> Array:
        """The covariance, packed."""
        return 1 / precision

    def floored(self, precision: Array, least: Array) -> Array:
        """Eigenvalues raised to ``least`` (one, or one per entry)."""
        return jnp.maximum(precision, least)

    def least_eigenvalue(self, precision: Array) -> Array:
        """The smallest eigenvalue."""
        return jnp.min(precision, axis=-1)

    def matrices(self, packed: Array) -> Array:
        """As matrices, blocks x size x size: here blocks of one."""
        return packed[..., :, None, None]

    def diagonal(self, packed: Array) -> Array:
        """The diagonal, as a flat vector."""
        return packed

    def pack(self, matrices: Array) -> Array:
        """Back from `matrices`."""
        return matrices[..., 0, 0]

    def grouped(self, vector: Array) -> Array:
        """A flat vector, block by block."""
        return vector[..., None]


@dataclass(frozen=True)
class Blocks:
    """``count`` independent groups of ``size`` coordinates, each with a full matrix."""

    count: int
    size: int

    def __post_init__(self) -> None:
        integer_at_least("count", self.count, 1)
        integer_at_least("size", self.size, 1)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.count * self.size

    @property
    def packed(self) -> int:
        """Length of a packed precision."""
        return self.count * self.size * (self.size + 1) // 2

    def identity(self, scale: float | Array = 1.0) -> Array:
        """``scale`` times the identity."""
        return (
            self.pack(jnp.broadcast_to(jnp.eye(self.size), (self.count, self.size, self.size)))
            * scale
        )

    def pack(self, matrices: Array) -> Array:
        """Symmetric matrices (... x count x size x size) as vectors."""
        row, column, factor = packing(self.size)
        upper = matrices[..., row, column] * factor.astype(np.float32)
        return upper.reshape(*upper.shape[:-2], self.packed)

    def matrices(self, packed: Array) -> Array:
        """Back from `pack`."""
        row, column, factor = packing(self.size)
        entries = packed.reshape(*packed.shape[:-1], self.count, -1) / factor.astype(np.float32)
        empty = jnp.zeros((*entries.shape[:-1], self.size, self.size), packed.dtype)
        upper = empty.at[..., row, column].set(entries)
        return upper.at[..., column, row].set(entries)

    def grouped(self, vector: Array) -> Array:
        """A flat vector, block by block."""
        return vector.reshape(*vector.shape[:-1], self.count, self.size)

    def _flat(self, groups: Array) -> Array:
        return groups.reshape(*groups.shape[:-2], self.dim)

    def apply(self, precision: Array, vector: Array) -> Array:
        """Precision times a vector; leading axes of both broadcast."""
        groups = self.grouped(vector)
        return self._flat(jnp.einsum("...kij,...kj->...ki", self.matrices(precision), groups))

    def solve(self, precision: Array, vector: Array) -> Array:
        """Inverse precision times a vector."""
        groups = self.grouped(vector)[..., None]
        return self._flat(jnp.linalg.solve(self.matrices(precision), groups)[..., 0])

    def inverse(self, precision: Array) -> Array:
        """The covariance, packed."""
        return self.pack(jnp.linalg.inv(self.matrices(precision)))

    def floored(self, precision: Array, least: Array) -> Array:
        """Eigenvalues raised to ``least`` (one, or the largest of one per entry)."""
        values, vectors = jnp.linalg.eigh(self.matrices(precision))
        raised = jnp.maximum(values, jnp.max(least))
        return self.pack(jnp.einsum("...ij,...j,...kj->...ik", vectors, raised, vectors))

    def least_eigenvalue(self, precision: Array) -> Array:
        """The smallest eigenvalue of all blocks."""
        return jnp.min(jnp.linalg.eigvalsh(self.matrices(precision)), axis=(-2, -1))

    def diagonal(self, packed: Array) -> Array:
        """The diagonal, as a flat vector."""
        return self._flat(jnp.diagonal(self.matrices(packed), axis1=-2, axis2=-1))


Family = Diagonal | Blocks
