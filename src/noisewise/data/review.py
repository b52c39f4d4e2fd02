"""What a schema file still lacks, all of it at once and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from noisewise._files import read_toml
from noisewise._validate import NoisewiseError
from noisewise.data.column import Column
from noisewise.data.errors import SchemaError
from noisewise.data.gaps import MISSING_SHARE
from noisewise.data.schema import Schema

_FAR = 10.0
"""Bounds this many sds from the mean are farther out than numbers about people usually are."""


@dataclass(frozen=True)
class SchemaReview:
    """A schema file, looked through.

    Attributes:
        schema: What it declares; None while something is wrong or missing.
        faults: What must be mended before it can be used.
        hints: What may be left as it is, and what that means.
    """

    schema: Schema | None
    faults: tuple[str, ...]
    hints: tuple[str, ...]


def review_schema(path: str | PathLike[str]) -> SchemaReview:
    """Look through a schema file, complete or not; no data are read.

    Args:
        path: Of the TOML file.

    Raises:
        SchemaError: It is no TOML at all.
    """
    try:
        declared = read_toml(path, "schema")
    except NoisewiseError as error:
        raise SchemaError(str(error)) from None
    columns, faults = _columns(declared.get("columns"))
    schema = None
    if not faults:
        try:
            schema = Schema.from_dict(declared)
        except SchemaError as error:
            faults.append(str(error))
    hints = [hint for column in columns for hint in _hints(column)]
    hints += _hints_on_counts(declared)
    return SchemaReview(schema, tuple(faults), tuple(hints))


def _hints_on_counts(declared: Mapping[str, Any]) -> list[str]:
    """What was left open about the number of rows, and about whose they are."""
    unit = declared.get("unit")
    if not isinstance(unit, Mapping):
        hints = ["unit: not declared, so a person with several rows is protected for one only"]
        if declared.get("rows") is None:
            hints.append("rows: not declared, so a fit buys a noisy number for 1% of its budget")
        return hints
    hints = []
    if unit.get("count") is None:
        hints.append("unit: no count, so a fit buys a noisy number of units for 1% of its budget")
    if unit.get("sizes") is None and unit.get("max_rows") != 1:
        hints.append("unit: no sizes, so a fit buys how many units have how many rows")
    return hints


def _columns(declared: Any) -> tuple[list[Column], list[str]]:
    """The columns that can be read, and what is wrong with the others."""
    columns, faults = [], []
    for name, one in declared.items() if isinstance(declared, Mapping) else ():
        try:
            columns.append(Column.from_dict(name, one))
        except SchemaError as error:
            faults.append(str(error))
    return columns, faults


def _hints(column: Column) -> list[str]:
    """What was left open about a column that could be declared."""
    return _hints_on_values(column) + _hints_on_gaps(column)


def _hints_on_gaps(column: Column) -> list[str]:
    if not column.gaps or column.missing_share is not None:
        return []
    return [f"{column.name}: no missing_share, so plans simulate {MISSING_SHARE:.0%} of it missing"]


def _hints_on_values(column: Column) -> list[str]:
    name = column.name
    if column.categories is not None and column.shares is None:
        return [
            f"{name}: no shares, so plans simulate its {len(column.categories)} categories as "
            "equally frequent"
        ]
    if column.kind == "binary" and column.share is None:
        return [f"{name}: no share, so plans simulate as many ones as zeros"]
    if column.bounds is None:
        return []
    low, high = column.bounds
    if column.kind == "weight" and column.mean is None:
        return [
            f"{name}: no mean and sd, so weights are divided by {(low + high) / 2:g}, the middle "
            "of the bounds, and plans simulate them all over these"
        ]
    if column.mean is None or column.sd is None:
        return [
            f"{name}: no mean and sd, so plans simulate values all over [{low:g}, {high:g}], and a "
            f"coefficient's unit is {(high - low) / 2:g}, half of that width"
        ]
    reach = max(high - column.mean, column.mean - low) / column.sd
    if reach > _FAR:
        return [
            f"{name}: the bounds reach {reach:.0f} sds from the mean; narrower ones, and clamping, "
            "keep single records from weighing much"
        ]
    return []
