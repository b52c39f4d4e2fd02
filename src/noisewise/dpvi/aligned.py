"""Aligned DPVI: release the means' gradient, get the scales' from it (DPVIm Alg. 1).

A guide's draw is mean + T(u) eta, so one draw's gradient by u is eta T'(u) times its gradient by
the mean, plus the entropy's (DPVIm Prop. 3.1, eq. 11; eq. 20 for a full-rank guide). Neither factor
depends on data: the scales come by post-processing, for no privacy. The clip norm bounds the means'
gradient alone, and where T' <= 1 the scales' gradient is less noisy than if it were released
(Thm. 3.1).
"""

from dataclasses import dataclass

from jax import Array

from noisewise._validate import NoisewiseError
from noisewise.data import Rows
from noisewise.dpvi.rule import Point, both
from noisewise.dpvi.vanilla import Vanilla


@dataclass(frozen=True)
class Aligned(Vanilla):
    """Means released, scales by the chain rule; exactly one Monte Carlo draw a step.

    Averaged over several draws the scales' gradient is mean(eta g), which the mean of g does not
    give.
    """

    @property
    def released(self) -> int:
        """The means."""
        return self.target.dim

    def record_gradients(self, at: Point, batch: Rows, share: Array | float = 0.0) -> Array:
        """Gradient of a record's loss by the means (DPVIm Alg. 1, line 2)."""
        points = self.guide.points(at.parameters, at.base_normals)
        moments = self.target.record_moments(at.constants.frame, points, at.base_normals, batch)
        return moments[0] + share

    def complete(self, at: Point, released: Array) -> Array:
        """Scales from the released means (DPVIm Alg. 1, line 5)."""
        draw = the_draw(at.base_normals)
        return both(released, self.guide.chain_rule(at.parameters, draw, released))

    def unclipped_gradient(self, at: Point) -> Array:
        """The entropy's: a clipped prior reaches the scales by the chain rule, the entropy not."""
        return self.guide.entropy_gradient(at.parameters)


def the_draw(base_normals: Array) -> Array:
    """The one draw's standard normals: the chain rule holds draw by draw, not for averages."""
    if len(base_normals) != 1:
        raise NoisewiseError(f"aligned rules take one guide draw a step, got {len(base_normals)}")
    return base_normals[0]
