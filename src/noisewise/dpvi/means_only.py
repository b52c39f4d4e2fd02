"""Release the gradient of the means alone; the scales follow from the curvature of the trace.

By Bonnet's identity the Hessian of the ELBO in the means is minus the expected Hessian of the log
joint, and the best Gaussian covariance is its inverse. The noise-aware model infers that curvature
anyway. So the scales need no gradients: half the coordinates, a smaller clip norm, nothing to
balance (mathematics.md eqs. (3) and (4)). The guide's draws use a fixed, public scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jax import Array

from noisewise.data import Rows
from noisewise.dpvi.rule import Constants
from noisewise.models import Target


@dataclass(frozen=True)
class MeansOnly:
    """Means only, any number of draws."""

    target: Target
    name: str = "means_only"

    @property
    def parameters(self) -> int:
        """The means."""
        return self.target.dim

    @property
    def released(self) -> int:
        """All of them."""
        return self.target.dim

    @property
    def observed(self) -> int:
        """All of them."""
        return self.target.dim

    def _points(self, constants: Constants, parameters: Array, base_normals: Array) -> Array:
        return parameters + constants.fixed_scale * base_normals

    def record_gradients(
        self,
        constants: Constants,
        parameters: Array,
        base_normals: Array,
        batch: Rows,
        share: Array | float = 0.0,
    ) -> Array:
        """Gradient of a record's expected loss by the means."""
        points = self._points(constants, parameters, base_normals)
        return self.target.record_moments(constants.frame, points, base_normals, batch)[0] + share

    def public_gradient(
        self, constants: Constants, parameters: Array, base_normals: Array
    ) -> Array:
        """The prior's part; the entropy does not depend on the means."""
        points = self._points(constants, parameters, base_normals)
        if constants.prior_precision is not None:
            return points.mean(0) @ constants.prior_precision
        return self.target.prior_moments(constants.frame, points, base_normals)[0]

    def complete(
        self, constants: Constants, parameters: Array, base_normals: Array, released: Array
    ) -> Array:
        """Nothing is left to add."""
        return released

    def unclipped_gradient(self, constants: Constants, parameters: Array) -> float:
        """Nothing: records can carry all of it."""
        return 0.0

    def draw_theta(self, means: np.ndarray, free: np.ndarray, rng: np.random.Generator) -> None:
        """No scales: the curvature gives theta's spread."""
