"""The unit of privacy: whose rows are protected together, and how a table's rows become units.

Without one, a unit is a row. With one, a table is a list of people (wards, firms) with up to
``max_rows`` rows each. They are laid out in arrays of units x ``max_rows``, whatever sizes units
have: places that a unit does not fill hold a copy of one of its own rows, of weight zero. So no
shape follows from who has how many rows.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise._validate import NoisewiseError, integer_at_least, listed, one_of, shown
from noisewise.data.errors import DataError, SchemaError
from noisewise.data.private import UnitLayout

ONE_ROW = "one row: a person with several rows is protected for one of them only"
"""What is protected where no unit is declared."""
KEEPS = ("first", "random")
_KEYS = ("column", "max_rows", "sizes", "count")
_MOST_ROWS = 1000


@dataclass(frozen=True)
class Unit:
    """Whose rows are protected together; public, like everything in a schema.

    Attributes:
        column: The column that says which unit a row is of, an identifier. It is no column of the
            model, and not among the declared ones.
        max_rows: The most rows that a unit may have. Noise grows with it where it is bought by
            counts; choose what nearly everybody stays within.
        sizes: A guess, from outside knowledge, of the shares of units with 1, 2, ... rows, taken as
            known. Without it simulated units have any number alike, and a fit buys the shares.
        count: The number of units, if it is **public**; else it is noised.

    >>> Unit("person", max_rows=3).words
    'one person with all its rows, up to 3'
    """

    column: str
    max_rows: int
    sizes: tuple[float, ...] | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise SchemaError(f"[unit] has column = {shown(self.column)}: expected a column's name")
        try:
            integer_at_least("max_rows", self.max_rows, 1, _MOST_ROWS)
            if self.count is not None:
                integer_at_least("count", self.count, 2)
        except (TypeError, ValueError) as error:
            raise SchemaError(f"[unit] {error}") from None
        if self.sizes is not None:
            object.__setattr__(self, "sizes", self._checked_sizes())

    def _checked_sizes(self) -> tuple[float, ...]:
        given = self.sizes
        fine = isinstance(given, (list, tuple)) and len(given) == self.max_rows
        plain = [float(x) for x in given if _is_number(x)] if fine and given is not None else []
        whole = sum(plain)
        if len(plain) != self.max_rows or min(plain) < 0 or not 0.99 < whole < 1.01:
            raise SchemaError(
                f"[unit] has sizes = {shown(given)}: expected {self.max_rows} shares of units, "
                "with 1, 2, ... rows, that sum to 1"
            )
        return tuple(share / whole for share in plain)

    @classmethod
    def from_dict(cls, declared: Any) -> Unit:
        """Read `{"column": ..., "max_rows": ..., ...}`, as in the TOML file.

        Args:
            declared: As read from TOML or JSON.
        """
        if not isinstance(declared, Mapping):
            raise SchemaError(f"[unit] must be a table with column and max_rows: {shown(declared)}")
        unknown = [key for key in declared if key not in _KEYS]
        missing = [key for key in _KEYS[:2] if key not in declared]
        if unknown or missing:
            what = f"unknown keys {listed(unknown)}" if unknown else f"no {listed(missing)}"
            raise SchemaError(
                f"[unit] has {what}: expected column, max_rows and, if known, sizes and count"
            )
        return cls(**declared)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON; `from_dict` reads it back."""
        found: dict[str, Any] = {"column": self.column, "max_rows": self.max_rows}
        if self.sizes is not None:
            found["sizes"] = list(self.sizes)
        return found if self.count is None else found | {"count": self.count}

    @property
    def words(self) -> str:
        """What is protected, for certificates and pages."""
        if self.max_rows == 1:
            return f"one {self.column} with its row"
        return f"one {self.column} with all its rows, up to {self.max_rows}"

    @property
    def shares(self) -> np.ndarray:
        """Shares of units with 1, 2, ... rows: as declared, or any number alike."""
        if self.sizes is None:
            return np.full(self.max_rows, 1 / self.max_rows)
        return np.array(self.sizes)

    @property
    def sizes_known(self) -> bool:
        """Whether nothing about sizes is left to buy."""
        return self.sizes is not None or self.max_rows == 1


