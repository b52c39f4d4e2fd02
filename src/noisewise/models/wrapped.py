"""A target around another: the base of those that change what a record is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jax import Array

from noisewise.models.target import Target


@dataclass(frozen=True)
class WrappedTarget(Target):
    """What is about latents alone is the inner model's, which may have coordinates of its own; a
    subclass says what is about records."""

    inner: Target
    """Of simpler records."""

    def constrain(self, theta: Array) -> dict[str, Array]:
        """See `Target.constrain`."""
        return self.inner.constrain(theta)

    def unconstrain(self, latents: dict[str, Array]) -> Array:
        """See `Target.unconstrain`."""
        return self.inner.unconstrain(latents)

    def log_prior(self, theta: Array) -> Array:
        """See `Target.log_prior`."""
        return self.inner.log_prior(theta)

    def sample_prior(self, key: Array, count: int) -> Array:
        """See `Target.sample_prior`."""
        return self.inner.sample_prior(key, count)

    def judged_together(self) -> dict[str, np.ndarray] | None:
        """See `Target.judged_together`."""
        return self.inner.judged_together()

    def block_sizes(self) -> tuple[int, ...]:
        """See `Target.block_sizes`."""
        return self.inner.block_sizes()
