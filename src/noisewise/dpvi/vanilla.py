"""Vanilla and preconditioned DPVI: means and scales are both released (na-dpvi.txt App. H.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jax import Array

from noisewise.dpvi.rule import Constants, both
from noisewise.guides import DiagonalGuide
from noisewise.models import Rows, Target

__all__ = ["Preconditioned", "Vanilla"]


@dataclass(frozen=True)
class Vanilla:
    """Release the gradients of means and scales as they are."""

    target: Target
    guide: DiagonalGuide
    name: str = "vanilla"

    @property
    def parameters(self) -> int:
        """Means and free scales."""
        return 2 * self.target.dim

    @property
    def released(self) -> int:
        """All of them."""
        return 2 * self.target.dim

    def record_gradients(
        self,
        constants: Constants,
        parameters: Array,
        noise: Array,
        batch: Rows,
        share: Array | float = 0.0,
    ) -> Array:
        """Gradient of a record's expected loss by means and free scales (eq. A56)."""
        points = self.guide.points(parameters, noise)
        means, scales = self.target.record_moments(constants.frame, points, noise, batch)
        slope = self.guide.scale_slope(parameters[self.guide.dim :])
        return both(means, scales * slope) + share

    def public_gradient(self, constants: Constants, parameters: Array, noise: Array) -> Array:
        """The prior's part and the guide's entropy."""
        points = self.guide.points(parameters, noise)
        means, scales = self.target.prior_moments(constants.frame, points, noise)
        slope = self.guide.scale_slope(parameters[self.guide.dim :])
        return both(means, scales * slope) + self.guide.entropy_gradient(parameters)

    def complete(
        self, constants: Constants, parameters: Array, noise: Array, released: Array
    ) -> Array:
        """Nothing is left to add."""
        return released

    def unclipped_gradient(self, constants: Constants, parameters: Array) -> Array | float:
        """Nothing: records can carry all of it."""
        return 0.0

    def draw_theta(self, optimum: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The guide's own draws: eq. (23)."""
        return self.guide.draw(optimum, rng)


@dataclass(frozen=True)
class Preconditioned(Vanilla):
    """Scale gradients up before the clip and down after, so that noise hits all alike (A59)."""

    name: str = "preconditioned"

    def record_gradients(
        self,
        constants: Constants,
        parameters: Array,
        noise: Array,
        batch: Rows,
        share: Array | float = 0.0,
    ) -> Array:
        """The vanilla gradients times beta."""
        plain = super().record_gradients(constants, parameters, noise, batch, share)
        return plain * constants.precondition

    def complete(
        self, constants: Constants, parameters: Array, noise: Array, released: Array
    ) -> Array:
        """Divided by beta again."""
        return released / constants.precondition