def lay_out(identifiers: np.ndarray, unit: Unit, keep: str | None) -> UnitLayout:
    """Which rows are whose, units in the order of their first rows.

    Args:
        identifiers: The unit of every row.
        unit: What was declared.
        keep: What to do with units of more than ``max_rows`` rows: keep the ``"first"`` of their
            rows, or ``"random"`` ones (by the operating system's randomness); None refuses them.
    """
    codes = _codes(identifiers, unit.column)
    order = np.argsort(codes, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(codes))])
    sizes = np.diff(starts)
    if sizes.max() > unit.max_rows:
        if keep is None:
            raise DataError(
                f"column {shown(unit.column)}: there are units with more rows than the declared "
                f"max_rows = {unit.max_rows}: declare more, or drop rows with keep='first' or "
                "keep='random', which changes the data"
            )
        order = _thinned(order, starts, keep)
    kept = np.minimum(sizes, unit.max_rows)
    places = np.arange(unit.max_rows)
    within = np.minimum(places, kept[:, None] - 1)
    return UnitLayout(order[starts[:-1, None] + within], places < kept[:, None])


def checked_keep(keep: object, unit: Unit | None) -> str | None:
    """``keep`` as `lay_out` takes it; refused where there is nothing to keep.

    Args:
        keep: As a user gave it.
        unit: What was declared.
    """
    if keep is None:
        return None
    if unit is None:
        raise NoisewiseError("keep= is for schemas that declare a [unit]: leave it out")
    return one_of("keep", keep, KEEPS)


def _thinned(order: np.ndarray, starts: np.ndarray, keep: str) -> np.ndarray:
    """The order of rows with those that are kept first within every unit."""
    if keep == "first":
        return order
    # A seed of 256 bits from the operating system: which rows stay is nobody's to know.
    rng = np.random.default_rng()
    unit_of = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return np.asarray(order[np.lexsort((rng.random(len(order)), unit_of))])


def _codes(identifiers: np.ndarray, name: str) -> np.ndarray:
    """A number for each unit, in the order of first rows; errors quote no identifier."""
    if identifiers.ndim != 1:
        raise DataError(f"column {shown(name)} must hold one identifier in each row")
    if identifiers.dtype.kind == "O":
        return _codes_of_objects(identifiers, name)
    if identifiers.dtype.kind not in "biufUSTMm":
        raise DataError(f"column {shown(name)} must hold numbers or text, one identifier a row")
    empty = (
        np.isnat(identifiers)
        if identifiers.dtype.kind in "Mm"
        else np.isnan(identifiers)
        if identifiers.dtype.kind == "f"
        else identifiers == ""
        if identifiers.dtype.kind in "UT"
        else np.zeros(len(identifiers), bool)
    )
    if empty.any():
        raise _unnamed(name)
    _, first, codes = np.unique(identifiers, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[codes])


def _codes_of_objects(identifiers: np.ndarray, name: str) -> np.ndarray:
    """The same of Python objects: numbers and text."""
    known: dict[Any, int] = {}
    for value in identifiers.tolist():
        if value is None or value == "" or value != value:
            raise _unnamed(name)
        if not isinstance(value, (str, bytes, numbers.Number)):
            raise DataError(f"column {shown(name)} must hold numbers or text, one identifier a row")
        known.setdefault(value, len(known))
    return np.array([known[value] for value in identifiers.tolist()], np.int64)


def _unnamed(name: str) -> DataError:
    return DataError(
        f"column {shown(name)} has empty cells: every row needs its unit; give rows that belong to "
        "nobody identifiers of their own"
    )


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
