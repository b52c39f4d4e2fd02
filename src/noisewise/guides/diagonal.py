"""A Gaussian guide with independent coordinates: parameters, draws, entropy, chain rule."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import one_of
from noisewise.guides.guide import Moments, map_slope, mapped


@dataclass(frozen=True)
class DiagonalGuide:
    """q(z) = N(mean, diag(scale^2)), parameters (mean, u) in one flat vector.

    ``scale_map`` turns u into the scale: ``softplus`` or ``exp``; with ``of="variance"`` the map
    gives the variance instead (NA-DPVI sec. 4.1 prints that; the authors' code has "sd").
    """

    dim: int
    scale_map: str = "softplus"
    of: str = "sd"

    def __post_init__(self) -> None:
        one_of("scale_map", self.scale_map, ("softplus", "exp"))
        one_of("of", self.of, ("sd", "variance"))

    @property
    def free(self) -> int:
        """One scale a coordinate."""
        return self.dim

    def initial(self, scale: float) -> np.ndarray:
        """All alike."""
        return np.full(self.dim, scale)

    def scale(self, free: Array) -> Array:
        """Standard deviations from the free parameters u."""
        found = mapped(self.scale_map, free)
        return jnp.sqrt(found) if self.of == "variance" else found

    def scale_slope(self, free: Array) -> Array:
        """Derivative of `scale`."""
        return map_slope(self.scale, free)

    def slope(self, parameters: Array) -> Array:
        """`scale_slope` at these parameters."""
        return self.scale_slope(parameters[self.dim :])

    def points(self, parameters: Array, base_normals: Array) -> Array:
        """Reparametrised draws: mean + scale * base_normals (draws x dim)."""
        mean, free = parameters[: self.dim], parameters[self.dim :]
        return mean + self.scale(free) * base_normals

    def gradients(
        self, parameters: Array, base_normals: Array, moments: Moments
    ) -> tuple[Array, Array]:
        """Gradients by means and free scales (NA-DPVI eq. A56), averaged over draws by
        ``moments``."""
        means, scales = moments(self.points(parameters, base_normals), base_normals)
        return means, scales * self.slope(parameters)

    def chain_rule(self, parameters: Array, draw: Array, by_mean: Array) -> Array:
        """eta T'(u) times the gradient by the mean (DPVIm eq. 11)."""
        return draw * self.slope(parameters) * by_mean

    def entropy_gradient(self, parameters: Array) -> Array:
        """Gradient of minus the entropy, -sum(log scale), by all parameters."""
        by_scale = -self.slope(parameters) / self.scale(parameters[self.dim :])
        return jnp.concatenate([jnp.zeros(self.dim), by_scale])

    def fisher_information(self, parameters: Array) -> Array:
        """Diagonal of the Fisher information in (mean, u): 1/scale^2 and 2 (scale'/scale)^2.

        The rest of the matrix is zero (DPVIm eqs. 13 to 16, there with T for the scale).
        """
        scale = self.scale(parameters[self.dim :])
        return jnp.concatenate([scale**-2.0, 2 * (self.slope(parameters) / scale) ** 2])

    def draw(self, means: np.ndarray, free: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw for each row of ``means`` (post-processing, on the host)."""
        scale = np.asarray(self.scale(jnp.asarray(free)), float)
        return means + scale * rng.standard_normal(means.shape)
