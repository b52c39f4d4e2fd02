"""A Gaussian guide with correlated coordinates: the Cholesky factor of its covariance is free.

DPVIm sec. 3.1.2. Parameters are (mean, u, lower): u gives the factor's diagonal through the
scale map, ``lower`` its entries below the diagonal, row by row. Released as they are, these are
d (d + 3) / 2 coordinates that share one clip norm; the aligned rule releases the d means alone.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import one_of
from noisewise.guides.guide import Moments, map_slope, mapped


@dataclass(frozen=True)
class FullRankGuide:
    """q(z) = N(mean, L L') with a lower triangular L whose diagonal is positive."""

    dim: int
    scale_map: str = "softplus"

    def __post_init__(self) -> None:
        one_of("scale_map", self.scale_map, ("softplus", "exp"))

    @property
    def free(self) -> int:
        """Diagonal and lower triangle."""
        return self.dim * (self.dim + 1) // 2

    def initial(self, scale: float) -> np.ndarray:
        """No correlations, every diagonal entry alike."""
        return np.concatenate([np.full(self.dim, scale), np.zeros(self.free - self.dim)])

    def factor(self, free: Array) -> Array:
        """L from its free parameters; any leading axes."""
        # A gather from (diagonal, lower, zero): on a GPU much quicker than to scatter.
        diagonal = mapped(self.scale_map, free[..., : self.dim])
        nothing = jnp.zeros((*free.shape[:-1], 1), free.dtype)
        entries = jnp.concatenate([diagonal, free[..., self.dim :], nothing], axis=-1)
        return entries[..., self._places()]

    def _places(self) -> np.ndarray:
        """Where each entry of L stands among (diagonal, lower, zero)."""
        places = np.full((self.dim, self.dim), self.free)
        np.fill_diagonal(places, np.arange(self.dim))
        places[np.tril_indices(self.dim, -1)] = np.arange(self.dim, self.free)
        return places

    def points(self, parameters: Array, base_normals: Array) -> Array:
        """Reparametrised draws: mean + L eta (draws x dim), DPVIm eq. 19."""
        return parameters[: self.dim] + base_normals @ self.factor(parameters[self.dim :]).T

    def gradients(
        self, parameters: Array, base_normals: Array, moments: Moments
    ) -> tuple[Array, Array]:
        """Gradients by means and L, draw by draw and then averaged."""
        points = self.points(parameters, base_normals)

        def one(point: Array, draw: Array) -> tuple[Array, Array]:
            by_mean = moments(point[None], draw[None])[0]
            return by_mean, self.chain_rule(parameters, draw, by_mean)

        if len(base_normals) == 1:
            return one(points[0], base_normals[0])
        means, frees = jax.vmap(one)(points, base_normals)
        return means.mean(0), frees.mean(0)

    def chain_rule(self, parameters: Array, draw: Array, by_mean: Array) -> Array:
        """J' g of DPVIm eq. 20: entry (i, j) of L moves coordinate i by eta_j: it is g_i eta_j."""
        rows, columns = np.tril_indices(self.dim, -1)
        diagonal = by_mean * draw * self._diagonal_slope(parameters)
        return jnp.concatenate([diagonal, by_mean[..., rows] * draw[columns]], axis=-1)

    def slope(self, parameters: Array) -> Array:
        """T' on the diagonal; entries below it are free as they are."""
        below = jnp.ones(self.free - self.dim)
        return jnp.concatenate([self._diagonal_slope(parameters), below])

    def _diagonal_slope(self, parameters: Array) -> Array:
        free = parameters[self.dim : 2 * self.dim]
        return map_slope(lambda u: mapped(self.scale_map, u), free)

    def entropy_gradient(self, parameters: Array) -> Array:
        """Of minus the entropy, which is minus the sum of the logarithms of L's diagonal."""
        diagonal = mapped(self.scale_map, parameters[self.dim : 2 * self.dim])
        found = jnp.zeros(self.dim + self.free)
        by_diagonal = -self._diagonal_slope(parameters) / diagonal
        return found.at[self.dim : 2 * self.dim].set(by_diagonal)

    def draw(self, means: np.ndarray, free: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw for each row of ``means`` (post-processing, on the host)."""
        shock = rng.standard_normal(means.shape)
        if free.ndim == 1:
            return means + shock @ np.asarray(self.factor(jnp.asarray(free)), float).T
        # Row by row: all the factors at once would not fit.
        moved = (np.asarray(self.factor(jnp.asarray(one)), float) for one in free)
        return means + np.stack([factor @ eta for factor, eta in zip(moved, shock, strict=True)])
