"""A Gaussian guide with independent coordinates: parameters, draws, entropy, chain rule."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import one_of

__all__ = ["DiagonalGuide"]


@dataclass(frozen=True)
class DiagonalGuide:
    """q(z) = N(mean, diag(scale^2)), parameters (mean, u) in one flat vector.

    ``scale_map`` turns u into the scale: ``softplus`` or ``exp``; with ``of="variance"`` the map
    gives the variance instead (na-dpvi.txt sec. 4.1 prints that; the authors' code has "sd").
    """

    dim: int
    scale_map: str = "softplus"
    of: str = "sd"

    def __post_init__(self) -> None:
        one_of("scale_map", self.scale_map, ("softplus", "exp"))
        one_of("of", self.of, ("sd", "variance"))

    def scale(self, free: Array) -> Array:
        """Standard deviations from the free parameters u."""
        mapped = jnp.exp(free) if self.scale_map == "exp" else jax.nn.softplus(free)
        return jnp.sqrt(mapped) if self.of == "variance" else mapped

    def scale_slope(self, free: Array) -> Array:
        """Derivative of `scale`."""
        return jax.jvp(self.scale, (free,), (jnp.ones_like(free),))[1]

    def points(self, parameters: Array, noise: Array) -> Array:
        """Reparametrised draws: mean + scale * noise (draws x dim)."""
        mean, free = parameters[: self.dim], parameters[self.dim :]
        return mean + self.scale(free) * noise

    def entropy_gradient(self, parameters: Array) -> Array:
        """Gradient of minus the entropy, -sum(log scale), by all parameters."""
        free = parameters[self.dim :]
        by_scale = -self.scale_slope(free) / self.scale(free)
        return jnp.concatenate([jnp.zeros(self.dim), by_scale])

    def fisher_information(self, parameters: Array) -> Array:
        """Diagonal of the Fisher information in (mean, u): 1/scale^2 and 2 (scale'/scale)^2.

        The rest of the matrix is zero (dpvim.txt eqs. 13 to 16, there with T for the scale).
        """
        free = parameters[self.dim :]
        scale = self.scale(free)
        return jnp.concatenate([scale**-2.0, 2 * (self.scale_slope(free) / scale) ** 2])

    def draw(self, parameters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw from the guide for each row of ``parameters`` (post-processing, on the host)."""
        mean, free = parameters[..., : self.dim], parameters[..., self.dim :]
        scale = np.asarray(self.scale(jnp.asarray(free)), float)
        return mean + scale * rng.standard_normal(mean.shape)
