"""From a table's columns to a model's arguments: record by record, by public rules only."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise._validate import NoisewiseError, listed
from noisewise.data import (
    WEIGHT,
    Column,
    Encoder,
    FormulaEncoder,
    PrivateRows,
    Rows,
    Schema,
    Table,
    completed,
    filled,
    is_gap,
    record_count,
    unit_weight,
)
from noisewise.models.integrated import NODES
from noisewise.models.ready_made import (
    ReadyMade,
    TargetNames,
    capabilities_of,
    listed_targets,
    single_target,
)
from noisewise.models.units import simulated_units

_FARTHEST = 2e4
_LARGEST_COUNT = 2**31 - 1
TELLS = "_missing"
"""Ends the name of an argument that says where a column's cells are missing."""


@dataclass(frozen=True, eq=False)
class RowView:
    """How a table's arrays become a model's arguments.

    The same view serves real rows and rows simulated from the schema, so a plan sees just what the
    fit will see.
    """

    schema: Schema
    arguments: tuple[str, ...]
    encoder: Encoder | None = None
    target: str | None = None
    """The column that the model is to explain, where one was named."""
    event: str | None = None
    """The column that says whether the target, a time, is an event's: ``y`` is both."""
    sample: dict[str, np.ndarray] | None = None
    """Arrays of a public sample, from which simulated rows take their covariates."""
    outcomes: tuple[str, ...] = ()
    """Columns without which a record says nothing: where one is missing, it has weight zero."""
    keeps_gaps: bool = False
    """Whether the model takes gaps as they are, and integrates them out."""
    integrating: tuple[str, ...] = ()
    """Features whose gaps are integrated out: ``X`` then has an axis of their possible values."""
    size_shares: np.ndarray | None = None
    """Shares of units with 1, 2, ... rows, where they are known better than from the schema."""

    def private(self, table: Table) -> PrivateRows:
        """The model's arguments from a table's rows, still closed; laid out by unit where the
        schema declares one."""
        return table.rows.map(self.encode).units()

    def encode(self, arrays: Rows) -> Rows:
        """The model's arguments from columns in the form of `Table.rows`, record by record; and the
        records' weights, where not all are one: survey weights over their public unit."""
        found: Rows = {} if self.encoder is None else dict(self.encoder.encode(arrays))
        if self.event is not None:
            happened = filled(self.schema[self.event], arrays[self.event]).astype(np.float32)
            found["y"] = np.stack([found["y"].astype(np.float32), happened], axis=-1)
        for name in self.arguments:
            if name not in found:
                column = self._argument(name, arrays)
                found[name] = column.astype(np.float32 if column.dtype.kind == "f" else np.int32)
        found = {name: found[name] for name in self.arguments} | self._weights(arrays)
        return found | self._integrated(arrays) if self.integrating else found

    def _integrated(self, arrays: Rows) -> Rows:
        """The design matrix for every value that gaps may have, and their probabilities."""
        assert isinstance(self.encoder, Encoder)  # `bind` has looked
        ways = completed([self.schema[name] for name in self.integrating], arrays)
        designs = [self.encoder.design(each) for each in ways.arrays]
        return {"X": np.stack(designs, axis=1), NODES: ways.shares.astype(np.float32)}

    def _argument(self, name: str, arrays: Rows) -> np.ndarray:
        """The column of an argument's name, without gaps if the model cannot take them; or, for
        ``age_missing``, where the column ``age`` has any."""
        if name not in self.schema:
            gaps: np.ndarray = is_gap(arrays[self.source(name)])
            return gaps.astype(np.float32)
        column: np.ndarray = arrays[name]
        return column if self.keeps_gaps else filled(self.schema[name], column)

    def _weights(self, arrays: Rows) -> Rows:
        """A record's survey weight over the public unit, or one; zero where an outcome is missing.
        Nothing if there are no survey weights, and no outcome can be missing."""
        gaps = [
            is_gap(arrays[name]).reshape(len(arrays[name]), -1).any(axis=1)
            for name in self.silencing
        ]
        if self.schema.weight is None:
            return {WEIGHT: (~np.any(gaps, axis=0)).astype(np.float32)} if gaps else {}
        weights = arrays[self.schema.weight.name] / unit_weight(self.schema.weight)
        return {WEIGHT: np.where(np.any(gaps, axis=0), 0.0, weights).astype(np.float32)}

    @property
    def silencing(self) -> tuple[str, ...]:
        """Outcomes whose cells may be missing."""
        return tuple(name for name in self.outcomes if self.schema[name].gaps)

    def simulate(self, rng: np.random.Generator, n: int) -> Rows:
        """Simulated records: rows, or units of rows where the schema declares such; no row of the
        data is looked at."""
        return self.as_records(self.simulate_rows(rng, n * self.schema.most_rows), rng)

    def as_records(self, rows: Rows, rng: np.random.Generator) -> Rows:
        """Simulated rows as they are, or as units of simulated sizes.

        Args:
            rows: The model's arguments, as many as units would have if all were full.
            rng: Of the sizes.
        """
        unit = self.schema.unit
        if unit is None:
            return rows
        shares = unit.shares if self.size_shares is None else self.size_shares
        sizes = np.ones(record_count(rows) // unit.max_rows, np.int64)
        if unit.max_rows > 1:
            sizes += rng.choice(unit.max_rows, size=len(sizes), p=shares)
        return simulated_units(rows, unit.max_rows, sizes)

    def simulate_rows(self, rng: np.random.Generator, n: int) -> Rows:
        """Rows from the schema's declared marginals, or from the public sample: one by one, even
        where the schema declares units."""
        return self.encode(self.simulate_columns(rng, n))

    def simulate_columns(self, rng: np.random.Generator, n: int) -> Rows:
        """The same in the form of `Table.rows`, before it is encoded."""
        arrays: Rows = self.schema.simulate(rng, n)
        if self.sample is not None:
            picked = rng.integers(record_count(self.sample), size=n)
            arrays |= {name: column[picked] for name, column in self.sample.items()}
        return arrays

    def covers(self, generated: frozenset[str]) -> bool:
        """Whether simulated rows have covariates like real ones: all from the public sample, or
        there are none, as every argument is generated by the model, and no outcome is missing; and
        units have as many rows as real ones. Survey weights count as covariates."""
        unit = self.schema.unit
        if unit is not None and not unit.sizes_known and self.size_shares is None:
            return False
        if self.sample is None and self.silencing:
            return False
        weight = [] if self.schema.weight is None else [self.schema.weight.name]
        return {*self.covariates(generated), *weight} <= set(self.sample or ())

    def covariates(self, generated: frozenset[str]) -> list[str]:
        """Columns that a model takes and does not generate, in the schema's order."""
        needed: set[str] = set()
        for argument in set(self.arguments) - generated:
            if argument == "X" and self.encoder is not None:
                needed |= set(self.encoder.features)
            else:
                needed.add(self.source(argument))
        return [name for name in self.schema.names if name in needed]

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns that the model is to explain: none, one, or a time and an event."""
        return tuple(name for name in (self.target, self.event) if name is not None)

    def bounds(self, argument: str) -> tuple[float, float] | None:
        """Declared bounds of an argument in its own units; None where it has none."""
        column = self._column(argument)
        return None if column is None else column.bounds

    def kind(self, argument: str) -> str | None:
        """The kind of column behind an argument; None where there is not one."""
        column = self._column(argument)
        return None if column is None else column.kind

    def source(self, argument: str) -> str:
        """The column behind an argument that is not the design matrix: ``y`` is the target's, and
        ``age_missing`` tells of ``age``."""
        if argument == "y" and self.encoder is not None and self.encoder.target is not None:
            return self.encoder.target
        if argument in self.schema:
            return argument
        return argument.removesuffix(TELLS)

    def _column(self, argument: str) -> Column | None:
        encoder = self.encoder
        name = encoder.target if encoder is not None and argument == "y" else argument
        return self.schema[name] if name is not None and name in self.schema else None

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of ``X``, where the model takes one."""
        return None if self.encoder is None else self.encoder.names


def bind(
    model: Callable[..., Any],
    schema: Schema,
    target: TargetNames,
    features: list[str] | None = None,
) -> RowView:
    """Match a model's arguments with the schema's columns.

    An argument gets the column of its name. ``X`` is the design matrix of all features (or those
    listed) and ``y`` the target column, unless the schema has columns of those very names.

    Args:
        model: A NumPyro function, or a ready-made model.
        schema: The table's.
        target: The column that is ``y``, if there is one; of a survival model a time and an event.
        features: The columns that make up ``X``; all but the target if not given.
    """
    known = model if isinstance(model, ReadyMade) else None
    target, event = _time_and_event(known, schema, target)
    features = _without(event, schema, target, features)
    columns = None if known is None else known.of(schema, target, features).columns()
    if columns is not None:
        # They need not be names that Python could write as arguments.
        keeps_gaps = capabilities_of(model).integrates_gaps
        return _checked(RowView(schema, columns, target=target, keeps_gaps=keeps_gaps))
    try:
        parameters = inspect.signature(model).parameters.values()
    except (TypeError, ValueError) as error:
        raise NoisewiseError(f"model must be a NumPyro model function, got {model!r}") from error
    wants_design = any(p.name == "X" for p in parameters) and "X" not in schema.names
    wants_target = any(p.name == "y" for p in parameters) and "y" not in schema.names
    if wants_target and target is None:
        raise NoisewiseError(
            "the model observes y but no target was named: pass target=, one of "
            f"{listed(schema.names)}"
        )
    names = [column.name for column in schema if column.kind != "weight"]
    offered = {*names, *(f"{column.name}{TELLS}" for column in schema if column.gaps)}
    encoder = None
    if wants_design or wants_target:
        encoder = Encoder(schema, target, features)
        offered |= {"X", "y"} if target is not None else {"X"}
    arguments = []
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise NoisewiseError("the model takes *args or **kwargs: name its arguments instead")
        if parameter.name in offered:
            arguments.append(parameter.name)
        elif parameter.name in schema:
            raise NoisewiseError(
                f"model argument '{parameter.name}' is declared a weight, which noisewise "
                "multiplies a record's log density by: take it out of the model"
            )
        elif parameter.default is parameter.empty:
            raise NoisewiseError(
                f"model argument '{parameter.name}' is not a column: expected one of "
                f"{listed(sorted(offered))}"
            )
    if not arguments:
        raise NoisewiseError(
            f"the model takes no column of the table: name its arguments after columns "
            f"({listed(schema.names)}), or X and y"
        )
    if known is not None and target is not None:
        _check_target(known, schema, target)
    integrating = () if encoder is None or "X" not in arguments else encoder.features
    view = RowView(
        schema,
        tuple(arguments),
        encoder,
        target,
        event,
        integrating=tuple(
            name
            for name in integrating
            if schema[name].how == "integrate" and name not in arguments
        ),
    )
    return _checked(view)


def bind_formula(model: ReadyMade, encoder: FormulaEncoder) -> RowView:
    """A regression's arguments as a formula makes them.

    Args:
        model: A regression: it takes ``X`` and ``y``.
        encoder: Of the formula.
    """
    schema, outcome = encoder.schema, encoder.outcome
    if model.survival != (len(outcome) == 2):
        wanted = "Surv(time, event) ~ ..." if model.survival else "one column ~ ..."
        raise NoisewiseError(
            f"the formula for {model} must begin with what it explains, {wanted}, got "
            f"'{encoder.formula}'"
        )
    target, event = _time_and_event(model, schema, outcome)
    assert target is not None  # a formula has a left side
    _check_target(model, schema, target)
    return _checked(RowView(schema, ("X", "y"), encoder, target, event))


def _time_and_event(
    known: ReadyMade | None, schema: Schema, target: TargetNames
) -> tuple[str | None, str | None]:
    """The target and, of a survival model, the column that says whether it is an event's time."""
    names = listed_targets(target)
    survival = known is not None and known.survival
    if survival and len(names) != 2:
        raise NoisewiseError(
            f"model {known} explains a time and whether it is an event's: the target must be two "
            "columns, as in ['months', 'died'] (on the command line months,died)"
        )
    if not survival:
        return single_target(target), None
    time, event = names
    if event in schema and schema[event].kind != "binary":
        raise NoisewiseError(
            f"event '{event}' is declared {schema[event].kind}, but must be binary: 1 where the "
            "time is an event's, 0 where it is censored"
        )
    if event not in schema:
        raise NoisewiseError(
            f"event '{event}' is not in the schema: choose one of {listed(schema.names)}"
        )
    return time, event


def _without(
    event: str | None, schema: Schema, target: str | None, features: list[str] | None
) -> list[str] | None:
    """The features, of which the event is none."""
    if event is None:
        return features
    if features is None:
        names = [column.name for column in schema if column.kind != "weight"]
        return [name for name in names if name not in (target, event)]
    if event in features:
        raise NoisewiseError(
            f"feature '{event}' is the event of the target as well: take it out of the features"
        )
    return features


def _checked(view: RowView) -> RowView:
    """The view, if its arguments fit the engine's numbers."""
    for name in view.arguments:
        bounds = view.bounds(name)
        if bounds is not None:
            whole = name in view.schema and view.schema[name].kind == "count"
            _check_precision(name, *bounds, whole=whole)
    return view


def _check_precision(argument: str, low: float, high: float, whole: bool) -> None:
    """The engine holds arguments in single precision: seven digits, of which a few must be left;
    and counts in 32 bits."""
    if whole and high > _LARGEST_COUNT:
        raise NoisewiseError(
            f"model argument '{argument}' has bounds [{low:g}, {high:g}], and counts above "
            f"{_LARGEST_COUNT} do not fit 32 bits: declare a smaller bound, or count in thousands"
        )
    if max(abs(low), abs(high)) > _FARTHEST * (high - low):
        raise NoisewiseError(
            f"model argument '{argument}' has bounds [{low:g}, {high:g}], too far from 0 for their "
            f"width to be held in single precision: subtract a public number such as {low:g} first"
        )


def _check_target(model: ReadyMade, schema: Schema, target: str) -> None:
    """A family's target must be of a kind that it can generate, and yes or no has two levels."""
    column, kinds = schema[target], model.target_kinds
    if kinds is None:
        return
    if column.kind not in kinds:
        raise NoisewiseError(
            f"target '{target}' is declared {column.kind}, but {model} regression needs "
            f"{' or '.join(kinds)}: declare it so, or choose another model"
        )
    levels = len(column.categories or ("no", "yes"))
    if levels > 2 and model.fewest_levels == 2:
        raise NoisewiseError(
            f"target '{target}' has {levels} categories, and {model} regression takes two: use "
            "softmax, or ordinal where they are ordered"
        )
    if levels < model.fewest_levels:
        raise NoisewiseError(
            f"target '{target}' has {levels} categories, and {model} regression takes "
            f"{model.fewest_levels} and more: use logistic"
        )
    if model.positive_target and column.bounds is not None and not column.bounds[0] > 0:
        raise NoisewiseError(
            f"target '{target}' may be {column.bounds[0]:g} by its bounds, and {model} regression "
            "needs numbers above 0: declare a lower bound above 0, the least that is recorded, and "
            "pass clamp=True where cells may lie below"
        )
