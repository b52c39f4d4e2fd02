"""Rows about people, as a type of their own: what is not allowed to see them cannot take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from noisewise._hosts import stretch_of

Rows = dict[str, Any]
"""Columns by name, with an axis of records first: simulated or public, free to be looked at."""

WEIGHT = "(weight)"
"""A column that rows may hold beside the model's arguments: a factor, from 0, on every row's
log-likelihood. The model never sees it; a row of weight 0 contributes nothing, whatever it holds.
"""
SIZE = "(rows of its unit)"
"""A column that rows of units hold beside the table's: on a unit's first row how many rows it has,
and 0 on its others."""


class UnitLayout(NamedTuple):
    """Where the rows of units stand."""

    places: np.ndarray
    """Numbers of rows, units x most rows of a unit: places that are left over repeat a row."""
    filled: np.ndarray
    """Which places are filled."""


class Share(NamedTuple):
    """Which records of a table these are, where other hosts hold the others."""

    first: int
    """Number of the first one."""
    whole: int
    """How many all hosts hold together: as private as the rows."""


def record_count(rows: Mapping[str, Any]) -> int:
    """How many records these columns hold.

    Args:
        rows: Columns by name.
    """
    return len(next(iter(rows.values())))


_PASS_NUMBERS = 2**21
"""Numbers of a stretch of wide records: 16 MiB, of which there are a few copies."""


def laid_out(rows: Rows, layout: UnitLayout) -> Rows:
    """Rows as units: every column gets an axis of units and one of their rows, and a weight says
    which rows there are.

    Args:
        rows: Columns by name, one entry a row.
        layout: Which rows are whose.
    """
    found = {name: np.asarray(column)[layout.places] for name, column in rows.items()}
    found.pop(SIZE, None)
    weight = layout.filled.astype(np.float32)
    return found | {WEIGHT: weight * found[WEIGHT] if WEIGHT in found else weight}


def changed_quietly(change: Callable[[Rows], Rows], rows: Rows) -> Rows:
    """What a change makes of private rows, with NumPy's floating-point warnings off: whether there
    is one depends on the rows, and it would be shown without noise.

    Args:
        change: From columns to columns.
        rows: The columns.
    """
    with np.errstate(all="ignore"):
        return change(rows)


class PrivateRows:
    """Columns of a protected table; what opens them has a name that begins with ``unsafe_``.

    Whoever expects `Rows` cannot be handed these: the type checker says so. Only the mechanism and
    the engine, which noise and account for what they compute, may open them, and functions whose
    own name begins with ``unsafe_`` (a test holds every package to that).

    Where the schema declares a unit of privacy, the rows know whose they are: `map` changes them
    row by row, but whoever opens them, or counts them, finds units.
    """

    __slots__ = ("_columns", "_layout", "share")

    def __init__(
        self,
        columns: Mapping[str, Any],
        layout: UnitLayout | None = None,
        share: Share | None = None,
    ) -> None:
        self._columns = dict(columns)
        self._layout = layout
        self.share = share

    def map(self, change: Callable[[Rows], Rows]) -> PrivateRows:
        """The rows after a change that works row by row, such as an encoding."""
        return PrivateRows(changed_quietly(change, dict(self._columns)), self._layout, self.share)

    def part(self, number: int, parts: int) -> PrivateRows:
        """A stretch of the records, where other hosts hold the others.

        Args:
            number: Of the part.
            parts: How many there are.
        """
        whole = self.own_count
        first, end = stretch_of(whole, number, parts)
        share = Share(first, whole)
        if self._layout is None:
            columns = {name: column[first:end] for name, column in self._columns.items()}
            return PrivateRows(columns, None, share)
        places, filled = (part[first:end] for part in self._layout)
        return PrivateRows(self._columns, UnitLayout(places, filled), share)

    def units(self) -> PrivateRows:
        """The rows laid out by unit, so that a unit is one record; as they are if a row is one."""
        if self._layout is None:
            return self
        return PrivateRows(laid_out(self._columns, self._layout), None, self.share)

    def unit_sums(self) -> PrivateRows:
        """Sums over every unit's rows, so that a unit is one record; as they are where a row is."""
        if self._layout is None:
            return self
        places, filled = self._layout
        found = {}
        for name, column in self._columns.items():
            values = np.asarray(column, float)
            wide = (len(places), *[1] * (values.ndim - 1))
            total = np.zeros((len(places), *values.shape[1:]))
            # One place after the other: a unit's sum rounds the same whoever the others are.
            with np.errstate(all="ignore"):  # as in `changed_quietly`
                for place, there in zip(places.T, filled.T, strict=True):
                    total += np.where(there.reshape(wide), values[place], 0.0)
            found[name] = total
        return PrivateRows(found, None, self.share)

    def wide(self, change: Callable[[Rows], Rows], numbers: int) -> PrivateRows:
        """The rows after a change that works record by record and makes each much longer: it is
        made a stretch of records at a time, by whoever goes through `unsafe_passes`.

        Args:
            change: From columns to columns.
            numbers: That a record has after it.
        """
        if self._layout is not None:
            return self.map(change)  # a unit's rows are summed before they are looked at
        return _WideRows(self, change, max(1, _PASS_NUMBERS // max(1, numbers)))

    def unsafe_columns(self) -> Rows:
        """The columns themselves, of units where there are such. **Whatever is computed from them
        has to be paid for.**"""
        return dict(self.units()._columns)

    def unsafe_passes(self) -> Iterator[Rows]:
        """The rows, whoever they are about, a stretch after the other: as many as memory allows.
        **Whatever is computed from them has to be paid for.**"""
        yield dict(self._columns)

    @property
    def true_count(self) -> int:
        """The number of records (units, where there are such) on all hosts together: as private as
        they are, unless it was declared public."""
        return self.own_count if self.share is None else self.share.whole

    @property
    def own_count(self) -> int:
        """The number of those that this host holds."""
        return record_count(self._columns) if self._layout is None else len(self._layout.places)

    def __repr__(self) -> str:
        return f"PrivateRows({', '.join(self._columns)})"

    def __reduce__(self) -> Any:
        raise TypeError("rows about people are not pickled: save a Result, which holds none")


class _WideRows(PrivateRows):
    """Rows whose change is put off until somebody goes through them."""

    __slots__ = ("_change", "_length", "_source")

    def __init__(self, source: PrivateRows, change: Callable[[Rows], Rows], length: int) -> None:
        super().__init__({}, None, source.share)
        self._source, self._change, self._length = source, change, length

    @property
    def own_count(self) -> int:
        """See `PrivateRows.own_count`."""
        return self._source.own_count

    def unsafe_columns(self) -> Rows:
        """See `PrivateRows.unsafe_columns`: all of them at once, whatever memory that takes."""
        return changed_quietly(self._change, self._source.unsafe_columns())

    def unsafe_passes(self) -> Iterator[Rows]:
        """See `PrivateRows.unsafe_passes`."""
        for rows in self._source.unsafe_passes():
            for first in range(0, max(1, record_count(rows)), self._length):
                here = slice(first, first + self._length)
                some = {name: column[here] for name, column in rows.items()}
                yield changed_quietly(self._change, some)
