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
