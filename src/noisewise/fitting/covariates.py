"""What a fit knows of its covariates: the schema, a public sample, or a shape that it buys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewise.covariates import buy_shape, covariate_columns, shaped, share_to_spend
from noisewise.fitting.method import Job
from noisewise.mechanism import Release
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


def know_covariates(job: Job, public_count: int) -> KnownCovariates:
    """Buy the covariates' shape, if that is to be done."""
    share = share_to_spend(job.bound, job.covariate_share)
    if not share:
        return KnownCovariates((job.bound,))
    shape = buy_shape(
        job.table,
        covariate_columns(job.bound.view, job.bound.target.generated),
        public_count,
        job.budget,
        share=share,
        insecure_seed=job.insecure_seed,
    )
    rng = np.random.default_rng(0)  # public, like everything that follows from the shape
    shapes = [shape, *(shape.perturbed(rng) for _ in range(_DRAWS - 1))]
    return KnownCovariates(
        bounds=tuple(shaped(job.bound, one) for one in shapes),
        releases=shape.releases,
        sources=tuple(shape.describe().items()),
        notes=shape.contradictions(),
    )
