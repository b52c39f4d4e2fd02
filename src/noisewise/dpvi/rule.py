"""What a gradient rule is: which coordinates are released, and how the rest follow.

Every rule is a frozen dataclass with the same members, so a reader who knows one knows all.
Without noise and clipping, on the full batch, a rule's gradient equals that of the negative ELBO
(natural rules: times the inverse Fisher information).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.data import Rows
from noisewise.models import Frame, Target


class Constants(NamedTuple):
    """Numbers that a rule needs and that change from fit to fit without recompiling."""

    frame: Frame
    precondition: Array
    """beta (NA-DPVI eq. A59), one per parameter: multiplies before the clip, divides after."""
    fixed_scale: Array
    """Standard deviations of the guide's draws where the rule fits no scales."""
    prior_precision: Array | None = None
    """Of a Gaussian prior around the frame's zero, along which means descend in place of the
    model's; None is the model's own."""


class Point(NamedTuple):
    """Where a step's gradients are taken: all of it public."""

    constants: Constants
    parameters: Array
    base_normals: Array
    """Of the guide's draws: draws x dim."""


@dataclass(frozen=True)
class GradientRule:
    """One way to get a private gradient of all variational parameters.

    As it stands, all of it is released, and there is nothing to complete.

    Args:
        target: The model.
    """

    target: Target

    @property
    def parameters(self) -> int:
        """Number of variational parameters."""
        raise NotImplementedError

    @property
    def released(self) -> int:
        """Number of coordinates that pass the mechanism: the first of the parameters."""
        return self.parameters

    @property
    def observed(self) -> int:
        """Those of the released whose noise is the same at every step, again the first: what the
        noise-aware posterior may take as observations."""
        return self.released

    def record_gradients(self, at: Point, batch: Rows, share: Array | float = 0.0) -> Array:
        """Per-record gradients as they are clipped: batch x released.

        ``share`` is each record's part of the public gradient of what is released, where that is
        clipped too.
        """
        raise NotImplementedError

    def public_gradient(self, at: Point) -> Array:
        """Gradient of the prior's and the guide's part of the loss: no record is involved."""
        raise NotImplementedError

    def complete(self, at: Point, released: Array) -> Array:
        """From what was released to the data's gradient of every parameter: post-processing."""
        return released

    def unclipped_gradient(self, at: Point) -> Array | float:
        """What of the public gradient has no place inside the clip, when the rest is clipped."""
        return 0.0

    def draw_theta(
        self, means: np.ndarray, free: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray | None:
        """Draws of theta from the guide around each of the means, with ``free`` scale parameters
        for all (a vector) or one a row; None if the rule fits no scales and theta is
        N(optimum, curvature^-1)."""
        return None


def both(means: Array, scales: Array) -> Array:
    """Means and scales side by side, the order of the parameters."""
    return jnp.concatenate([means, scales], axis=-1)
