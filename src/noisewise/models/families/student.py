"""Numbers with heavy-tailed residuals: a regression that outliers do not move far."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array

from noisewise._validate import positive
from noisewise.models.families.family import Slopes, positive_prior
from noisewise.models.families.linear import Linear


@dataclass(frozen=True)
class Student(Linear):
    """Residuals are ``scale`` times a Student's t with 4 degrees of freedom, or those of the name,
    as in ``student(degrees=7)``. They are fixed: noisy records say little about them. Priors are
    those of `Linear`, ``scale`` in place of ``noise``."""

    degrees: float = 4.0

    title: ClassVar[str] = "Robust (Student) regression"
    site: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        positive("degrees", self.degrees, finite=True)

    @property
    def suffix(self) -> str:
        """See `Family.suffix`."""
        return "" if self.degrees == 4 else f"(degrees={self.degrees:g})"

    def nuisance(self, scale: float) -> Mapping[str, dist.Distribution]:
        """See `Family.nuisance`."""
        return {"scale": positive_prior(scale, 0.5)}

    def likelihood(self, predictor: Any, *nuisance: Any) -> dist.Distribution:
        """See `Family.likelihood`."""
        return dist.StudentT(self.degrees, predictor, *nuisance)

    def slopes(self, predictor: Array, y: Array, nuisance: Array) -> Slopes:
        """See `Family.slopes`."""
        # In scales, so that no square of an outlier overflows.
        residual = (predictor - y) * jnp.exp(-nuisance[0])
        weight = (self.degrees + 1) / (self.degrees + residual * residual)
        by_scale = 1 - weight * residual * residual
        return Slopes(weight * residual * jnp.exp(-nuisance[0]), (by_scale,))
