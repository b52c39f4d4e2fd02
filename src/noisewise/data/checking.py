"""A column and its raw values in, a bounded array out, or a `DataError` that quotes no value.

Where a column's declaration allows missing cells, they come out as `data.gaps` says: NaN in real
columns, -1 in all others.
"""

from __future__ import annotations

import contextlib
import decimal
import math
import numbers
from typing import Any

import numpy as np

from noisewise._validate import listed, shown
from noisewise.data.column import Column
from noisewise.data.errors import DataError
from noisewise.data.gaps import GAP
from noisewise.data.labels import codes_of

_NUMBERS = (numbers.Real, np.bool_, decimal.Decimal)


def bounded(column: Column, values: np.ndarray, *, clamp: bool, coded: bool = False) -> np.ndarray:
    """The values in the declared type and bounds, in read-only memory of their own.

    Args:
        column: What was declared.
        values: What was found, rows first.
        clamp: Move values outside the bounds to the nearer bound instead of refusing them.
        coded: Categories come as integer codes, as in `Table.rows`, rather than as their names.
    """
    values = _shaped(column, values)
    if column.gaps:
        gaps = _gaps_in(column, values, coded)
        checked = _checked(column, _without_gaps(column, values, gaps, coded), clamp, coded)
        gap = np.asarray(np.nan if checked.dtype.kind == "f" else GAP, checked.dtype)
        checked = np.where(gaps, gap, checked)
    else:
        checked = _checked(column, values, clamp, coded)
    # A copy: later changes to the caller's data must not get in.
    owned = np.array(checked, order="C")
    owned.flags.writeable = False
    return owned


def same_in_all(column: Column, values: np.ndarray, first: np.ndarray) -> bool:
    """Whether every row is the same as the first; not asked of columns with gaps, lest the answer
    depend on which cells are missing, nor of weights, which may well be equal.

    Args:
        column: What was declared.
        values: As `bounded` made them.
        first: The table's first row, with an axis of rows.
    """
    return not column.gaps and column.kind != "weight" and bool(np.all(values == first))


def single_value(name: str) -> DataError:
    """The error for a column that is the same in all rows.

    Args:
        name: Of the column.
    """
    return DataError(
        f"column {shown(name)} holds one single value in every row: drop it, "
        "or keep it with allow_constant=True"
    )


def _checked(column: Column, values: np.ndarray, clamp: bool, coded: bool) -> np.ndarray:
    """The values in their type and bounds, all of them there."""
    if column.kind == "category":
        return _codes(column, values) if coded else _categories(column, values)
    if column.kind == "binary":
        return _binary(column, _numeric(column, values))
    if column.kind == "count":
        return _count(column, _numeric(column, values), clamp=clamp)
    return _real(column, _numeric(column, values), clamp=clamp)


def _gaps_in(column: Column, values: np.ndarray, coded: bool) -> np.ndarray:
    """Which cells are missing: NaN and null in all their forms, empty text for a category; in coded
    arrays also the code -1."""
    if values.dtype.kind == "O":
        empty = ("",) if column.kind == "category" else ()
        found = [_is_missing(v) or (isinstance(v, str) and v in empty) for v in values.ravel()]
        return np.array(found, bool).reshape(values.shape)
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "UT" and column.kind == "category":
        return np.asarray(values == "", bool)
    if coded and values.dtype.kind == "i":
        return values == GAP
    return np.zeros(values.shape, bool)


def _without_gaps(column: Column, values: np.ndarray, gaps: np.ndarray, coded: bool) -> np.ndarray:
    """The values with any valid one in place of gaps, so that all others can be checked."""
    if column.categories is not None and not coded:
        return np.where(gaps, np.asarray(column.categories[0], object), values.astype(object))
    if values.dtype.kind not in "fO" and not coded:
        return values  # there can be none
    valid = 0 if column.bounds is None else column.bounds[0]
    return np.where(gaps, np.asarray(valid, values.dtype), values)


def _fault(column: Column, what: str) -> DataError:
    """The error for one column, in one line."""
    return DataError(f"column {shown(column.name)} {what}")


def _shaped(column: Column, values: np.ndarray) -> np.ndarray:
    """The values with the declared shape in each row; a column of lists is stacked."""
    if column.shape and values.ndim == 1 and values.dtype.kind == "O":
        if column.gaps and any(map(_is_missing, values)):
            lost = np.full(column.shape, np.nan).tolist()
            values = _objects([lost if _is_missing(value) else value for value in values])
        with contextlib.suppress(ValueError):  # the lists differ in shape
            values = np.array(values.tolist())
    if values.ndim == 0 or values.shape[1:] != column.shape:
        per_row = f"an array of shape {column.shape}" if column.shape else "one value"
        raise _fault(
            column, f"must hold {per_row} in each row: reshape it, or declare another shape"
        )
    return values


