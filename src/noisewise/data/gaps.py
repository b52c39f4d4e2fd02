"""Missing cells: what may be declared about them, and how arrays hold them.

Inside `Table.rows` and simulated tables a gap is NaN in a real column and the code -1 in any other.
Which cells are missing is as private as what the others hold: shapes, defaults and messages follow
from the declaration alone.
"""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise._validate import shown
from noisewise.data.errors import SchemaError

if TYPE_CHECKING:
    from noisewise.data.column import Column

GAP = -1
"""The code of a missing cell in columns of whole numbers; in real columns it is NaN."""
HOWS = ("indicator", "integrate")
MISSING_SHARE = 0.05
"""Guess of the share of missing cells, where none is declared."""


def is_gap(values: np.ndarray) -> np.ndarray:
    """Which cells are missing, in the form of `Table.rows`: record by record.

    Args:
        values: A column that may have gaps.
    """
    return np.isnan(values) if values.dtype.kind == "f" else values < 0


def filled(column: Column, values: np.ndarray) -> np.ndarray:
    """The column with its declared fill value in place of gaps.

    Args:
        column: What is declared.
        values: In the form of `Table.rows`.
    """
    if not column.gaps:
        return values
    return np.where(is_gap(values), np.asarray(fill_value(column), values.dtype), values)


def fill_value(column: Column) -> float:
    """What stands for a missing cell beside its indicator: as declared, or the declared mean, the
    middle of the bounds, or the reference level; a category's as its code.

    Args:
        column: What is declared.
    """
    if column.categories is not None:
        return 0 if column.fill is None else column.categories.index(str(column.fill))
    if column.fill is not None:
        return float(column.fill)
    if column.bounds is None:
        return 0
    low, high = column.bounds
    middle = column.mean if column.mean is not None else low + (high - low) / 2
    return float(np.rint(middle)) if column.kind == "count" else middle


def indicator_name(name: str) -> str:
    """What the 0/1 column is called that says where another one's cells are missing.

    Args:
        name: Of the other one.

    >>> indicator_name("age")
    'age (missing)'
    """
    return f"{name} (missing)"


def with_gaps(column: Column, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Simulated values with gaps at the declared share, if there may be any."""
    if not column.gaps:
        return values
    share = MISSING_SHARE if column.missing_share is None else column.missing_share
    gap = np.nan if values.dtype.kind == "f" else GAP
    return np.where(rng.random(values.shape) < share, np.asarray(gap, values.dtype), values)


def checked_gaps(column: Column) -> dict[str, Any]:
    """What is declared about missing cells, normalised; faults are errors."""
    if not column.gaps:
        extra = [
            key for key in ("how", "fill", "missing_share") if getattr(column, key) is not None
        ]
        if column.missing is not None:
            raise _fault(column, f"has missing = {shown(column.missing)}: expected 'allowed'")
        if extra:
            raise _fault(column, f"declares {extra[0]} without missing = 'allowed': declare both")
        return {}
    if column.how is not None and column.how not in HOWS:
        raise _fault(column, f"has how = {shown(column.how)}: expected 'indicator' or 'integrate'")
    found: dict[str, Any] = {}
    if column.missing_share is not None:
        share = _number(column.missing_share)
        if share is None or not 0 < share < 1:
            what = f"has missing_share {shown(column.missing_share)}"
            raise _fault(column, f"{what}: expected a number strictly between 0 and 1")
        found["missing_share"] = share
    if column.fill is not None:
        found["fill"] = _checked_fill(column)
    return found


def _checked_fill(column: Column) -> float | str:
    """A value that the column itself may have."""
    if column.how == "integrate":
        raise _fault(column, "declares fill, which only how = 'indicator' uses: drop one of them")
    if column.categories is not None:
        if str(column.fill) not in column.categories:
            what = f"has fill {shown(column.fill)}: expected one of its categories"
            raise _fault(column, what)
        return str(column.fill)
    low, high = column.bounds or (0.0, 1.0)
    value = _number(column.fill)
    whole = column.kind != "real"
    if value is None or not low <= value <= high or (whole and not value.is_integer()):
        kind = "a whole number" if whole else "a number"
        expected = f"{kind} inside [{low:g}, {high:g}]"
        raise _fault(column, f"has fill {shown(column.fill)}: expected {expected}")
    return value


def _number(value: object) -> float | None:
    """`value` as a finite float; None where it is not one."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _fault(column: Column, what: str) -> SchemaError:
    return SchemaError(f"column {shown(column.name)} {what}")
