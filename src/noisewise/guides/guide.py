"""What a Gaussian guide is: q(z) = N(mean, L L'), parameters (mean, u) in one flat vector.

A draw is mean + L(u) eta with standard normal eta, so its gradient by u is a public function of
its gradient by the mean: `Guide.chain_rule` (DPVIm eqs. 11 and 20).
"""

from collections.abc import Callable
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Moments = Callable[[Array, Array], tuple[Array, Array]]
"""From points and the normals behind them (draws x dim) to the mean gradient and the mean of
gradient times normal, with any leading axes such as records."""


class Guide(Protocol):
    """The members that every rule needs of a guide."""

    @property
    def dim(self) -> int:
        """Number of means."""

    @property
    def free(self) -> int:
        """Number of free scale parameters u, which follow the means."""

    def initial(self, scale: float) -> np.ndarray:
        """Free parameters of independent coordinates, each with this free ``scale``."""

    def points(self, parameters: Array, base_normals: Array) -> Array:
        """Reparametrised draws (draws x dim): DPVIm eqs. 6 and 19."""

    def gradients(
        self, parameters: Array, base_normals: Array, moments: Moments
    ) -> tuple[Array, Array]:
        """Gradients by means and by free parameters, averaged over draws."""

    def chain_rule(self, parameters: Array, draw: Array, by_mean: Array) -> Array:
        """One draw's gradient by the free parameters from that by the mean; any leading axes."""

    def slope(self, parameters: Array) -> Array:
        """How fast L moves with each free parameter: T' of DPVIm eq. 17."""

    def entropy_gradient(self, parameters: Array) -> Array:
        """Gradient of minus the entropy by all parameters."""

    def draw(self, means: np.ndarray, free: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw for each row of ``means``; ``free`` is one for all (a vector) or one a row."""


def mapped(scale_map: str, free: Array) -> Array:
    """Softplus or exponential: from the line to the positive numbers."""
    return jnp.exp(free) if scale_map == "exp" else jax.nn.softplus(free)


def map_slope(scale: Callable[[Array], Array], free: Array) -> Array:
    """Derivative of an elementwise map."""
    return jax.jvp(scale, (free,), (jnp.ones_like(free),))[1]