def _objects(values: list[Any]) -> np.ndarray:
    """A one-dimensional array of Python objects, lists among them."""
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _numeric(column: Column, values: np.ndarray) -> np.ndarray:
    """Booleans, integers or floats, finite; anything else is refused."""
    if values.dtype.kind == "O":
        values = _from_objects(column, values)
    if values.dtype.kind not in "biuf":
        hint = "declare it a category" if values.dtype.kind in "UST" else "convert it"
        raise _fault(column, f"is declared {column.kind} but does not hold numbers: {hint}")
    if values.dtype.kind == "f":
        if values.dtype.itemsize > 8:
            with np.errstate(over="ignore"):  # what does not fit float64 is infinite
                values = values.astype(np.float64)
        if not np.all(np.isfinite(values)):
            raise _missing(column) if np.any(np.isnan(values)) else _infinite(column)
    return values


def _missing(column: Column) -> DataError:
    """The error for missing cells of a column that may not have any."""
    return _fault(column, "has missing cells: drop those rows, or declare missing = 'allowed'")


def _infinite(column: Column) -> DataError:
    """The error for infinite cells: clamping cannot help with them."""
    return _fault(column, "has infinite values: drop those rows")


def _from_objects(column: Column, values: np.ndarray) -> np.ndarray:
    """An array of Python objects as floats, if all of them are numbers."""
    flat = values.ravel().tolist()
    if any(_is_missing(value) for value in flat):
        raise _missing(column)
    if not all(isinstance(value, _NUMBERS) for value in flat):
        raise _fault(column, f"is declared {column.kind} but does not hold numbers: convert it")
    try:
        return np.array([float(value) for value in flat]).reshape(values.shape)
    except (OverflowError, ValueError):  # beyond the floats, or a NaN that signals
        raise _infinite(column) from None


def _is_missing(value: Any) -> bool:
    """None, NaN, and pandas' NA and NaT, which need not be installed and so are known by name."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and math.isnan(value)


def _outside(column: Column) -> DataError:
    """The error for values beyond the bounds."""
    assert column.bounds is not None
    lo, hi = column.bounds
    return _fault(
        column,
        f"has values outside its declared bounds [{lo:g}, {hi:g}]: widen the bounds from "
        "outside knowledge, or move such values to the bounds with clamp=True",
    )


def _real(column: Column, values: np.ndarray, *, clamp: bool) -> np.ndarray:
    """float64 inside the bounds."""
    assert column.bounds is not None
    lo, hi = column.bounds
    if not clamp:
        # The bounds in the data's own precision: float32(0.1) is above 0.1, yet means 0.1.
        precision = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
        with np.errstate(over="ignore"):
            low, high = np.array([lo, hi]).astype(precision)
        if not np.all((values >= low) & (values <= high)):
            raise _outside(column)
    return np.clip(values.astype(np.float64), lo, hi)


def _count(column: Column, values: np.ndarray, *, clamp: bool) -> np.ndarray:
    """int64 inside the bounds."""
    assert column.bounds is not None
    lo, hi = column.bounds
    if values.dtype.kind == "f":
        if not np.all(values == np.rint(values)):
            raise _fault(
                column, "is declared count but has values that are not whole: declare it real"
            )
    elif values.dtype == np.uint64:
        # Beyond int64 is far beyond any bound, and must not wrap around.
        values = np.minimum(values, np.uint64(np.iinfo(np.int64).max)).astype(np.int64)
    else:
        values = values.astype(np.int64)
    if not clamp and not np.all((values >= lo) & (values <= hi)):
        raise _outside(column)
    return np.asarray(np.clip(values, lo, hi), dtype=np.int64)


def _binary(column: Column, values: np.ndarray) -> np.ndarray:
    """int8, 0 or 1."""
    if not np.all((values == 0) | (values == 1)):
        raise _fault(
            column,
            "is declared binary but has values other than 0 and 1: recode it, or declare a count",
        )
    return values.astype(np.int8)


def _categories(column: Column, values: np.ndarray) -> np.ndarray:
    """int32 codes of the declared categories; numbers are compared as such, 1.0 being 1."""
    assert column.categories is not None
    if values.dtype.kind not in "OUTiubf":
        raise _fault(
            column, "is declared category but holds neither text nor numbers: convert it to text"
        )
    codes = codes_of(values, column.categories)
    if np.any(codes < 0):
        what = "values that are no declared category"
        cure = "declare all of them"
        if not column.gaps:
            what, cure = f"missing values or {what}", f"{cure}, or missing = 'allowed'"
        raise _fault(column, f"has {what} ({listed(column.categories)}): {cure}")
    return codes


def _codes(column: Column, values: np.ndarray) -> np.ndarray:
    """int32 codes that are codes already."""
    assert column.categories is not None
    levels = len(column.categories)
    if values.dtype.kind not in "iu" or not np.all((values >= 0) & (values < levels)):
        raise _fault(
            column,
            f"must hold integer codes from 0 to {levels - 1}, one for each declared category",
        )
    return values.astype(np.int32)
