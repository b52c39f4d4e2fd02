"""Rows about people, as a type of their own: what is not allowed to see them cannot take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Rows = dict[str, Any]
"""Columns by name, with an axis of records first: simulated or public, free to be looked at."""


def record_count(rows: Mapping[str, Any]) -> int:
    """How many records these columns hold.

    Args:
        rows: Columns by name.
    """
    return len(next(iter(rows.values())))


_PASS_NUMBERS = 2**21
"""Numbers of a stretch of wide records: 16 MiB, of which there are a few copies."""


class PrivateRows:
    """Columns of a protected table; what opens them has a name that begins with ``unsafe_``.

    Whoever expects `Rows` cannot be handed these: the type checker says so. Only the mechanism and
    the engine, which noise and account for what they compute, may open them, and functions whose
    own name begins with ``unsafe_`` (a test holds every package to that).
    """

    __slots__ = ("_columns",)

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = dict(columns)

    def map(self, change: Callable[[Rows], Rows]) -> PrivateRows:
        """The rows after a change that works record by record, such as an encoding."""
        return PrivateRows(change(dict(self._columns)))

    def wide(self, change: Callable[[Rows], Rows], numbers: int) -> PrivateRows:
        """The rows after a change that works record by record and makes each much longer: it is
        made a stretch of records at a time, by whoever goes through `unsafe_passes`.

        Args:
            change: From columns to columns.
            numbers: That a record has after it.
        """
        return _WideRows(self, change, max(1, _PASS_NUMBERS // max(1, numbers)))

    def unsafe_columns(self) -> Rows:
        """The columns themselves. **Whatever is computed from them has to be paid for.**"""
        return dict(self._columns)

    def unsafe_passes(self) -> Iterator[Rows]:
        """The columns, a stretch of records after the other: as many as memory allows. **Whatever
        is computed from them has to be paid for.**"""
        yield self.unsafe_columns()

    @property
    def true_count(self) -> int:
        """The number of records: as private as they are, unless it was declared public."""
        return record_count(self._columns)

    def __repr__(self) -> str:
        return f"PrivateRows({', '.join(self._columns)})"

    def __reduce__(self) -> Any:
        raise TypeError("rows about people are not pickled: save a Result, which holds none")


class _WideRows(PrivateRows):
    """Rows whose change is put off until somebody goes through them."""

    __slots__ = ("_change", "_length", "_source")

    def __init__(self, source: PrivateRows, change: Callable[[Rows], Rows], length: int) -> None:
        super().__init__({})
        self._source, self._change, self._length = source, change, length

    @property
    def true_count(self) -> int:
        """See `PrivateRows.true_count`."""
        return self._source.true_count

    def unsafe_columns(self) -> Rows:
        """See `PrivateRows.unsafe_columns`: all of them at once, whatever memory that takes."""
        return self._change(self._source.unsafe_columns())

    def unsafe_passes(self) -> Iterator[Rows]:
        """See `PrivateRows.unsafe_passes`."""
        for rows in self._source.unsafe_passes():
            for first in range(0, max(1, record_count(rows)), self._length):
                here = slice(first, first + self._length)
                yield self._change({name: column[here] for name, column in rows.items()})
