"""From an estimator's parameters to a declared schema, and back from its encoding."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError, shown
from noisewise.data import Column, Unit

TARGET = "target"
# Names that the design matrix, the target and the model's own arguments have already.
_GROUP = "group"
_TAKEN = ("X", "y", "intercept", TARGET, _GROUP)


class OriginalUnits(NamedTuple):
    """Draws of a linear predictor `intercept + x @ coefficients`, x as the user has it."""

    intercept: np.ndarray
    coefficients: np.ndarray


class Groups(NamedTuple):
    """Whose every row is, and what is declared about them."""

    identifiers: np.ndarray
    unit: Unit


def groups_of(groups: Any, max_rows: int | None, count: int | None) -> Groups | None:
    """What is protected as a whole: ``groups``, or None for single rows.

    Args:
        groups: As `fit` was given them.
        max_rows: The most rows of a group.
        count: The number of groups, if it is public.
    """
    if (groups is None) != (max_rows is None):
        given, missing = ("groups", "max_rows") if max_rows is None else ("max_rows", "groups")
        raise NoisewiseError(
            f"{given} is given without {missing}: fit(X, y, groups=...) says whose each row is, "
            "and max_rows, a parameter of the estimator, how many rows one of them may have"
        )
    if groups is None or max_rows is None:
        return None
    return Groups(np.asarray(groups), Unit(_GROUP, max_rows, count=count))


def required(name: str, bounds: Any) -> Any:
    """The bounds, if they were declared at all: nothing here reads them off the data."""
    if bounds is None:
        raise NoisewiseError(
            f"{name} must be declared from outside knowledge, e.g. {name}=(0, 100): bounds read "
            "from the data would leave it unaccounted for, so the fit never does that"
        )
    return bounds


def feature_columns(bounds: Any, names: Sequence[str] | None, width: int) -> tuple[Column, ...]:
    """One real column a feature, with the one pair of bounds or its own."""
    pairs = _pairs(required("bounds", bounds), width)
    chosen = _column_names(names, width)
    return tuple(
        Column(name=name, kind="real", bounds=pair)
        for name, pair in zip(chosen, pairs, strict=True)
    )


def _pairs(bounds: Any, width: int) -> list[tuple[float, float]]:
    """A (lo, hi) for every feature."""
    wanted = f"(lo, hi) for all features, or a list of {width} such pairs, one for each"
    try:
        given = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.empty(0)
    if given.shape == (2,):
        given = np.tile(given, (width, 1))
    if given.shape != (width, 2):
        raise NoisewiseError(f"bounds must be {wanted}, got {shown(bounds)}")
    return [(float(lo), float(hi)) for lo, hi in given]


def _column_names(names: Sequence[str] | None, width: int) -> list[str]:
    """The features' names, with an underscore after those that are taken."""
    chosen: list[str] = []
    taken = set(_TAKEN)
    for i in range(width):
        name = f"x{i}" if names is None else str(names[i]) or f"x{i}"
        while name in taken:
            name += "_"
        taken.add(name)
        chosen.append(name)
    return chosen


def in_original_units(encoded: np.ndarray, encoding: Sequence[dict[str, Any]]) -> OriginalUnits:
    """Draws (draws x design columns) of encoded coefficients, in the features' own units.

    The encoder's columns are the intercept, then `(x - centre) / scale`: so `b / scale` is the
    coefficient of x, and the intercept loses the sum of `b * centre / scale`.

    >>> age = {"name": "age", "column": "age", "centre": 50.0, "scale": 10.0}
    >>> ones = {"name": "intercept", "column": None, "centre": 0.0, "scale": 1.0}
    >>> in_original_units(np.array([[1.0, 2.0]]), [ones, age])
    OriginalUnits(intercept=array([-9.]), coefficients=array([[0.2]]))
    """
    draws = np.asarray(encoded, dtype=np.float64)
    centre = np.array([column["centre"] for column in encoding[1:]])
    scale = np.array([column["scale"] for column in encoding[1:]])
    coefficients = draws[:, 1:] / scale
    return OriginalUnits(draws[:, 0] - coefficients @ centre, coefficients)
