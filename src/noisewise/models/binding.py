"""Matching a model's arguments with a schema's columns."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from noisewise._validate import NoisewiseError, listed
from noisewise.data import Encoder, FormulaEncoder, Schema
from noisewise.models.ready_made import (
    ReadyMade,
    TargetNames,
    capabilities_of,
    listed_targets,
    single_target,
)
from noisewise.models.row_view import TELLS, RowView

_FARTHEST = 2e4
_LARGEST_COUNT = 2**31 - 1


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
        parameters = list(inspect.signature(model).parameters.values())
    except (TypeError, ValueError) as error:
        raise NoisewiseError(f"model must be a NumPyro model function, got {model!r}") from error
    taken = {p.name for p in parameters}
    wants_design = "X" in taken and (known is not None or "X" not in schema.names)
    wants_target = "y" in taken and (known is not None or "y" not in schema.names)
    if wants_design and target is None and "y" in taken and not wants_target:
        target = "y"  # the column of that name, which would explain itself if X held it too
    if wants_target and target is None:
        raise NoisewiseError(
            "the model observes y but no target was named: pass target=, one of "
            f"{listed(schema.names)}"
        )
    encoder = Encoder(schema, target, features) if wants_design or wants_target else None
    arguments = _offered_arguments(parameters, schema, target, encoder)
    if known is not None and target is not None:
        _check_target(known, schema, target)
    integrating = () if encoder is None or "X" not in arguments else encoder.features
    view = RowView(
        schema,
        arguments,
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


def _offered_arguments(
    parameters: list[inspect.Parameter],
    schema: Schema,
    target: str | None,
    encoder: Encoder | None,
) -> tuple[str, ...]:
    """The model's arguments that the table has something for; all others must have defaults."""
    names = [column.name for column in schema if column.kind != "weight"]
    offered = {*names, *(f"{column.name}{TELLS}" for column in schema if column.gaps)}
    if encoder is not None:
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
    return tuple(arguments)


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
