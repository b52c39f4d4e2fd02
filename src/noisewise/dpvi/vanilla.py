"""Vanilla and preconditioned DPVI: means and scales are both released (NA-DPVI App. H.2)."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.data import Rows
from noisewise.dpvi.rule import GradientRule, Point, both
from noisewise.guides import Guide


@dataclass(frozen=True)
class Vanilla(GradientRule):
    """Release the gradients of means and scales as they are."""

    guide: Guide

    @property
    def parameters(self) -> int:
        """Means and free scales."""
        return self.guide.dim + self.guide.free

    def record_gradients(self, at: Point, batch: Rows, share: Array | float = 0.0) -> Array:
        """Gradient of a record's expected loss by means and free scales (NA-DPVI eq. A56)."""

        def moments(points: Array, base_normals: Array) -> tuple[Array, Array]:
            return self.target.record_moments(at.constants.frame, points, base_normals, batch)

        return both(*self.guide.gradients(at.parameters, at.base_normals, moments)) + share

    def public_gradient(self, at: Point) -> Array:
        """The prior's part and the guide's entropy."""

        def moments(points: Array, base_normals: Array) -> tuple[Array, Array]:
            return self.target.prior_moments(at.constants.frame, points, base_normals)

        prior = both(*self.guide.gradients(at.parameters, at.base_normals, moments))
        return prior + self.guide.entropy_gradient(at.parameters)

    def draw_theta(
        self, means: np.ndarray, free: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """The guide's own draws: NA-DPVI eq. 23."""
        return self.guide.draw(means, free, rng)


@dataclass(frozen=True)
class Preconditioned(Vanilla):
    """Scale gradients up before the clip and down after, so that noise hits all alike (NA-DPVI eq.
    A59).

    The factor is beta, or with ``by_slope`` 1 / T'(u) of the moment (DPVIm eq. 17).
    """

    by_slope: bool = False

    @property
    def observed(self) -> int:
        """All, or the means where the scales' noise changes with T' from step to step."""
        return self.guide.dim if self.by_slope else self.released

    def factor(self, at: Point) -> Array:
        """What a gradient is multiplied by before the clip."""
        if not self.by_slope:
            return at.constants.precondition
        return both(jnp.ones(self.guide.dim), 1 / self.guide.slope(at.parameters))

    def record_gradients(self, at: Point, batch: Rows, share: Array | float = 0.0) -> Array:
        """The vanilla gradients times the factor."""
        return super().record_gradients(at, batch, share) * self.factor(at)

    def complete(self, at: Point, released: Array) -> Array:
        """Divided by the factor again."""
        return released / self.factor(at)
