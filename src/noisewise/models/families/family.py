"""What a family of a regression is: a distribution given a linear predictor, and its slopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from noisewise.data import Column
from noisewise.models.families.ratios import Ratio

LOG_RATE_SD = 0.5
"""Prior sd of coefficients on a log scale: half a unit is already a factor of 1.6."""


class Slopes(NamedTuple):
    """Derivatives of minus a record's log-likelihood."""

    predictor: Array
    """By the linear predictor, shaped as it is."""
    nuisance: Sequence[Array] = ()
    """By each unconstrained coordinate of the family's own parameters."""


class Priors(NamedTuple):
    """Numbers that decide a regression's priors: see `noisewise.models.Glm`."""

    prior_scale: float = 1.0
    noise_scale: float = 1.0
    centre: float | tuple[float, ...] = 0.0
    intercept_scale: float | None = None


@dataclass(frozen=True)
class Family:
    """Base of the families. Fields of a subclass are what it takes from the target's declaration.

    A family has two functions that say the same: `likelihood`, and `slopes` in closed form. Own
    parameters besides the coefficients, such as a residual sd, are latents with the priors of
    `nuisance`; `slopes` has positive ones by their logarithm.
    """

    title: ClassVar[str]
    """As in "Poisson regression"."""
    kinds: ClassVar[tuple[str, ...]] = ("real", "count")
    """Kinds of column that the target may be."""
    levels_from: ClassVar[int] = 2
    """Least number of a category's levels; more than two only where this is."""
    positive: ClassVar[bool] = False
    """Whether the target must be above 0."""
    survival: ClassVar[bool] = False
    """Whether the target is two columns: a time, and whether it is an event's."""
    ratio: ClassVar[Ratio | None] = None
    """What the exponential of a coefficient is, such as an odds ratio; None where it is nothing."""
    joint: ClassVar[bool] = False
    """Whether a frame must mix the coefficients with each other or with the family's own
    parameters, because the data tie them together."""
    site: ClassVar[str | None] = None
    """DP-SEP's site of it, where there is one."""

    def of(self, target: Column, event: Column | None = None) -> Self:
        """The family for a target as it is declared."""
        return self

    def priors(self, target: Column, event: Column | None = None) -> Priors:
        """Weakly informative ones, on the scale of the target's declaration."""
        return Priors()

    @property
    def suffix(self) -> str:
        """What its name says besides, such as ``(cuts=6, 12)``: what a user has chosen."""
        return ""

    @property
    def predictors(self) -> int:
        """Linear predictors of a record."""
        return 1

    def nuisance(self, scale: float) -> Mapping[str, dist.Distribution]:
        """Priors of the family's own parameters around ``scale``, in the order of `slopes`."""
        return {}

    def ratios(self, slopes: np.ndarray, own: Mapping[str, np.ndarray]) -> dict[Ratio, np.ndarray]:
        """What a change of a feature multiplies, and by how much.

        Args:
            slopes: The predictor's change, with draws as the first axis.
            own: Draws of the family's own parameters.
        """
        return {} if self.ratio is None else {self.ratio: np.exp(slopes)}

    def coordinates(self, features: list[str]) -> dict[str, list[str]]:
        """Names along the last axis of latents that are vectors."""
        return {"coefficients": features}

    def likelihood(self, predictor: Any, *nuisance: Any) -> dist.Distribution:
        """The distribution of a record given its linear predictor.

        Where there are several predictors, they are the last axis.
        """
        raise NotImplementedError

    def slopes(self, predictor: Array, y: Array, nuisance: Array) -> Slopes:
        """Derivatives of minus the log-likelihood.

        Args:
            predictor: Records x draws, and predictors where there are several.
            y: Records x 1, and columns where there are several.
            nuisance: Unconstrained coordinates x draws.
        """
        raise NotImplementedError


def positive_prior(median: float, log_sd: float) -> dist.Distribution:
    """Log-normal by its median.

    Args:
        median: Of the parameter.
        log_sd: Sd of its logarithm.
    """
    return dist.LogNormal(jnp.log(median), log_sd)
