"""Natural gradients: I^-1 times the gradient, with the guide's Fisher information I.

DPVIm eqs. 14 to 16 and Alg. 2. (Equation 13 prints the score by theta; it is the one by the
guide's parameters.) Natural gradients of the scales are divided by T', so they outweigh the means'
where vanilla's vanish: release both and the means suffer instead, which the aligned form avoids.
"""

from __future__ import annotations

from dataclasses import dataclass

from jax import Array

from noisewise.data import Rows
from noisewise.dpvi.aligned import Aligned, the_draw
from noisewise.dpvi.rule import Constants, both
from noisewise.dpvi.vanilla import Vanilla
from noisewise.guides import DiagonalGuide


@dataclass(frozen=True)
class Natural(Vanilla):
    """Release the natural gradients of means and scales."""

    guide: DiagonalGuide
    name: str = "natural"

    def record_gradients(
        self,
        constants: Constants,
        parameters: Array,
        base_normals: Array,
        batch: Rows,
        share: Array | float = 0.0,
    ) -> Array:
        """The vanilla gradients over the information; ``share`` is natural already."""
        ordinary = super().record_gradients(constants, parameters, base_normals, batch)
        return ordinary / self.guide.fisher_information(parameters) + share

    def public_gradient(
        self, constants: Constants, parameters: Array, base_normals: Array
    ) -> Array:
        """Prior and entropy, over the information too."""
        ordinary = super().public_gradient(constants, parameters, base_normals)
        return ordinary / self.guide.fisher_information(parameters)


@dataclass(frozen=True)
class AlignedNatural(Aligned):
    """Release the natural gradient of the means; the scales' follows (DPVIm Alg. 2)."""

    guide: DiagonalGuide
    name: str = "aligned_natural"

    def record_gradients(
        self,
        constants: Constants,
        parameters: Array,
        base_normals: Array,
        batch: Rows,
        share: Array | float = 0.0,
    ) -> Array:
        """The means' gradients over their information (DPVIm Alg. 2, line 2)."""
        ordinary = super().record_gradients(constants, parameters, base_normals, batch)
        information = self.guide.fisher_information(parameters)[: self.guide.dim]
        return ordinary / information + self.means_part(share)

    def public_gradient(
        self, constants: Constants, parameters: Array, base_normals: Array
    ) -> Array:
        """Prior and entropy, over the information too."""
        ordinary = super().public_gradient(constants, parameters, base_normals)
        return ordinary / self.guide.fisher_information(parameters)

    def complete(
        self, constants: Constants, parameters: Array, base_normals: Array, released: Array
    ) -> Array:
        """DPVIm Alg. 2, line 5: to the ordinary gradient, the chain rule, and natural again."""
        dim, information = self.guide.dim, self.guide.fisher_information(parameters)
        ordinary = information[:dim] * released
        scales = self.guide.chain_rule(parameters, the_draw(base_normals), ordinary)
        return both(released, scales / information[dim:])

    def unclipped_gradient(self, constants: Constants, parameters: Array) -> Array:
        """The entropy's, over the information too."""
        ordinary = super().unclipped_gradient(constants, parameters)
        return ordinary / self.guide.fisher_information(parameters)
