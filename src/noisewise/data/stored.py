"""Private rows that lie on disk, in a folder that their owner named."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.data.files import ColumnFiles, ColumnWriter, cannot_write
from noisewise.data.private import PrivateRows, Rows, Share, changed_quietly, record_count

_FIRST = 4096
_MOST = 2**17
_SHARE = 128
"""Of the memory that may be taken, a stretch's columns are one part in this: what is computed from
them takes several times as much."""


class StoredRows(PrivateRows):
    """Rows in files. Changes are remembered, and made to those records that are read.

    Args:
        files: The columns.
        memory: Bytes that the process may take, about.
        changes: Made one after the other, record by record.
        share: Which records these are, where other hosts hold the others.
    """

    __slots__ = ("_changes", "_files", "memory")

    def __init__(
        self,
        files: ColumnFiles,
        memory: int,
        changes: tuple[Callable[[Rows], Rows], ...] = (),
        share: Share | None = None,
    ) -> None:
        self._layout = None
        self.share = share
        self._files = files
        self._changes = changes
        self.memory = memory

    def map(self, change: Callable[[Rows], Rows]) -> StoredRows:
        """The rows after a change that works record by record: made when they are read."""
        return StoredRows(self._files, self.memory, (*self._changes, change), self.share)

    def unsafe_columns(self) -> Rows:
        """Refused: nobody knows whether memory holds them all."""
        raise NoisewiseError(
            "this needs all rows in memory, and the table lies on disk: read it with Table.read"
        )

    def unsafe_passes(self) -> Iterator[Rows]:
        """The columns, a stretch of records after the other."""
        first, count, length = 0, self.own_count, _FIRST
        while first < count:
            found = self._changed(self._files.stretch(first, length))
            first += length
            # By widths and memory, which are public.
            width = sum(np.asarray(column)[:1].nbytes for column in found.values())
            fitting = self.memory // _SHARE // max(1, width) // _FIRST * _FIRST
            length = min(max(_FIRST, fitting), _MOST)
            yield found

    def unsafe_taken(self, batches: list[np.ndarray], room: int) -> Rows:
        """Records by their numbers, batch after batch, and records of zeros up to a public number
        of them. **Whatever is computed from them has to be paid for.**

        Args:
            batches: Numbers of records, those of a batch in order.
            room: How many there are with the zeros.
        """
        return self._changed(self._files.taken(batches, room))

    def _changed(self, rows: Rows) -> Rows:
        for change in self._changes:
            rows = changed_quietly(change, rows)
        return rows

    @contextmanager
    def unsafe_prepared(self) -> Iterator[StoredRows]:
        """The same rows with all changes made once, in files of their own beside the others, which
        are gone afterwards."""
        try:
            folder = tempfile.TemporaryDirectory(prefix="prepared-", dir=self._files.folder)
        except OSError as error:
            raise cannot_write(self._files.folder, error) from None
        with folder as name:
            with ColumnWriter(Path(name)) as writer:
                for rows in self.unsafe_passes():
                    writer.append({name: np.asarray(column) for name, column in rows.items()})
            yield StoredRows(writer.files(), self.memory, (), self.share)

    @property
    def own_count(self) -> int:
        """The number of records on this host: as private as they are."""
        return len(self._files)

    def record_bytes(self) -> int:
        """What a record takes in memory, as it is read and after all changes: public, as it follows
        from the columns."""
        found = self._changed(self._files.taken([], _FIRST))
        assert record_count(found) == _FIRST
        changed = sum(np.asarray(column)[:1].nbytes for column in found.values())
        return self._files.record_bytes + changed

    def __repr__(self) -> str:
        return f"StoredRows({', '.join(self._files.layouts)})"

    def __reduce__(self) -> Any:
        raise TypeError("rows about people are not pickled: save a Result, which holds none")
