"""Whether a fit buys its covariates' shape, and what it pays for it."""

from __future__ import annotations

import numpy as np

from noisewise._validate import NoisewiseError, shown
from noisewise.covariates.bins import covariate_bins
from noisewise.covariates.shape import (
    SHARE,
    CovariateShape,
    covariate_columns,
    rows_of,
    shape_cost,
    shape_noise,
)
from noisewise.mechanism import Budget, Release
from noisewise.models import BoundModel

_POOL, _LEAST_POOL, _POOL_NUMBERS = 65_536, 16_384, 2**24
"""Simulated rows that stand for a shape: rare levels must be among them. Fewer of wide rows."""


def share_to_spend(bound: BoundModel, wanted: float | None = None) -> float:
    """The share of the budget that buys the covariates' shape; zero where it is needless.

    It is for models without covariates, and where they come from a public sample.

    Args:
        bound: The model.
        wanted: The user's own share; None is the default.
    """
    if wanted is not None and not 0 <= wanted < 1:
        raise NoisewiseError(f"covariate_share must be in [0, 1), got {shown(wanted)}")
    if bound.simulable:
        return 0.0
    return SHARE if wanted is None else wanted


def covariates_cost(
    bound: BoundModel, budget: Budget, wanted: float | None = None
) -> tuple[Release, ...]:
    """What buying the shape will release: known before anything is bought.

    Args:
        bound: The model.
        budget: Of the whole fit.
        wanted: The user's own share; None is the default.
    """
    share = share_to_spend(bound, wanted)
    if not share:
        return ()
    columns = covariate_columns(bound.view, bound.target.generated)
    return shape_cost(bound.view.schema, columns, budget, share)


def shaped(bound: BoundModel, shape: CovariateShape) -> BoundModel:
    """The model with its simulated covariates like the shape's.

    Args:
        bound: The model.
        shape: What was bought about its covariates.
    """
    rows = shape.simulate(np.random.default_rng(3), _pool(len(shape.bins)))
    noise, sizes = shape.share_noise, shape.size_shares
    return bound.with_covariates(rows, share_noise=noise, size_shares=sizes)


def as_declared(bound: BoundModel, bought: tuple[Release, ...], rows: int) -> BoundModel:
    """The model as a fit will know it if covariates are as the schema declares: for plans and
    simulated fits, where buying the shape would find just that.

    Args:
        bound: The model.
        bought: What buying the shape releases: `covariates_cost`.
        rows: The public number of records: of rows, or of units.
    """
    schema = bound.view.schema
    columns = covariate_columns(bound.view, bound.target.generated)
    simulated = schema.simulate(np.random.default_rng(3), _pool(len(columns)))
    noise = shape_noise(schema, columns, bought) / rows_of(schema, rows)
    known = {b.column.name: simulated[b.column.name] for b in covariate_bins(schema, columns)}
    sizes = None if schema.unit is None else schema.unit.shares
    return bound.with_covariates(known, share_noise=noise, size_shares=sizes)


def _pool(columns: int) -> int:
    return int(np.clip(_POOL_NUMBERS // max(1, columns), _LEAST_POOL, _POOL))
