"""What a schema's wide bounds and undeclared shares cost, by simulation; no row is read.

Rows are simulated that a narrower declaration would describe, a fit's purchase of their shape is
simulated from them under both declarations (with its noise, seeded), and the yardstick is the
interval that one optimal release of the budget leaves for the column's coefficient, in a regression
on this column alone (mathematics.md eq. (30)).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from noisewise._validate import NoisewiseError, Progress, integer_at_least
from noisewise.covariates import know_covariates
from noisewise.data import Column, Rows, Schema, SchemaError, Table
from noisewise.mechanism import Budget
from noisewise.models import BoundModel, bind_model
from noisewise.planning.first_guess import summarise
from noisewise.planning.simulation import PriorPredictive, simulate_gradients
from noisewise.planning.single_release import release_at

_PART = 0.2
_REACH = 4.0
_RAREST = 0.02
_NOTHING = 0.9
_REPEATS = 2


@dataclass(frozen=True)
class DeclarationCost:
    """One column as it is declared, beside how it might be.

    Attributes:
        column: Its name.
        declared: What is declared, in words.
        instead: What rows were simulated from, in words.
        ratio: The interval as declared, over the one if the schema said `instead`; for shares, the
            interval if shares are `instead`, over the one that a plan forecasts.
        hidden: Whether the column's spread drowns in the noise of what a fit buys of it, and the
            fit would say so.
        nothing: Whether the coefficient would hardly be known better than its prior has it.
    """

    column: str
    declared: str
    instead: str
    ratio: float
    hidden: bool = False
    nothing: bool = False

    @property
    def words(self) -> str:
        """One sentence."""
        if self.declared == "no shares":
            return (
                f"{self.column}: without shares a plan takes all categories for equally frequent; "
                f"if they are {self.instead}, the rarest's interval is {self.ratio:.1f} times as "
                "wide as the plan says"
            )
        text = (
            f"{self.column}: if values in fact lie in {self.instead}, the bounds {self.declared} "
            f"make its interval {self.ratio:.1f} times as wide as {self.instead} would"
        )
        if self.hidden:
            text += ", and the fit would not be ok: noise hides how they are spread"
        elif self.nothing:
            text += ", which is hardly narrower than the prior"
        return text


def declaration_costs(
    schema: Schema,
    rows: int,
    budget: Budget,
    target: str,
    *,
    model: str = "logistic",
    covariate_share: float | None = None,
    narrower: dict[str, tuple[float, float]] | None = None,
    progress: Progress | None = None,
) -> list[DeclarationCost]:
    """What bounds and missing shares of every covariate cost, column by column.

    Args:
        schema: What is declared.
        rows: Number of rows, from public knowledge.
        budget: Of the fit.
        target: The column to be explained.
        model: The name of a ready-made regression.
        covariate_share: As for `fit`: 0 leaves it at what the schema says.
        narrower: Bounds to compare with, by column; otherwise four sds around the declared mean or,
            without a mean, a fifth of the declared bounds: next to zero if they begin or end there,
            else in their middle.
        progress: Called with columns done and their number.
    """
    integer_at_least("rows", rows, 100)
    if schema.unit is not None:
        raise NoisewiseError(
            "what declarations cost is simulated for single rows, and a [unit] is declared: "
            "leave it out of the schema that is tried"
        )
    asked = narrower or {}
    for name in asked:
        _checked_narrower(schema[name], asked[name])
    columns = [c for c in schema if c.name in asked or (c.name != target and _has_a_cost(c))]
    setting = _Setting(schema[target], rows, budget, model, covariate_share)
    costs = []
    for done, column in enumerate(columns):
        if column.categories is not None:
            costs.append(_of_shares(column, setting))
        else:
            bounds = asked.get(column.name) or _likely(column)
            costs.append(_of_bounds(column, bounds, setting))
        if progress is not None:
            progress(done + 1, len(columns))
    return costs


def _has_a_cost(column: Column) -> bool:
    if column.categories is not None:
        return column.shares is None
    return column.bounds is not None and not column.shape and _likely(column) != column.bounds


def _checked_narrower(column: Column, bounds: tuple[float, float]) -> None:
    """Refuse bounds that the column cannot have, or that are not within the declared ones."""
    low, high = replace(column, bounds=bounds, mean=None, sd=None).bounds or bounds
    if column.bounds is None or not column.bounds[0] <= low < high <= column.bounds[1]:
        raise SchemaError(
            f"column {column.name!r} is {column.summary()}: compare it with bounds inside its own"
        )


def _likely(column: Column) -> tuple[float, float]:
    """Where values might be, if the bounds were declared with much room."""
    assert column.bounds is not None
    low, high = column.bounds
    if column.mean is not None and column.sd is not None:
        low = max(low, column.mean - _REACH * column.sd)
        high = min(high, column.mean + _REACH * column.sd)
    elif low == 0:
        high = _PART * high
    elif high == 0:
        low = _PART * low
    else:
        middle, half = (low + high) / 2, _PART * (high - low) / 2
        low, high = middle - half, middle + half
    if column.kind == "count":
        low, high = float(np.floor(low)), max(float(np.ceil(high)), float(np.floor(low)) + 1)
    return low, high


def _of_bounds(column: Column, bounds: tuple[float, float], setting: _Setting) -> DeclarationCost:
    tight = replace(column, bounds=bounds)
    real = _Real.simulate(tight, setting)
    before = _interval(tight, real, setting)
    after = _interval(column, real, setting)
    return DeclarationCost(
        column=column.name,
        declared=_written(column.bounds),
        instead=_written(bounds),
        ratio=after.sd / before.sd,
        hidden=after.hidden,
        nothing=after.kept > _NOTHING,
    )


def _of_shares(column: Column, setting: _Setting) -> DeclarationCost:
    levels = len(column.categories or ())
    shares = np.append(np.full(levels - 1, (1 - _RAREST) / (levels - 1)), _RAREST)
    rare = replace(column, shares=tuple(shares))
    equal = _interval(column, _Real.simulate(column, setting), setting)
    uneven = _interval(column, _Real.simulate(rare, setting), setting)
    return DeclarationCost(
        column=column.name,
        declared="no shares",
        instead=f"uneven, the last with {_RAREST:.0%}",
        ratio=uneven.sd / equal.sd,
        nothing=uneven.kept > _NOTHING,
    )


@dataclass(frozen=True)
class _Setting:
    """What every column is looked at for."""

    target: Column
    rows: int
    budget: Budget
    model: str
    share: float | None

    def bound(self, column: Column) -> BoundModel:
        return bind_model(self.model, Schema((column, self.target)), self.target.name)


@dataclass(frozen=True, eq=False)
class _Real:
    """Rows as they might be in fact, and their gradients at truths from the prior."""

    arrays: Rows
    simulated: PriorPredictive
    units: np.ndarray
    """From coefficients per original unit to those of the encoding (the intercept's row first)."""

    @classmethod
    def simulate(cls, column: Column, setting: _Setting) -> _Real:
        bound = setting.bound(column)
        arrays = bound.view.schema.simulate(np.random.default_rng(5), setting.rows)
        pool = {column.name: arrays[column.name]}
        found = bound.with_covariates(pool)
        return cls(arrays, simulate_gradients(found.target, found.view), _units(bound))


@dataclass(frozen=True)
class _Interval:
    sd: float
    """Of the column's last coefficient, in the units of the real rows' encoding."""
    kept: float
    """Share of its prior sd that is left."""
    hidden: bool


def _interval(declared: Column, real: _Real, setting: _Setting) -> _Interval:
    """What a release leaves of a coefficient under this declaration, where rows are the real ones.

    Frame and clip norm follow from the shape that is bought under the declaration; gradients and
    the prior are those of the real rows, whatever was declared, so that two declarations are
    compared in nothing else.
    """
    bound, budget, rows = setting.bound(declared), setting.budget, setting.rows
    table = Table.from_arrays(real.arrays, bound.view.schema, allow_constant=True)
    # Real coefficients, from those of this encoding; what else the model has stays as it is.
    dim = real.simulated.gradients.shape[-1]
    change = np.eye(dim)
    width = len(real.units)
    change[:width, :width] = real.units @ np.linalg.inv(_units(bound))
    gradients = real.simulated.gradients @ change
    precision = change.T @ np.linalg.inv(real.simulated.prior_covariance) @ change
    variances, hidden = [], []
    for seed in range(_REPEATS):
        known = know_covariates(
            bound, table, rows, budget, share=setting.share, insecure_seed=seed
        ).bounds[0]
        summary = summarise(known, rows, budget)
        frame = summary.factor
        release = release_at(
            gradients @ frame,
            rows,
            frame.T @ precision @ frame,
            summary.clip.clip_norm,
            budget,
            weights=real.simulated.weights,
        )
        variances.append(release.sds(change @ frame)[width - 1] ** 2)
        hidden.append(known.share_noise >= 1)
    sd = float(np.sqrt(np.mean(variances)))
    prior_sd = float(np.sqrt(real.simulated.prior_covariance[width - 1, width - 1]))
    return _Interval(sd, sd / prior_sd, bool(np.mean(hidden) > 0.5))


def _units(bound: BoundModel) -> np.ndarray:
    """Maps coefficients per original unit (intercept first) to the encoding's.

    An encoded column is (x - centre) / scale, so that its coefficient is scale times the one per
    unit, and the intercept is the one at the centre.
    """
    assert bound.view.encoder is not None
    encoded = bound.view.encoder.describe()
    found = np.diag([column["scale"] for column in encoded])
    found[0, 1:] = [column["centre"] for column in encoded[1:]]
    return found


def _written(bounds: tuple[float, float] | None) -> str:
    assert bounds is not None
    return f"[{bounds[0]:g}, {bounds[1]:g}]"
