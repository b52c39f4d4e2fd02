"""What a fit knows of its covariates: the schema, a public sample, or a shape that it buys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewise.covariates.shape import buy_shape, covariate_columns
from noisewise.covariates.spending import shaped, share_to_spend
from noisewise.data import Table
from noisewise.mechanism import Budget, Release
from noisewise.models import BoundModel

_DRAWS = 4
"""Shapes under which a posterior is read: the likeliest, and others that the noise leaves open."""


@dataclass(frozen=True, eq=False)
class KnownCovariates:
    """The model with covariates simulated as well as they are known, and what that cost."""

    bounds: tuple[BoundModel, ...]
    """The first is the most plausible; where a shape was bought, the others are as open as its
    noise leaves them."""
    releases: tuple[Release, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    """Where what was bought contradicts what was declared."""


def know_covariates(
    bound: BoundModel,
    table: Table,
    public_count: int,
    budget: Budget,
    *,
    share: float | None = None,
    insecure_seed: int | None = None,
    bought: dict[str, np.ndarray] | None = None,
    likeliest: bool = False,
) -> KnownCovariates:
    """Buy the covariates' shape, if that is to be done.

    Args:
        bound: The model.
        table: The rows.
        public_count: Number of rows as everybody may know it.
        budget: The whole one.
        share: The part of it that the shape may take; None is the default.
        insecure_seed: Makes the noise repeatable, and therefore not private.
        bought: As `mechanism.release_sum` has it.
        likeliest: Only the most plausible shape is wanted.
    """
    share = share_to_spend(bound, share)
    if not share:
        return KnownCovariates((bound,))
    columns = covariate_columns(bound.view, bound.target.generated)
    shape = buy_shape(
        table,
        columns,
        public_count,
        budget,
        share=share,
        insecure_seed=insecure_seed,
        bought=bought,
    )
    rng = np.random.default_rng(0)  # public, like everything that follows from the shape
    shapes = [shape, *(shape.perturbed(rng) for _ in range(0 if likeliest else _DRAWS - 1))]
    return KnownCovariates(
        bounds=tuple(shaped(bound, one) for one in shapes),
        releases=shape.releases,
        sources=tuple(shape.describe().items()),
        notes=shape.contradictions(),
    )
