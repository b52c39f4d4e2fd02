"""Release the gradient of the means alone; the scales follow from the curvature of the trace.

By Bonnet's identity the Hessian of the ELBO in the means is minus the expected Hessian of the log
joint, and the best Gaussian covariance is its inverse. The noise-aware model infers that curvature
anyway. So the scales need no gradients: half the coordinates, a smaller clip norm, nothing to
balance (mathematics.md eqs. (3) and (4)). The guide's draws use a fixed, public scale.
"""

from __future__ import annotations

from dataclasses import dataclass

from jax import Array

from noisewise.data import Rows
from noisewise.dpvi.rule import GradientRule, Point


@dataclass(frozen=True)
class MeansOnly(GradientRule):
    """Means only, any number of draws; there are no scales to draw theta with."""

    @property
    def parameters(self) -> int:
        """The means."""
        return self.target.dim

    def _points(self, at: Point) -> Array:
        return at.parameters + at.constants.fixed_scale * at.base_normals

    def record_gradients(self, at: Point, batch: Rows, share: Array | float = 0.0) -> Array:
        """Gradient of a record's expected loss by the means."""
        frame, points = at.constants.frame, self._points(at)
        return self.target.record_moments(frame, points, at.base_normals, batch)[0] + share

    def public_gradient(self, at: Point) -> Array:
        """The prior's part; the entropy does not depend on the means."""
        constants, points = at.constants, self._points(at)
        if constants.prior_precision is not None:
            return points.mean(0) @ constants.prior_precision
        return self.target.prior_moments(constants.frame, points, at.base_normals)[0]
