"""Natural gradients: I^-1 times the gradient, with the guide's Fisher information I.

DPVIm eqs. 14 to 16 and Alg. 2. (Equation 13 prints the score by theta; it is the one by the
guide's parameters.) Natural gradients of the scales are divided by T', so they outweigh the means'
where vanilla's vanish: release both and the means suffer instead, which the aligned form avoids.
"""

from dataclasses import dataclass

from jax import Array

from noisewise.data import Rows
from noisewise.dpvi.aligned import Aligned, the_draw
from noisewise.dpvi.rule import Point, both
from noisewise.dpvi.vanilla import Vanilla
from noisewise.guides import DiagonalGuide


@dataclass(frozen=True)
class Natural(Vanilla):
    """Release the natural gradients of means and scales."""

    guide: DiagonalGuide

    def record_gradients(self, at: Point, batch: Rows, share: Array | float = 0.0) -> Array:
        """The ordinary gradients over the information; ``share`` is natural already."""
        information = self.guide.fisher_information(at.parameters)[: self.released]
        return super().record_gradients(at, batch) / information + share

    def public_gradient(self, at: Point) -> Array:
        """Prior and entropy, over the information too."""
        return super().public_gradient(at) / self.guide.fisher_information(at.parameters)


@dataclass(frozen=True)
class AlignedNatural(Natural, Aligned):
    """Release the natural gradient of the means; the scales' follows (DPVIm Alg. 2)."""

    def complete(self, at: Point, released: Array) -> Array:
        """DPVIm Alg. 2, line 5: to the ordinary gradient, the chain rule, and natural again."""
        dim, information = self.guide.dim, self.guide.fisher_information(at.parameters)
        ordinary = information[:dim] * released
        scales = self.guide.chain_rule(at.parameters, the_draw(at.base_normals), ordinary)
        return both(released, scales / information[dim:])

    def unclipped_gradient(self, at: Point) -> Array:
        """The entropy's, over the information too."""
        return super().unclipped_gradient(at) / self.guide.fisher_information(at.parameters)
