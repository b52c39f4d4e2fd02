"""What a gradient rule is: which coordinates are released, and how the rest follow.

Every rule is a frozen dataclass with the same members, so a reader who knows one knows all.
Without noise and clipping, on the full batch, a rule's gradient equals that of the negative ELBO
(natural rules: times the inverse Fisher information).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

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


class GradientRule(Protocol):
    """One way to get a private gradient of all variational parameters."""

    @property
    def target(self) -> Target:
        """The model."""

    @property
    def name(self) -> str:
        """As settings and reports call it."""

    @property
    def parameters(self) -> int:
        """Number of variational parameters."""

    @property
    def released(self) -> int:
        """Number of coordinates that pass the mechanism: the first of the parameters."""

    @property
    def observed(self) -> int:
        """Those of the released whose noise is the same at every step, again the first: what the
        noise-aware posterior may take as observations."""

    def record_gradients(
        self,
        constants: Constants,
        parameters: Array,
        base_normals: Array,
        batch: Rows,
        share: Array | float = 0.0,
    ) -> Array:
        """Per-record gradients as they are clipped: batch x released.

        ``share`` is each record's part of the public gradient where that is clipped too.
        """

    def public_gradient(
        self, constants: Constants, parameters: Array, base_normals: Array
    ) -> Array:
        """Gradient of the prior's and the guide's part of the loss: no record is involved."""

    def complete(
        self, constants: Constants, parameters: Array, base_normals: Array, released: Array
    ) -> Array:
        """From what was released to the data's gradient of every parameter: post-processing."""

    def unclipped_gradient(self, constants: Constants, parameters: Array) -> Array | float:
        """What of the public gradient has no place inside the clip, when the rest is clipped."""

    def draw_theta(
        self, means: np.ndarray, free: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray | None:
        """Draws of theta from the guide around each of the means, with ``free`` scale parameters
        for all (a vector) or one a row; None if the rule fits no scales and theta is
        N(optimum, curvature^-1)."""


def both(means: Array, scales: Array) -> Array:
    """Means and scales side by side, the order of the parameters."""
    return jnp.concatenate([means, scales], axis=-1)
