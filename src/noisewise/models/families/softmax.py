"""One of three and more categories."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array

from noisewise._validate import NoisewiseError
from noisewise.data import Column
from noisewise.models.families.family import Family, Priors, Slopes
from noisewise.models.families.ratios import LEVEL_ODDS, Ratio


@dataclass(frozen=True)
class Softmax(Family):
    """Multinomial logistic regression: a linear predictor for every level but the first, which is
    the reference.

    Coefficients, level by level, are log odds ratios against the reference, Normal(0, 1) on the
    encoded scale; intercepts are around what declared shares imply.
    """

    levels: tuple[str, ...] = ()

    title: ClassVar[str] = "Multinomial logistic regression"
    kinds: ClassVar[tuple[str, ...]] = ("category",)
    levels_from: ClassVar[int] = 3
    ratio: ClassVar[Ratio | None] = LEVEL_ODDS
    joint: ClassVar[bool] = True

    def of(self, target: Column, event: Column | None = None) -> Self:
        """See `Family.of`."""
        return replace(self, levels=tuple(target.categories or ()))

    def priors(self, target: Column, event: Column | None = None) -> Priors:
        """See `Family.priors`."""
        if target.shares is None or min(target.shares) <= 0:
            return Priors()
        first, *others = target.shares
        return Priors(centre=tuple(math.log(share / first) for share in others))

    @property
    def predictors(self) -> int:
        """One for each level but the reference."""
        if len(self.levels) < 2:
            raise NoisewiseError(
                "softmax knows no levels yet: fit it to a category column, or give it levels="
            )
        return len(self.levels) - 1

    def coordinates(self, features: list[str]) -> dict[str, list[str]]:
        """See `Family.coordinates`."""
        names = [f"{level}: {name}" for level in self.levels[1:] for name in features]
        return {"coefficients": names}

    def likelihood(self, predictor: Any, *nuisance: Any) -> dist.Distribution:
        """See `Family.likelihood`."""
        return dist.Categorical(logits=_with_reference(predictor))

    def slopes(self, predictor: Array, y: Array, nuisance: Array) -> Slopes:
        """See `Family.slopes`."""
        shares = jax.nn.softmax(_with_reference(predictor), axis=-1)[..., 1:]
        found = y[..., None] == jnp.arange(1, len(self.levels))
        return Slopes(shares - found)


def _with_reference(predictor: Any) -> Any:
    return jnp.concatenate([jnp.zeros_like(predictor[..., :1]), predictor], axis=-1)
