"""Survival curves of named people, with bands that include the privacy noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError, finite_array, listed, shown
from noisewise.data import Column, Encoder, Rows, Schema, fill_value, open_columns, record_count
from noisewise.models import Survival
from noisewise.result.ratios import Draws, family_of
from noisewise.result.request import Request

_POINTS = 49


class Curves(NamedTuple):
    """Chances to be without the event, draw by draw."""

    people: list[str]
    times: np.ndarray
    draws: np.ndarray
    """People x draws x times."""


def survival_family(request: Request, coordinates: Mapping[str, list[str]]) -> Survival | None:
    """The family of a result that is about times to an event; else None.

    Args:
        request: Of the result.
        coordinates: Names along the latents' last axes.
    """
    family = family_of(request) if "coefficients" in coordinates else None
    return family if isinstance(family, Survival) else None


def curves(
    request: Request,
    draws: Draws,
    coordinates: Mapping[str, list[str]],
    people: Any,
    times: Sequence[float] | None,
) -> Curves:
    """`Result.survival` before it is summarised.

    Args:
        request: Of the result.
        draws: Of the posterior.
        coordinates: Names along the latents' last axes.
        people: Covariates by name; what is left out is typical.
        times: When to look; None is 49 of them, up to the end of follow-up.
    """
    family = survival_family(request, coordinates)
    if family is None:
        raise NoisewiseError(
            f"survival curves are of times to an event, and the result is of the model "
            f"{request.model}: fit weibull or piecewise-exponential"
        )
    encoder = Encoder(request.schema, request.target, request.features)
    if tuple(encoder.describe()) != request.encoding:
        raise NoisewiseError(
            "the result's features are not its columns as they are declared: survival cannot "
            "encode people"
        )
    columns = Schema(tuple(request.schema[name] for name in encoder.features))
    found, names = _people(columns, people)
    design = np.asarray(encoder.design(found), float)
    when = _times(times, family.follow_up)
    predictor = np.asarray(draws["coefficients"], float) @ design.T
    own = [
        np.asarray(draws[name], float)[:, None] for name in family.nuisance(1.0)
    ]  # draws x times, and whatever is behind
    chances = [
        np.exp(-np.asarray(family.cumulative_hazard(when[None], each[:, None], *own)))
        for each in predictor.T
    ]
    return Curves(people=names, times=when, draws=np.stack(chances))


def _times(times: Sequence[float] | None, follow_up: float) -> np.ndarray:
    if times is None:
        return np.linspace(0, follow_up, _POINTS)
    found = np.atleast_1d(finite_array("times", times))
    if found.ndim != 1 or not len(found) or (found < 0).any() or (found > follow_up).any():
        raise NoisewiseError(
            f"times must lie between 0 and {follow_up:g}, the time's declared upper bound: nobody "
            f"was followed for longer; got {shown(times)}"
        )
    return found


def _people(columns: Schema, people: Any) -> tuple[Rows, list[str]]:
    """Encodable columns, typical where nothing is said, and a name for each person."""
    import pandas

    index = people.index if isinstance(people, pandas.DataFrame) else None
    given = {} if people is None else people
    if not isinstance(given, Mapping | pandas.DataFrame):
        raise NoisewiseError(
            "people must be a frame or a dictionary, as in {'age': [50, 70]}, got "
            f"{shown(people)}"
        )
    unknown = [name for name in given if name not in columns]
    if unknown:
        raise NoisewiseError(
            f"people have {shown(unknown[0])}, which is no feature of the fit: choose from "
            f"{listed(columns.names)}"
        )
    values = {name: np.atleast_1d(np.asarray(given[name])) for name in given}
    count = max((len(column) for column in values.values()), default=1)
    spread = {
        name: np.repeat(column, count, axis=0) if len(column) == 1 else column
        for name, column in values.items()
    }
    found: Rows = {}
    if spread:
        known = Schema(tuple(column for column in columns if column.name in spread))
        found = dict(open_columns("people", spread, known, clamp=False))
        count = record_count(found)
    for column in columns:
        if column.name not in found:
            found[column.name] = np.broadcast_to(typical(column), (count, *column.shape))
    if index is not None and not isinstance(index, pandas.RangeIndex):
        return found, [str(name) for name in index]
    names = []
    for place in range(count):
        said = [f"{name}={_said(values[place])}" for name, values in spread.items()]
        names.append(", ".join(said) or "typical")
    return found, names


def typical(column: Column) -> np.ndarray:
    """The declared mean, the middle of the bounds, 0 or the reference level; a level as its code.

    Args:
        column: As it is declared.
    """
    return np.asarray(fill_value(column), float if column.kind == "real" else int)


def _said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float | np.number) else str(value)
